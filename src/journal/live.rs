//! The live journal: each message is appended to its agent's file as it is accepted.
//!
//! It is a second copy, never a condition: a failure to write is for the caller to log and count. Lines stand in the
//! order of their numbers, without a gap: where some are missing before a message, they are copied from the database before it
//! is written, a chunk with each append and each [`Journal::mend`], so that nobody waits for more than that.
//!
//! An agent's file begins with all that is known of it then, as an export writes it: the file alone can be imported. That is
//! copied a chunk at a time, too, under another name, and the file appears when it reaches as far as the database. Behind it
//! stand messages alone: what leaves the window later, and which sessions are ended by hand, only the database tells.
//!
//! A file tells of one life of its agent. Where the agent was deleted and made again elsewhere, or lost with the database, the
//! file of the earlier life is set aside as it is: only `remove` takes it, since nobody knows here which of the two it was.

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

use self::file::{Beginning, Last, Place, Written, remove_if_there};
use super::{chunk, is_rest};
use crate::{
    domain::{
        agent::AgentId,
        journal::{Head, MessageRecord},
        time::Timestamp,
    },
    store::archive::{Archive, ArchiveError, RecordRange},
    threads::JOURNAL_MAX,
};

/// Agents that share a lane wait for each other; with so many lanes, few do. Who has one finds a thread to write on.
const LANES: usize = JOURNAL_MAX;
/// Nobody waits longer for the disk, nor for what is copied, if nobody says otherwise. It may still be written later.
const WAIT: Duration = Duration::from_secs(1);
/// Agents that are remembered because their files lack something. More are mended by their next messages alone.
const LACKING_MAX: usize = 1_000;
/// How a file's name ends until it is whole.
const BEGUN: &str = "begun";
/// How the folder's name ends that holds files of earlier lives. It comes behind those of files in every list, so that an import
/// of all takes the present life.
const PAST: &str = "past";

/// A folder of journals, one per agent.
pub struct Journal {
    folder: PathBuf,
    archive: Arc<dyn Archive>,
    lanes: Vec<Mutex<()>>,
    /// Writes under way: a disk that hangs must not hold ever more threads.
    writes: Arc<Semaphore>,
    wait: Duration,
    /// Whose files may lack something at their end, or aren't whole yet, and when each of these agents was made.
    lacking: std::sync::Mutex<BTreeMap<AgentId, Timestamp>>,
}

impl Journal {
    /// A journal in `folder`, which is made if it isn't there, of the agents in `archive`.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn open(folder: &Path, archive: Arc<dyn Archive>) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            archive,
            lanes: (0..LANES).map(|_| Mutex::new(())).collect(),
            writes: Arc::new(Semaphore::new(LANES)),
            wait: WAIT,
            lacking: std::sync::Mutex::default(),
        })
    }

    /// The same journal, where a line may take so long to be written.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The file of an agent. It is named by a hash: an id may hold what a file's name may not.
    pub fn path(&self, agent: &AgentId) -> PathBuf {
        self.folder.join(format!("{:032x}.jsonl", hash(agent)))
    }

    /// To be held from before an agent's messages get their numbers until their lines are written.
    pub async fn lane(&self, agent: &AgentId) -> MutexGuard<'_, ()> {
        // A remainder of 64 fits any number, and there are as many lanes.
        let lane = usize::try_from(hash(agent) % LANES as u128).unwrap_or_default();
        self.lanes
            .get(lane)
            .expect("a remainder is below its divisor")
            .lock()
            .await
    }

    /// Appends the lines of messages, which are stored already, of an agent that was made at `since`, and says how many lines
    /// it wrote. If earlier ones are missing, it copies those first, a chunk of them; what is still missing then is copied
    /// later. Of a file that isn't whole yet it copies as many lines as it was given, at least a chunk.
    ///
    /// # Errors
    /// What the system says, or that the disk takes longer than anybody waits, or what the database fails with. What was
    /// not written is copied later.
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

    /// Agents whose file may lack something, because of an earlier append.
    pub fn lacking(&self) -> Vec<AgentId> {
        self.lacked().keys().cloned().collect()
    }

    /// Copies from the database what an agent's file lacks at its end, a chunk of it, and says how many lines that were.
    /// After 0 nothing is missing.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn mend(&self, agent: &AgentId) -> io::Result<usize> {
        let _lane = self.lane(agent).await;
        let since = self.lacked().get(agent).copied().unwrap_or_default();
        let lines = match self.go_on(agent, since, &Arc::default()).await? {
            Some(lines) => lines,
            None => match timeout(self.wait, self.begin_some(agent)).await?? {
                Begun::Part(lines) | Begun::Whole(lines) => lines,
                Begun::Headless => self.begin_without_head(agent).await?,
            },
        };
        if lines == 0 {
            self.lacked().remove(agent);
        }
        Ok(lines)
    }

    /// Writes an agent's file anew, if there is one: something of it was forgotten. Those who share the agent's lane go
    /// between two chunks.
    ///
    /// # Errors
    /// As [`Self::append`]; the file is as it was then.
    pub async fn rewrite(&self, agent: &AgentId) -> io::Result<()> {
        // It may hold what was forgotten, too.
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

    /// Removes an agent's file, if there is one, and those of its earlier lives.
    ///
    /// # Errors
    /// What the system says, or that the disk takes longer than anybody waits.
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
            Begun::Part(lines) => {
                self.note_lacking(agent, since);
                Ok(lines)
            }
            Begun::Whole(lines) => Ok(lines),
            // They stand alone then, as the messages behind them will.
            Begun::Headless => self.write_lines(agent, Place::Beginning, records).await,
        }
    }

    /// Goes on in the file of an agent that was made at `since`, with these messages or with those that are missing before
    /// them. None: there is no file, or none of this life.
    async fn go_on(
        &self,
        agent: &AgentId,
        since: Timestamp,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<Option<usize>> {
        let last = match self.write(agent, Place::Next { since }, records).await? {
            Written::All => return Ok(Some(records.len())),
            Written::NoFile => return Ok(None),
            Written::Nothing(last) => last,
        };
        self.note_lacking(agent, since);
        // Also where it seems to be of an earlier life: daemons' clocks differ, and the database knows.
        if let Some(copied) = timeout(self.wait, self.catch_up(agent, last)).await?? {
            return Ok(Some(copied));
        }
        if last.is_before(since) {
            return Ok((!self.set_aside(agent, last).await?).then_some(0));
        }
        Ok(Some(self.write_lines(agent, Place::Behind(last), records).await?))
    }

    /// Copies what is stored behind the `last` message of an agent's file, a chunk of it. None: that message isn't stored, and
    /// what is stored belongs to another life. An earlier state of the database was restored, perhaps.
    async fn catch_up(&self, agent: &AgentId, last: Last) -> io::Result<Option<usize>> {
        if !self.is_stored(agent, last).await? {
            return Ok(None);
        }
        let missing = self.stored(agent, chunk(last.seq, i64::MAX)).await?;
        Ok(Some(
            self.write_lines(agent, Place::Behind(last), &missing).await?,
        ))
    }

    /// Moves an agent's file, which ends with `last`, to those of its earlier lives. Says whether it did.
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

    /// Goes on with the beginning of an agent's file, until it is whole or so many lines were copied.
    async fn begin(&self, agent: &AgentId, lines_min: usize) -> io::Result<Begun> {
        let mut copied = 0;
        loop {
            match self.begin_some(agent).await? {
                Begun::Part(lines) if copied + lines < lines_min => copied += lines,
                Begun::Part(lines) => return Ok(Begun::Part(copied + lines)),
                Begun::Whole(lines) => return Ok(Begun::Whole(copied + lines)),
                Begun::Headless => return Ok(Begun::Headless),
            }
        }
    }

    /// As [`Self::begin`], until it is whole.
    async fn begin_all(&self, agent: &AgentId) -> io::Result<()> {
        loop {
            let _lane = self.lane(agent).await;
            match self.begin_some(agent).await? {
                Begun::Part(_) => {}
                Begun::Whole(_) => return Ok(()),
                Begun::Headless => {
                    return Err(io::Error::other("nobody wrote down what the agent began with"));
                }
            }
        }
    }

    /// Copies a chunk of the beginning of an agent's file: behind what was copied before, if that is of the agent's life in the
    /// database, or else from its head on.
    async fn begin_some(&self, agent: &AgentId) -> io::Result<Begun> {
        let path = self.path(agent);
        let name = path.with_extension(BEGUN);
        // Before anything is read: what is forgotten meanwhile goes with the file, whoever writes it there.
        let beginning = self.on_disk(move || Beginning::open(name)).await?;
        let copied = match beginning.last {
            Some(last) => self.is_stored(agent, last).await?.then_some(last.seq),
            None => None,
        };
        let head = match copied {
            Some(_) => None,
            None => self.head(agent).await?,
        };
        if copied.is_none() && head.is_none() {
            self.on_disk(move || beginning.discard()).await?;
            return Ok(Begun::Headless);
        }
        let records = self.stored(agent, chunk(copied.unwrap_or(0), i64::MAX)).await?;
        let (lines, is_whole) = (records.len(), is_rest(&records));
        let copying = move || {
            let beginning = beginning.go_on(head.as_ref(), &records)?;
            if is_whole { beginning.finish(&path) } else { Ok(()) }
        };
        self.on_disk(copying).await?;
        Ok(if is_whole {
            Begun::Whole(lines)
        } else {
            Begun::Part(lines)
        })
    }

    /// Removes what was begun of an agent's file, and says whether there is the file itself.
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
        self.write_lines(agent, Place::Beginning, &first).await
    }

    /// What stands before an agent's messages; none of one that isn't there, or was forked too long ago.
    async fn head(&self, agent: &AgentId) -> io::Result<Option<Head>> {
        match self.archive.head(agent).await {
            Err(ArchiveError::Forked(_)) => Ok(None),
            head => head.map_err(io::Error::other),
        }
    }

    /// Whether the database has this message in its place.
    async fn is_stored(&self, agent: &AgentId, last: Last) -> io::Result<bool> {
        let there = self.stored(agent, chunk(last.seq - 1, last.seq)).await?;
        Ok(there.first().map(Last::of) == Some(last))
    }

    async fn stored(&self, agent: &AgentId, range: RecordRange) -> io::Result<Arc<[MessageRecord]>> {
        let records = self.archive.records(agent, range).await;
        Ok(records.map_err(io::Error::other)?.into())
    }

    /// Says how many lines it wrote: none where another process was faster, which writes what comes next then.
    async fn write_lines(
        &self,
        agent: &AgentId,
        place: Place,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<usize> {
        let written = self.write(agent, place, records).await?;
        Ok(if written == Written::All { records.len() } else { 0 })
    }

    async fn write(
        &self,
        agent: &AgentId,
        place: Place,
        records: &Arc<[MessageRecord]>,
    ) -> io::Result<Written> {
        let (path, records) = (self.path(agent), Arc::clone(records));
        let writing = move || file::append(&path, place, &records);
        self.on_disk(writing).await
    }

    /// Does what may wait for the disk on a thread of its own.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Ok(permit) = Arc::clone(&self.writes).try_acquire_owned() else {
            return Err(io::Error::other("earlier writes hang"));
        };
        let working = tokio::task::spawn_blocking(move || {
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

/// How far the beginning of a file has come.
enum Begun {
    /// So many lines were copied, and there are more.
    Part(usize),
    /// So many lines were copied, and the file has its name.
    Whole(usize),
    /// Nobody knows the agent's head.
    Headless,
}

/// An optional live journal, as the keeper holds it.
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
