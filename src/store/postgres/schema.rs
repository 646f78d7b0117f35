//! The schema: its migrations, and whether a database has the one that this recapd knows.

use std::cmp::Ordering;

use sqlx::{
    PgConnection, Row as _,
    migrate::{Migration, MigrationType, Migrator},
};

use super::super::{StoreError, StoreResult};

/// The schema this recapd writes, one entry per migration.
const MIGRATIONS: [(i64, &str, &str); 2] = [
    (
        1,
        "schema",
        include_str!("../../../migrations/postgres/0001_schema.sql"),
    ),
    (
        2,
        "direct sql",
        include_str!("../../../migrations/postgres/0002_direct_sql.sql"),
    ),
];

/// Whoever only looks changes nothing, so the schema has to be this recapd's already.
pub(super) async fn check(connection: &mut PgConnection) -> StoreResult<()> {
    let sql = "-- postgres/schema.check\nSELECT CAST(to_regclass('_sqlx_migrations') IS NOT NULL AS integer)::bigint";
    if sqlx::query(sql)
        .fetch_one(&mut *connection)
        .await?
        .try_get::<i64, _>(0)?
        == 0
    {
        return Err(StoreError::Schema("this is not a database of recapd".to_owned()));
    }
    let sql =
        "-- postgres/schema.version\nSELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";
    let found: i64 = sqlx::query(sql).fetch_one(connection).await?.try_get(0)?;
    let own = MIGRATIONS.last().map_or(0, |(version, ..)| *version);
    match found.cmp(&own) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(StoreError::Schema(format!(
            "it has version {found}, this recapd needs {own}; `recapd serve` brings it up to date"
        ))),
        Ordering::Greater => Err(StoreError::Schema(format!(
            "it has version {found}, this recapd knows {own}; use the newer recapd that wrote it"
        ))),
    }
}

pub(super) async fn migrate(connection: &mut PgConnection) -> StoreResult<()> {
    let migrations = MIGRATIONS.into_iter().map(|(version, name, sql)| {
        Migration::new(
            version,
            name.into(),
            MigrationType::Simple,
            sqlx::SqlStr::from_static(sql),
            false,
        )
    });
    Migrator::with_migrations(migrations.collect())
        .run(connection)
        .await
        .map_err(|error| StoreError::Schema(error.to_string()))
}
