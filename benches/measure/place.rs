//! A database of its own on the disk that holds the build, so that waiting for the disk means waiting.

use std::{path::Path, sync::Arc};

use recapd_config::{Config, Synchronous};
use recapd_engine::assembly::{self, Parts};
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::SystemClock;
use recapd_store::SqlStore;
use tempfile::TempDir;

/// The name of the database's file.
pub(crate) const DATABASE: &str = "recapd.db";

/// A temporary folder with a database, and the parts of a daemon over it.
pub(crate) struct Place {
    /// Gone with the value; the database in it is [`DATABASE`].
    pub(crate) folder: TempDir,
    /// The daemon's parts; nothing runs by itself.
    pub(crate) parts: Parts,
}

/// Where databases of benches are made.
pub(crate) fn disk() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Opens a new database within `parent`, with `synchronous`, and the defaults for what `configure` leaves alone.
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
