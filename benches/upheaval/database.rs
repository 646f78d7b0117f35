//! The database with the large agents, and its copies.

use std::{fs, path::Path, sync::Arc};

use anyhow::Context as _;
use recapd_config::Config;
use recapd_engine::assembly::{self, Parts};
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::SystemClock;
use recapd_store::SqlStore;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, postgres::PgConnectOptions};
use tempfile::TempDir;

/// The variable that holds the URL of a PostgreSQL database.
const SERVER: &str = "RECAPD_TEST_POSTGRES";
const FILE: &str = "recapd.db";

/// The database from which copies are made.
pub(crate) enum Model {
    Sqlite(TempDir),
    Postgres { server: Box<PgConnectOptions>, name: String },
}

/// An open database with the daemon's parts; no background task runs.
pub(crate) struct OpenDatabase {
    pub(crate) parts: Parts,
    store: Arc<SqlStore>,
    /// The copy's folder; deleted when this value is dropped.
    folder: Option<TempDir>,
    copy: Option<(Box<PgConnectOptions>, String)>,
}

pub(crate) fn models() -> anyhow::Result<Vec<Model>> {
    let mut models = vec![Model::Sqlite(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)];
    #[expect(clippy::disallowed_methods, reason = "a bench's setting")]
    if let Ok(url) = std::env::var(SERVER) {
        models.push(Model::Postgres { server: Box::new(url.parse()?), name: name() });
    }
    Ok(models)
}

fn name() -> String {
    format!("recapd_bench_{:016x}", fastrand::u64(..))
}

impl Model {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres { .. } => "PostgreSQL",
        }
    }

    pub(crate) async fn begin(&self) -> anyhow::Result<OpenDatabase> {
        match self {
            Self::Sqlite(folder) => open(sqlite(folder.path()), None, None).await,
            Self::Postgres { server, name } => {
                run(server, format!("CREATE DATABASE {name}")).await?;
                open(postgres(server, name), None, None).await
            }
        }
    }

    pub(crate) async fn copy(&self) -> anyhow::Result<OpenDatabase> {
        match self {
            Self::Sqlite(folder) => {
                let copy = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
                fs::copy(folder.path().join(FILE), copy.path().join(FILE))?;
                open(sqlite(copy.path()), Some(copy), None).await
            }
            Self::Postgres { server, name } => {
                let copy = self::name();
                run(server, format!("CREATE DATABASE {copy} TEMPLATE {name}")).await?;
                let own = (server.clone(), copy.clone());
                open(postgres(server, &copy), None, Some(own)).await
            }
        }
    }

    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(folder) => Ok(folder.close()?),
            Self::Postgres { server, name } => {
                run(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await
            }
        }
    }
}

impl OpenDatabase {
    /// Closes the database; deletes a copy.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        drop(self.parts);
        // Closing completes the file, so that it can be copied.
        let store = Arc::into_inner(self.store);
        store.context("somebody still holds the store")?.close().await;
        if let Some(folder) = self.folder {
            folder.close()?;
        }
        if let Some((server, name)) = self.copy {
            run(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        }
        Ok(())
    }
}

fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}", folder.join(FILE).display())
}

fn postgres(server: &PgConnectOptions, name: &str) -> String {
    server.clone().database(name).to_url_lossy().into()
}

async fn open(
    url: String,
    folder: Option<TempDir>,
    copy: Option<(Box<PgConnectOptions>, String)>,
) -> anyhow::Result<OpenDatabase> {
    let mut config = Config::default();
    config.database.url = url;
    let store = Arc::new(SqlStore::open(&assembly::database_settings(&config.database)).await?);
    let configured = (&config, config.spend.prices()?);
    let parts =
        Parts::new(configured, store.clone(), Arc::new(OfflineModel), Arc::new(SystemClock), "bench", 0);
    Ok(OpenDatabase { parts, store, folder, copy })
}

async fn run(server: &PgConnectOptions, sql: String) -> anyhow::Result<()> {
    let mut connection: PgConnection = server.connect().await?;
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    Ok(())
}
