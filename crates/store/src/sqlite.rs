//! The embedded database: SQLite in WAL mode, one writer with grouped commits, a pool of readers.
//!
//! One daemon at a time uses a file and holds a lock file next to it. Meanwhile other programs may read and write through SQL.

mod address;
mod change_listener;
mod checkpoint;
mod condition;
mod files;
mod schema;
mod writer;

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use sqlx::{
    Connection as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::{Outage, StoreError, StoreResult, inbox::ChangeListener, sql::Connection, timeouts::Timeouts};
pub(super) use address::options_of;
pub use address::{file_of, url_of};
use checkpoint::Checkpoint;
use condition::Condition;
pub(super) use files::{OWN_MODE, mode_beside};
pub use files::{exposed, make_folder};
pub(super) use schema::MIGRATIONS;
pub(super) use writer::WriteSize;
use writer::{CACHE_KIB, Writer};

use recapd_platform::background::{ThreadPriority, run_alone};

/// How long to wait for a lock that is held. A process that the holder starts inherits the lock for a moment, until it loads its
/// program, so the lock may outlive the holder by that moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The interval of the attempts within that time.
const LOCK_TRY_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    pub url: String,
    /// The number of connections for reading.
    pub readers: u32,
    /// Limits how many operations share one commit.
    pub group_commit_max: usize,
    /// How long a writer waits for another program's lock.
    pub busy_timeout_ms: u64,
    pub synchronous: Synchronous,
    pub missing_folder: MissingFolder,
}

/// What to do if the folder is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFolder {
    /// Fails: the disk may not be mounted, or the name may be misspelt.
    Refuse,
    /// Creates it, for the user alone.
    Make,
}

impl SqliteSettings {
    /// Returns the pragmas of every connection, sqlx's and the writer's own.
    fn pragmas(&self) -> [(&'static str, &'static str); 3] {
        [
            ("synchronous", self.synchronous.name()),
            ("foreign_keys", "ON"),
            // Overwrites deleted and replaced content, so that an old document can't be read from a freed page.
            ("secure_delete", "ON"),
        ]
    }

    fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.busy_timeout_ms)
    }
}

/// When SQLite waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// At each commit: a power cut loses nothing that was acknowledged.
    Full,
    /// At checkpoints: after a power cut the file is consistent, but the last commits may be lost.
    Normal,
    /// Never: only for databases that may be lost.
    Off,
}

impl Synchronous {
    /// Returns SQLite's word for it; see <https://sqlite.org/pragma.html#pragma_synchronous>.
    fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
            Self::Off => "OFF",
        }
    }
}

pub(super) struct Sqlite {
    writer: Writer,
    readers: SqlitePool,
    timeouts: Timeouts,
    checkpoint: Arc<Checkpoint>,
    condition: Arc<Condition>,
    options: SqliteConnectOptions,
    tasks: TaskTracker,
    _lock: Option<Arc<File>>,
}

impl Sqlite {
    /// Creates the file if necessary, brings its schema up to date, and takes its lock.
    pub(super) async fn open(settings: &SqliteSettings) -> StoreResult<Self> {
        let (mut connection, lock) = open_locked(settings, true).await?;
        super::schema::migrate(&mut connection).await?;
        Self::with_connections(settings, connection, Some(Arc::new(lock))).await
    }

    /// Takes the lock of an existing file, whose schema must be up to date.
    pub(super) async fn open_as_is(settings: &SqliteSettings) -> StoreResult<Self> {
        let (mut connection, lock) = open_locked(settings, false).await?;
        super::schema::check(&mut connection).await?;
        Self::with_connections(settings, connection, Some(Arc::new(lock))).await
    }

    /// Opens an existing file without its lock, so that this works while a daemon uses the file.
    pub(super) async fn look(settings: &SqliteSettings) -> StoreResult<Self> {
        let mut connection = open_shared(settings).await?;
        super::schema::check(&mut connection).await?;
        Self::with_connections(settings, connection, None).await
    }

    pub(super) fn pool(&self) -> &SqlitePool {
        &self.readers
    }

    /// Returns how often no reading connection became free in time.
    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts.count()
    }

    /// Replaces `opened`, the connection that checked the schema, with the writer and the readers.
    async fn with_connections(
        settings: &SqliteSettings,
        opened: Connection,
        lock: Option<Arc<File>>,
    ) -> StoreResult<Self> {
        let options = options(settings)?.create_if_missing(lock.is_some());
        let file = options.get_filename();
        let connection = writer::connect(file, settings)?;
        let condition = Arc::new(Condition::of(file)?);
        opened.close().await?;
        let readers = settings.readers.max(1);
        let readers = SqlitePoolOptions::new()
            .max_connections(readers)
            // Each connection has a thread, with the priority of the thread that opened it. A daemon opens all at its start and
            // keeps them.
            .min_connections(if lock.is_some() { readers } else { 0 })
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.clone().read_only(true))
            .await?;
        let tasks = TaskTracker::new();
        let checkpoint = Checkpoint::new(options.clone());
        let (commits, checkpointing) = checkpoint.start(lock.is_some());
        run_alone("recapd-log", ThreadPriority::Patient, tasks.track_future(checkpointing))
            .map_err(|error| no_thread(&error))?;
        let (writer, writing) =
            Writer::new(connection, settings.group_commit_max, commits, Arc::clone(&condition));
        run_alone("recapd-writer", ThreadPriority::Eager, tasks.track_future(writing))
            .map_err(|error| no_thread(&error))?;
        Ok(Self {
            writer,
            readers,
            timeouts: Timeouts::default(),
            checkpoint,
            condition,
            options,
            tasks,
            _lock: lock,
        })
    }

    pub(super) async fn write<F, T>(&self, size: WriteSize, work: F) -> StoreResult<T>
    where
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, StoreResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.run(size, work).await
    }

    pub(super) async fn reader(&self) -> StoreResult<Connection> {
        Ok(self.timeouts.observe(self.readers.acquire().await)?.into())
    }

    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        Ok(self.timeouts.observe(self.readers.begin().await)?.into())
    }

    /// Fails if the next write is likely to fail or to be lost.
    pub(super) fn check_condition(&self) -> StoreResult<()> {
        self.condition.check()
    }

    pub(super) async fn change_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        Ok(Box::new(change_listener::DataVersion::open(&self.options).await?))
    }

    /// Checkpoints and empties the write-ahead log, so that no earlier state of a page is left. Returns false if a reader prevented it.
    pub(super) async fn scrub(&self) -> StoreResult<bool> {
        Ok(self.checkpoint.checkpoint_and_empty().await?)
    }

    pub(super) async fn close(self) {
        drop(self.writer);
        self.tasks.close();
        self.tasks.wait().await;
        self.checkpoint.close().await;
        self.readers.close().await;
    }
}

/// Takes the lock of a database that no other process may use, and opens a connection to it. Creates a missing file if `creates`.
/// Doesn't check the schema.
pub(super) async fn open_locked(settings: &SqliteSettings, creates: bool) -> StoreResult<(Connection, File)> {
    let options = options(settings)?.create_if_missing(creates);
    let file = options.get_filename();
    if !creates && !file.exists() {
        return Err(StoreError::Unavailable(format!("there is no file {}", file.display()).into()));
    }
    if creates {
        make_folder(file, settings.missing_folder).map_err(|error| file_error(file, &error))?;
    }
    let lock = lock(file).await?;
    Condition::of(file)?;
    if creates {
        files::make(file).map_err(|error| file_error(file, &error))?;
    }
    // Migrations and copies write a lot in one transaction.
    let options = options.pragma("cache_size", CACHE_KIB.to_string());
    let connection = SqliteConnection::connect_with(&options).await?;
    Ok((connection.into(), lock))
}

pub(super) fn is_there(settings: &SqliteSettings) -> StoreResult<bool> {
    Ok(options(settings)?.get_filename().exists())
}

/// Opens an existing file without changing anything in it, not even its journal mode, and doesn't check its schema.
pub(super) async fn open_unchanged(settings: &SqliteSettings) -> StoreResult<Connection> {
    let options = options_of(&settings.url)?.read_only(true).busy_timeout(settings.busy_timeout());
    Ok(SqliteConnection::connect_with(&options).await?.into())
}

/// Opens an existing file, even while a daemon uses it, and doesn't check its schema.
pub(super) async fn open_shared(settings: &SqliteSettings) -> StoreResult<Connection> {
    let options = options(settings)?.create_if_missing(false);
    Ok(SqliteConnection::connect_with(&options).await?.into())
}

fn no_thread(error: &io::Error) -> StoreError {
    StoreError::Unavailable(Outage::from(error).of("starting a thread"))
}

fn file_error(file: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(Outage::from(error).of(file.display()))
}

fn options(settings: &SqliteSettings) -> StoreResult<SqliteConnectOptions> {
    let options = options_of(&settings.url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(settings.busy_timeout());
    let pragmas = settings.pragmas().into_iter();
    Ok(pragmas.fold(options, |options, (name, value)| options.pragma(name, value)))
}

/// Takes the lock of a database file, which need not exist yet.
pub(super) async fn lock(database: &Path) -> StoreResult<File> {
    let mut path = PathBuf::from(database);
    path.as_mut_os_string().push(".lock");
    let file = files::make(&path).map_err(|error| file_error(&path, &error))?;
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => sleep(LOCK_TRY_EVERY).await,
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(database.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(file_error(&path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::sql::{query, sql},
        *,
    };

    fn settings(folder: &tempfile::TempDir) -> SqliteSettings {
        SqliteSettings {
            url: format!("sqlite:{}", folder.path().join("one.db").display()),
            readers: 1,
            group_commit_max: 8,
            busy_timeout_ms: 0,
            synchronous: Synchronous::Off,
            missing_folder: MissingFolder::Refuse,
        }
    }

    /// The panic undoes only its own operation. Other operations of the group are committed, and the writer continues.
    #[tokio::test]
    async fn a_panic_in_an_operation_fails_only_that_operation() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(&settings(&folder)).await.unwrap();
        let write = |panics: bool| {
            sqlite.write(WriteSize::Bounded, move |tx| {
                Box::pin(async move {
                    let next = sql!(
                        "UPDATE counters SET value = value + 1 WHERE name = 'lease_token' RETURNING value"
                    );
                    let value: i64 = query(next).fetch_one(tx).await?.try_get(0)?;
                    assert!(!panics, "a defect");
                    Ok(value)
                })
            })
        };
        let (before, panicked, after) = tokio::join!(write(false), write(true), write(false));
        assert_eq!((before.unwrap(), after.unwrap()), (1, 2));
        assert!(matches!(panicked, Err(StoreError::Panicked(_))), "{panicked:?}");
        assert_eq!(write(false).await.unwrap(), 3);
        sqlite.close().await;
    }

    #[tokio::test]
    async fn a_wait_for_a_reader_that_times_out_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(&settings(&folder)).await.unwrap();
        let reader = sqlite.reader().await.unwrap();
        // The pool's timeout passes at once.
        tokio::time::pause();
        assert!(sqlite.reader().await.is_err());
        assert!(sqlite.snapshot().await.is_err());
        tokio::time::resume();
        assert_eq!(sqlite.timeouts(), 2);
        drop(reader);
        sqlite.close().await;
    }
}
