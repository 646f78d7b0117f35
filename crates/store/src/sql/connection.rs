//! A connection to either database, with the clock that its statements use.

use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction, pool::PoolConnection};

use super::{
    direct,
    query::query,
    statement::{SqlDialect, sql},
};
use crate::postgres::{Clock, TimedConnection};
use recapd_core::domain::time::Timestamp;

/// A connection, or a transaction that is rolled back when it is dropped without a commit.
pub(crate) struct Connection {
    link: DriverHandle,
    clock: Clock,
    /// The database's time, once it is read.
    now: Option<Timestamp>,
}

enum DriverHandle {
    Direct(rusqlite::Connection),
    Sqlite(SqliteConnection),
    SqlitePooled(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
    Postgres(TimedConnection),
}

/// The underlying connection to either database.
pub(crate) enum DriverConnection<'c> {
    /// SQLite, called on the current thread.
    Direct(&'c mut rusqlite::Connection),
    /// SQLite, through sqlx.
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut TimedConnection),
}

impl Connection {
    pub(crate) fn driver(&mut self) -> DriverConnection<'_> {
        match &mut self.link {
            DriverHandle::Direct(connection) => DriverConnection::Direct(connection),
            DriverHandle::Sqlite(connection) => DriverConnection::Sqlite(connection),
            DriverHandle::SqlitePooled(connection) => DriverConnection::Sqlite(connection),
            DriverHandle::SqliteTransaction(connection) => DriverConnection::Sqlite(connection),
            DriverHandle::Postgres(connection) => DriverConnection::Postgres(connection),
        }
    }

    pub(crate) fn dialect(&self) -> SqlDialect {
        match &self.link {
            DriverHandle::Direct(_)
            | DriverHandle::Sqlite(_)
            | DriverHandle::SqlitePooled(_)
            | DriverHandle::SqliteTransaction(_) => SqlDialect::Sqlite,
            DriverHandle::Postgres(_) => SqlDialect::Postgres,
        }
    }

    /// Commits a transaction. Does nothing on a plain connection.
    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        match self.link {
            DriverHandle::SqliteTransaction(transaction) => transaction.commit().await,
            DriverHandle::Postgres(connection) => connection.commit().await,
            DriverHandle::Direct(_) | DriverHandle::Sqlite(_) | DriverHandle::SqlitePooled(_) => Ok(()),
        }
    }

    /// Closes a connection to a file and waits for the close. A dropped connection would keep its locks for a moment.
    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        match self.link {
            DriverHandle::Direct(connection) => {
                connection.close().map_err(|(_, error)| direct::failure(error))
            }
            DriverHandle::Sqlite(connection) => connection.close().await,
            // Dropping these returns them to the pool, rolls them back, or closes them.
            _ => Ok(()),
        }
    }

    /// Sets which clock leases and backoffs use.
    pub(crate) fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Returns the caller's time if leases and backoffs use the caller's clock; `None` if they use the database's.
    pub(crate) fn caller_time(&self, callers: Timestamp) -> Option<Timestamp> {
        (self.clock == Clock::Caller).then_some(callers)
    }

    /// Returns the time for leases and backoffs: the database's if daemons share the database, otherwise the caller's. Stays the
    /// same within a transaction.
    pub(crate) async fn now(&mut self, callers: Timestamp) -> Result<Timestamp, sqlx::Error> {
        if self.clock == Clock::Caller {
            return Ok(callers);
        }
        if let Some(now) = self.now {
            return Ok(now);
        }
        let now =
            query(sql!("-- postgres/connection.now\nSELECT now()")).fetch_one(self).await?.try_get(0)?;
        self.now = Some(now);
        Ok(now)
    }
}

macro_rules! links {
    ($($link:ident: $type:ty),+ $(,)?) => {$(
        impl From<$type> for Connection {
            fn from(connection: $type) -> Self {
                Self {
                    link: DriverHandle::$link(connection),
                    clock: Clock::Caller,
                    now: None,
                }
            }
        }
    )+};
}
links!(
    Direct: rusqlite::Connection,
    Sqlite: SqliteConnection,
    SqlitePooled: PoolConnection<Sqlite>,
    SqliteTransaction: Transaction<'static, Sqlite>,
    Postgres: TimedConnection,
);
