//! Removes forgotten and deleted data from the tables: dead rows that no transaction can see any more.

use std::time::Duration;

use tracing::warn;

use crate::{
    StoreResult,
    sql::{Connection, query, query_made, sql},
};

/// Limits the checks for readers of an earlier state.
const CHECKS_MAX: u32 = 20;
/// The pause between two of these checks.
const CHECK_EVERY: Duration = Duration::from_millis(25);

/// Vacuums all tables with agents' rows. Returns false if dead rows may be left: somebody still reads an earlier state, the
/// statement timed out, or the role doesn't own the tables.
pub(super) async fn vacuum(connection: &mut Connection) -> StoreResult<bool> {
    let sql = sql!(
        "-- postgres/vacuum.tables\nSELECT quote_ident(c.relname), pg_has_role(c.relowner, 'USAGE') FROM pg_class c \
               JOIN pg_attribute t ON t.attrelid = c.oid WHERE t.attname = 'agent_id' AND c.relkind = 'r' \
               AND c.relnamespace = CAST(current_schema() AS regnamespace) ORDER BY c.relname"
    );
    let (mut tables, mut owns_all) = (Vec::new(), true);
    for row in query(sql).fetch_all(&mut *connection).await? {
        let (table, owns): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
        owns_all &= owns;
        tables.extend(owns.then_some(table));
    }
    if tables.is_empty() {
        return Ok(false);
    }
    let is_unread = wait_for_readers(connection).await?;
    // The names come from the schema. TRUNCATE is off because it waits up to five seconds for an exclusive lock on each table,
    // and readers would queue behind that lock.
    let sql = format!("-- postgres/vacuum.vacuum\nVACUUM (TRUNCATE false) {}", tables.join(", "));
    if let Err(error) = query_made(sql).execute(connection).await {
        warn!(%error, "postgres.not_vacuumed");
        return Ok(false);
    }
    Ok(is_unread && owns_all)
}

/// Waits a moment until nobody sees the earlier state: no reader, no prepared transaction, no standby that reports what it reads.
/// Returns false if somebody still sees it.
async fn wait_for_readers(connection: &mut Connection) -> StoreResult<bool> {
    // The first transaction id that isn't assigned yet. Whoever still sees the earlier state has an older id.
    let next = sql!(
        "-- postgres/vacuum.next\nSELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS xid) AS text)"
    );
    let next: String = query(next).fetch_one(&mut *connection).await?.try_get(0)?;
    // The server hides other roles' statements and their times, but not these ids, by which VACUUM decides. Leaves out other
    // vacuums, which delay none. Includes sessions without a database: they send the log to standbys.
    let read = sql!(
        "-- postgres/vacuum.readers\nSELECT coalesce(max(held.xids), 0) > age(CAST(CAST($1 AS text) AS xid)) FROM (\
               SELECT greatest(age(backend_xid), age(backend_xmin)) AS xids FROM pg_stat_activity \
               WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL) \
               AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum) \
               UNION ALL SELECT age(transaction) FROM pg_prepared_xacts WHERE database = current_database() \
               UNION ALL SELECT age(xmin) FROM pg_replication_slots) AS held"
    );
    for _ in 0..CHECKS_MAX {
        let row = query(read).bind(next.as_str()).fetch_one(&mut *connection).await?;
        if !row.try_get::<bool>(0)? {
            return Ok(true);
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
    Ok(false)
}
