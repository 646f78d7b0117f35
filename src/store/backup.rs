//! A whole SQLite database as one file, taken while a daemon works on it, and back.
//!
//! A file of that name is there when it is whole and on the disk, and not before: it is written beside, under a name of its
//! own, looked at by whoever asked for it, and renamed.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    str::FromStr as _,
    time::Duration,
};

use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use super::{
    DatabaseSettings, StoreError,
    sqlite::{self, SqliteSettings},
};

/// How the file is named that isn't whole yet.
const PART: &str = ".part";
/// What may stand beside a database that was open.
const BESIDE: [&str; 3] = ["-wal", "-shm", ".lock"];

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A database of PostgreSQL: its own tools do it.
    #[error("PostgreSQL has tools of its own for that: pg_dump and pg_restore")]
    OtherTools,
    /// Nothing is overwritten.
    #[error("{} is there already; move it away first, or name another file", .0.display())]
    Exists(PathBuf),
    /// A file can't be written.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The database can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy that isn't under its own name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Part {
    settings: SqliteSettings,
    file: PathBuf,
    target: PathBuf,
    /// Nobody opens the target meanwhile.
    lock: Option<File>,
}

/// Writes what a database holds at this moment beside `file`, for its owner alone: tokens and conversations are in it. A
/// daemon on it isn't held up.
///
/// # Errors
/// See [`BackupError`]; nothing is left then.
pub async fn take(from: &DatabaseSettings, file: &Path) -> Result<Part, BackupError> {
    let settings = of_sqlite(from)?;
    write(settings, settings, file, None).await
}

/// Writes what the backup `file` holds beside the database, which isn't there yet and which nobody may open until the
/// [`Part`] is dropped.
///
/// # Errors
/// See [`BackupError`]; nothing is left then.
pub async fn bring_back(file: &Path, to: &DatabaseSettings) -> Result<Part, BackupError> {
    let settings = of_sqlite(to)?;
    let from = at(settings, file);
    let options = SqliteConnectOptions::from_str(&settings.url).map_err(StoreError::from)?;
    let target = options.get_filename();
    if !file.exists() {
        return Err(failed(file)(io::ErrorKind::NotFound.into()));
    }
    let lock = sqlite::lock(target).await?;
    // SQLite would take what stands in it into the new database.
    let log = with_end(target, "-wal");
    if is_taken(&log) {
        return Err(BackupError::Exists(log));
    }
    write(&from, settings, target, Some(lock)).await
}

async fn write(
    from: &SqliteSettings,
    to: &SqliteSettings,
    target: &Path,
    lock: Option<File>,
) -> Result<Part, BackupError> {
    if target.exists() {
        return Err(BackupError::Exists(target.to_path_buf()));
    }
    let file = with_end(target, PART);
    make(&file)?;
    let part = Part {
        settings: at(to, &file),
        file,
        target: target.to_path_buf(),
        lock,
    };
    vacuum_into(from, &part.file).await?;
    Ok(part)
}

/// An empty file that only its owner reads.
fn make(file: &Path) -> Result<(), BackupError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(BackupError::Exists(file.to_path_buf()))
        }
        Err(error) => Err(failed(file)(error)),
    }
}

/// One read transaction: the copy is the database at one moment, without what was deleted in it.
async fn vacuum_into(from: &SqliteSettings, file: &Path) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::from_str(&from.url)?
        .read_only(true)
        .busy_timeout(Duration::from_millis(from.busy_timeout_ms));
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::query("-- sqlite/backup.vacuum_into\nVACUUM INTO $1")
        .bind(file.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

impl Part {
    /// Where it can be looked at meanwhile.
    pub fn settings(&self) -> DatabaseSettings {
        self.settings.clone().into()
    }

    /// Gives it its name, as one file without a log beside it, when it is on the disk. It must be closed. Tells its size in
    /// bytes.
    ///
    /// # Errors
    /// See [`BackupError`]; nothing is left then.
    pub async fn keep(self) -> Result<u64, BackupError> {
        let options = SqliteConnectOptions::from_str(&self.settings.url).map_err(StoreError::from)?;
        let options = options.journal_mode(SqliteJournalMode::Delete);
        let connection = SqliteConnection::connect_with(&options)
            .await
            .map_err(StoreError::from)?;
        connection.close().await.map_err(StoreError::from)?;
        let synced = File::open(&self.file).and_then(|file| {
            file.sync_all()?;
            file.metadata()
        });
        let bytes = synced.map_err(failed(&self.file))?.len();
        if self.target.exists() {
            return Err(BackupError::Exists(self.target.clone()));
        }
        std::fs::rename(&self.file, &self.target).map_err(failed(&self.target))?;
        let folder = self
            .target
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let named = File::open(folder).and_then(|folder| folder.sync_all());
        named.map_err(failed(folder))?;
        Ok(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let beside = BESIDE.map(|end| with_end(&self.file, end));
        for file in beside.iter().chain([&self.file]) {
            // Renamed, or never there.
            std::fs::remove_file(file).ok();
        }
        self.lock.take();
    }
}

fn of_sqlite(settings: &DatabaseSettings) -> Result<&SqliteSettings, BackupError> {
    match settings {
        DatabaseSettings::Sqlite(settings) => Ok(settings),
        DatabaseSettings::Postgres(_) => Err(BackupError::OtherTools),
    }
}

/// The same settings for another file.
fn at(settings: &SqliteSettings, file: &Path) -> SqliteSettings {
    SqliteSettings {
        url: format!("sqlite:{}", file.display()),
        ..settings.clone()
    }
}

fn with_end(file: &Path, end: &str) -> PathBuf {
    let mut file = PathBuf::from(file);
    file.as_mut_os_string().push(end);
    file
}

fn failed(file: &Path) -> impl Fn(io::Error) -> BackupError + use<> {
    let file = file.to_path_buf();
    move |error| BackupError::File {
        file: file.clone(),
        error,
    }
}
