//! Migrates a server's database while daemons work on it.
//!
//! While a migration waits for a table that somebody reads (a dump locks all tables until it ends), all later users of the table
//! wait, too: claims, appends, lease renewals. So the migration waits only briefly, releases all locks, pauses to let the others
//! work, and retries.

use std::time::Duration;

use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use tracing::warn;

use super::{
    super::{
        StoreError, StoreResult,
        postgres::wait_at_most,
        sql::{Connection, connection::DriverConnection, query, sql},
    },
    failure, run,
};

/// How long one attempt waits for a lock. Far less than a lease lasts (`queue.lease_ms`), but longer than PostgreSQL waits before
/// it ends an autovacuum that blocks the migration (`deadlock_timeout`, a second by default).
const LOCK_MS_MAX: u64 = 2_000;
/// The pause between two attempts, in which the others work.
const PAUSE: Duration = Duration::from_secs(2);
/// Limits the attempts. Together with their pauses they take more than a minute.
pub(super) const TRIES_MAX: u32 = 20;
/// How long to wait for another recapd that migrates. Nobody else waits for that lock.
const OTHERS_MS_MAX: u64 = 60_000;
/// PostgreSQL's `lock_not_available` and `deadlock_detected`.
const HELD: [&str; 2] = ["55P03", "40P01"];

pub(super) async fn migrate(
    connection: &mut Connection,
    migrator: &Migrator,
    tries_max: u32,
) -> StoreResult<()> {
    lock(connection).await?;
    let result = migrate_with_pauses(connection, migrator, tries_max).await;
    // The lock must not stay on the connection, which others use next.
    let unlocked = unlock(connection).await;
    result.and(unlocked)
}

/// Makes sure that one recapd migrates at a time. Uses the migrator's own lock, which earlier versions take, too.
async fn lock(connection: &mut Connection) -> StoreResult<()> {
    let DriverConnection::Postgres(postgres) = connection.driver() else {
        return Ok(());
    };
    let postgres = postgres.untimed()?;
    wait_at_most(postgres, OTHERS_MS_MAX).await?;
    let locked = postgres.lock().await;
    locked.map_err(|error| {
        StoreError::Unavailable(format!("waiting for another recapd that migrates it: {error}").into())
    })?;
    wait_at_most(postgres, LOCK_MS_MAX).await
}

async fn unlock(connection: &mut Connection) -> StoreResult<()> {
    let DriverConnection::Postgres(postgres) = connection.driver() else {
        return Ok(());
    };
    let postgres = postgres.untimed()?;
    wait_at_most(postgres, OTHERS_MS_MAX).await?;
    postgres.unlock().await.map_err(failure)
}

async fn migrate_with_pauses(
    connection: &mut Connection,
    migrator: &Migrator,
    tries_max: u32,
) -> StoreResult<()> {
    let mut tries = 1;
    loop {
        let error = match run(connection, migrator).await {
            Err(error) if is_held(&error) => error,
            result => return result.map_err(failure),
        };
        let holders = holders(connection).await?;
        if tries >= tries_max {
            let why = format!(
                "others hold its tables: {holders}; nothing of the migration was done, try again when they have ended \
                 ({error}; tries: {tries})"
            );
            return Err(StoreError::Unavailable(why.into()));
        }
        warn!(%error, holders, tries, "schema.waits");
        tokio::time::sleep(PAUSE).await;
        tries += 1;
    }
}

fn is_held(error: &MigrateError) -> bool {
    let (MigrateError::ExecuteMigration(error, _) | MigrateError::Execute(error)) = error else {
        return false;
    };
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| refusal.code().is_some_and(|code| HELD.contains(&code.as_ref())))
}

/// Names some holders of tables in this schema, those with the oldest transactions first.
async fn holders(connection: &mut Connection) -> StoreResult<String> {
    let sql = sql!(
        "-- postgres/schema.holders\nSELECT coalesce(string_agg(who, ', '), 'nobody any more') FROM \
         (SELECT format('%s (pid %s)', coalesce(nullif(a.application_name, ''), a.usename, a.backend_type), a.pid) AS who \
          FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
          AND a.pid IN (SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                        WHERE l.granted AND l.database = a.datid AND c.relkind IN ('r', 'p') \
                        AND c.relnamespace = quote_ident(current_schema())::regnamespace) \
          ORDER BY a.xact_start LIMIT 5) s"
    );
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}
