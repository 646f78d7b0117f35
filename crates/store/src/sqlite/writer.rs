//! The one writer. Operations queue up for it, and operations that wait at the same time are committed together.
//!
//! The writer has its own thread, on which SQLite runs, too. To pass a statement to another thread and back would take longer
//! than to run it.
//!
//! Each operation runs in its own savepoint, so that a failed one leaves no trace in the commit of the others. An operation
//! succeeds only after the commit. It fails if the file was moved away, because the write would be lost.

use std::{panic::AssertUnwindSafe, path::Path, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use rusqlite::{OpenFlags, config::DbConfig};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::trace;

use super::{
    super::{
        Outage, StoreError, StoreResult,
        sql::{Connection, DriverConnection, direct, query, sql},
    },
    SqliteSettings,
    checkpoint::{CommitCounter, PAGES_MAX},
    condition::Condition,
};
use recapd_core::domain::number::i64_or_max;
use recapd_platform::threads::ComputationPanic;

/// Limits the operations that queue for the writer. Further ones wait for a slot.
const WRITES_QUEUED_MAX: usize = 1_024;

/// The memory for pages, in KiB, negated as SQLite wants it. SQLite's default is 2,000, but each turn of many agents touches
/// different pages.
pub(super) const CACHE_KIB: i64 = -16_000;
/// How many prepared statements are kept.
const STATEMENTS_KEPT: usize = 256;

pub(super) fn connect(file: &Path, settings: &SqliteSettings) -> StoreResult<Connection> {
    let connect = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(settings.busy_timeout())?;
        for (name, value) in settings.pragmas() {
            connection.pragma_update(None, name, value)?;
        }
        connection.pragma_update(None, "wal_autocheckpoint", PAGES_MAX)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB)?;
        // SQLite's default limit of memory is below what an append may change, so each commit would create and delete a file.
        connection.pragma_update(None, "temp_store", WriteSize::Bounded.journal())?;
        // Without this setting, SQLite would plan each `LIMIT $1` again for each value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        Ok(Connection::from(connection))
    };
    Ok(connect().map_err(direct::failure)?)
}

#[derive(Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    condition: Arc<Condition>,
}

/// How much existing data an operation may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteSize {
    /// So little that memory can hold the data before the change.
    Bounded,
    /// As much as an agent has.
    Unbounded,
}

impl WriteSize {
    /// Returns where SQLite keeps the data that a savepoint would restore.
    fn journal(self) -> &'static str {
        match self {
            Self::Bounded => "MEMORY",
            Self::Unbounded => "FILE",
        }
    }
}

/// One operation of the writer.
trait Job: Send {
    fn size(&self) -> WriteSize;
    fn run<'c>(&'c mut self, connection: &'c mut Connection) -> BoxFuture<'c, bool>;
    /// Gives the caller the result after the commit. Records a failure even if the caller no longer waits.
    fn finish(self: Box<Self>, commit: &Result<(), Outage>, condition: &Condition);
}

struct Operation<F, T> {
    size: WriteSize,
    work: Option<F>,
    outcome: Option<StoreResult<T>>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<F, T> Job for Operation<F, T>
where
    F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Send,
    T: Send,
{
    fn size(&self) -> WriteSize {
        self.size
    }

    fn run<'c>(&'c mut self, connection: &'c mut Connection) -> BoxFuture<'c, bool> {
        Box::pin(async move {
            let Some(work) = self.work.take() else {
                return false;
            };
            // The savepoint undoes this operation's changes; other operations continue.
            let result = AssertUnwindSafe(async { work(connection).await }).catch_unwind().await;
            let outcome = result.unwrap_or_else(|_| Err(panic_error()));
            let succeeded = outcome.is_ok();
            self.outcome = Some(outcome);
            succeeded
        })
    }

    fn finish(self: Box<Self>, commit: &Result<(), Outage>, condition: &Condition) {
        let result = match (self.outcome, commit) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(error)), _) => Err(error),
            (_, Err(outage)) => Err(StoreError::Unavailable(outage.clone())),
            (None, Ok(())) => Err(StoreError::Unavailable("the operation did not run".into())),
        };
        if let Err(error) = &result {
            condition.record_failure(error);
        }
        // The caller may be gone; the commit is valid nevertheless.
        drop(self.reply.send(result));
    }
}

/// Returns the error of an operation that panicked. The panic hook has logged the panic's text already.
fn panic_error() -> StoreError {
    let panicked = ComputationPanic("an operation of the database");
    tracing::error!(error = %panicked, "store.panicked");
    panicked.into()
}

impl Writer {
    /// Returns the handle, and the writer's task, which runs until no handle is left.
    pub(super) fn new(
        connection: Connection,
        group_max: usize,
        commits: CommitCounter,
        condition: Arc<Condition>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (jobs, queue) = mpsc::channel(WRITES_QUEUED_MAX);
        let group_max = group_max.max(1);
        let writing = write_all(connection, queue, group_max, commits, Arc::clone(&condition));
        (Self { jobs, condition }, writing)
    }

    /// Runs `work` in a transaction, and returns after its commit.
    pub(super) async fn run<F, T>(&self, size: WriteSize, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let gone = || {
            let gone = StoreError::Unavailable("the writer has stopped".into());
            self.condition.record_failure(&gone);
            gone
        };
        let (reply, answer) = oneshot::channel();
        let job = Operation { size, work: Some(work), outcome: None, reply };
        self.jobs.send(Box::new(job)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn write_all(
    mut connection: Connection,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    group_max: usize,
    mut commits: CommitCounter,
    condition: Arc<Condition>,
) {
    commits.finish(&mut connection).await;
    let mut group = Vec::with_capacity(group_max);
    while queue.recv_many(&mut group, group_max).await > 0 {
        let (before, start) = (changes(&mut connection), Instant::now());
        let commit = match condition.check_place() {
            Ok(()) => commit_group(&mut connection, &mut group, &commits).await,
            Err(moved) => Err(moved),
        };
        // A commit without changes writes nothing, so it succeeds even on a full disk and proves nothing.
        if commit.is_ok() && changes(&mut connection) != before {
            condition.record_success();
        }
        // Every operation of the group waited this long.
        let took_us = i64_or_max(start.elapsed().as_micros());
        trace!(operations = group.len(), took_us, "store.committed");
        commits.add(group.len());
        for job in group.drain(..) {
            job.finish(&commit, &condition);
        }
        commits.finish(&mut connection).await;
    }
    commits.end(&mut connection).await;
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "database.unclosed");
    }
}

/// Returns how many rows the connection has changed so far.
fn changes(connection: &mut Connection) -> u64 {
    match connection.driver() {
        DriverConnection::Direct(direct) => direct.total_changes(),
        DriverConnection::Sqlite(_) | DriverConnection::Postgres(_) => 0,
    }
}

/// Commits the operations of a group, or none of them.
async fn commit_group(
    connection: &mut Connection,
    group: &mut [Box<dyn Job>],
    commits: &CommitCounter,
) -> Result<(), Outage> {
    let is_unbounded = group.iter().any(|job| job.size() == WriteSize::Unbounded);
    if is_unbounded {
        keep_before(connection, WriteSize::Unbounded);
    }
    let result = write_group(connection, group).await;
    if result.is_err() {
        // A transaction that stays open would block every later one.
        let undo = sql!("-- sqlite/writer.rollback\nROLLBACK");
        drop(query(undo).execute(&mut *connection).await);
        commits.record_failure();
    }
    if is_unbounded {
        keep_before(connection, WriteSize::Bounded);
    }
    result.map_err(|error| Outage::from(&error))
}

/// Sets where the next transactions keep the data that a rollback would restore. Doesn't use a prepared statement, because this
/// pragma takes effect while it is prepared.
fn keep_before(connection: &mut Connection, size: WriteSize) {
    if let DriverConnection::Direct(direct) = connection.driver()
        && let Err(error) = direct.pragma_update(None, "temp_store", size.journal())
    {
        tracing::warn!(%error, "store.temp_store");
    }
}

async fn write_group(connection: &mut Connection, group: &mut [Box<dyn Job>]) -> Result<(), sqlx::Error> {
    let begin = sql!("-- sqlite/writer.begin\nBEGIN IMMEDIATE");
    query(begin).execute(&mut *connection).await?;
    for job in group {
        let next = sql!("-- sqlite/writer.next\nSAVEPOINT job");
        query(next).execute(&mut *connection).await?;
        if !job.run(connection).await {
            let undo = sql!("-- sqlite/writer.undo\nROLLBACK TO job");
            query(undo).execute(&mut *connection).await?;
        }
        let done = sql!("-- sqlite/writer.done\nRELEASE job");
        query(done).execute(&mut *connection).await?;
    }
    query(sql!("-- sqlite/writer.commit\nCOMMIT")).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::OutageKind, MissingFolder, Synchronous},
        *,
    };

    fn nothing(_: &mut Connection) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async { Ok(()) })
    }

    #[test]
    fn a_failure_is_recorded_even_if_nobody_waits_for_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let condition = Condition::of(file.path()).unwrap();
        let (reply, answer) = oneshot::channel::<StoreResult<()>>();
        drop(answer);
        let job = Operation { size: WriteSize::Bounded, work: Some(nothing), outcome: None, reply };
        let full = Outage { kind: OutageKind::Full, reason: "a test".to_owned() };
        Box::new(job).finish(&Err(full), &condition);
        assert_eq!(condition.check().unwrap_err().class(), Some("full"));
    }

    #[tokio::test]
    async fn the_writers_connection_has_its_pragmas() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.db");
        drop(rusqlite::Connection::open(&file).unwrap());
        for (synchronous, expected) in
            [(Synchronous::Full, 2), (Synchronous::Normal, 1), (Synchronous::Off, 0)]
        {
            let settings = SqliteSettings {
                url: format!("sqlite:{}", file.display()),
                readers: 1,
                group_commit_max: 1,
                busy_timeout_ms: 7,
                synchronous,
                missing_folder: MissingFolder::Refuse,
            };
            let mut connection = connect(&file, &settings).unwrap();
            let DriverConnection::Direct(direct) = connection.driver() else { panic!("not the writer's") };
            let found = [
                "synchronous",
                "foreign_keys",
                "secure_delete",
                "busy_timeout",
                "wal_autocheckpoint",
                "cache_size",
                "temp_store",
            ]
            .map(|name| direct.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap());
            assert_eq!(found, [expected, 1, 1, 7, PAGES_MAX, CACHE_KIB, 2]);
        }
    }
}
