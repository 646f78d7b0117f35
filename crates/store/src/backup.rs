//! Backs up a SQLite database as one file while a daemon works on it, and restores backups.
//!
//! A file gets its final name only when it is complete and on disk. It is written under a temporary name next to the final one,
//! checked by the caller, and renamed.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteJournalMode};

use super::{
    DatabaseSettings, StoreError,
    sqlite::{self, SqliteSettings},
};

/// The suffix of a file's temporary name.
const PART: &str = ".part";
/// The suffixes of files that may stand next to a database and belong to it.
const COMPANION_ENDINGS: [&str; 3] = ["-wal", "-shm", ".lock"];

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("PostgreSQL has tools of its own for that: pg_dump and pg_restore")]
    OtherTools,
    #[error("{} is there already; move it away first, or name another file", .0.display())]
    Exists(PathBuf),
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy under its temporary name. Dropping it deletes the file.
#[derive(Debug)]
pub struct PartialCopy {
    settings: SqliteSettings,
    file: PathBuf,
    target: PathBuf,
    /// Keeps others from opening the database that is being restored.
    lock: Option<File>,
}

/// Writes the present state of a database to a temporary file next to `file`. Only the owner can read the file, because it holds
/// tokens and conversations. A daemon that uses the database isn't delayed.
///
/// # Errors
/// See [`BackupError`]; then no file is left behind.
pub async fn take(from: &DatabaseSettings, file: &Path) -> Result<PartialCopy, BackupError> {
    let settings = sqlite_settings(from)?;
    check_free(file)?;
    write(settings, settings, file, None).await
}

/// Restores the backup `file` to a temporary file next to the database. The database must not exist yet, and nobody can open it
/// until the [`PartialCopy`] is dropped.
///
/// # Errors
/// See [`BackupError`]; then no file is left behind.
pub async fn bring_back(file: &Path, to: &DatabaseSettings) -> Result<PartialCopy, BackupError> {
    let settings = sqlite_settings(to)?;
    let from = at(settings, file);
    let options = sqlite::options_of(&settings.url)?;
    let target = options.get_filename();
    if !file.exists() {
        return Err(file_error(file)(io::ErrorKind::NotFound.into()));
    }
    sqlite::make_folder(target, settings.missing_folder).map_err(file_error(target))?;
    let lock = sqlite::lock(target).await?;
    check_free(target)?;
    // SQLite would apply a leftover write-ahead log to the new database.
    check_free(&with_end(target, "-wal"))?;
    write(&from, settings, target, Some(lock)).await
}

async fn write(
    from: &SqliteSettings,
    to: &SqliteSettings,
    target: &Path,
    lock: Option<File>,
) -> Result<PartialCopy, BackupError> {
    let file = with_end(target, PART);
    // Only the owner may read a backup. A restored database gets the mode that its folder prescribes.
    make(&file, if lock.is_some() { sqlite::mode_beside(target) } else { sqlite::OWN_MODE })?;
    let part = PartialCopy { settings: at(to, &file), file, target: target.to_path_buf(), lock };
    vacuum_into(from, &part.file).await?;
    Ok(part)
}

/// Fails if a file with that name exists, even a dangling link, because a rename would replace it.
fn check_free(name: &Path) -> Result<(), BackupError> {
    if name.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(name.to_path_buf()));
    }
    Ok(())
}

fn make(file: &Path, mode: u32) -> Result<(), BackupError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(sqlite::OWN_MODE);
    match options.open(file) {
        Ok(empty) => empty.set_permissions(Permissions::from_mode(mode)).map_err(file_error(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(BackupError::Exists(file.to_path_buf()))
        }
        Err(error) => Err(file_error(file)(error)),
    }
}

/// Copies the database in one read transaction, so that the copy shows one moment and has no deleted data.
async fn vacuum_into(from: &SqliteSettings, file: &Path) -> Result<(), StoreError> {
    let options = sqlite::options_of(&from.url)?
        .read_only(true)
        .busy_timeout(Duration::from_millis(from.busy_timeout_ms));
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::query("-- sqlite/backup.vacuum_into\nVACUUM INTO $1")
        .bind(file.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

impl PartialCopy {
    /// Returns the settings that open the copy, so that the caller can check it.
    pub fn settings(&self) -> DatabaseSettings {
        self.settings.clone().into()
    }

    /// Syncs the copy to disk as one file without a write-ahead log, and renames it to its final name. The copy must be closed.
    /// Returns its size in bytes.
    ///
    /// # Errors
    /// See [`BackupError`]; then no file is left behind.
    pub async fn keep(self) -> Result<u64, BackupError> {
        let options = sqlite::options_of(&self.settings.url)?;
        let options = options.journal_mode(SqliteJournalMode::Delete);
        let connection = SqliteConnection::connect_with(&options).await.map_err(StoreError::from)?;
        connection.close().await.map_err(StoreError::from)?;
        let result = File::open(&self.file).and_then(|file| {
            file.sync_all()?;
            file.metadata()
        });
        let bytes = result.map_err(file_error(&self.file))?.len();
        check_free(&self.target)?;
        std::fs::rename(&self.file, &self.target).map_err(file_error(&self.target))?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let result = File::open(folder).and_then(|folder| folder.sync_all());
        result.map_err(file_error(folder))?;
        Ok(bytes)
    }
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        let companions = COMPANION_ENDINGS.map(|end| with_end(&self.file, end));
        for file in companions.iter().chain([&self.file]) {
            // If the file was renamed or never created, this fails, which is right.
            std::fs::remove_file(file).ok();
        }
        self.lock.take();
    }
}

fn sqlite_settings(settings: &DatabaseSettings) -> Result<&SqliteSettings, BackupError> {
    match settings {
        DatabaseSettings::Sqlite(settings) => Ok(settings),
        DatabaseSettings::Postgres(_) => Err(BackupError::OtherTools),
    }
}

fn at(settings: &SqliteSettings, file: &Path) -> SqliteSettings {
    SqliteSettings { url: sqlite::url_of(file), ..settings.clone() }
}

fn with_end(file: &Path, end: &str) -> PathBuf {
    let mut file = PathBuf::from(file);
    file.as_mut_os_string().push(end);
    file
}

fn file_error(file: &Path) -> impl Fn(io::Error) -> BackupError + use<> {
    let file = file.to_path_buf();
    move |error| BackupError::File { file: file.clone(), error }
}
