//! The files that hooks keep between calls, in `$XDG_STATE_HOME/recapd`. Only the user can read them. They are named by
//! hashes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    files::{create_folder, files, is_old, remove_old, replace, touched_at},
    spool::Spool,
};
use recapd_config::Environment;
use recapd_core::{
    domain::{
        agent::AgentId,
        project::ProjectId,
        time::{DAY_MS, HOUR_MS, Timestamp},
    },
    hash::short_hash,
};

/// Folders of settled agents are removed after this time. If a session is resumed later, its messages get the same ids
/// again.
const SETTLED_KEEP_MS: i64 = 7 * DAY_MS;
/// An agent is settled this long after its last hook: the host has finished writing the transcript by then.
const FINISHED_MS: i64 = HOUR_MS;
/// The lock for sending or removing spooled messages.
pub(super) const SEND_LOCK: &str = "send.lock";
/// Held by the process that drains all agents.
const DRAIN_LOCK: &str = "hook-drain.lock";
/// Held by the one process that waits for the end of the process that drains.
const NEXT_DRAIN_LOCK: &str = "hook-drain-next.lock";
/// The time between two attempts to take a lock.
const LOCK_EVERY: Duration = Duration::from_millis(3);

/// The folder with all files that the user's hooks keep.
#[derive(Clone, Debug)]
pub(super) struct StateFolder(PathBuf);

/// The part of the state folder that belongs to one agent.
#[derive(Clone, Debug)]
pub(super) struct AgentFolder(PathBuf);

impl StateFolder {
    /// Returns the user's state folder; `None` if the environment doesn't name a home.
    pub(super) fn of(environment: &Environment) -> Option<Self> {
        environment.state_folder().map(Self)
    }

    /// Returns the file with the copy of an agent's brief.
    pub(super) fn cache(&self, agent: &AgentId) -> PathBuf {
        self.copy(&short_hash(&[agent.as_str().as_bytes()]))
    }

    /// True unless no hook has run yet, or the folder was removed.
    pub(super) fn exists(&self) -> bool {
        self.0.is_dir()
    }

    /// Returns the file with the copy of a project's brief.
    pub(super) fn project_cache(&self, project: &ProjectId) -> PathBuf {
        self.copy(&short_hash(&[b"project", project.as_str().as_bytes()]))
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.0.join("cache").join(format!("{name}.md"))
    }

    /// Returns the file that names the session which a process of the host has cleared.
    pub(super) fn cleared_in(&self, process: &str) -> PathBuf {
        self.cleared_file(&[b"process", process.as_bytes()])
    }

    /// Returns the file that names the session which follows a cleared one.
    pub(super) fn successor(&self, session: &str) -> PathBuf {
        self.cleared_file(&[b"session", session.as_bytes()])
    }

    fn cleared_file(&self, name: &[&[u8]]) -> PathBuf {
        self.0.join("cleared").join(short_hash(name))
    }

    pub(super) fn agent(&self, agent: &AgentId) -> AgentFolder {
        AgentFolder(self.0.join("hooks").join(short_hash(&[agent.as_str().as_bytes()])))
    }

    pub(super) fn agents(&self) -> Vec<AgentFolder> {
        let folders = files(&self.0.join("hooks"));
        folders.into_iter().map(AgentFolder).collect()
    }

    /// Returns the folders of all agents but `own`. The order begins after `own`, so that each folder gets its turn
    /// even if time is short.
    pub(super) fn other_folders(&self, current: &AgentFolder) -> Vec<AgentFolder> {
        let (before, after): (Vec<_>, Vec<_>) = self
            .agents()
            .into_iter()
            .filter(|folder| folder.0 != current.0)
            .partition(|folder| folder.0 < current.0);
        after.into_iter().chain(before).collect()
    }

    /// Takes the lock for draining all agents. Waits until `deadline` for another process that drains; `None` if that one
    /// still runs then.
    pub(super) fn lock_drain(&self, deadline: Instant) -> io::Result<Option<File>> {
        lock(&self.0, DRAIN_LOCK, deadline)
    }

    /// Like [`Self::lock_drain`], but returns `None` at once if another process waits already: the waiting process will
    /// send everything that is left now.
    pub(super) fn lock_next_drain(&self, deadline: Instant) -> io::Result<Option<File>> {
        let Some(_next) = lock(&self.0, NEXT_DRAIN_LOCK, Instant::now())? else {
            return Ok(None);
        };
        self.lock_drain(deadline)
    }

    /// Removes files that are no longer needed, until `deadline`.
    pub(super) fn prune(&self, now: Timestamp, deadline: Instant) {
        remove_old(&self.0.join("cache"), now);
        remove_old(&self.0.join("cleared"), now);
        for folder in self.agents() {
            if deadline <= Instant::now() {
                return;
            }
            folder.prune(now);
        }
    }
}

impl AgentFolder {
    fn prune(&self, now: Timestamp) {
        for folder in [self.cursors(), self.sessions(), self.marks()] {
            remove_old(&folder, now);
        }
        Spool::new(self.spool()).prune(now);
        let is_past =
            || touched_at(&self.settled_file()).is_some_and(|at| now.since_ms(at) > SETTLED_KEEP_MS);
        let is_empty = || {
            let folders = [self.cursors(), self.sessions(), self.marks(), self.spool()];
            folders.iter().all(|folder| files(folder).is_empty())
        };
        if is_past() || is_old(&self.gathered_file(), now) && is_empty() {
            // A hook that uses the folder right now starts over.
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// True if the last check found nothing to gather or to send for the agent, and no hook of the agent ran since then.
    pub(super) fn is_settled(&self) -> bool {
        self.settled_file().exists()
    }

    /// Marks the agent as settled if its last hook ran long ago and no mark waits. The caller knows that the spool is empty.
    pub(super) fn settle(&self, now: Timestamp) {
        let is_past = touched_at(&self.gathered_file()).is_some_and(|at| now.since_ms(at) > FINISHED_MS);
        if is_past && files(&self.marks()).is_empty() {
            replace(&self.settled_file(), b"").ok();
        }
    }

    /// Undoes [`Self::settle`].
    pub(super) fn unsettle(&self) {
        fs::remove_file(self.settled_file()).ok();
    }

    fn settled_file(&self) -> PathBuf {
        self.0.join("settled")
    }

    /// Returns the folder of marks that wait for their position in a transcript.
    pub(super) fn marks(&self) -> PathBuf {
        self.0.join("marks")
    }

    pub(super) fn cursors(&self) -> PathBuf {
        self.0.join("cursors")
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub(super) fn session(&self, session: &str) -> PathBuf {
        let name = short_hash(&[session.as_bytes()]);
        self.sessions().join(format!("{name}.json"))
    }

    pub(super) fn spool(&self) -> PathBuf {
        self.0.join("spool")
    }

    /// Returns the file of [`super::push::GatherState`].
    pub(super) fn gathered_file(&self) -> PathBuf {
        self.0.join("gathered.json")
    }

    /// Returns the file with the state of sending.
    pub(super) fn sent(&self) -> PathBuf {
        self.0.join("sent.json")
    }

    /// Waits for the lock `name` until `deadline`; `None` if another process still holds it then.
    pub(super) fn lock(&self, name: &str, deadline: Instant) -> io::Result<Option<File>> {
        lock(&self.0, name, deadline)
    }
}

fn lock(folder: &Path, name: &str, deadline: Instant) -> io::Result<Option<File>> {
    create_folder(folder)?;
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(folder.join(name))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_EVERY),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
