//! A database under test: the store, and a connection that bypasses it, for what the store itself would never do.

use std::{
    collections::BTreeSet, fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use recapd_store::{
    SqlStore, Store,
    access::AccessStore,
    archive::Archive,
    audit::AuditStore,
    batch::BatchStore,
    inbox::InboxStore,
    operate::OperatorStore,
    postgres::{Clock, PostgresSettings, READ_PATIENCE_MS},
    sqlite::{MissingFolder, SqliteSettings, Synchronous},
};
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, PgConnection, Row as _, SqliteConnection, TypeInfo as _,
    postgres::PgRow, sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

use super::{PATIENCE, postgres, statements::note_statements};

/// Partitions the messages by agent.
pub(crate) const PARTITION: &str =
    include_str!("../../../migrations/postgres/optional/partition_message_log.sql");

/// The tables that make up a store's state. The counter of lease tokens is left out, since it changes with every claim.
pub(crate) const TABLES: [&str; 29] = [
    "agents",
    "message_log",
    "recounts",
    "calibrations",
    "sessions",
    "exchange_log",
    "evictions",
    "marks",
    "pins",
    "notes",
    "summary_update_queue",
    "summaries",
    "summary_versions",
    "summary_items",
    "summary_item_ranges",
    "summary_facts",
    "model_answers",
    "update_runs",
    "schedule_slots",
    "queue_pauses",
    "access_tokens",
    "audit_events",
    "provider_batches",
    "batch_requests",
    "idempotency_keys",
    "forgettings",
    "prunings",
    "withdrawals",
    "proxy_traffic",
];

/// A fresh database. Statements given to it must be valid SQL in every dialect; times are copied from other columns,
/// since their types differ.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    fn target(&self) -> Arc<SqlStore>;

    fn store(&self) -> Arc<dyn Store> {
        self.target()
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.target()
    }

    fn batches(&self) -> Arc<dyn BatchStore> {
        self.target()
    }

    fn inbox(&self) -> Arc<dyn InboxStore> {
        self.target()
    }

    fn access(&self) -> Arc<dyn AccessStore> {
        self.target()
    }

    fn audit(&self) -> Arc<dyn AuditStore> {
        self.target()
    }

    fn operator(&self) -> Arc<dyn OperatorStore> {
        self.target()
    }

    /// Runs a statement with the rights of an agent that uses SQL. Fails with the text of a refusal.
    async fn speak(&self, sql: &str) -> Result<u64, String>;

    /// Runs a statement that bypasses the store. Returns the number of changed rows.
    async fn raw(&self, sql: &str) -> u64 {
        let done = self.speak(sql).await;
        done.map_err(|error| format!("{sql}: {error}")).unwrap()
    }

    /// Returns the first column of the first row; `None` if there is no row or it is NULL.
    async fn number(&self, sql: &str) -> Option<i64>;

    async fn column(&self, sql: &str) -> Vec<Option<String>>;

    /// The same as [`Self::number`], for text.
    async fn text(&self, sql: &str) -> Option<String> {
        self.column(sql).await.into_iter().next().flatten()
    }

    /// The same as [`Self::text`], for all rows, joined by `separator`.
    async fn texts(&self, sql: &str, separator: &str) -> String {
        let texts: Vec<String> = self.column(sql).await.into_iter().map(Option::unwrap).collect();
        texts.join(separator)
    }

    /// The name of the function that makes a JSON array of its arguments.
    fn json_array(&self) -> &'static str;

    /// An SQL expression for the time `ms` milliseconds after `column`.
    fn later(&self, column: &str, ms: i64) -> String;

    /// All rows of a table as text, in a fixed order.
    async fn rows(&self, table: &str) -> Vec<String>;

    /// Counts the messages with words in the search index; with a stem, those that contain it.
    async fn indexed(&self, stem: Option<&str>) -> i64 {
        let sql = stem.map_or_else(
            || "SELECT sum(messages) FROM recall_blocks".to_owned(),
            |stem| format!("SELECT sum(messages) FROM recall_words WHERE stem = '{stem}'"),
        );
        self.number(&format!("SELECT CAST(coalesce(({sql}), 0) AS bigint)")).await.unwrap()
    }

    /// The contents of tables as text: equal texts are equal states.
    async fn dump(&self, tables: &[&str]) -> String {
        let mut lines = Vec::new();
        for table in tables {
            let rows = self.rows(table).await;
            lines.extend(rows.into_iter().map(|row| format!("{table} {row}\n")));
        }
        lines.concat()
    }
}

/// Asserts that two dumps are equal, and shows only the rows that differ.
#[track_caller]
pub(crate) fn assert_same(before: &str, after: &str, what: &str) {
    let rows = |one: &str, other: &str, mark: &str| -> Vec<String> {
        let known: BTreeSet<&str> = other.lines().collect();
        let rows = one.lines().filter(|row| !known.contains(row));
        rows.map(|row| format!("{mark} {row}")).collect()
    };
    let differences = [rows(before, after, "-"), rows(after, before, "+")].concat();
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

pub(crate) struct SqliteBackend {
    store: Arc<SqlStore>,
    past: Mutex<SqliteConnection>,
    folder: TempDir,
}

impl SqliteBackend {
    pub(crate) fn path(&self) -> PathBuf {
        database_path(&self.folder)
    }

    /// A new database that doesn't wait for the disk.
    pub(crate) async fn fresh() -> Self {
        let folder = TempDir::new().unwrap();
        write_sqlite(&folder).await;
        Self::over(folder).await
    }

    pub(crate) async fn over(folder: TempDir) -> Self {
        note_statements();
        let settings = sqlite_settings(&folder);
        let store = Arc::new(SqlStore::open(&settings.clone().into()).await.unwrap());
        // Without foreign keys, since tests break the data on purpose.
        let options: SqliteConnectOptions = settings.url.parse().unwrap();
        let options = options.foreign_keys(false).busy_timeout(PATIENCE);
        let past = SqliteConnection::connect_with(&options).await.unwrap();
        Self { store, past: Mutex::new(past), folder }
    }

    /// Closes the database and returns its folder.
    pub(crate) async fn closed(self) -> TempDir {
        self.past.into_inner().close().await.unwrap();
        Arc::into_inner(self.store).unwrap().close().await;
        self.folder
    }
}

/// Writes an empty database with the current schema into `folder`. It is a copy of one that each process migrates
/// once, since the migrations take longer than most tests.
pub(crate) async fn write_sqlite(folder: &TempDir) {
    static TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();
    let template = TEMPLATE.get_or_init(async || {
        let folder = TempDir::new().unwrap();
        let settings = sqlite_settings(&folder);
        SqlStore::open(&settings.into()).await.unwrap().close().await;
        std::fs::read(database_path(&folder)).unwrap()
    });
    let mut file =
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(database_path(folder)).unwrap();
    file.write_all(template.await).unwrap();
}

fn database_path(folder: &TempDir) -> PathBuf {
    folder.path().join("recapd.db")
}

pub(crate) fn sqlite_settings(folder: &TempDir) -> SqliteSettings {
    SqliteSettings {
        url: format!("sqlite:{}", database_path(folder).display()),
        readers: 2,
        group_commit_max: 16,
        busy_timeout_ms: 60_000,
        synchronous: Synchronous::Off,
        missing_folder: MissingFolder::Refuse,
    }
}

pub(crate) struct PostgresBackend {
    store: Arc<SqlStore>,
    past: Mutex<PgConnection>,
    database: postgres::Database,
}

impl PostgresBackend {
    /// A new database, with leases judged by the clock that a test moves.
    pub(crate) async fn fresh() -> Self {
        Self::over(postgres::Database::create().await).await
    }

    /// The same as [`Self::fresh`], with partitioned messages.
    pub(crate) async fn partitioned() -> Self {
        let database = postgres::Database::create().await;
        postgres::execute(&mut database.connect().await, PARTITION).await;
        Self::over(database).await
    }

    pub(crate) async fn over(database: postgres::Database) -> Self {
        note_statements();
        let settings = postgres_settings(database.url());
        let store = Arc::new(SqlStore::open(&settings.into()).await.unwrap());
        let mut past = database.connect().await;
        // Without foreign keys, since tests break the data on purpose.
        postgres::execute(&mut past, "SET session_replication_role = replica").await;
        Self { store, past: Mutex::new(past), database }
    }

    /// Closes the database's connections and returns it.
    pub(crate) async fn closed(self) -> postgres::Database {
        self.past.into_inner().close().await.unwrap();
        Arc::into_inner(self.store).unwrap().close().await;
        self.database
    }
}

impl PostgresBackend {
    pub(crate) fn url(&self) -> String {
        self.database.url()
    }

    /// Opens another connection that bypasses the store.
    pub(crate) async fn connect(&self) -> PgConnection {
        self.database.connect().await
    }
}

pub(crate) fn postgres_settings(url: String) -> PostgresSettings {
    PostgresSettings {
        url,
        read_url: None,
        read_lag_ms_max: 10_000,
        read_patience_ms: READ_PATIENCE_MS,
        connections: 8,
        acquire_timeout_ms: 30_000,
        statement_timeout_ms: 30_000,
        clock: Clock::Caller,
    }
}

/// Converts a value of any type that tests compare as a number; times are milliseconds since 1970.
fn as_number(row: &PgRow) -> Option<i64> {
    match row.column(0).type_info().name() {
        "INT8" => row.get(0),
        "INT4" => row.get::<Option<i32>, _>(0).map(i64::from),
        "BOOL" => row.get::<Option<bool>, _>(0).map(i64::from),
        "TIMESTAMPTZ" => row.get::<Option<DateTime<Utc>>, _>(0).map(|at| at.timestamp_millis()),
        other => panic!("no test compares numbers with {other}"),
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    fn target(&self) -> Arc<SqlStore> {
        Arc::clone(&self.store)
    }

    async fn speak(&self, sql: &str) -> Result<u64, String> {
        let mut connection = self.database.connect().await;
        let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    // With this connection's rights, where neither triggers nor foreign keys interfere.
    async fn raw(&self, sql: &str) -> u64 {
        let mut past = self.past.lock().await;
        let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut *past).await;
        let done = done.map_err(|error| format!("{sql}: {error}")).unwrap();
        done.rows_affected()
    }

    async fn number(&self, sql: &str) -> Option<i64> {
        let mut past = self.past.lock().await;
        let found = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut *past).await;
        let row = found.map_err(|error| format!("{sql}: {error}")).unwrap()?;
        as_number(&row)
    }

    async fn column(&self, sql: &str) -> Vec<Option<String>> {
        let mut past = self.past.lock().await;
        let found = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *past).await;
        let rows = found.map_err(|error| format!("{sql}: {error}")).unwrap();
        rows.iter().map(|row| row.try_get(0).unwrap()).collect()
    }

    fn json_array(&self) -> &'static str {
        "json_build_array"
    }

    fn later(&self, column: &str, ms: i64) -> String {
        format!("({column} + interval '{ms} milliseconds')")
    }

    async fn rows(&self, table: &str) -> Vec<String> {
        // Salts are random in each database, and seals depend on them.
        let sql = format!(
            "SELECT CAST(to_jsonb(t) - ARRAY['salt', 'seal', 'chain'] AS text) FROM {table} t ORDER BY 1"
        );
        self.column(&sql).await.into_iter().flatten().collect()
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn target(&self) -> Arc<SqlStore> {
        Arc::clone(&self.store)
    }

    async fn speak(&self, sql: &str) -> Result<u64, String> {
        let mut past = self.past.lock().await;
        let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut *past).await;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    async fn number(&self, sql: &str) -> Option<i64> {
        let mut past = self.past.lock().await;
        let found = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut *past).await;
        let row = found.map_err(|error| format!("{sql}: {error}")).unwrap()?;
        row.try_get(0).unwrap()
    }

    async fn column(&self, sql: &str) -> Vec<Option<String>> {
        let mut past = self.past.lock().await;
        let found = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *past).await;
        let rows = found.map_err(|error| format!("{sql}: {error}")).unwrap();
        rows.iter().map(|row| row.try_get(0).unwrap()).collect()
    }

    fn json_array(&self) -> &'static str {
        "json_array"
    }

    fn later(&self, column: &str, ms: i64) -> String {
        format!("({column} + {ms})")
    }

    async fn rows(&self, table: &str) -> Vec<String> {
        // The version of the summary at an eviction isn't exported with a history. Salts are random in each database,
        // and seals depend on them.
        let columns = format!(
            "SELECT group_concat(name) FROM pragma_table_info('{table}') WHERE ('{table}' <> 'evictions' OR name <> 'version') \
             AND name NOT IN ('salt', 'seal', 'chain')"
        );
        let columns = self.text(&columns).await.unwrap();
        let sql = format!("SELECT json_array({columns}) FROM {table} ORDER BY 1");
        self.column(&sql).await.into_iter().flatten().collect()
    }
}
