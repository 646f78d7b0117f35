//! PostgreSQL: a pool of connections to a database that any number of daemons share.
//!
//! Each write operation is one transaction. It locks the agent's row first and then the queue's row; this fixed order prevents
//! deadlocks. Operations with several reading statements use one snapshot.
//!
//! A daemon may stop in the middle of a transaction, for example because its machine is suspended. It then keeps its agent locked
//! until the server disconnects it. Writes of other agents must continue meanwhile. So writes of the same agent wait in the
//! process without holding connections ([`admission`]), a write that finds its row locked returns its connection and retries, and
//! some connections are reserved for reads.

mod admission;
mod change_listener;
mod member;
mod replica;
mod schema;
mod timed;
mod vacuum;

use std::{ops::Range, str::FromStr, time::Duration};

pub use member::{Member, PULSE, PeerMessage};

pub use replica::READ_PATIENCE_MS;

pub(super) use replica::Replica;
pub(super) use timed::{PgQuery, TimedConnection};

use futures::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tracing::debug;

use super::{
    ClaimRequest, StoreError, StoreResult,
    inbox::ChangeListener,
    sql::{
        Connection, Lock, agent, query,
        queue::{self, TOKENS_RESERVED},
        sql,
    },
    timeouts::Timeouts,
};
use recapd_core::domain::{agent::AgentId, number::usize_or_max, work::Lease};

pub(super) use schema::MIGRATIONS;

use admission::Admission;
use timed::{TimedPool, refusal, with_timeout};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    pub url: String,
    /// A standby for reads that may be slightly stale; `None` if there is none.
    pub read_url: Option<String>,
    /// How far the standby may be behind.
    pub read_lag_ms_max: u64,
    /// How long a read waits for the standby before it asks the primary. Always [`READ_PATIENCE_MS`], except in tests.
    pub read_patience_ms: u64,
    pub connections: u32,
    pub acquire_timeout_ms: u64,
    /// The time limit of a statement. recapd waits a little longer for the answer before it closes the connection.
    pub statement_timeout_ms: u64,
    pub clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The server's clock, so that the daemons' clocks don't matter.
    Database,
    /// The caller's clock, for tests that control it.
    Caller,
}

/// Begins a write. It waits for a locked row only about as long as an ordinary transaction takes, because it holds a connection.
/// The server ends a transaction that is idle for some seconds. Both times are in milliseconds.
const BEGIN: &str =
    "BEGIN; SET LOCAL lock_timeout = 50; SET LOCAL idle_in_transaction_session_timeout = 3000";
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// A transaction that the server rolls back in favour of another, or that finds a row locked, is tried at least this often.
const TRIES_MIN: u32 = 4;
/// The pause before the second attempt. It doubles before each further attempt.
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// Limits that pause.
const RETRY_MAX: Duration = Duration::from_millis(200);
/// One of this many connections is reserved for operations that don't wait for rows: reads, claims, readiness checks.
const READERS_SHARE: u32 = 4;
/// The name of an advisory lock. A fork takes it shared; an operation that locks a whole family takes it exclusively, so that
/// nobody forks.
const FAMILIES: &str = "recapd families";
/// A connection that was used within this time is presumed to be alive.
const TRUSTED: Duration = Duration::from_secs(1);

pub(super) struct Postgres {
    pool: TimedPool,
    admission: Admission,
    /// How long a write waits for its turn and retries to get its locks.
    patience: Duration,
    timeouts: Timeouts,
    replica: Option<Replica>,
    clock: Clock,
    /// Fencing tokens that are reserved for this process and not given out yet.
    tokens: Mutex<Range<i64>>,
}

impl Postgres {
    /// Connects and brings the schema up to date.
    pub(super) async fn open(settings: &PostgresSettings) -> StoreResult<Self> {
        super::schema::migrate(&mut connect_single(settings, super::schema::STATEMENT_MS_MAX).await?).await?;
        Self::connect(settings).await
    }

    /// Connects to a database that must have this recapd's schema already.
    pub(super) async fn look(settings: &PostgresSettings) -> StoreResult<Self> {
        let postgres = Self::connect(settings).await?;
        super::schema::check(&mut postgres.reader().await?).await?;
        Ok(postgres)
    }

    /// Works like [`Self::look`], for a daemon.
    pub(super) async fn open_as_is(settings: &PostgresSettings) -> StoreResult<Self> {
        let postgres = Self::look(settings).await?;
        super::schema::check_schemas_closed(&mut postgres.reader().await?).await?;
        Ok(postgres)
    }

    pub(super) fn pool(&self) -> &PgPool {
        self.pool.pool()
    }

    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts.count()
    }

    async fn connect(settings: &PostgresSettings) -> StoreResult<Self> {
        Ok(Self {
            pool: pool(settings, &settings.url).await?,
            admission: Admission::default(),
            patience: Duration::from_millis(settings.acquire_timeout_ms),
            timeouts: Timeouts::default(),
            replica: settings.read_url.as_deref().map(|url| Replica::of(settings, url)).transpose()?,
            clock: settings.clock,
            tokens: Mutex::new(0..0),
        })
    }

    /// Runs `work` in a transaction. Retries if the server rolled it back in favour of another transaction, or if others hold its
    /// locks.
    pub(super) async fn write<F, T>(&self, lock: Lock, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static,
        T: Send + 'static,
    {
        let deadline = Instant::now() + self.patience;
        let _turn = self.admission.turn(&lock, deadline).await?;
        let (mut pause, mut try_number) = (RETRY_FIRST, 1);
        loop {
            match self.try_to_write(&lock, work.clone()).await {
                Err(StoreError::Contended(reason))
                    if try_number < TRIES_MIN || Instant::now() + pause < deadline =>
                {
                    debug!(reason, try_number, "store.contended");
                }
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
            try_number += 1;
        }
    }

    async fn try_to_write<F, T>(&self, lock: &Lock, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let begun = self.observe(self.pool.begin_write(BEGIN).await).await?;
        let mut tx = Connection::from(begun).with_clock(self.clock);
        match lock {
            Lock::Nothing => {}
            Lock::Agent(agent) => lock_agent(&mut tx, agent).await?,
            Lock::Parent(agent) => {
                let sql =
                    sql!("-- postgres/postgres.share\nSELECT pg_advisory_xact_lock_shared(hashtext($1))");
                query(sql).bind(FAMILIES).execute(&mut tx).await?;
                lock_agent(&mut tx, agent).await?;
            }
            Lock::Family(agent) => {
                lock_name(&mut tx, FAMILIES).await?;
                agent::lock_family(&mut tx, agent).await?;
            }
            Lock::Batches => lock_name(&mut tx, "recapd batches").await?,
            Lock::Calibrations => lock_name(&mut tx, "recapd calibrations").await?,
        }
        let outcome = work(&mut tx).await?;
        tx.commit().await?;
        Ok(outcome)
    }

    /// Leases due rows, in one statement that commits by itself.
    pub(super) async fn claim(&self, claim: &ClaimRequest) -> StoreResult<Vec<Lease>> {
        let mut connection = self.reader().await?;
        let first = self.take_tokens(&mut connection, claim.limit).await?;
        queue::claim_at_once(&mut connection, claim, first).await
    }

    /// Takes `count` fencing tokens (at most one reserved block) and returns the first.
    async fn take_tokens(&self, connection: &mut Connection, count: i64) -> StoreResult<i64> {
        let count = count.clamp(1, TOKENS_RESERVED);
        let mut tokens = self.tokens.lock().await;
        if tokens.end - tokens.start < count {
            let first = queue::reserve_tokens(connection).await?;
            *tokens = first..first + TOKENS_RESERVED;
        }
        let first = tokens.start;
        tokens.start += count;
        Ok(first)
    }

    /// Returns a connection for single statements, each of which commits by itself.
    pub(super) async fn reader(&self) -> StoreResult<Connection> {
        let reader = self.observe(self.pool.acquire().await).await?;
        Ok(Connection::from(reader).with_clock(self.clock))
    }

    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        let begun = self.observe(self.pool.begin(SNAPSHOT).await).await?;
        Ok(Connection::from(begun).with_clock(self.clock))
    }

    /// Returns what the pool returned. Counts a timeout, and replaces it with the server's own error if there is one.
    async fn observe<T: Send>(&self, acquired: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        self.pool.with_server_error(self.timeouts.observe(acquired)).await
    }

    pub(super) fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    pub(super) async fn change_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        let options = self.pool().connect_options();
        Ok(Box::new(change_listener::Notification::listen(&options).await?))
    }

    /// Vacuums the tables, so that they keep no earlier state of a row. Returns false if an earlier state may be left; a later
    /// vacuum removes it. Can't clean the server's log, index keys, backups and replicas.
    pub(super) async fn scrub(&self) -> StoreResult<bool> {
        vacuum::vacuum(&mut self.reader().await?).await
    }

    /// Registers the name `owner` among the daemons of this database.
    pub(super) async fn join(&self, owner: &str) -> StoreResult<Member> {
        Member::join(&self.pool().connect_options(), owner).await
    }

    pub(super) async fn close(self) {
        self.pool.close().await;
        if let Some(replica) = self.replica {
            replica.close().await;
        }
    }
}

/// Opens a single connection with this time limit for statements, whatever the schema is.
pub(super) async fn connect_single(
    settings: &PostgresSettings,
    statement_ms_max: u64,
) -> StoreResult<Connection> {
    // A pool would only report a timeout; a connection reports the reason.
    let options = options(&settings.url)?;
    let acquire_timeout = Duration::from_millis(settings.acquire_timeout_ms);
    let connection = with_timeout(acquire_timeout, async {
        let mut connection = options.connect().await?;
        set(&mut connection, &timeouts_of(statement_ms_max)).await?;
        Ok::<_, sqlx::Error>(connection)
    });
    Ok(TimedConnection::single(connection.await?, statement_ms_max).into())
}

/// Sets how long statements of a connection wait for locks from now on.
pub(super) async fn wait_at_most(connection: &mut PgConnection, lock_ms_max: u64) -> StoreResult<()> {
    Ok(set(connection, &[("lock_timeout", lock_ms_max)]).await?)
}

/// Locks the agent's row. If there is no row, callers that would create it take turns.
async fn lock_agent(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    if !agent::lock(tx, agent).await? {
        lock_name(tx, &format!("recapd agent {agent}")).await?;
        agent::lock(tx, agent).await?;
    }
    Ok(())
}

async fn lock_name(tx: &mut Connection, name: &str) -> StoreResult<()> {
    let sql = sql!("-- postgres/postgres.lock\nSELECT pg_advisory_xact_lock(hashtext($1))");
    query(sql).bind(name).execute(tx).await?;
    Ok(())
}

/// Returns options for opening a connection. They contain no setting that a pooler refuses; [`set`] makes such settings
/// afterwards. They leave out sqlx's `extra_float_digits`, without which floats are exact, too.
fn options(url: &str) -> StoreResult<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?;
    Ok(options.application_name("recapd").extra_float_digits(None))
}

type Settings = [(&'static str, u64)];

/// Makes settings for the whole life of the connection in one round trip. Their values are numbers, so the statement's text can
/// contain them and needs no preparation.
async fn set(connection: &mut PgConnection, settings: &Settings) -> Result<(), sqlx::Error> {
    let sets: Vec<String> = settings.iter().map(|(name, value)| format!("SET {name} = {value}")).collect();
    let sql = format!("-- postgres/postgres.set\n{}", sets.join("; "));
    connection.execute(AssertSqlSafe(sql)).await.map(drop)
}

/// Returns settings that limit the time of statements and of idle transactions, in milliseconds.
fn timeouts_of(timeout_ms: u64) -> [(&'static str, u64); 2] {
    [("statement_timeout", timeout_ms), ("idle_in_transaction_session_timeout", timeout_ms)]
}

/// Opens a separate connection with these settings, which listens to these channels.
async fn listener(
    options: &PgConnectOptions,
    settings: &'static Settings,
    channels: &[&str],
) -> Result<PgListener, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(PULSE)
        .after_connect(move |connection, _| Box::pin(set(connection, settings)))
        .connect_with(options.clone())
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    with_timeout(PULSE, listener.listen_all(channels.iter().copied())).await?;
    Ok(listener)
}

async fn pool(settings: &PostgresSettings, url: &str) -> StoreResult<TimedPool> {
    let acquire_timeout = Duration::from_millis(settings.acquire_timeout_ms);
    let options = options(url)?;
    // The pool itself reports only a timeout if the server refuses the connection.
    let pool = match pool_options(settings, acquire_timeout).connect_with(options.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => return Err(refusal(&options).await.into()),
        result => result?,
    };
    let writers = writers_max(settings.connections);
    Ok(TimedPool::over(pool, settings.statement_timeout_ms).with_writers(writers))
}

/// Returns how many of these connections may write at the same time.
fn writers_max(connections: u32) -> usize {
    let readers = (connections / READERS_SHARE).max(1);
    usize_or_max(connections.saturating_sub(readers).max(1))
}

/// Makes a pool that pings only connections that were idle for a while. A ping before every use would cost a round trip per
/// statement.
fn pool_options(settings: &PostgresSettings, acquire_timeout: Duration) -> PgPoolOptions {
    let timeout_ms = settings.statement_timeout_ms;
    // If a dead connection doesn't answer the ping, the other half of the time is left to open a new one.
    let ping_max = PULSE.min(acquire_timeout / 2);
    PgPoolOptions::new()
        .max_connections(settings.connections.max(1))
        .acquire_timeout(acquire_timeout)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(async move { set(connection, &timeouts_of(timeout_ms)).await })
        })
        .before_acquire(move |connection, meta| {
            Box::pin(async move {
                Ok(meta.idle_for < TRUSTED || with_timeout(ping_max, connection.ping()).await.is_ok())
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_are_reserved_for_reads() {
        let writers = [1, 2, 3, 8, 16].map(writers_max);
        assert_eq!(writers, [1, 1, 2, 6, 12]);
    }

    #[test]
    fn a_connection_starts_without_settings_that_poolers_refuse() {
        let options = options("postgres://recapd@db/recapd").unwrap();
        assert_eq!(options.get_options(), None);
        assert!(!format!("{options:?}").contains("extra_float_digits: Some"));
    }
}
