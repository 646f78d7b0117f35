//! A run's data: a disk that can be filled, and a file or a server on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::{
    Faults,
    disk::Disk,
    kind::{Database, Kind},
    server::Server,
};
use recapd_store::{
    DatabaseSettings,
    postgres::{Clock, PostgresSettings, READ_PATIENCE_MS},
    sqlite::{self, MissingFolder, SqliteSettings, Synchronous},
};

/// The size of a file's disk, with room for its log: about 64 MB, and what is added before a checkpoint.
const SQLITE_BYTES: u64 = 128 << 20;
/// The size of a server's disk: a new cluster has about 25 MB.
const POSTGRES_BYTES: u64 = 160 << 20;

/// A run's data. Clones share it.
#[derive(Clone)]
pub(super) struct Place {
    // In this order: the server ends before its disk is removed.
    server: Option<Arc<Server>>,
    disk: Option<Arc<Disk>>,
    folder: PathBuf,
    /// Writers by SQL read-lock it; a move to another database write-locks it.
    gate: Arc<RwLock<()>>,
}

impl Place {
    /// Creates the data in a run's folder. Also returns a kind of fault that can't happen there, with the reason.
    ///
    /// # Errors
    /// If the server reports an error.
    pub(super) fn make(faults: &Faults, folder: &Path) -> Result<(Self, Option<(Kind, String)>), String> {
        let folder = folder.join("disk");
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).map_err(|error| error.to_string())?;
        let bytes = match faults.database {
            Database::Sqlite => SQLITE_BYTES,
            Database::Postgres => POSTGRES_BYTES,
        };
        let mut left_out = None;
        let disk = match Disk::mount(&folder, bytes) {
            Ok(disk) => Some(Arc::new(disk)),
            Err(error) => {
                left_out = Some((Kind::DiskFull, format!("a small file system can't be mounted: {error}")));
                None
            }
        };
        let server = match faults.database {
            Database::Sqlite => None,
            Database::Postgres => {
                let of_server = folder.join("server");
                fs::create_dir(&of_server).map_err(|error| error.to_string())?;
                Some(Arc::new(Server::create(&of_server, &faults.template, &faults.folder)?))
            }
        };
        let place = Self { server, disk, folder, gate: Arc::default() };
        Ok((place, left_out))
    }

    pub(super) fn url(&self) -> String {
        let file = || sqlite::url_of(&self.file());
        self.server.as_ref().map_or_else(file, |server| server.url())
    }

    /// The database's file, if it has no server.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("recapd.db")
    }

    pub(super) fn settings(&self) -> DatabaseSettings {
        let url = self.url();
        if self.server.is_none() {
            return SqliteSettings {
                url,
                readers: 1,
                group_commit_max: 1,
                busy_timeout_ms: 5_000,
                synchronous: Synchronous::Full,
                missing_folder: MissingFolder::Refuse,
            }
            .into();
        }
        PostgresSettings {
            url,
            read_url: None,
            read_lag_ms_max: 10_000,
            read_patience_ms: READ_PATIENCE_MS,
            connections: 2,
            acquire_timeout_ms: 20_000,
            statement_timeout_ms: 60_000,
            clock: Clock::Database,
        }
        .into()
    }

    pub(super) fn server(&self) -> Option<Arc<Server>> {
        self.server.clone()
    }

    /// Keeps SQL writers out while the caller holds the guard.
    pub(super) async fn close(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    /// Lets the caller write by SQL while it holds the guard.
    pub(super) async fn enter(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.gate).read_owned().await
    }

    /// Creates an empty database for a copy, or returns the name of a new file.
    ///
    /// # Errors
    /// If the server reports an error.
    pub(super) fn new_target(&self) -> Result<String, String> {
        match &self.server {
            Some(server) => server.new_target(),
            None => Ok(sqlite::url_of(&self.target())),
        }
    }

    /// Replaces the database by the copy. No program may have either of them open.
    ///
    /// # Errors
    /// If the server or the file system reports an error.
    pub(super) fn move_to_target(&self) -> Result<(), String> {
        if let Some(server) = &self.server {
            return server.move_to_target();
        }
        for end in ["-wal", "-shm"] {
            let mut log = self.file().into_os_string();
            log.push(end);
            // SQLite removes these when the last connection closes.
            drop(fs::remove_file(log));
        }
        fs::rename(self.target(), self.file()).map_err(|error| error.to_string())
    }

    fn target(&self) -> PathBuf {
        self.folder.join("target.db")
    }

    pub(super) fn fill(&self) {
        if let Some(disk) = &self.disk {
            disk.fill();
        }
    }

    /// Frees the disk, and starts the server if it isn't running.
    ///
    /// # Errors
    /// If the server reports an error.
    pub(super) fn mend(&self) -> Result<(), String> {
        if let Some(disk) = &self.disk {
            disk.free();
        }
        self.server.as_ref().map_or(Ok(()), |server| server.start())
    }

    pub(super) fn end(&self) {
        if let Some(server) = &self.server {
            server.crash();
        }
    }

    /// Copies all of the data, for later inspection.
    pub(super) fn keep_in(&self, folder: &Path) {
        let copied = Command::new("cp").arg("-a").arg(&self.folder).arg(folder).status();
        // If the copy fails, it is missing in the folder.
        drop(copied);
    }
}
