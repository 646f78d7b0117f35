//! The schema: a database's migrations, and how to apply them.
//!
//! Migrations only go forward. A migration adds things and never removes any, so daemons of the previous version may run during
//! and after it. Each migration is one transaction, so a failed one leaves nothing behind.

pub mod catalogue;
mod turns;

use serde::Serialize;
use sqlx::migrate::{MigrateError, MigrationType, Migrator};

use super::{
    DatabaseSettings, Outage, StoreError, StoreResult, postgres,
    sql::{Connection, connection::DriverConnection, query, sql, statement::SqlDialect},
    sqlite,
};
use recapd_core::domain::text::hexadecimal;

/// How long a statement of a migration may take. To build an index on a large table takes long.
pub(super) const STATEMENT_MS_MAX: u64 = 6 * 3_600_000;
/// How to create a database with the right encoding.
pub const UTF8_CURE: &str = "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The migrations of this recapd, and unknown ones in the database, by version.
    pub migrations: Vec<Migration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Migration {
    /// Migrations are applied in order of their versions, which may have gaps.
    pub version: i64,
    pub name: String,
    pub state: MigrationState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationState {
    Applied,
    Pending,
    /// The database has a different migration with that version.
    Changed,
    /// The migration was begun and not finished.
    HalfDone,
    /// A newer recapd has applied it.
    Unknown,
}

impl Schema {
    /// Returns the newest migration that the database has; 0 if it has none.
    pub fn version(&self) -> i64 {
        let has = |migration: &&Migration| migration.state != MigrationState::Pending;
        self.migrations.iter().filter(has).map(|migration| migration.version).max().unwrap_or(0)
    }

    pub fn pending(&self) -> usize {
        let pending = |migration: &&Migration| migration.state == MigrationState::Pending;
        self.migrations.iter().filter(pending).count()
    }

    /// Returns true if no migration was applied. Then there are no tables of recapd, unless another program made them.
    pub fn is_missing(&self) -> bool {
        self.pending() == self.migrations.len()
    }

    /// Returns true if a database with that encoding may be used, although the encoding isn't UTF8: an existing database with
    /// `SQL_ASCII`. It works as long as all inserts are UTF-8, and `recapd doctor` warns about it.
    pub fn may_keep_encoding(&self, encoding: &str) -> bool {
        !self.is_missing() && encoding == "SQL_ASCII"
    }

    /// Checks that this recapd can bring the database up to date.
    ///
    /// # Errors
    /// [`StoreError::Schema`], which says what to do.
    pub fn can_go_on(&self) -> StoreResult<()> {
        let newest = self.newest_known();
        for migration in self.migrations.iter().rev() {
            let Migration { version, name, state } = migration;
            let fault = match state {
                MigrationState::Applied | MigrationState::Pending => continue,
                MigrationState::Unknown => format!(
                    "it has version {version}, this recapd knows {newest}; use the newer recapd that wrote it"
                ),
                MigrationState::Changed => format!(
                    "its migration {version} ({name}) isn't the one that this recapd has; use the recapd that wrote it"
                ),
                MigrationState::HalfDone => format!(
                    "its migration {version} ({name}) was begun and not finished; go back to a backup"
                ),
            };
            return Err(StoreError::Schema(fault));
        }
        Ok(())
    }

    /// Checks that this recapd can work with the database as it is.
    ///
    /// # Errors
    /// [`StoreError::Schema`], which says what to do.
    pub fn check_current(&self) -> StoreResult<()> {
        if self.is_missing() {
            return Err(StoreError::Schema(
                "this is not a database of recapd; `recapd migrate up` makes its tables".to_owned(),
            ));
        }
        self.can_go_on()?;
        if self.pending() > 0 {
            return Err(StoreError::Schema(format!(
                "it has version {}, this recapd needs {}; `recapd migrate up` brings it up to date",
                self.version(),
                self.newest_known()
            )));
        }
        Ok(())
    }

    /// Returns the newest version that this recapd knows.
    fn newest_known(&self) -> i64 {
        let is_known = |migration: &&Migration| migration.state != MigrationState::Unknown;
        self.migrations.iter().filter(is_known).map(|migration| migration.version).max().unwrap_or(0)
    }
}

/// Returns the newest versions that this recapd knows, for SQLite and for PostgreSQL.
pub fn newest() -> [i64; 2] {
    let newest = |migrations: &[(i64, &str, &str)]| migrations.iter().map(|(version, ..)| *version).max();
    [newest(sqlite::MIGRATIONS.as_slice()).unwrap_or(0), newest(postgres::MIGRATIONS.as_slice()).unwrap_or(0)]
}

/// Reads the state of a database's schema. Changes nothing, and daemons may run.
///
/// # Errors
/// [`StoreError::Unavailable`], also when there is no such file.
pub async fn status(settings: &DatabaseSettings) -> StoreResult<Schema> {
    let mut connection = match settings {
        DatabaseSettings::Sqlite(settings) => sqlite::open_unchanged(settings).await?,
        DatabaseSettings::Postgres(settings) => postgres::connect_single(settings, STATEMENT_MS_MAX).await?,
    };
    read(&mut connection).await
}

/// Reads the state of the schema that [`up`] would find. Changes nothing.
///
/// # Errors
/// [`StoreError::Unavailable`].
pub async fn before_up(settings: &DatabaseSettings) -> StoreResult<Schema> {
    match settings {
        DatabaseSettings::Sqlite(file) if !sqlite::is_there(file)? => {
            Ok(compare(&migrator(SqlDialect::Sqlite), Vec::new()))
        }
        _ => status(settings).await,
    }
}

/// Brings a database up to date. Creates a missing file. Returns the schema as it was before.
///
/// # Errors
/// [`StoreError::Schema`] if that is impossible, [`StoreError::InUse`] while a daemon uses the file, [`StoreError::Unavailable`].
pub async fn up(settings: &DatabaseSettings) -> StoreResult<Schema> {
    up_within(settings, turns::TRIES_MAX).await
}

/// Works like [`up`], but makes at most `tries_max` attempts to lock a server's tables that others use.
///
/// # Errors
/// As [`up`].
pub async fn up_within(settings: &DatabaseSettings, tries_max: u32) -> StoreResult<Schema> {
    match settings {
        DatabaseSettings::Sqlite(settings) => {
            let (mut connection, _lock) = sqlite::open_locked(settings, true).await?;
            migrate_within(&mut connection, tries_max).await
        }
        DatabaseSettings::Postgres(settings) => {
            let mut connection = postgres::connect_single(settings, STATEMENT_MS_MAX).await?;
            migrate_within(&mut connection, tries_max).await
        }
    }
}

/// Checks that the schema is that of this recapd, for callers that only read and can't change it.
pub(super) async fn check(connection: &mut Connection) -> StoreResult<()> {
    read(connection).await?.check_current()
}

/// Applies the missing migrations. If several callers do so at once, one applies them and the others wait. Returns the schema
/// as it was before.
pub(super) async fn migrate(connection: &mut Connection) -> StoreResult<Schema> {
    migrate_within(connection, turns::TRIES_MAX).await
}

async fn migrate_within(connection: &mut Connection, tries_max: u32) -> StoreResult<Schema> {
    let before = read(connection).await?;
    before.can_go_on()?;
    check_encoding(connection, &before).await?;
    check_schemas_closed(connection).await?;
    let migrator = migrator(connection.dialect());
    match connection.dialect() {
        SqlDialect::Sqlite => run(connection, &migrator).await.map_err(failure)?,
        SqlDialect::Postgres => turns::migrate(connection, &migrator, tries_max).await?,
    }
    Ok(before)
}

async fn check_encoding(connection: &mut Connection, found: &Schema) -> StoreResult<()> {
    match non_utf8_encoding(connection).await? {
        Some(encoding) if !found.may_keep_encoding(&encoding) => {
            let carry = if found.is_missing() {
                ""
            } else {
                "; `recapd export` by the recapd that wrote it, `recapd import` into the new one"
            };
            Err(StoreError::Schema(format!(
                "its encoding is {encoding}, recapd needs UTF8: {UTF8_CURE}{carry}"
            )))
        }
        _ => Ok(()),
    }
}

/// Fails if every role may create objects in a schema of the server's search path. Statements call PostgreSQL's functions by
/// name, and a function in that schema whose parameter types match a call exactly takes precedence. It would run with recapd's
/// rights.
pub(super) async fn check_schemas_closed(connection: &mut Connection) -> StoreResult<()> {
    let open = open_schemas(connection).await?;
    if open.is_empty() {
        return Ok(());
    }
    let cures: Vec<String> =
        open.iter().map(|schema| format!("REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC")).collect();
    Err(StoreError::Schema(format!(
        "every role may create functions in the schema {}, and recapd could be made to call them; as the owner of the database: {}; or \
         leave it out of the role's search_path",
        open.join(", "),
        cures.join("; ")
    )))
}

/// Returns the schemas in a server's search path in which every role may create objects, quoted where necessary.
pub(super) async fn open_schemas(connection: &mut Connection) -> StoreResult<Vec<String>> {
    if connection.dialect() == SqlDialect::Sqlite {
        return Ok(Vec::new());
    }
    let sql = sql!(
        "-- postgres/schema.open\nSELECT quote_ident(n.nspname) FROM pg_namespace n \
         WHERE n.nspname = ANY (current_schemas(false)) AND EXISTS (SELECT 1 FROM aclexplode(n.nspacl) a \
         WHERE a.grantee = 0 AND a.privilege_type = 'CREATE') ORDER BY n.nspname"
    );
    let found = query(sql).fetch_all(connection).await?;
    found.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Returns the encoding of a server's database if it isn't UTF8.
pub(super) async fn non_utf8_encoding(connection: &mut Connection) -> StoreResult<Option<String>> {
    if connection.dialect() == SqlDialect::Sqlite {
        return Ok(None);
    }
    let sql = sql!("-- postgres/schema.encoding\nSELECT current_setting('server_encoding')");
    let encoding: String = query(sql).fetch_one(connection).await?.try_get(0)?;
    Ok(Some(encoding).filter(|encoding| encoding != "UTF8"))
}

async fn run(connection: &mut Connection, migrator: &Migrator) -> Result<(), MigrateError> {
    match connection.driver() {
        DriverConnection::Direct(_) => {
            Err(MigrateError::Source("the writer's connection is opened when the schema is there".into()))
        }
        DriverConnection::Sqlite(sqlite) => migrator.run(sqlite).await,
        DriverConnection::Postgres(postgres) => migrator.run(postgres.untimed()?).await,
    }
}

pub(super) async fn read(connection: &mut Connection) -> StoreResult<Schema> {
    let table = sql!(
        sqlite: "-- sql/schema.table\nSELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'",
        postgres: "-- sql/schema.table\n\
                   SELECT CAST(to_regclass('_sqlx_migrations') IS NOT NULL AS integer)::bigint",
    );
    let has_table: i64 = query(table).fetch_one(&mut *connection).await?.try_get(0)?;
    let mut applied = Vec::new();
    if has_table == 1 {
        let sql = sql!(
            sqlite: "-- sql/schema.applied\nSELECT version, description, success, lower(hex(checksum)) \
                     FROM _sqlx_migrations",
            postgres: "-- sql/schema.applied\nSELECT version, description, success, encode(checksum, 'hex') \
                       FROM _sqlx_migrations",
        );
        for row in query(sql).fetch_all(&mut *connection).await? {
            applied.push(AppliedMigration {
                version: row.try_get(0)?,
                name: row.try_get(1)?,
                is_whole: row.try_get(2)?,
                checksum: row.try_get(3)?,
            });
        }
    }
    Ok(compare(&migrator(connection.dialect()), applied))
}

struct AppliedMigration {
    version: i64,
    name: String,
    is_whole: bool,
    checksum: String,
}

fn compare(migrator: &Migrator, mut applied: Vec<AppliedMigration>) -> Schema {
    let mut migrations = Vec::new();
    for migration in migrator.iter() {
        let found = applied.iter().position(|found| found.version == migration.version);
        let state = match found.map(|found| applied.swap_remove(found)) {
            None => MigrationState::Pending,
            Some(found) if !found.is_whole => MigrationState::HalfDone,
            Some(found) if found.checksum != hexadecimal(&migration.checksum) => MigrationState::Changed,
            Some(_) => MigrationState::Applied,
        };
        migrations.push(Migration {
            version: migration.version,
            name: migration.description.to_string(),
            state,
        });
    }
    migrations.extend(applied.into_iter().map(|found| Migration {
        version: found.version,
        name: found.name,
        state: MigrationState::Unknown,
    }));
    migrations.sort_by_key(|migration| migration.version);
    Schema { migrations }
}

fn migrator(dialect: SqlDialect) -> Migrator {
    let migrations = match dialect {
        SqlDialect::Sqlite => sqlite::MIGRATIONS.as_slice(),
        SqlDialect::Postgres => postgres::MIGRATIONS.as_slice(),
    };
    let migrations = migrations.iter().map(|&(version, name, sql)| {
        sqlx::migrate::Migration::new(
            version,
            name.into(),
            MigrationType::Simple,
            sqlx::SqlStr::from_static(sql),
            false,
        )
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // The migrator's own lock would cover one attempt. On a server, `turns` holds the lock over all attempts; a file has its own
    // lock.
    migrator.set_locking(false);
    migrator
}

fn failure(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) => error.into(),
        // The statement would fail again. If only the connection was lost, a retry may succeed.
        MigrateError::ExecuteMigration(error, version) if error.as_database_error().is_some() => {
            StoreError::Schema(format!("migration {version} fails, and nothing of it was done: {error}"))
        }
        MigrateError::ExecuteMigration(error, version) => StoreError::Unavailable(
            Outage::from(&error)
                .of(format_args!("migration {version} was broken off, and nothing of it was done")),
        ),
        other => StoreError::Schema(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(states: &[MigrationState]) -> Schema {
        let migrations =
            (1..).zip(states).map(|(version, &state)| Migration { version, name: "step".to_owned(), state });
        Schema { migrations: migrations.collect() }
    }

    #[test]
    fn each_state_has_its_cure() {
        use MigrationState::{Applied, Changed, HalfDone, Pending, Unknown};
        assert!(schema(&[Applied, Applied]).check_current().is_ok());
        for (states, cure, can_go_on) in [
            (&[Pending, Pending][..], "`recapd migrate up` makes its tables", true),
            (&[Applied, Pending], "it has version 1, this recapd needs 2; `recapd migrate up`", true),
            (&[Applied, Unknown], "it has version 2, this recapd knows 1; use the newer recapd", false),
            (&[Pending, Unknown], "use the newer recapd", false),
            (
                &[Applied, HalfDone],
                "migration 2 (step) was begun and not finished; go back to a backup",
                false,
            ),
            (&[Changed, Applied], "migration 1 (step) isn't the one that this recapd has", false),
        ] {
            let schema = schema(states);
            let refusal = schema.check_current().unwrap_err().to_string();
            assert!(refusal.contains(cure), "{states:?}: {refusal}");
            assert_eq!(schema.can_go_on().is_ok(), can_go_on, "{states:?}");
        }
    }
}
