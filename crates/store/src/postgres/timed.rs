//! Connections with a time limit for answers, because a server may vanish silently: with its machine, or behind a firewall that
//! forgets connections.
//!
//! The server itself ends statements that take too long. If it stays silent for longer than that, its connection counts as lost
//! and is closed. TCP alone would give up only after a quarter of an hour, or never if nothing is left to send. As with any
//! broken connection, the last statement, even a commit, may have taken effect.
//!
//! sqlx waits as long as TCP does, even when it pings a connection that returns to its pool, and its transactions don't give
//! access to their connection to close it. So transactions here consist of plain statements, and the return to the pool has a
//! time limit, too.

use std::{io, sync::Arc, time::Duration};

use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool, Postgres,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgRow},
    query::Query,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use recapd_core::domain::number::usize_or_max;

/// How much longer than its time limit an answer may take, because the server has to cancel the statement and report that.
const MARGIN: Duration = Duration::from_secs(5);
/// Limits the attempt to connect that finds out why the pool got no connection.
const REFUSAL_MAX: Duration = Duration::from_secs(1);

/// A statement with its parameters.
pub(crate) type PgQuery = Query<'static, Postgres, PgArguments>;

/// A connection with a time limit for answers.
pub(crate) struct TimedConnection {
    /// `None` only while this is being dropped.
    source: Option<ConnectionSource>,
    watch: Watch,
    /// True from just before a transaction begins until its commit is confirmed.
    in_transaction: bool,
}

enum ConnectionSource {
    Alone(PgConnection),
    /// A connection of a pool, which counts as in use until it is back in the pool.
    Pooled(PoolConnection<Postgres>, Loan),
}

/// Counts a pooled connection as in use, and as a writer if it writes, until it is back in the pool.
struct Loan {
    out: TaskTrackerToken,
    /// The permit to write, if the connection writes.
    write: Option<OwnedSemaphorePermit>,
}

impl ConnectionSource {
    fn connection(&mut self) -> &mut PgConnection {
        match self {
            Self::Alone(connection) => connection,
            Self::Pooled(pooled, _) => pooled,
        }
    }
}

/// A time limit for answers, and whether an answer has missed it.
struct Watch {
    patience: Duration,
    is_lost: bool,
}

impl Watch {
    /// Returns the watch for statements that the server ends after this time.
    fn over(statement_ms_max: u64) -> Self {
        Self { patience: Duration::from_millis(statement_ms_max) + MARGIN, is_lost: false }
    }

    /// Waits for an answer. If the answer doesn't come in time, or if the connection fails, marks the connection as lost.
    async fn wait<T>(
        &mut self,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let result = with_timeout(self.patience, answer).await;
        self.is_lost = matches!(result, Err(sqlx::Error::Io(_)));
        result
    }
}

impl TimedConnection {
    /// Wraps a separate connection with this time limit for its statements.
    pub(super) fn single(connection: PgConnection, statement_ms_max: u64) -> Self {
        Self::over(ConnectionSource::Alone(connection), statement_ms_max)
    }

    fn over(source: ConnectionSource, statement_ms_max: u64) -> Self {
        Self { source: Some(source), watch: Watch::over(statement_ms_max), in_transaction: false }
    }

    /// Returns the connection and its watch. Fails for a lost connection, because the outcome of its last statement is unknown.
    fn live(&mut self) -> Result<(&mut PgConnection, &mut Watch), sqlx::Error> {
        match &mut self.source {
            Some(source) if !self.watch.is_lost => Ok((source.connection(), &mut self.watch)),
            _ => Err(sqlx::Error::Io(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Returns the connection without its watch, for operations that may take longer than a statement.
    pub(crate) fn untimed(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.live().map(|(connection, _)| connection)
    }

    pub(crate) async fn execute(&mut self, query: PgQuery) -> Result<u64, sqlx::Error> {
        let (connection, watch) = self.live()?;
        let result = watch.wait(connection.execute(query)).await?;
        Ok(result.rows_affected())
    }

    pub(crate) async fn fetch_optional(&mut self, query: PgQuery) -> Result<Option<PgRow>, sqlx::Error> {
        let (connection, watch) = self.live()?;
        watch.wait(connection.fetch_optional(query)).await
    }

    /// Returns the rows one by one, with the time limit for each.
    pub(crate) fn fetch(
        &mut self,
        query: PgQuery,
    ) -> Result<BoxStream<'_, Result<PgRow, sqlx::Error>>, sqlx::Error> {
        let (connection, watch) = self.live()?;
        let rows = (connection.fetch(query), watch);
        let rows = stream::try_unfold(rows, |(mut rows, watch)| async move {
            let row = watch.wait(rows.try_next()).await?;
            Ok::<_, sqlx::Error>(row.map(|row| (row, (rows, watch))))
        });
        Ok(rows.boxed())
    }

    /// Commits the transaction, if there is one. If no answer comes, the commit may have taken effect.
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        if self.in_transaction {
            let (connection, watch) = self.live()?;
            watch.wait(connection.execute("COMMIT")).await?;
            self.in_transaction = false;
        }
        Ok(())
    }
}

impl Drop for TimedConnection {
    /// Rolls back uncommitted work and returns a pooled connection to its pool. Closes a lost connection without telling the
    /// server.
    fn drop(&mut self) {
        let Some(ConnectionSource::Pooled(pooled, loan)) = self.source.take() else {
            return;
        };
        if self.watch.is_lost {
            drop(pooled.detach());
            return;
        }
        let (in_transaction, patience) = (self.in_transaction, self.watch.patience);
        loan.out.task_tracker().spawn(async move {
            give_back(pooled, in_transaction, patience).await;
            drop(loan.write);
        });
    }
}

/// Rolls back uncommitted work and returns the connection to its pool, which pings it. Closes a connection that doesn't answer in
/// time, which frees its slot in the pool.
async fn give_back(mut pooled: PoolConnection<Postgres>, in_transaction: bool, patience: Duration) {
    if in_transaction && with_timeout(patience, pooled.execute("ROLLBACK")).await.is_err() {
        drop(pooled.detach());
        return;
    }
    // When a connection is dropped, the pool does this by itself, but without a time limit.
    drop(timeout(patience, pooled.return_to_pool()).await);
}

pub(super) struct TimedPool {
    pool: PgPool,
    statement_ms_max: u64,
    /// Connections in use, and those that are being returned.
    out: TaskTracker,
    /// Permits to begin a write.
    writers: Arc<Semaphore>,
}

impl TimedPool {
    /// Wraps `pool` with this time limit for its statements.
    pub(super) fn over(pool: PgPool, statement_ms_max: u64) -> Self {
        Self {
            pool,
            statement_ms_max,
            out: TaskTracker::new(),
            writers: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// Limits how many connections write at the same time.
    pub(super) fn with_writers(self, writers_max: usize) -> Self {
        let writers = Arc::new(Semaphore::new(writers_max));
        Self { writers, ..self }
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns a connection for statements that commit by themselves.
    pub(super) async fn acquire(&self) -> Result<TimedConnection, sqlx::Error> {
        self.lend(None).await
    }

    async fn lend(&self, write: Option<OwnedSemaphorePermit>) -> Result<TimedConnection, sqlx::Error> {
        let pooled = self.pool.acquire().await?;
        let out = self.out.token();
        let source = ConnectionSource::Pooled(pooled, Loan { out, write });
        Ok(TimedConnection::over(source, self.statement_ms_max))
    }

    /// Begins a transaction with `statement`.
    pub(super) async fn begin(&self, statement: &'static str) -> Result<TimedConnection, sqlx::Error> {
        let connection = self.acquire().await?;
        begin_with(connection, statement).await
    }

    /// Begins a transaction that may wait for others. Some connections stay reserved for operations that don't wait.
    pub(super) async fn begin_write(&self, statement: &'static str) -> Result<TimedConnection, sqlx::Error> {
        let free_slot = Arc::clone(&self.writers).acquire_owned();
        let write = timeout(self.pool.options().get_acquire_timeout(), free_slot)
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = self.lend(Some(write)).await?;
        begin_with(connection, statement).await
    }

    /// Replaces a pool's timeout with the server's own error, if the pool had a free slot and the server is therefore to blame.
    pub(super) async fn with_server_error<T: Send>(
        &self,
        acquired: Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let options = self.pool.options();
        let has_room = self.out.len() < usize_or_max(options.get_max_connections());
        match acquired {
            Err(sqlx::Error::PoolTimedOut) if has_room => Err(refusal(&self.pool.connect_options()).await),
            acquired => acquired,
        }
    }

    /// Waits for connections in use, and closes all connections.
    pub(super) async fn close(self) {
        self.pool.close().await;
    }
}

async fn begin_with(
    mut timed: TimedConnection,
    statement: &'static str,
) -> Result<TimedConnection, sqlx::Error> {
    // If this call is cancelled half-way, the transaction may have begun.
    timed.in_transaction = true;
    let (connection, watch) = timed.live()?;
    watch.wait(connection.execute(statement)).await?;
    Ok(timed)
}

/// Finds out why the pool got no connection. The pool itself reports only a timeout, even if no server listens at the address.
pub(super) async fn refusal(options: &PgConnectOptions) -> sqlx::Error {
    match with_timeout(REFUSAL_MAX, options.connect()).await {
        Err(error) => error,
        Ok(connection) => {
            // The server works again.
            drop(with_timeout(REFUSAL_MAX, connection.close()).await);
            sqlx::Error::PoolTimedOut
        }
    }
}

pub(super) async fn with_timeout<T>(
    time: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(time, answer).await.unwrap_or_else(|_| {
        let silence = format!("no answer within {time:?}");
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, silence)))
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use sqlx::postgres::PgPoolOptions;

    use super::*;

    #[tokio::test]
    async fn a_server_that_is_down_is_distinguished_from_a_busy_pool() {
        let options: PgConnectOptions = "postgres://nobody@127.0.0.1:1/none".parse().unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_millis(20))
            .connect_lazy_with(options);
        let pool = TimedPool::over(pool, 100);
        let acquired = pool.acquire().await;
        assert!(matches!(acquired, Err(sqlx::Error::PoolTimedOut)));
        let down = pool.with_server_error(acquired).await.err().unwrap();
        assert!(down.to_string().contains("refused"), "{down}");
        let _in_use = pool.out.token();
        let busy = pool.with_server_error(pool.acquire().await).await.err().unwrap();
        assert!(matches!(busy, sqlx::Error::PoolTimedOut), "{busy}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_counts_as_lost_and_a_refusal_does_not() {
        let mut watch = Watch::over(100);
        let refused = watch.wait(async { Err::<(), _>(sqlx::Error::RowNotFound) }).await;
        assert!(matches!(refused, Err(sqlx::Error::RowNotFound)), "{refused:?}");
        assert!(!watch.is_lost);
        let silent = watch.wait(pending::<Result<(), _>>()).await.unwrap_err();
        let text = "error communicating with database: no answer within 5.1s";
        assert_eq!(silent.to_string(), text);
        assert!(watch.is_lost);
    }
}
