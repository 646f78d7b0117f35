//! A new database on the disk that holds the build, so that a sync really waits for a disk.

use std::{path::Path, sync::Arc};

use recapd_config::{Config, Synchronous};
use recapd_engine::assembly::{self, Parts};
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::SystemClock;
use recapd_store::SqlStore;
use tempfile::TempDir;

pub(crate) const DATABASE: &str = "recapd.db";

/// A temporary folder with a database, and the daemon's parts over it.
pub(crate) struct Place {
    /// The folder of the database [`DATABASE`]; deleted when this value is dropped.
    pub(crate) folder: TempDir,
    /// The daemon's parts; no background task runs.
    pub(crate) parts: Parts,
}

pub(crate) fn disk() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Opens a new database within `parent`, with the default configuration as changed by `configure`.
pub(crate) async fn open(
    parent: &Path,
    synchronous: Synchronous,
    configure: impl FnOnce(&mut Config),
) -> anyhow::Result<Place> {
    let folder = tempfile::tempdir_in(parent)?;
    let mut config = Config::default();
    configure(&mut config);
    config.database.url = format!("sqlite:{}", folder.path().join(DATABASE).display());
    config.database.synchronous = synchronous;
    let store = SqlStore::open(&assembly::database_settings(&config.database)).await?;
    let model = Arc::new(OfflineModel);
    let (configured, store) = ((&config, config.spend.prices()?), Arc::new(store));
    let parts = Parts::new(configured, store, model, Arc::new(SystemClock), "bench", 0);
    Ok(Place { folder, parts })
}
