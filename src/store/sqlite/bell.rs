//! Hears that somebody else has written to the file: `data_version` moves with the commits of other connections, so it is
//! looked at by one that never writes. A look takes some microseconds and no lock.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};

use super::super::{StoreResult, inbox::Bell};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// A bell over a connection of its own.
pub(super) struct DataVersion {
    connection: SqliteConnection,
    seen: i64,
}

impl DataVersion {
    /// Rings for commits from now on.
    pub(super) async fn open(options: &SqliteConnectOptions) -> StoreResult<Self> {
        let mut connection = SqliteConnection::connect_with(&options.clone().read_only(true)).await?;
        let seen = data_version(&mut connection).await?;
        Ok(Self { connection, seen })
    }
}

#[async_trait]
impl Bell for DataVersion {
    async fn rung(&mut self) -> StoreResult<()> {
        loop {
            let version = data_version(&mut self.connection).await?;
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn data_version(connection: &mut SqliteConnection) -> StoreResult<i64> {
    let sql = "-- sqlite/bell.data_version\nPRAGMA data_version";
    Ok(sqlx::query(sql).fetch_one(connection).await?.try_get(0)?)
}
