//! Which part of the schema a database has, and how it gets the rest, on both databases.

use recapd_store::{
    DatabaseSettings, FIRING_MS_MAX, Slot, SqlStore, Store as _, StoreError, examine,
    schema::{self, MigrationState},
};
use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, SqliteConnection, migrate::Migrator,
    sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::{
    PATIENCE,
    backend::{postgres_settings, sqlite_settings},
    conversation::T0,
    postgres::{self, Database},
};

/// A database that may be empty, with direct access to it.
pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(Box<Database>),
}

impl Place {
    /// A file that doesn't exist yet.
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    /// An empty database on a server.
    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Box::new(Database::empty().await))
    }

    pub(crate) fn settings(&self) -> DatabaseSettings {
        match self {
            Self::Sqlite(folder) => sqlite_settings(folder).into(),
            Self::Postgres(database) => postgres_settings(database.url()).into(),
        }
    }

    /// Runs statements that both databases take.
    pub(crate) async fn raw(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let options: SqliteConnectOptions = sqlite_settings(folder).url.parse().unwrap();
                let options = options.create_if_missing(true);
                let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
                let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
                done.unwrap();
                connection.close().await.unwrap();
            }
            Self::Postgres(database) => {
                let mut connection = database.connect().await;
                postgres::execute(&mut connection, sql).await;
                connection.close().await.unwrap();
            }
        }
    }
}

macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Place::sqlite()).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Place::postgres().await).await;
            })+
        }
    };
}
on_both!(
    a_new_database_needs_everything,
    a_manual_schema_is_not_touched,
    a_newer_schema_is_refused,
    a_schema_that_is_not_ours_is_refused,
    earlier_firings_are_not_made_again,
);

fn refusal(opened: Result<SqlStore, StoreError>) -> String {
    match opened {
        Err(StoreError::Schema(refusal)) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

async fn a_new_database_needs_everything(place: Place) {
    let settings = place.settings();
    let before = schema::up(&settings).await.unwrap();
    assert!(before.is_missing());
    let after = schema::status(&settings).await.unwrap();
    assert_eq!((after.pending(), after.version()), (0, before.migrations.last().unwrap().version));
    assert!(after.migrations.iter().all(|one| one.state == MigrationState::Applied));
    // A second call does nothing.
    assert_eq!(schema::up(&settings).await.unwrap(), after);
    SqlStore::open(&settings).await.unwrap().close().await;
    SqlStore::look(&settings).await.unwrap().close().await;
}

async fn a_manual_schema_is_not_touched(place: Place) {
    let settings = place.settings();
    place.raw("CREATE TABLE somebodys (id INTEGER)").await;
    assert!(refusal(SqlStore::open_as_is(&settings).await).contains("`recapd migrate up`"));
    assert!(schema::status(&settings).await.unwrap().is_missing());
    schema::up(&settings).await.unwrap();
    SqlStore::open_as_is(&settings).await.unwrap().close().await;
}

async fn a_newer_schema_is_refused(place: Place) {
    let settings = place.settings();
    schema::up(&settings).await.unwrap();
    place
        .raw(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 999, 'future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
    let status = schema::status(&settings).await.unwrap();
    assert_eq!((status.version(), status.migrations.last().unwrap().state), (999, MigrationState::Unknown));
    for opened in [
        SqlStore::open(&settings).await,
        SqlStore::open_as_is(&settings).await,
        SqlStore::look(&settings).await,
        schema::up(&settings).await.map(|_| unreachable!()),
    ] {
        let refusal = refusal(opened);
        assert!(refusal.contains("version 999") && refusal.contains("newer recapd"), "{refusal}");
    }
}

async fn a_schema_that_is_not_ours_is_refused(place: Place) {
    let settings = place.settings();
    schema::up(&settings).await.unwrap();
    place.raw("UPDATE _sqlx_migrations SET description = 'other', checksum = '00' WHERE version = 1").await;
    assert!(refusal(SqlStore::open(&settings).await).contains("isn't the one"));
    place.raw("UPDATE _sqlx_migrations SET success = false WHERE version = 1").await;
    assert!(refusal(SqlStore::open(&settings).await).contains("go back to a backup"));
}

/// The previous version didn't record whether they were finished.
async fn earlier_firings_are_not_made_again(place: Place) {
    let settings = place.settings();
    let store = SqlStore::open(&settings).await.unwrap();
    assert_eq!(store.take_slot("ageing", T0, T0).await.unwrap(), Slot::Ours);
    store.close().await;
    place
        .raw(
            "ALTER TABLE schedule_slots DROP COLUMN done_at; DROP INDEX summary_update_queue_deferred; \
             DELETE FROM _sqlx_migrations WHERE description = 'firings'",
        )
        .await;
    assert_eq!(schema::up(&settings).await.unwrap().pending(), 1);
    let store = SqlStore::open(&settings).await.unwrap();
    let later = T0.plus_ms(FIRING_MS_MAX);
    assert_eq!(store.take_slot("ageing", T0, later).await.unwrap(), Slot::Done);
    store.close().await;
}

#[tokio::test]
async fn daemons_that_start_at_once_migrate_once() {
    let place = Place::postgres().await;
    let settings = place.settings();
    let opened = futures::future::join_all((0..4).map(|_| SqlStore::open(&settings))).await;
    for store in opened {
        store.unwrap().close().await;
    }
    assert_eq!(schema::status(&settings).await.unwrap().pending(), 0);
}

#[tokio::test]
async fn a_database_of_annon_utf8_encoding_is_refused() {
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let place = Place::Postgres(Box::new(Database::encoded(encoding).await));
        let refusal = refusal(SqlStore::open(&place.settings()).await);
        assert!(refusal.contains(encoding) && refusal.contains("ENCODING 'UTF8'"), "{refusal}");
        assert!(schema::status(&place.settings()).await.unwrap().is_missing());
    }
}

/// Before PostgreSQL 15 `public` was like this, and clusters stay so through upgrades.
#[tokio::test]
async fn a_schema_in_which_every_role_may_create_is_refused() {
    let place = Place::postgres().await;
    let open = "GRANT CREATE ON SCHEMA public TO PUBLIC";
    place.raw(open).await;
    let settings = place.settings();
    let cure = "REVOKE CREATE ON SCHEMA public FROM PUBLIC";
    let refused = refusal(SqlStore::open(&settings).await);
    assert!(refused.contains(cure), "{refused}");
    assert!(schema::status(&settings).await.unwrap().is_missing());
    assert_eq!(examine::open_schemas(&settings).await.unwrap(), ["public"]);
    place.raw(cure).await;
    schema::up(&settings).await.unwrap();
    SqlStore::open_as_is(&settings).await.unwrap().close().await;
    place.raw(open).await;
    let refused = refusal(SqlStore::open_as_is(&settings).await);
    assert!(refused.contains(cure), "{refused}");
    SqlStore::look(&settings).await.unwrap().close().await;
}

/// Earlier versions accepted it, and it works as long as all inserts are UTF-8.
#[tokio::test]
async fn a_database_without_an_encoding_continues_with_a_warning() {
    let database = Database::encoded("SQL_ASCII").await;
    let settings: DatabaseSettings = postgres_settings(database.url()).into();
    let mut connection = database.connect().await;
    postgres::migrations().await.run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    SqlStore::open(&settings).await.unwrap().close().await;
    let found = examine::non_utf8_encoding(&settings).await.unwrap();
    assert_eq!(found.as_deref(), Some("SQL_ASCII"));
    let others = Place::postgres().await;
    assert_eq!(examine::non_utf8_encoding(&others.settings()).await.unwrap(), None);
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing() {
    let place = Place::postgres().await;
    // An object of the first migration exists already.
    place.raw("CREATE TABLE agents (id INTEGER)").await;
    let failed = schema::up(&place.settings()).await.unwrap_err();
    assert!(
        matches!(&failed, StoreError::Schema(why) if why.contains("migration 1 fails") && why.contains("agents")),
        "{failed}"
    );
    assert!(schema::status(&place.settings()).await.unwrap().is_missing());
    place.raw("DROP TABLE agents").await;
    schema::up(&place.settings()).await.unwrap();
}

/// Creates a server's database with the three migrations of an earlier version. The next one changes a table that they made.
async fn three_migrations() -> Database {
    let database = Database::empty().await;
    let all = postgres::migrations().await;
    let known = all.iter().filter(|migration| migration.version <= 3);
    let mut connection = database.connect().await;
    let migrator = Migrator::with_migrations(known.cloned().collect());
    migrator.run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    database
}

/// Opens a transaction that reads the queue, and keeps it open.
async fn dump(database: &Database) -> PgConnection {
    let mut dump = database.connect().await;
    let reads =
        "SET application_name = 'pg_dump'; BEGIN; LOCK TABLE summary_update_queue IN ACCESS SHARE MODE";
    postgres::execute(&mut dump, reads).await;
    dump
}

/// Daemons of the previous version continue to work, whoever holds a table that a migration needs.
#[tokio::test]
async fn nobody_waits_long_behind_a_migration() {
    let database = three_migrations().await;
    let settings: DatabaseSettings = postgres_settings(database.url()).into();
    let mut dump = dump(&database).await;
    let (mut look, mut daemon) = (database.connect().await, database.connect().await);
    let others = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let end = Instant::now() + PATIENCE;
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut look).await.unwrap() == 0 {
            assert!(Instant::now() < end, "the migration waits for nobody");
        }
        // It waits behind the migration, which waits behind the dump. After 15 s a lease would be lost.
        let renews = "SET lock_timeout = '10s'; UPDATE summary_update_queue SET leased_at = now()";
        postgres::execute(&mut daemon, renews).await;
        postgres::execute(&mut dump, "COMMIT").await;
    };
    let (before, ()) = tokio::join!(schema::up(&settings), others);
    assert_eq!(before.unwrap().version(), 3);
    assert_eq!(schema::status(&settings).await.unwrap().pending(), 0);
}

#[tokio::test]
async fn a_migration_that_gets_no_table_says_who_holds_it() {
    let database = three_migrations().await;
    let settings: DatabaseSettings = postgres_settings(database.url()).into();
    let mut dump = dump(&database).await;
    let failed = schema::up_within(&settings, 1).await.unwrap_err();
    assert!(
        matches!(&failed, StoreError::Unavailable(why)
            if why.reason.contains("others hold its tables: pg_dump (pid ") && why.reason.contains("migration 4")),
        "{failed}"
    );
    assert_eq!(schema::status(&settings).await.unwrap().version(), 3);
    postgres::execute(&mut dump, "COMMIT").await;
    schema::up(&settings).await.unwrap();
}
