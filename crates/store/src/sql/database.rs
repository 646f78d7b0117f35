//! Opens the database, and runs the store's reads and writes in it.

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
use recapd_core::domain::agent::AgentId;

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

/// The lock that a write takes first, on a database with several writers. A write locks rows of the queue only after this lock,
/// which prevents deadlocks.
#[derive(Clone, Debug)]
pub(crate) enum Lock {
    /// For operations that change only rows of the queue, or rows that no other operation changes.
    Nothing,
    /// Locks the agent's row. Everything that belongs to an agent changes only under this lock.
    Agent(AgentId),
    /// Locks the rows of all agents that may share messages with this one through forks, in order of their ids.
    Family(AgentId),
    /// Locks the row of an agent that is being forked. No other transaction can lock its whole family meanwhile.
    Parent(AgentId),
    Batches,
    Calibrations,
}

pub struct SqlStore {
    database: Database,
}

enum Database {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Open connections that nobody uses.
    pub idle: u32,
    pub in_use: u32,
    /// The most connections that may be open.
    pub max: u32,
    /// How often a caller waited in vain for a free connection, since the pool was made.
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
    /// Opens the database for a daemon. Creates a missing file, and brings the schema up to date. Locks a file until the store is
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
        Ok(Self::with_database(database))
    }

    /// Opens the database for a daemon like [`Self::open`], but fails if the schema isn't up to date.
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
        Ok(Self::with_database(database))
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
        Ok(Self::with_database(database))
    }

    fn with_database(database: Database) -> Self {
        Self { database }
    }

    /// Registers the name `owner` among the daemons that share this database. Returns `None` for a database that only one daemon
    /// can use.
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

    /// Fails if the next write is likely to fail, as far as this shows without writing. Reads don't show it: they still work if
    /// the file was moved or the disk is full.
    pub(super) fn check_writable(&self) -> StoreResult<()> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.check_condition(),
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
        self.write_sized(lock, WriteSize::Bounded, work).await
    }

    /// Runs `work` in a transaction of this size, and returns after its commit.
    pub(super) async fn write_sized<F, T>(&self, lock: Lock, size: WriteSize, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Clone + Send + 'static,
        T: Send + 'static,
    {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.write(size, work).await,
            Database::Postgres(postgres) => postgres.write(lock, work).await,
        }
    }

    /// Returns the PostgreSQL store, if this is one, for operations that are cheaper there.
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

    /// Begins a reading transaction. All its statements see the same state.
    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.snapshot().await,
            Database::Postgres(postgres) => postgres.snapshot().await,
        }
    }

    /// Reads a state that may be a moment old and lack the caller's last write. Asks a standby if one can answer.
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

    /// Works like [`Self::past`], but asks the primary if the standby doesn't have the row.
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

    pub(super) async fn change_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.change_listener().await,
            Database::Postgres(postgres) => postgres.change_listener().await,
        }
    }

    /// Overwrites deleted data in the database's files. Returns false if some may remain.
    pub(super) async fn scrub(&self) -> StoreResult<bool> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.scrub().await,
            Database::Postgres(postgres) => postgres.scrub().await,
        }
    }

    /// Works like [`Self::scrub`], but counts a failure as false, because the caller's write is committed already.
    pub(super) async fn scrub_after(&self) -> bool {
        match self.scrub().await {
            Ok(is_scrubbed) => is_scrubbed,
            Err(error) => {
                tracing::warn!(%error, "store.not_scrubbed");
                false
            }
        }
    }

    /// Returns the figures of the connection pool. On SQLite these are the figures of the readers' pool.
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

/// Makes a round trip to the database.
///
/// # Errors
/// If the server doesn't accept writes.
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
