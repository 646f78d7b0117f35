//! Notices that another connection has written to the file. SQLite's `data_version` changes with the commits of other
//! connections, so the listener reads it on a connection that never writes. Each check takes some microseconds and no lock.
//!
//! ```text
//! commit ──► frames in the write-ahead log ──► inotify ──► check ──► the log's index shows the commit, or: check again soon
//! ```
//!
//! The kernel reports the frames before the commit is visible; how long before depends on the disk. So one check isn't enough.
//! Systems other than Linux report nothing, so there the listener checks at intervals.

mod log_events;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use sqlx::{Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use self::log_events::LogEvents;
use super::super::{Outage, StoreError, StoreResult, inbox::ChangeListener};

/// The shortest time between two signals, and the interval of checks where the kernel reports nothing.
const SIGNAL_EVERY: Duration = Duration::from_millis(150);
/// The wait before another check after a write. It doubles each time.
const RECHECK_FIRST: Duration = Duration::from_millis(10);
/// After a wait of this length, no further check follows, however long the disk takes.
const RECHECK_MAX: Duration = Duration::from_secs(10);

pub(super) struct DataVersion {
    connection: SqliteConnection,
    /// The `data_version` of the last check.
    seen_version: i64,
    /// Events about writes to the log; `None` where the kernel reports none.
    log: Option<LogEvents>,
    /// How long to wait before the next check without an event, because the reported write may not be visible yet.
    recheck: Option<Duration>,
    signalled_at: Instant,
}

impl DataVersion {
    /// Listens for commits from now on.
    pub(super) async fn open(options: &SqliteConnectOptions) -> StoreResult<Self> {
        let mut connection = SqliteConnection::connect_with(&options.clone().read_only(true)).await?;
        // The first read creates the log. Listening begins before the second read, so that every commit after that read is
        // noticed.
        data_version(&mut connection).await?;
        let log = LogEvents::listen(&log_of(options.get_filename()))
            .inspect_err(|error| warn!(%error, "inbox.polled: the kernel doesn't tell of writes"))
            .ok();
        let seen_version = data_version(&mut connection).await?;
        Ok(Self { connection, seen_version, log, recheck: None, signalled_at: Instant::now() })
    }

    /// Waits until a check may find a commit.
    async fn wait(&mut self) -> StoreResult<()> {
        let Some(log) = &mut self.log else {
            sleep(SIGNAL_EVERY).await;
            return Ok(());
        };
        self.recheck = tokio::select! {
            event = log.next() => event.map(|()| Some(RECHECK_FIRST)).map_err(|error| listen_error(&error))?,
            () = pause(self.recheck) => self.recheck.map(|wait| wait * 2).filter(|wait| *wait <= RECHECK_MAX),
        };
        sleep_until(self.signalled_at + SIGNAL_EVERY).await;
        Ok(())
    }
}

#[async_trait]
impl ChangeListener for DataVersion {
    async fn wait_for_change(&mut self) -> StoreResult<()> {
        loop {
            self.wait().await?;
            let version = data_version(&mut self.connection).await?;
            if version != self.seen_version {
                self.seen_version = version;
                self.signalled_at = Instant::now();
                return Ok(());
            }
        }
    }
}

/// Waits for `time`; `None` waits forever.
async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

fn log_of(database: &Path) -> PathBuf {
    let mut path = PathBuf::from(database);
    path.as_mut_os_string().push("-wal");
    path
}

fn listen_error(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(Outage::from(error).of("hearing of writes"))
}

async fn data_version(connection: &mut SqliteConnection) -> StoreResult<i64> {
    let sql = "-- sqlite/bell.data_version\nPRAGMA data_version";
    Ok(sqlx::query(sql).fetch_one(connection).await?.try_get(0)?)
}

#[cfg(test)]
mod tests {
    use sqlx::{Executor as _, sqlite::SqliteJournalMode};
    use tempfile::TempDir;

    use super::*;

    /// Returns a database in a folder, a connection that writes to it, and a listener.
    async fn watched_database() -> (TempDir, SqliteConnection, DataVersion) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.path().join("a.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let other = SqliteConnection::connect_with(&options).await.unwrap();
        let listener = DataVersion::open(&options).await.unwrap();
        (folder, other, listener)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_write_is_noticed_without_polling() {
        let (_folder, mut other, mut listener) = watched_database().await;
        assert!(listener.log.is_some());
        for table in ["CREATE TABLE one (text)", "CREATE TABLE two (text)"] {
            // Without a planned check, only an event of the kernel ends the wait.
            listener.recheck = None;
            other.execute(table).await.unwrap();
            listener.wait_for_change().await.unwrap();
        }
        // A second signal for the same commit would have come by then.
        let silence = tokio::time::timeout(SIGNAL_EVERY * 4, listener.wait_for_change()).await;
        assert!(silence.is_err(), "nothing was written");
    }

    #[tokio::test]
    async fn without_kernel_events_the_listener_polls() {
        let (_folder, mut other, mut listener) = watched_database().await;
        listener.log = None;
        other.execute("CREATE TABLE one (text)").await.unwrap();
        listener.wait_for_change().await.unwrap();
    }
}
