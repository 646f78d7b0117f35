//! The live journal: each message is appended to its agent's file as it is accepted.
//!
//! It is a second copy, never a condition: a failure to write is for the caller to log and count. Lines stand in the
//! order of their numbers as long as whoever appends holds the agent's [`lane`](Journal::lane).
//!
//! An agent's file begins with all that is known of it then, as an export writes it: the file alone can be imported. Behind
//! that stand messages alone: what leaves the window later, and which sessions are ended by hand, only the database tells.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Mutex, MutexGuard, Semaphore},
    time::timeout,
};

use super::chunk;
use crate::{
    domain::{
        agent::AgentId,
        journal::{Head, MessageRecord},
    },
    store::archive::{Archive, ArchiveError},
};

/// Agents that share a lane wait for each other; with so many lanes, few do.
const LANES: usize = 64;
/// Nobody waits longer for a line to be written, if nobody says otherwise. It may still be written later.
const WAIT: Duration = Duration::from_secs(1);
/// How a file's name ends until it is whole.
const BEGUN: &str = "begun";

/// A folder of journals, one per agent.
pub struct Journal {
    folder: PathBuf,
    archive: Arc<dyn Archive>,
    lanes: Vec<Mutex<()>>,
    /// Writes under way: a disk that hangs must not hold ever more threads.
    writes: Arc<Semaphore>,
    wait: Duration,
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

    /// Appends the lines of an agent's messages, which are stored already: all or, when the disk fails, some of them.
    ///
    /// # Errors
    /// What the system says, or that the disk takes longer than anybody waits, or what the database fails with.
    pub async fn append(&self, agent: &AgentId, records: Vec<MessageRecord>) -> io::Result<()> {
        let path = self.path(agent);
        if !path.exists() && self.begin(agent, &path).await? {
            return Ok(());
        }
        let lines = records.iter().map(MessageRecord::line).collect();
        self.write(path, lines).await
    }

    /// Writes an agent's file anew, if there is one: something of it was forgotten.
    ///
    /// # Errors
    /// As [`Self::append`]; the file is as it was then.
    pub async fn rewrite(&self, agent: &AgentId) -> io::Result<()> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        if !path.exists() {
            return remove_if_there(&path.with_extension(BEGUN));
        }
        if self.begin(agent, &path).await? {
            return Ok(());
        }
        Err(io::Error::other("nobody wrote down what the agent began with"))
    }

    /// Removes an agent's file, if there is one.
    ///
    /// # Errors
    /// What the system says.
    pub async fn remove(&self, agent: &AgentId) -> io::Result<()> {
        let _lane = self.lane(agent).await;
        let path = self.path(agent);
        remove_if_there(&path.with_extension(BEGUN))?;
        remove_if_there(&path)
    }

    /// Begins an agent's file with its head and all its messages, those among them that were stored just now. Says
    /// whether it could: nobody knows the head of an agent that was forked too long ago. The file appears when it is
    /// whole.
    async fn begin(&self, agent: &AgentId, path: &Path) -> io::Result<bool> {
        let begun = path.with_extension(BEGUN);
        remove_if_there(&begun)?;
        let head = match self.archive.head(agent).await {
            Ok(Some(head)) => head,
            Ok(None) | Err(ArchiveError::Forked(_)) => return Ok(false),
            Err(error) => return Err(io::Error::other(error)),
        };
        let written = self.write_whole(agent, &head, &begun).await;
        let whole = written.and_then(|()| std::fs::rename(&begun, path));
        if whole.is_err() {
            // Whoever has something forgotten looks for the file itself; and a full disk gets its room back.
            drop(remove_if_there(&begun));
        }
        whole.map(|()| true)
    }

    async fn write_whole(&self, agent: &AgentId, head: &Head, path: &Path) -> io::Result<()> {
        self.write(path.to_owned(), vec![head.line()]).await?;
        let mut after_seq = 0;
        loop {
            let records = self.archive.records(agent, chunk(after_seq, head.last_seq)).await;
            let records = records.map_err(io::Error::other)?;
            let Some(last) = records.last() else {
                return Ok(());
            };
            after_seq = last.seq;
            let lines = records.iter().map(MessageRecord::line).collect();
            self.write(path.to_owned(), lines).await?;
        }
    }

    async fn write(&self, path: PathBuf, lines: Vec<String>) -> io::Result<()> {
        let Ok(permit) = Arc::clone(&self.writes).try_acquire_owned() else {
            return Err(io::Error::other("earlier writes hang"));
        };
        let writing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            append_lines(&path, &lines)
        });
        timeout(self.wait, writing).await?.map_err(io::Error::other)?
    }
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

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn append_lines(path: &Path, lines: &[String]) -> io::Result<()> {
    let mut file = open_private(path)?;
    let mut text = String::new();
    // A crash may have left a torn line; what follows must not become part of it.
    if ends_in_a_torn_line(&mut file)? {
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    file.write_all(text.as_bytes())
}

/// What agents say is nobody else's business: only the owner may read a file that is made here.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn ends_in_a_torn_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests;
