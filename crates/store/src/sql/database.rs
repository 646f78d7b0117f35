//! Opens the database under the store, and reads and writes it.

use futures::future::BoxFuture;

use super::{
    super::{StoreError, StoreResult, inbox::ChangeListener},
    Connection, query, sql,
    statement::SqlDialect,
};
use crate::{
    postgres::{Member, Postgres, PostgresSettings},
    schema::{self, Schema},
    sqlite::{Sqlite, SqliteSettings, WriteSize},
};
use recapd_core::domain::{agent::AgentId, work::Fairness};

#[derive(Clone, Debug)]
pub enum DatabaseSettings {
    /// A file, for one daemon.
    Sqlite(SqliteSettings),
    /// A server, for any number of daemons.
    Postgres(PostgresSettings),
}

impl From<SqliteSettings> for DatabaseSettings {
    fn from(settings: SqliteSettings) -> Self {
        Self::Sqlite(settings)
    }
}

impl From<PostgresSettings> for DatabaseSettings {
    fn from(settings: PostgresSettings) -> Self {
        Self::Postgres(settings)
    }
}

/// The lock that a writing operation takes before anything else, if others may write at the same time. Rows of the queue are locked after
/// it, which prevents deadlocks.
#[derive(Clone, Debug)]
pub(crate) enum Lock {
    /// For operations that change only rows of the queue, or rows that no other operation changes.
    Nothing,
    /// The agent's row. Everything that belongs to an agent is changed under this lock.
    Agent(AgentId),
    /// The rows of all agents that may share messages with this one through forks, in order of their ids.
    Family(AgentId),
    /// The row of an agent that is being forked. Nothing locks its whole family meanwhile.
    Parent(AgentId),
    Batches,
    Calibrations,
}

pub struct SqlStore {
    database: Database,
    fairness: Fairness,
}

enum Database {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Open and idle.
    pub idle: u32,
    pub in_use: u32,
    /// The most that may be open.
    pub max: u32,
    /// How often no connection became free in time, since the pool was made.
    pub timeouts: u64,
}

impl Connections {
    fn of<D: sqlx::Database>(pool: &sqlx::Pool<D>, timeouts: u64) -> Self {
        let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
        Self {
            idle,
            in_use: pool.size().saturating_sub(idle),
            max: pool.options().get_max_connections(),
            timeouts,
        }
    }
}

impl SqlStore {
    /// Opens the database for a daemon: creates a missing file and brings the schema up to date. A file is locked until the store is
    /// dropped.
    ///
    /// # Errors
    /// [`StoreError::InUse`](crate::StoreError::InUse), [`StoreError::Schema`](crate::StoreError::Schema) or
    /// [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    pub async fn open(settings: &DatabaseSettings) -> StoreResult<Self> {
        let database = match settings {
            DatabaseSettings::Sqlite(settings) => Database::Sqlite(Box::new(Sqlite::open(settings).await?)),
            DatabaseSettings::Postgres(settings) => {
                Database::Postgres(Box::new(Postgres::open(settings).await?))
            }
        };
        Ok(Self::over(database))
    }

    /// Works like [`Self::open`], but the schema must be up to date already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_as_is(settings: &DatabaseSettings) -> StoreResult<Self> {
        let database = match settings {
            DatabaseSettings::Sqlite(settings) => {
                Database::Sqlite(Box::new(Sqlite::open_as_is(settings).await?))
            }
            DatabaseSettings::Postgres(settings) => {
                Database::Postgres(Box::new(Postgres::open_as_is(settings).await?))
            }
        };
        Ok(Self::over(database))
    }

    /// Opens an existing database for reading, while a daemon may run.
    ///
    /// # Errors
    /// As [`Self::open`]; a missing database is [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    pub async fn look(settings: &DatabaseSettings) -> StoreResult<Self> {
        let database = match settings {
            DatabaseSettings::Sqlite(settings) => Database::Sqlite(Box::new(Sqlite::look(settings).await?)),
            DatabaseSettings::Postgres(settings) => {
                Database::Postgres(Box::new(Postgres::look(settings).await?))
            }
        };
        Ok(Self::over(database))
    }

    fn over(database: Database) -> Self {
        let fairness = Fairness::default();
        Self { database, fairness }
    }

    /// Places rows of the queue by `fairness`.
    #[must_use]
    pub fn with_fairness(self, fairness: Fairness) -> Self {
        Self { fairness, ..self }
    }

    /// Takes the name `owner` among the daemons that share this database; `None` where there is only one daemon.
    ///
    /// # Errors
    /// [`StoreError::InUse`](crate::StoreError::InUse) when another daemon has that name, or
    /// [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    pub async fn join(&self, owner: &str) -> StoreResult<Option<Member>> {
        match &self.database {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(postgres) => postgres.join(owner).await.map(Some),
        }
    }

    /// Fails if the next write is likely to fail, as far as that shows without one: reads continue to work on a file that was moved or a
    /// disk that is full.
    pub(super) fn is_well(&self) -> StoreResult<()> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.is_well(),
            Database::Postgres(_) => Ok(()),
        }
    }

    pub(super) fn dialect(&self) -> SqlDialect {
        match &self.database {
            Database::Sqlite(_) => SqlDialect::Sqlite,
            Database::Postgres(_) => SqlDialect::Postgres,
        }
    }

    /// Runs `work` in a transaction, and returns after its commit.
    pub(super) async fn write<F, T>(&self, lock: Lock, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static,
        T: Send + 'static,
    {
        self.write_extent(lock, WriteSize::Bounded, work).await
    }

    /// Runs `work` of this extent in a transaction.
    pub(super) async fn write_extent<F, T>(&self, lock: Lock, extent: WriteSize, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static,
        T: Send + 'static,
    {
        let work = fairly(self.fairness, work);
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.write(extent, work).await,
            Database::Postgres(postgres) => postgres.write(lock, work).await,
        }
    }

    /// Returns the PostgreSQL store, if it is one, for operations that are cheaper there.
    pub(super) fn postgres(&self) -> Option<&Postgres> {
        match &self.database {
            Database::Sqlite(_) => None,
            Database::Postgres(postgres) => Some(postgres),
        }
    }

    /// Reads the state of this database's schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](super::super::StoreError::Unavailable).
    pub async fn schema(&self) -> StoreResult<Schema> {
        schema::read(&mut self.reader().await?).await
    }

    /// Returns a connection for a single reading statement.
    pub(super) async fn reader(&self) -> StoreResult<Connection> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.reader().await,
            Database::Postgres(postgres) => postgres.reader().await,
        }
    }

    /// Begins a reading transaction, whose statements all see the same state.
    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.snapshot().await,
            Database::Postgres(postgres) => postgres.snapshot().await,
        }
    }

    /// Reads a state that may be a moment old, so that the caller's last write may be missing. Uses a standby if one can answer.
    pub(super) async fn past<T, F>(&self, read: impl Fn(Connection) -> F + Send + Sync) -> StoreResult<T>
    where
        F: Future<Output = StoreResult<T>> + Send,
        T: Send,
    {
        if let Some(replica) = self.postgres().and_then(Postgres::replica)
            && let Some(answer) = replica.read(&read).await
        {
            return Ok(answer);
        }
        read(self.snapshot().await?).await
    }

    /// Works like [`Self::past`], but asks the primary if the standby lacks the row.
    pub(super) async fn past_found<T, F>(
        &self,
        read: impl Fn(Connection) -> F + Send + Sync,
    ) -> StoreResult<Option<T>>
    where
        F: Future<Output = StoreResult<Option<T>>> + Send,
        T: Send,
    {
        if let Some(replica) = self.postgres().and_then(Postgres::replica)
            && let Some(Some(answer)) = replica.read(&read).await
        {
            return Ok(Some(answer));
        }
        read(self.snapshot().await?).await
    }

    pub(super) async fn bell(&self) -> StoreResult<Box<dyn ChangeListener>> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.bell().await,
            Database::Postgres(postgres) => postgres.bell().await,
        }
    }

    /// Removes deleted data from the database's files. Returns false if some may remain.
    pub(super) async fn scrub(&self) -> StoreResult<bool> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.scrub().await,
            Database::Postgres(postgres) => postgres.scrub().await,
        }
    }

    /// Works like [`Self::scrub`], after a commit; a failure counts as false.
    pub(super) async fn scrub_after(&self) -> bool {
        match self.scrub().await {
            Ok(is_scrubbed) => is_scrubbed,
            Err(error) => {
                tracing::warn!(%error, "store.not_scrubbed");
                false
            }
        }
    }

    /// Returns the figures of the connection pool; on SQLite, of the readers' pool.
    pub fn connections(&self) -> Connections {
        match &self.database {
            Database::Sqlite(sqlite) => Connections::of(sqlite.pool(), sqlite.timeouts()),
            Database::Postgres(postgres) => Connections::of(postgres.pool(), postgres.timeouts()),
        }
    }

    /// Waits for running writes and closes the database.
    pub async fn close(self) {
        match self.database {
            Database::Sqlite(sqlite) => sqlite.close().await,
            Database::Postgres(postgres) => postgres.close().await,
        }
    }
}

/// Wraps `work` so that its connection knows how to place rows of the queue.
fn fairly<F, T>(
    fairness: Fairness,
    work: F,
) -> impl for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static
where
    F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static,
    T: Send + 'static,
{
    move |tx| {
        tx.set_fairness(fairness);
        work(tx)
    }
}

/// Makes a round trip, and checks that the server takes writes.
///
/// # Errors
/// If it doesn't.
pub(super) async fn ping(connection: &mut Connection) -> StoreResult<()> {
    let sql = sql!(
        sqlite: "-- sql/database.ping\nSELECT 0",
        postgres: "-- sql/database.ping\nSELECT CAST(current_setting('transaction_read_only') AS boolean)",
    );
    let only_reads: bool = query(sql).fetch_one(connection).await?.try_get(0)?;
    if only_reads {
        let reason = "its server only reads: it is a standby, or set so; see database.url";
        return Err(StoreError::Unavailable(reason.into()));
    }
    Ok(())
}
