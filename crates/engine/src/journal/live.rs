//! The live journal: appends each message to its agent's file as it is accepted.
//!
//! The live journal is a second copy. No append depends on it; the caller logs and counts failures. A file has its lines in order
//! and without gaps: before a message is written, missing ones are copied from the database. Each append and each
//! [`Journal::mend`] copies only a chunk, so no append waits for more.
//!
//! An agent's file begins with the agent's whole history at that time, as an export writes it, so the file alone can be imported.
//! This beginning is copied in chunks, too, into a draft file, which gets its proper name when it has caught up with the
//! database. Only messages follow; later evictions and ended sessions are only in the database.
//!
//! A file belongs to one life of its agent. If the agent was deleted and created again elsewhere, or lost with the database, the
//! file of the earlier life is moved aside unchanged. This module can't know which of the two happened, so only `remove` deletes
//! such a file.

mod file;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Mutex, MutexGuard, Semaphore},
    time::timeout,
};
use tracing::warn;

use self::file::{DraftFile, Last, WriteOutcome, WritePosition, remove_if_there};
use super::chunk;
use recapd_core::domain::{
    agent::AgentId,
    journal::{Head, MessageRecord},
    time::Timestamp,
};
use recapd_platform::threads::{self, JOURNAL_MAX};
use recapd_store::archive::{Archive, ArchiveError, RecordRange};

/// How many lanes there are. Each agent has a lane, and agents of the same lane wait for each other. Each lane's write has its
/// own thread.
const LANES: usize = JOURNAL_MAX;
/// How long an append waits for the disk and for copying by default. The line may still be written after that.
const WAIT: Duration = Duration::from_secs(1);
/// Limits how many agents with incomplete files are remembered. Files of other agents are completed with their next messages.
const INCOMPLETE_MAX: usize = 1_000;
/// The extension of a draft file.
const DRAFT_EXTENSION: &str = "begun";
/// The extension of the folder with files of earlier lives. It sorts after the extension of other files, so that an import of the
/// whole folder reads the present life first.
const PAST_EXTENSION: &str = "past";

/// A folder of journals, one per agent.
pub struct Journal {
    folder: PathBuf,
    archive: Arc<dyn Archive>,
    lanes: Vec<Mutex<()>>,
    /// Limits concurrent writes, so that a hanging disk doesn't use up threads.
    writes: Arc<Semaphore>,
    wait: Duration,
    /// Agents whose files may be incomplete, each with the time of its creation.
    incomplete: std::sync::Mutex<BTreeMap<AgentId, Timestamp>>,
}

impl Journal {
    /// Opens a journal of the agents in `archive` in `folder`, which is created if it doesn't exist.
    ///
    /// # Errors
    /// When the folder can't be created.
    pub fn open(folder: &Path, archive: Arc<dyn Archive>) -> io::Result<Self> {
        file::make_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            archive,
            lanes: (0..LANES).map(|_| Mutex::new(())).collect(),
            writes: Arc::new(Semaphore::new(LANES)),
            wait: WAIT,
            incomplete: std::sync::Mutex::default(),
        })
    }

    /// Sets the longest wait for a write.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Returns the path of an agent's file. The name is a hash, because ids may contain characters that file names may not.
    pub fn path(&self, agent: &AgentId) -> PathBuf {
        self.folder.join(format!("{:032x}.jsonl", hash(agent)))
    }

    /// Locks the agent's lane. Keep the lock from before the messages get their numbers until their lines are written.
    pub async fn lane(&self, agent: &AgentId) -> MutexGuard<'_, ()> {
        // A remainder below 64 fits any number, and there are as many lanes.
        let lane = usize::try_from(hash(agent) % LANES as u128).unwrap_or_default();
        self.lanes.get(lane).expect("a remainder is below its divisor").lock().await
    }

    /// Appends stored messages of an agent created at `since`. Returns how many lines it wrote. If earlier messages are missing,
    /// copies a chunk of them instead and leaves the rest for later. If the file is still a draft, copies as many lines as
    /// `records` has, but at least a chunk, so that the draft of an agent with large appends gets complete, too.
    ///
    /// # Errors
    /// When the file system or the database fails, or the disk takes too long. Unwritten lines are copied later.
    pub async fn append(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: Vec<MessageRecord>,
    ) -> io::Result<usize> {
        let result = self.append_or_begin(agent, since, &records.into()).await;
        if result.is_err() {
            self.note_incomplete(agent, since);
        }
        result
    }

    /// Returns the agents whose files may be incomplete.
    pub fn incomplete(&self) -> Vec<AgentId> {
        self.lock_incomplete().keys().cloned().collect()
    }

    /// Copies a chunk of the messages that are missing at the end of an agent's file. Returns how many lines it copied; 0 if none
    /// were missing.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn mend(&self, agent: &AgentId) -> io::Result<usize> {
        let _lane = self.lane(agent).await;
        let since = self.lock_incomplete().get(agent).copied().unwrap_or_default();
        let lines = match self.append_if_current(agent, since, &Arc::default()).await? {
            Some(lines) => lines,
            None => match timeout(self.wait, self.copy_draft_chunk(agent)).await?? {
                DraftState::Part(lines) | DraftState::Whole(lines) => lines,
                DraftState::Headless => self.begin_without_head(agent).await?,
            },
        };
        if lines == 0 {
            self.lock_incomplete().remove(agent);
        }
        Ok(lines)
    }

    /// Rewrites an agent's file, if it exists, after part of it was forgotten. Releases the lane between chunks for other agents.
    ///
    /// # Errors
    /// As [`Self::append`]; then the file stays as it was.
    pub async fn rewrite(&self, agent: &AgentId) -> io::Result<()> {
        // A draft may contain forgotten text, too.
        if !self.discard_draft(agent).await? {
            return Ok(());
        }
        let result = self.complete_draft(agent).await;
        if result.is_err() {
            // Nobody would continue the draft while the file exists.
            drop(self.discard_draft(agent).await);
        }
        result
    }

    /// Deletes an agent's file, if it exists, and the files of its earlier lives.
    ///
    /// # Errors
    /// When the file system fails, or the disk takes too long.
    pub async fn remove(&self, agent: &AgentId) -> io::Result<()> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        let draft = path.with_extension(DRAFT_EXTENSION);
        let past = path.with_extension(PAST_EXTENSION);
        self.on_disk(move || file::remove(&draft, &path, &past)).await
    }

    async fn append_or_begin(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<usize> {
        if let Some(lines) = self.append_if_current(agent, since, records).await? {
            return Ok(lines);
        }
        match timeout(self.wait, self.copy_draft(agent, records.len())).await?? {
            DraftState::Part(lines) => {
                self.note_incomplete(agent, since);
                Ok(lines)
            }
            DraftState::Whole(lines) => Ok(lines),
            // The file then contains only messages and no head.
            DraftState::Headless => self.write_lines(agent, WritePosition::Beginning, records).await,
        }
    }

    /// Continues the file of an agent created at `since` with these messages, or with missing ones before them. Returns `None` if
    /// there is no file, or only one of an earlier life.
    async fn append_if_current(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<Option<usize>> {
        let last = match self.write(agent, WritePosition::Next { since }, records).await? {
            WriteOutcome::All => return Ok(Some(records.len())),
            WriteOutcome::NoFile => return Ok(None),
            WriteOutcome::Nothing(last) => last,
        };
        self.note_incomplete(agent, since);
        // Asks the database even if the file seems to be of an earlier life, because the clocks of daemons differ.
        if let Some(copied) = timeout(self.wait, self.catch_up(agent, last)).await?? {
            return Ok(Some(copied));
        }
        if last.is_before(since) {
            return Ok((!self.set_aside(agent, last).await?).then_some(0));
        }
        Ok(Some(self.write_lines(agent, WritePosition::Behind(last), records).await?))
    }

    /// Copies a chunk of what is stored after the `last` message of an agent's file. Returns `None` if that message isn't stored:
    /// the file belongs to another life, perhaps because the database was restored from a backup.
    async fn catch_up(&self, agent: &AgentId, last: Last) -> io::Result<Option<usize>> {
        if !self.is_stored(agent, last).await? {
            return Ok(None);
        }
        let missing = self.read_stored(agent, chunk(last.seq, i64::MAX)).await?;
        Ok(Some(self.write_lines(agent, WritePosition::Behind(last), &missing).await?))
    }

    /// Moves an agent's file aside if it still ends with `last`. Returns whether it did.
    async fn set_aside(&self, agent: &AgentId, last: Last) -> io::Result<bool> {
        let path = self.path(agent);
        let past = path.with_extension(PAST_EXTENSION);
        let folder = past.display().to_string();
        let moved = self.on_disk(move || file::set_aside(&path, &past, last)).await?;
        if moved {
            warn!(agent_id = %agent, folder, "journal.set_aside");
        }
        Ok(moved)
    }

    /// Continues an agent's draft until it is complete or `lines_min` lines were copied.
    async fn copy_draft(&self, agent: &AgentId, lines_min: usize) -> io::Result<DraftState> {
        let mut copied = 0;
        loop {
            match self.copy_draft_chunk(agent).await? {
                DraftState::Part(lines) if copied + lines < lines_min => copied += lines,
                DraftState::Part(lines) => return Ok(DraftState::Part(copied + lines)),
                DraftState::Whole(lines) => return Ok(DraftState::Whole(copied + lines)),
                DraftState::Headless => return Ok(DraftState::Headless),
            }
        }
    }

    /// Continues an agent's draft until it is complete. Releases the lane between chunks.
    async fn complete_draft(&self, agent: &AgentId) -> io::Result<()> {
        loop {
            let _lane = self.lane(agent).await;
            match self.copy_draft_chunk(agent).await? {
                DraftState::Part(_) => {}
                DraftState::Whole(_) => return Ok(()),
                DraftState::Headless => {
                    return Err(io::Error::other("the agent's beginning was never recorded"));
                }
            }
        }
    }

    /// Copies a chunk into an agent's draft: after its last message if that is of the present life, otherwise from the head on.
    async fn copy_draft_chunk(&self, agent: &AgentId) -> io::Result<DraftState> {
        let path = self.path(agent);
        let name = path.with_extension(DRAFT_EXTENSION);
        // Opens the draft before it reads the database. If content is forgotten meanwhile, the draft is deleted, too.
        let draft = self.on_disk(move || DraftFile::open(name)).await?;
        let (head, after_seq) = match draft.last {
            Some(last) if self.is_stored(agent, last).await? => (None, last.seq),
            _ => {
                let Some(head) = self.head(agent).await? else {
                    self.on_disk(move || draft.discard()).await?;
                    return Ok(DraftState::Headless);
                };
                (Some(head), 0)
            }
        };
        let range = chunk(after_seq, i64::MAX);
        let records = self.read_stored(agent, range).await?;
        let (lines, is_whole) = (records.len(), range.is_rest(&records));
        let copying = move || {
            let draft = draft.append_chunk(head.as_ref(), &records)?;
            if is_whole { draft.finish(&path) } else { Ok(()) }
        };
        self.on_disk(copying).await?;
        Ok(if is_whole { DraftState::Whole(lines) } else { DraftState::Part(lines) })
    }

    /// Deletes an agent's draft. Returns whether the file itself exists.
    async fn discard_draft(&self, agent: &AgentId) -> io::Result<bool> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        let discarding = move || {
            // Deletes the draft first: a write that nobody waits for any more may still rename the draft to the file.
            remove_if_there(&path.with_extension(DRAFT_EXTENSION))?;
            path.try_exists()
        };
        self.on_disk(discarding).await
    }

    /// Begins an agent's file with its first messages, if it has any.
    async fn begin_without_head(&self, agent: &AgentId) -> io::Result<usize> {
        let first = self.read_stored(agent, chunk(0, i64::MAX)).await?;
        if first.is_empty() {
            return Ok(0);
        }
        self.write_lines(agent, WritePosition::Beginning, &first).await
    }

    /// Reads the head for an agent's file; `None` if the agent doesn't exist or its fork wasn't recorded.
    async fn head(&self, agent: &AgentId) -> io::Result<Option<Head>> {
        match self.archive.head(agent).await {
            Err(ArchiveError::Forked(_)) => Ok(None),
            head => head.map_err(io::Error::other),
        }
    }

    async fn is_stored(&self, agent: &AgentId, last: Last) -> io::Result<bool> {
        let found = self.read_stored(agent, chunk(last.seq - 1, last.seq)).await?;
        Ok(found.first().map(Last::of) == Some(last))
    }

    async fn read_stored(&self, agent: &AgentId, range: RecordRange) -> io::Result<Arc<[MessageRecord]>> {
        let records = self.archive.records(agent, range).await;
        Ok(records.map_err(io::Error::other)?.into())
    }

    /// Writes lines. Returns how many; 0 if another process was faster and writes them.
    async fn write_lines(
        &self,
        agent: &AgentId,
        position: WritePosition,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<usize> {
        let outcome = self.write(agent, position, records).await?;
        Ok(if outcome == WriteOutcome::All { records.len() } else { 0 })
    }

    async fn write(
        &self,
        agent: &AgentId,
        position: WritePosition,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<WriteOutcome> {
        let (path, records) = (self.path(agent), Arc::clone(records));
        let writing = move || file::append(&path, position, &records);
        self.on_disk(writing).await
    }

    /// Runs work that may wait for the disk on a separate thread.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Ok(permit) = Arc::clone(&self.writes).try_acquire_owned() else {
            return Err(io::Error::other("earlier writes hang"));
        };
        let working = threads::computed("writing the live journal", move || {
            let _permit = permit;
            work()
        });
        timeout(self.wait, working).await?.map_err(io::Error::other)?
    }

    fn note_incomplete(&self, agent: &AgentId, since: Timestamp) {
        let mut incomplete = self.lock_incomplete();
        if incomplete.len() < INCOMPLETE_MAX || incomplete.contains_key(agent) {
            incomplete.insert(agent.clone(), since);
        }
    }

    fn lock_incomplete(&self) -> std::sync::MutexGuard<'_, BTreeMap<AgentId, Timestamp>> {
        self.incomplete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of a draft.
enum DraftState {
    /// This many lines were copied, and more are left.
    Part(usize),
    /// This many lines were copied, and the file has its final name.
    Whole(usize),
    /// There is no draft, because the agent has no head: see [`Journal::head`].
    Headless,
}

/// The live journal; `None` if the configuration names no folder for it.
pub type LiveJournal = Option<Arc<Journal>>;

/// Hashes the id. Half of SHA-256 is enough to distinguish agents.
fn hash(agent: &AgentId) -> u128 {
    let digest: [u8; 32] = Sha256::digest(agent.as_str().as_bytes()).into();
    digest.iter().take(16).fold(0, |hash, &byte| hash << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests;
