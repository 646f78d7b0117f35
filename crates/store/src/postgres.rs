//! The database of a fleet: PostgreSQL, a pool of connections, as many daemons as are wanted.
//!
//! Each operation that writes is a transaction of its own and begins by locking the agent's row, then the queue's: in
//! this order, so that none waits for another in a circle. What several statements read, they read from one snapshot.
//!
//! A daemon may stop in the midst of a transaction (its machine is suspended), and then holds its agent until the server cuts it off.
//! Writes of other agents must go on meanwhile: writes of one agent wait in the process and not with a connection each
//! ([`admission`]), a write that finds its row held gives its connection back and tries again, and some connections are for reads alone.

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
use timed::{TimedPool, refusal, within};

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`.
    pub url: String,
    /// A standby that answers what only reads and may be a moment old; none: the same server.
    pub read_url: Option<String>,
    /// How far behind that one may be.
    pub read_lag_ms_max: u64,
    /// How long a read waits for that one before the server itself is asked; [`READ_PATIENCE_MS`] outside of tests.
    pub read_patience_ms: u64,
    /// The most connections to each server.
    pub connections: u32,
    /// How long an operation waits for a connection.
    pub acquire_timeout_ms: u64,
    /// How long a statement may run. Its answer is waited for a little longer, and then the connection is closed.
    pub statement_timeout_ms: u64,
    /// Whose clock judges leases and backoffs.
    pub clock: Clock,
}

/// Whose clock judges leases and backoffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The server's, so that the daemons' clocks don't matter.
    Database,
    /// The caller's: for tests, which move it by hand.
    Caller,
}

/// A write waits for a row for a moment only, with its connection: about as long as an ordinary transaction holds one. And the server
/// ends a transaction from which it hears nothing for some seconds, in milliseconds both.
const BEGIN: &str =
    "BEGIN; SET LOCAL lock_timeout = 50; SET LOCAL idle_in_transaction_session_timeout = 3000";
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// So often a transaction is tried at least, that the server undoes for the sake of another one or that finds a row held …
const TRIES_MIN: u32 = 4;
/// … with this pause before the second try; each further one is twice as long …
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// … up to this one.
const RETRY_MAX: Duration = Duration::from_millis(200);
/// One of so many connections is for what doesn't wait for rows: reads, claims, readiness.
const READERS_SHARE: u32 = 4;
/// Who holds this makes no fork, and locks a whole family; who shares it makes forks.
const FAMILIES: &str = "recapd families";
/// A connection that was used within this time is taken to be alive.
const TRUSTED: Duration = Duration::from_secs(1);

/// An open database.
pub(super) struct Postgres {
    pool: TimedPool,
    admission: Admission,
    /// How long a write waits for its turn, and tries to get what it locks.
    patience: Duration,
    timeouts: Timeouts,
    /// Of a server that is a moment behind, for reads that may be.
    replica: Option<Replica>,
    clock: Clock,
    /// Tokens that are reserved for this process and not given out.
    tokens: Mutex<Range<i64>>,
}

impl Postgres {
    /// Connects, and brings the schema up to date.
    pub(super) async fn open(settings: &PostgresSettings) -> StoreResult<Self> {
        super::schema::migrate(&mut alone(settings, super::schema::STATEMENT_MS_MAX).await?).await?;
        Self::over(settings).await
    }

    /// Connects to a database that has this recapd's schema already.
    pub(super) async fn look(settings: &PostgresSettings) -> StoreResult<Self> {
        let postgres = Self::over(settings).await?;
        super::schema::check(&mut postgres.reader().await?).await?;
        Ok(postgres)
    }

    /// As [`Self::look`], for daemon work.
    pub(super) async fn open_as_is(settings: &PostgresSettings) -> StoreResult<Self> {
        let postgres = Self::look(settings).await?;
        super::schema::check_closed(&mut postgres.reader().await?).await?;
        Ok(postgres)
    }

    /// Its connections.
    pub(super) fn pool(&self) -> &PgPool {
        self.pool.pool()
    }

    /// How often one of them was waited for in vain.
    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts.count()
    }

    async fn over(settings: &PostgresSettings) -> StoreResult<Self> {
        Ok(Self {
            pool: pool(settings, &settings.url).await?,
            admission: Admission::default(),
            patience: Duration::from_millis(settings.acquire_timeout_ms),
            timeouts: Timeouts::default(),
            replica: settings
                .read_url
                .as_deref()
                .map(|url| Replica::of(settings, url))
                .transpose()?,
            clock: settings.clock,
            tokens: Mutex::new(0..0),
        })
    }

    /// Runs `work` in a transaction, and again if the server undid it for the sake of another one, or somebody holds what it locks.
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

    /// Leases what is due, in one statement that commits by itself.
    pub(super) async fn claim(&self, claim: &ClaimRequest) -> StoreResult<Vec<Lease>> {
        let mut connection = self.reader().await?;
        let first = self.take_tokens(&mut connection, claim.limit).await?;
        queue::claim_at_once(&mut connection, claim, first).await
    }

    /// The first of so many tokens, at most as many as are reserved at a time.
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

    /// A connection for single statements, each of which commits by itself.
    pub(super) async fn reader(&self) -> StoreResult<Connection> {
        let reader = self.observe(self.pool.acquire().await).await?;
        Ok(Connection::from(reader).with_clock(self.clock))
    }

    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        let begun = self.observe(self.pool.begin(SNAPSHOT).await).await?;
        Ok(Connection::from(begun).with_clock(self.clock))
    }

    /// What the pool gave, counted if it gave nothing in time.
    async fn observe<T: Send>(&self, given: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        self.pool.explained(self.timeouts.observe(given)).await
    }

    /// The standby that may be asked instead, if there is one.
    pub(super) fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    pub(super) async fn bell(&self) -> StoreResult<Box<dyn ChangeListener>> {
        let options = self.pool().connect_options();
        Ok(Box::new(change_listener::Notification::listen(&options).await?))
    }

    /// Vacuums the tables, so that no earlier state of a row is left in them. What the server keeps besides (its log, keys of
    /// indexes, backups, replicas) is not ours to reach. False if rows may be left, which a later vacuum takes away.
    pub(super) async fn scrub(&self) -> StoreResult<bool> {
        vacuum::vacuum(&mut self.reader().await?).await
    }

    /// Takes the name `owner` among the daemons of this database.
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

/// One connection, whatever the schema is; statements may take so long.
pub(super) async fn alone(settings: &PostgresSettings, statement_ms_max: u64) -> StoreResult<Connection> {
    // Of a pool one hears only that it waited in vain; of a connection, why.
    let options = options(&settings.url)?;
    let acquire_timeout = Duration::from_millis(settings.acquire_timeout_ms);
    let connection = within(acquire_timeout, async {
        let mut connection = options.connect().await?;
        set(&mut connection, &patience(statement_ms_max)).await?;
        Ok::<_, sqlx::Error>(connection)
    });
    Ok(TimedConnection::alone(connection.await?, statement_ms_max).into())
}

/// How long statements of a connection wait for locks from now on.
pub(super) async fn wait_at_most(connection: &mut PgConnection, lock_ms_max: u64) -> StoreResult<()> {
    Ok(set(connection, &[("lock_timeout", lock_ms_max)]).await?)
}

/// Locks the agent's row. Where there is none, those who would make one come one after the other.
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

/// How a connection begins: with nothing that a pooler before the server refuses. Settings are made afterwards, by [`set`], and
/// floats are exact without one.
fn options(url: &str) -> StoreResult<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?;
    Ok(options.application_name("recapd").extra_float_digits(None))
}

/// Settings of a session, and their values.
type Settings = [(&'static str, u64)];

/// Makes settings that hold for as long as the connection does. They are numbers, so that they can stand in the text: then
/// nothing is prepared, and one round trip makes them all.
async fn set(connection: &mut PgConnection, settings: &Settings) -> Result<(), sqlx::Error> {
    let sets: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("SET {name} = {value}"))
        .collect();
    let sql = format!("-- postgres/postgres.set\n{}", sets.join("; "));
    connection.execute(AssertSqlSafe(sql)).await.map(drop)
}

/// How long a statement may run, and a transaction be left alone, in milliseconds.
fn patience(timeout_ms: u64) -> [(&'static str, u64); 2] {
    [
        ("statement_timeout", timeout_ms),
        ("idle_in_transaction_session_timeout", timeout_ms),
    ]
}

/// A connection of its own with these settings, which hears these channels.
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
    within(PULSE, listener.listen_all(channels.iter().copied())).await?;
    Ok(listener)
}

async fn pool(settings: &PostgresSettings, url: &str) -> StoreResult<TimedPool> {
    let acquire_timeout = Duration::from_millis(settings.acquire_timeout_ms);
    let options = options(url)?;
    let pool = match pooled(settings, acquire_timeout)
        .connect_with(options.clone())
        .await
    {
        Err(sqlx::Error::PoolTimedOut) => return Err(refusal(&options).await.into()),
        made => made?,
    };
    let writers = writers_max(settings.connections);
    Ok(TimedPool::over(pool, settings.statement_timeout_ms).with_writers(writers))
}

/// How many of so many connections may write at the same time.
fn writers_max(connections: u32) -> usize {
    let readers = (connections / READERS_SHARE).max(1);
    usize_or_max(connections.saturating_sub(readers).max(1))
}

/// To ask each connection whether it lives before each use would be a round trip per statement.
fn pooled(settings: &PostgresSettings, acquire_timeout: Duration) -> PgPoolOptions {
    let timeout_ms = settings.statement_timeout_ms;
    // Where one that is dead doesn't answer, the other half is for a new one.
    let ping_max = PULSE.min(acquire_timeout / 2);
    PgPoolOptions::new()
        .max_connections(settings.connections.max(1))
        .acquire_timeout(acquire_timeout)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(async move { set(connection, &patience(timeout_ms)).await })
        })
        .before_acquire(move |connection, meta| {
            Box::pin(async move {
                Ok(meta.idle_for < TRUSTED || within(ping_max, connection.ping()).await.is_ok())
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_are_for_who_reads() {
        let writers = [1, 2, 3, 8, 16].map(writers_max);
        assert_eq!(writers, [1, 1, 2, 6, 12]);
    }

    #[test]
    fn a_connection_begins_without_what_poolers_refuse() {
        let options = options("postgres://recapd@db/recapd").unwrap();
        assert_eq!(options.get_options(), None);
        assert!(!format!("{options:?}").contains("extra_float_digits: Some"));
    }
}
