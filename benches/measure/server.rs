//! A new database on the PostgreSQL server that `RECAPD_TEST_POSTGRES` names. `scripts/with-postgres --durable` starts
//! a server that syncs to its disk.

use std::sync::Arc;

use recapd_config::Config;
use recapd_engine::assembly::{self, Parts};
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::SystemClock;
use recapd_store::SqlStore;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};

/// The variable that holds the URL of a database of the server.
pub(crate) const SERVER: &str = "RECAPD_TEST_POSTGRES";

/// An empty database with recapd's schema, and the daemon's parts over it.
pub(crate) struct ServerDatabase {
    /// The daemon's parts; no background task runs.
    pub(crate) parts: Parts,
    /// A connection that bypasses the store.
    pub(crate) bare: PgConnection,
    server: PgConnectOptions,
    name: String,
}

/// Opens a new database with the default configuration. Returns `None` if no server is named.
pub(crate) async fn open() -> anyhow::Result<Option<ServerDatabase>> {
    #[expect(clippy::disallowed_methods, reason = "a bench's setting")]
    let Ok(url) = std::env::var(SERVER) else {
        return Ok(None);
    };
    let server: PgConnectOptions = url.parse()?;
    let name = format!("recapd_bench_{:016x}", fastrand::u64(..));
    run(&mut server.connect().await?, format!("CREATE DATABASE {name}")).await?;
    let own = server.clone().database(&name);
    let mut config = Config::default();
    config.database.url = own.to_url_lossy().into();
    let store = SqlStore::open(&assembly::database_settings(&config.database)).await?;
    let model = Arc::new(OfflineModel);
    let (configured, store) = ((&config, config.spend.prices()?), Arc::new(store));
    let parts = Parts::new(configured, store, model, Arc::new(SystemClock), "bench", 0);
    let bare = own.connect().await?;
    Ok(Some(ServerDatabase { parts, bare, server, name }))
}

impl ServerDatabase {
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        self.bare.close().await?;
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        run(&mut self.server.connect().await?, drop).await
    }
}

async fn run(connection: &mut PgConnection, sql: String) -> anyhow::Result<()> {
    sqlx::query(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}
