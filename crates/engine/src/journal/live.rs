//! The live journal: each message is appended to its agent's file as it is accepted.
//!
//! It is a second copy, and no append depends on it: a failure to write is for the caller to log and count. Lines are
//! in the order of their numbers, without a gap: missing ones are copied from the database before the next message is
//! written, one chunk with each append and each [`Journal::mend`], so that no append waits for more than that.
//!
//! An agent's file begins with everything known of the agent at that time, as an export writes it, so the file alone
//! can be imported. That is copied in chunks, too, into a file of another name, which gets its proper name when it has
//! caught up with the database. After it come messages alone: later evictions and sessions ended by hand are only in
//! the database.
//!
//! A file is about one life of its agent. If the agent was deleted and made again elsewhere, or lost with the database,
//! the earlier life's file is set aside as it is; only `remove` deletes it, since which of the two happened isn't known
//! here.

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

/// Agents are spread over so many lanes, and those of one lane wait for each other. A write that has a lane finds a
/// thread.
const LANES: usize = JOURNAL_MAX;
/// The default for how long an append waits for the disk and for copying. The line may still be written later.
const WAIT: Duration = Duration::from_secs(1);
/// The most agents that are remembered because their files lack something. Others are completed with their next
/// messages.
const LACKING_MAX: usize = 1_000;
/// The extension of a file until it is whole.
const BEGUN: &str = "begun";
/// The extension of the folder with files of earlier lives. It sorts after those of files, so that importing all of
/// them takes the present life.
const PAST: &str = "past";

/// A folder of journals, one per agent.
pub struct Journal {
    folder: PathBuf,
    archive: Arc<dyn Archive>,
    lanes: Vec<Mutex<()>>,
    /// Limits the writes under way: a disk that hangs must not use up ever more threads.
    writes: Arc<Semaphore>,
    wait: Duration,
    /// The agents whose files may lack something at their end, or aren't whole yet, and when each agent was made.
    lacking: std::sync::Mutex<BTreeMap<AgentId, Timestamp>>,
}

impl Journal {
    /// A journal in `folder`, which is made if it doesn't exist, of the agents in `archive`.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn open(folder: &Path, archive: Arc<dyn Archive>) -> io::Result<Self> {
        file::make_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            archive,
            lanes: (0..LANES).map(|_| Mutex::new(())).collect(),
            writes: Arc::new(Semaphore::new(LANES)),
            wait: WAIT,
            lacking: std::sync::Mutex::default(),
        })
    }

    /// The same journal, with this limit on how long a write is waited for.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The file of an agent. It is named by a hash, since ids may hold characters that file names may not.
    pub fn path(&self, agent: &AgentId) -> PathBuf {
        self.folder.join(format!("{:032x}.jsonl", hash(agent)))
    }

    /// Takes the agent's lane, to be held from before its messages get their numbers until their lines are written.
    pub async fn lane(&self, agent: &AgentId) -> MutexGuard<'_, ()> {
        // A remainder of 64 fits any number, and there are as many lanes.
        let lane = usize::try_from(hash(agent) % LANES as u128).unwrap_or_default();
        self.lanes
            .get(lane)
            .expect("a remainder is below its divisor")
            .lock()
            .await
    }

    /// Appends the lines of messages, which are stored already, of an agent that was made at `since`, and returns how
    /// many lines it wrote. If earlier ones are missing, it first copies a chunk of those; what is still missing then
    /// is copied later. If the file isn't whole yet it copies as many lines as it was given, at least a chunk.
    ///
    /// # Errors
    /// When the file system or the database fails, or the disk takes longer than is waited for. What was not written is
    /// copied later.
    pub async fn append(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: Vec<MessageRecord>,
    ) -> io::Result<usize> {
        let written = self.append_or_begin(agent, since, &records.into()).await;
        if written.is_err() {
            self.note_lacking(agent, since);
        }
        written
    }

    /// Agents whose files may lack something because of an earlier append.
    pub fn lacking(&self) -> Vec<AgentId> {
        self.lacked().keys().cloned().collect()
    }

    /// Copies from the database a chunk of what an agent's file lacks at its end, and returns how many lines that were.
    /// 0 means that nothing is missing.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn mend(&self, agent: &AgentId) -> io::Result<usize> {
        let _lane = self.lane(agent).await;
        let since = self.lacked().get(agent).copied().unwrap_or_default();
        let lines = match self.go_on(agent, since, &Arc::default()).await? {
            Some(lines) => lines,
            None => match timeout(self.wait, self.begin_some(agent)).await?? {
                DraftState::Part(lines) | DraftState::Whole(lines) => lines,
                DraftState::Headless => self.begin_without_head(agent).await?,
            },
        };
        if lines == 0 {
            self.lacked().remove(agent);
        }
        Ok(lines)
    }

    /// Writes an agent's file anew, if there is one, because something of it was forgotten. Other agents of the same
    /// lane get their turn between two chunks.
    ///
    /// # Errors
    /// As [`Self::append`]; the file is as it was then.
    pub async fn rewrite(&self, agent: &AgentId) -> io::Result<()> {
        // The unfinished file may hold what was forgotten, too.
        if !self.discard_begun(agent).await? {
            return Ok(());
        }
        let written = self.begin_all(agent).await;
        if written.is_err() {
            // Nobody goes on with it beside a file that is there.
            drop(self.discard_begun(agent).await);
        }
        written
    }

    /// Deletes an agent's file, if there is one, and those of its earlier lives.
    ///
    /// # Errors
    /// When the file system fails, or the disk takes longer than is waited for.
    pub async fn remove(&self, agent: &AgentId) -> io::Result<()> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        let (begun, past) = (path.with_extension(BEGUN), path.with_extension(PAST));
        self.on_disk(move || file::remove(&begun, &path, &past)).await
    }

    async fn append_or_begin(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<usize> {
        if let Some(lines) = self.go_on(agent, since, records).await? {
            return Ok(lines);
        }
        match timeout(self.wait, self.begin(agent, records.len())).await?? {
            DraftState::Part(lines) => {
                self.note_lacking(agent, since);
                Ok(lines)
            }
            DraftState::Whole(lines) => Ok(lines),
            // They stand alone then, as the messages behind them will.
            DraftState::Headless => self.write_lines(agent, WritePosition::Beginning, records).await,
        }
    }

    /// Continues the file of an agent that was made at `since`, with these messages or with those missing before them.
    /// `None` if there is no file, or none of this life.
    async fn go_on(
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
        self.note_lacking(agent, since);
        // Even if it seems to be of an earlier life: daemons' clocks differ, but the database knows.
        if let Some(copied) = timeout(self.wait, self.catch_up(agent, last)).await?? {
            return Ok(Some(copied));
        }
        if last.is_before(since) {
            return Ok((!self.set_aside(agent, last).await?).then_some(0));
        }
        Ok(Some(
            self.write_lines(agent, WritePosition::Behind(last), records)
                .await?,
        ))
    }

    /// Copies a chunk of what is stored after the `last` message of an agent's file. `None` if that message isn't
    /// stored, so that the file is of another life: an earlier state of the database was restored, perhaps.
    async fn catch_up(&self, agent: &AgentId, last: Last) -> io::Result<Option<usize>> {
        if !self.is_stored(agent, last).await? {
            return Ok(None);
        }
        let missing = self.stored(agent, chunk(last.seq, i64::MAX)).await?;
        Ok(Some(
            self.write_lines(agent, WritePosition::Behind(last), &missing)
                .await?,
        ))
    }

    /// Moves an agent's file, which ends with `last`, to those of its earlier lives. Returns whether it did.
    async fn set_aside(&self, agent: &AgentId, last: Last) -> io::Result<bool> {
        let path = self.path(agent);
        let past = path.with_extension(PAST);
        let folder = past.display().to_string();
        let moved = self.on_disk(move || file::set_aside(&path, &past, last)).await?;
        if moved {
            warn!(agent_id = %agent, folder, "journal.set_aside");
        }
        Ok(moved)
    }

    /// Continues the beginning of an agent's file, until it is whole or `lines_min` lines were copied.
    async fn begin(&self, agent: &AgentId, lines_min: usize) -> io::Result<DraftState> {
        let mut copied = 0;
        loop {
            match self.begin_some(agent).await? {
                DraftState::Part(lines) if copied + lines < lines_min => copied += lines,
                DraftState::Part(lines) => return Ok(DraftState::Part(copied + lines)),
                DraftState::Whole(lines) => return Ok(DraftState::Whole(copied + lines)),
                DraftState::Headless => return Ok(DraftState::Headless),
            }
        }
    }

    /// As [`Self::begin`], until it is whole.
    async fn begin_all(&self, agent: &AgentId) -> io::Result<()> {
        loop {
            let _lane = self.lane(agent).await;
            match self.begin_some(agent).await? {
                DraftState::Part(_) => {}
                DraftState::Whole(_) => return Ok(()),
                DraftState::Headless => {
                    return Err(io::Error::other("nobody wrote down what the agent began with"));
                }
            }
        }
    }

    /// Copies a chunk of the beginning of an agent's file: after what was copied before, if that is of the agent's
    /// present life, or else from its head on.
    async fn begin_some(&self, agent: &AgentId) -> io::Result<DraftState> {
        let path = self.path(agent);
        let name = path.with_extension(BEGUN);
        // Before anything is read: what is forgotten meanwhile goes with the file, whoever writes it there.
        let beginning = self.on_disk(move || DraftFile::open(name)).await?;
        let (head, after_seq) = match beginning.last {
            Some(last) if self.is_stored(agent, last).await? => (None, last.seq),
            _ => {
                let Some(head) = self.head(agent).await? else {
                    self.on_disk(move || beginning.discard()).await?;
                    return Ok(DraftState::Headless);
                };
                (Some(head), 0)
            }
        };
        let range = chunk(after_seq, i64::MAX);
        let records = self.stored(agent, range).await?;
        let (lines, is_whole) = (records.len(), range.is_rest(&records));
        let copying = move || {
            let beginning = beginning.go_on(head.as_ref(), &records)?;
            if is_whole { beginning.finish(&path) } else { Ok(()) }
        };
        self.on_disk(copying).await?;
        Ok(if is_whole {
            DraftState::Whole(lines)
        } else {
            DraftState::Part(lines)
        })
    }

    /// Deletes the unfinished beginning of an agent's file, and returns whether the file itself exists.
    async fn discard_begun(&self, agent: &AgentId) -> io::Result<bool> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        let discarding = move || {
            // In this order: whoever isn't waited for any longer may give its name to what was begun.
            remove_if_there(&path.with_extension(BEGUN))?;
            path.try_exists()
        };
        self.on_disk(discarding).await
    }

    /// Begins an agent's file with its first messages, if it has any.
    async fn begin_without_head(&self, agent: &AgentId) -> io::Result<usize> {
        let first = self.stored(agent, chunk(0, i64::MAX)).await?;
        if first.is_empty() {
            return Ok(0);
        }
        self.write_lines(agent, WritePosition::Beginning, &first).await
    }

    /// The head for an agent's file; `None` if the agent doesn't exist, or its fork wasn't recorded.
    async fn head(&self, agent: &AgentId) -> io::Result<Option<Head>> {
        match self.archive.head(agent).await {
            Err(ArchiveError::Forked(_)) => Ok(None),
            head => head.map_err(io::Error::other),
        }
    }

    /// Whether the database has this message at its number.
    async fn is_stored(&self, agent: &AgentId, last: Last) -> io::Result<bool> {
        let there = self.stored(agent, chunk(last.seq - 1, last.seq)).await?;
        Ok(there.first().map(Last::of) == Some(last))
    }

    async fn stored(&self, agent: &AgentId, range: RecordRange) -> io::Result<Arc<[MessageRecord]>> {
        let records = self.archive.records(agent, range).await;
        Ok(records.map_err(io::Error::other)?.into())
    }

    /// Writes lines and returns how many; none if another process was faster, which then writes what comes next.
    async fn write_lines(
        &self,
        agent: &AgentId,
        place: WritePosition,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<usize> {
        let written = self.write(agent, place, records).await?;
        Ok(if written == WriteOutcome::All {
            records.len()
        } else {
            0
        })
    }

    async fn write(
        &self,
        agent: &AgentId,
        place: WritePosition,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<WriteOutcome> {
        let (path, records) = (self.path(agent), Arc::clone(records));
        let writing = move || file::append(&path, place, &records);
        self.on_disk(writing).await
    }

    /// Runs work that may wait for the disk on a thread of its own.
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

    fn note_lacking(&self, agent: &AgentId, since: Timestamp) {
        let mut lacked = self.lacked();
        if lacked.len() < LACKING_MAX || lacked.contains_key(agent) {
            lacked.insert(agent.clone(), since);
        }
    }

    fn lacked(&self) -> std::sync::MutexGuard<'_, BTreeMap<AgentId, Timestamp>> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the beginning of a file has got.
enum DraftState {
    /// So many lines were copied, and more are left.
    Part(usize),
    /// So many lines were copied, and the file has its name.
    Whole(usize),
    /// There is no head for the agent.
    Headless,
}

/// An optional live journal, as the ingestor holds it.
pub type LiveJournal = Option<Arc<Journal>>;

/// Half of SHA-256 is more than enough to keep agents apart.
fn hash(agent: &AgentId) -> u128 {
    let digest: [u8; 32] = Sha256::digest(agent.as_str().as_bytes()).into();
    digest
        .iter()
        .take(16)
        .fold(0, |hash, &byte| hash << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests;
