//! Checkpoints the write-ahead log on a separate connection, so that the writer need not stop for it.
//!
//! SQLite itself would checkpoint within the commit that makes the log long: for some ten milliseconds no append would be
//! answered. It still does so if this module falls behind.
//!
//! SQLite restarts the log only if a commit finds all of it checkpointed, which never happens next to a busy writer. So once the
//! log is long and little is left, the writer checkpoints the rest. The writer also does so once after a failed commit, because
//! on a full disk the log may be what takes the space.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{
    Connection as _, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::super::{
    StoreResult,
    sql::{Connection, query, sql},
};
use recapd_core::domain::{failure_streak::FailureStreak, number::i64_or_max};

/// A checkpoint begins after this many operations were committed.
const OPERATIONS_BETWEEN: usize = 512;
/// From this many pages on the log is long, and the writer checkpoints the rest.
const PAGES_LONG: i64 = 32_000;
/// How many passes come before the writer's. Each pass checkpoints what was written during the previous one, so each is shorter.
/// SQLite syncs the file in a pass that finds nothing new. With this many passes one of them does, so that the writer, for which
/// all writes wait, needn't sync.
const PASSES: u32 = 12;
/// If the log has this many pages, a commit checkpoints all of it. SQLite's own limit is 1,000.
pub(super) const PAGES_MAX: i64 = 64_000;

/// The wait before a failed checkpoint is retried.
const PAUSE: Duration = Duration::from_secs(1);

/// Checkpoints the pages that nobody uses at the moment. The result has three columns: whether anybody was in the way, the pages
/// in the log, and how many of them are checkpointed.
const PASSIVE: &str = "-- sqlite/checkpoint.some\nPRAGMA wal_checkpoint(PASSIVE)";

/// Counts the writer's commits, and signals when it is time for a checkpoint.
pub(super) struct CommitCounter {
    operations: usize,
    /// True if no other process may write to the database.
    is_alone: bool,
    /// Asks the task for a checkpoint.
    requests: mpsc::Sender<()>,
    /// True from a failed commit until a checkpoint succeeds.
    has_failed: Arc<AtomicBool>,
    /// True if the writer has to checkpoint the rest of the log.
    is_rest_due: Arc<AtomicBool>,
}

impl CommitCounter {
    /// Checkpoints the rest of the log on the writer's own connection, if that is due.
    pub(super) async fn finish(&self, writer: &mut Connection) {
        if self.is_rest_due.swap(false, Ordering::Relaxed)
            && let Err(error) = checkpoint_fully(writer).await
        {
            warn!(%error, "store.no_checkpoint");
        }
    }

    /// Checkpoints and empties the log if no other process may write. Then the file alone holds everything.
    pub(super) async fn end(&self, writer: &mut Connection) {
        let sql = sql!("-- sqlite/checkpoint.end\nPRAGMA wal_checkpoint(TRUNCATE)");
        if self.is_alone
            && let Err(error) = query(sql).fetch_one(writer).await
        {
            warn!(%error, "store.no_checkpoint");
        }
    }

    pub(super) fn add(&mut self, operations: usize) {
        self.operations += operations;
        let is_wanted = self.operations >= OPERATIONS_BETWEEN || self.has_failed.load(Ordering::Relaxed);
        if is_wanted && self.requests.try_send(()).is_ok() {
            self.operations = 0;
        }
    }

    /// Records a failed commit. From now on each commit asks for a checkpoint, until a checkpoint succeeds.
    pub(super) fn record_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

async fn checkpoint_fully(writer: &mut Connection) -> StoreResult<()> {
    let sql = sql!("-- sqlite/checkpoint.rest\nPRAGMA wal_checkpoint(PASSIVE)");
    query(sql).fetch_one(writer).await?;
    Ok(())
}

/// The connection for checkpoints, which run one at a time. It is opened at the first checkpoint.
pub(super) struct Checkpoint {
    options: SqliteConnectOptions,
    connection: Mutex<Option<SqliteConnection>>,
}

impl Checkpoint {
    pub(super) fn new(options: SqliteConnectOptions) -> Arc<Self> {
        Arc::new(Self {
            // If somebody has moved the database away, don't create a new one in its place.
            options: options.create_if_missing(false),
            connection: Mutex::new(None),
        })
    }

    /// Returns a counter for the writer, and the task that runs until the counter is dropped.
    ///
    /// If `is_alone`, the writer checkpoints what a crash left behind before anybody writes, so that the log restarts. Otherwise
    /// a series of crashes after few operations each would fill the disk with the log, until there is no space to checkpoint it.
    pub(super) fn start(
        self: &Arc<Self>,
        is_alone: bool,
    ) -> (CommitCounter, impl Future<Output = ()> + Send + use<>) {
        let (requests, mut requested) = mpsc::channel(1);
        let [has_failed, is_rest_due] = [false, is_alone].map(|is_so| Arc::new(AtomicBool::new(is_so)));
        let commits = CommitCounter {
            operations: 0,
            is_alone,
            requests,
            has_failed: Arc::clone(&has_failed),
            is_rest_due: Arc::clone(&is_rest_due),
        };
        let checkpointer = Arc::clone(self);
        let work = async move {
            let (mut failures, begun) = (FailureStreak::default(), Instant::now());
            while requested.recv().await.is_some() {
                let result = checkpointer.checkpoint_most().await;
                let now_ms = i64_or_max(begun.elapsed().as_millis());
                match result {
                    Ok(is_long) => {
                        if let Some(failed_ms) = failures.worked(now_ms) {
                            info!(failed_ms, "store.checkpoint_again");
                        }
                        let after_failure = has_failed.swap(false, Ordering::Relaxed);
                        is_rest_due.store(is_long || after_failure, Ordering::Relaxed);
                    }
                    Err(error) => {
                        if let Some(untold) = failures.failed(now_ms) {
                            warn!(%error, untold, "store.no_checkpoint");
                        }
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        (commits, work)
    }

    /// Checkpoints most of the log. Returns true if the log is long.
    async fn checkpoint_most(&self) -> Result<bool, sqlx::Error> {
        let mut is_long = false;
        for _ in 0..PASSES {
            let row = self.run(PASSIVE).await?;
            is_long = row.try_get::<i64, _>(1)? >= PAGES_LONG;
            if !is_long {
                break;
            }
        }
        Ok(is_long)
    }

    /// Checkpoints all of the log and empties it. Returns false if a reader prevented it.
    ///
    /// Nobody can write while SQLite empties the log, so this checkpoints most of it first.
    pub(super) async fn checkpoint_and_empty(&self) -> Result<bool, sqlx::Error> {
        for _ in 0..PASSES {
            let row = self.run(PASSIVE).await?;
            if row.try_get::<i64, _>(1)? == row.try_get::<i64, _>(2)? {
                break;
            }
        }
        let row = self.run("-- sqlite/checkpoint.all\nPRAGMA wal_checkpoint(TRUNCATE)").await?;
        Ok(row.try_get::<i64, _>(0)? == 0)
    }

    /// Runs a checkpoint. The result has the columns of [`PASSIVE`].
    async fn run(&self, sql: &'static str) -> Result<SqliteRow, sqlx::Error> {
        let mut slot = self.connection.lock().await;
        let connection = match slot.as_mut() {
            Some(connection) => connection,
            None => slot.insert(SqliteConnection::connect_with(&self.options).await?),
        };
        sqlx::query(sql).fetch_one(connection).await
    }

    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take()
            && let Err(error) = connection.close().await
        {
            warn!(%error, "store.not_closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use tempfile::TempDir;

    use super::*;

    /// Returns a new database, and a connection that keeps it open: the last one to close would checkpoint everything.
    fn database() -> (TempDir, SqliteConnectOptions, rusqlite::Connection) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("log.db"));
        let connection = rusqlite::Connection::open(options.get_filename()).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        (folder, options, connection)
    }

    fn size(file: &Path) -> u64 {
        fs::metadata(file).unwrap().len()
    }

    #[tokio::test]
    async fn a_log_left_by_a_crash_is_checkpointed_at_the_start() {
        let (folder, options, before) = database();
        before.execute_batch("CREATE TABLE first (id INTEGER)").unwrap();
        // The files as a killed process leaves them.
        let left = folder.path().join("left.db");
        for end in ["", "-wal"] {
            fs::copy(folder.path().join(format!("log.db{end}")), folder.path().join(format!("left.db{end}")))
                .unwrap();
        }
        let mut still_open = Vec::new();
        for (is_alone, is_checkpointed) in [(false, false), (true, true)] {
            let before = size(&left);
            let (commits, _checkpointing) = Checkpoint::new(options.clone()).start(is_alone);
            let mut writer = Connection::from(rusqlite::Connection::open(&left).unwrap());
            commits.finish(&mut writer).await;
            assert_eq!(size(&left) > before, is_checkpointed);
            still_open.push(writer);
        }
    }

    #[tokio::test]
    async fn after_a_failure_the_writer_checkpoints_a_short_log_once() {
        let (_folder, options, _open) = database();
        let checkpoint = Checkpoint::new(options);
        for (fails, is_finished) in [(false, false), (true, true)] {
            let (mut commits, checkpointing) = checkpoint.start(false);
            if fails {
                commits.record_failure();
            }
            commits.add(1);
            let (has_failed, is_rest_due) =
                (Arc::clone(&commits.has_failed), Arc::clone(&commits.is_rest_due));
            drop(commits);
            checkpointing.await;
            assert_eq!(is_rest_due.load(Ordering::Relaxed), is_finished);
            assert!(!has_failed.load(Ordering::Relaxed), "the checkpoint succeeded");
        }
    }

    #[tokio::test]
    async fn the_writer_checkpoints_the_rest_once() {
        let (_folder, options, others) = database();
        let file = options.get_filename().to_owned();
        let mut writer = Connection::from(rusqlite::Connection::open(&file).unwrap());
        let (commits, _checkpointing) = Checkpoint::new(options).start(false);
        for (table, is_rest_due) in [("first", true), ("second", false)] {
            let before = size(&file);
            others.execute_batch(&format!("CREATE TABLE {table} (id INTEGER)")).unwrap();
            assert_eq!(size(&file), before, "it is in the log");
            commits.is_rest_due.store(is_rest_due, Ordering::Relaxed);
            commits.finish(&mut writer).await;
            assert_eq!(size(&file) > before, is_rest_due);
        }
    }
}
