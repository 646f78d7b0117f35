//! Claims: gives workers leases on due rows, each with a fencing token.
//!
//! A row is due when its `visible_at` has passed. A claim sets `visible_at` to the end of the lease (`queue.lease_ms` from then),
//! and renewals move it on. If a worker vanishes, its lease expires, the row is due again, and the claim of another worker takes
//! it over. Rows that are due are claimed in the order of `due_at`, which contains the urgency and the place in the project.

use crate::{
    ClaimRequest, StoreResult,
    sql::{Connection, Row, query, row, sql},
};
use recapd_core::domain::{agent::AgentId, time::Timestamp, work::Lease};

/// Limits how many rows are read to find out when the next row is due.
const ROWS_READ_MAX: i64 = 1_000;

/// Returns true if a claim would find a row. A pause of all updates hides all rows. PostgreSQL doesn't need this check before a
/// claim.
pub(crate) async fn is_any_due(connection: &mut Connection, now: Timestamp) -> StoreResult<bool> {
    let now = connection.now(now).await?;
    let sql = sql!(
        "-- sqlite/queue.is_any_due\nSELECT 1 FROM summary_update_queue \
               WHERE parked_at IS NULL AND visible_at <= $1 AND NOT EXISTS (SELECT 1 FROM queue_pauses) LIMIT 1"
    );
    Ok(query(sql).bind(now).fetch_optional(connection).await?.is_some())
}

/// Returns in how many milliseconds the next row is due; `None` if there are no rows that can become due. Reads only the first
/// [`ROWS_READ_MAX`] rows: if there may be more, returns 0, because any further row may be due already. Ignores a pause of all
/// updates.
pub(crate) async fn next_due_ms(connection: &mut Connection, now: Timestamp) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/queue.next_due_ms\nSELECT count(*), min(visible_at) FROM (SELECT visible_at FROM summary_update_queue \
               WHERE parked_at IS NULL LIMIT $1) AS first_rows"
    );
    let row = query(sql).bind(ROWS_READ_MAX).fetch_one(&mut *connection).await?;
    let Some(due_at) = row.try_get::<Option<Timestamp>>(1)? else {
        return Ok(None);
    };
    if row.try_get::<i64>(0)? == ROWS_READ_MAX {
        return Ok(Some(0));
    }
    let now = connection.now(now).await?;
    Ok(Some(due_at.since_ms(now).max(0)))
}

/// Leases due rows in the order of `due_at`. Each row gets its own fencing token.
///
/// Takes row by row, for a database with a single writer.
pub(crate) async fn claim(tx: &mut Connection, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
    let next_due = sql!(
        "-- sqlite/queue.next_due\nSELECT agent_id, visible_at, lease_token IS NOT NULL FROM summary_update_queue \
               WHERE parked_at IS NULL AND visible_at <= $1 AND NOT EXISTS (SELECT 1 FROM queue_pauses) \
               ORDER BY due_at, visible_at, agent_id LIMIT 1"
    );
    let (now, mut leases) = (claim.now, Vec::new());
    for _ in 0..claim.limit {
        let Some(row) = query(next_due).bind(now).fetch_optional(&mut *tx).await? else {
            break;
        };
        let agent: String = row.try_get(0)?;
        let due = Due { since: row.try_get(1)?, is_held: row.try_get(2)? };
        leases.push(take(tx, &agent, due, &claim, now).await?);
    }
    Ok(leases)
}

/// Does the same as [`claim`] for a database with many writers: one statement skips rows that others are claiming, and gives out
/// the fencing tokens from `first_token` on.
///
/// The commit doesn't wait for the disk: a crash of the server would undo the lease, and the row could be claimed again. So the
/// tokens must come from a block whose reservation is on disk ([`reserve_tokens`]). Otherwise a token could be given out twice.
pub(crate) async fn claim_at_once(
    connection: &mut Connection,
    claim: &ClaimRequest,
    first_token: i64,
) -> StoreResult<Vec<Lease>> {
    let sql = sql!(
        "-- postgres/queue.claim\nWITH due AS MATERIALIZED (SELECT agent_id, visible_at, due_at, \
               lease_token IS NOT NULL AS is_held FROM summary_update_queue WHERE parked_at IS NULL AND visible_at <= coalesce($1, now()) \
               AND NOT EXISTS (SELECT 1 FROM queue_pauses) \
               ORDER BY due_at, visible_at, agent_id LIMIT $2 FOR UPDATE SKIP LOCKED), \
               numbered AS (SELECT d.*, row_number() OVER (ORDER BY due_at, visible_at, agent_id) AS number FROM due d) \
               UPDATE summary_update_queue q SET lease_token = $5 - 1 + n.number, lease_owner = $3, \
               leased_at = coalesce($1, now()), visible_at = coalesce($1, now()) + $4 * interval '1 millisecond', \
               claimed_wake = q.wake_seq, attempts = q.attempts + 1, deferred_at = NULL, \
               crashes = q.crashes + CASE WHEN q.lease_token IS NULL THEN 0 ELSE 1 END, paused_until = NULL, \
               paused_for = NULL FROM numbered n WHERE q.agent_id = n.agent_id RETURNING q.agent_id, q.lease_token, \
               q.claimed_wake, q.attempts, q.crashes, q.reasons, n.visible_at, n.is_held, \
               set_config('synchronous_commit', 'off', true)"
    );
    let found = query(sql)
        .bind(connection.caller_time(claim.now))
        .bind(claim.limit.min(TOKENS_RESERVED))
        .bind(claim.owner.as_str())
        .bind(claim.lease_ms)
        .bind(first_token)
        .fetch_all(connection)
        .await?;
    let mut leases = found.iter().map(read_lease).collect::<StoreResult<Vec<Lease>>>()?;
    leases.sort_by_key(|lease| lease.token);
    Ok(leases)
}

/// Does the same as [`claim`] for one agent's row.
pub(crate) async fn claim_one(
    tx: &mut Connection,
    agent: &AgentId,
    claim: ClaimRequest,
) -> StoreResult<Option<Lease>> {
    let now = tx.now(claim.now).await?;
    let is_due = sql!(
        "-- sql/queue.is_due\nSELECT visible_at, lease_token IS NOT NULL FROM summary_update_queue \
               WHERE agent_id = $1 AND parked_at IS NULL AND visible_at <= $2 \
               AND NOT EXISTS (SELECT 1 FROM queue_pauses) {for_update}"
    );
    let found = query(is_due).bind(agent.as_str()).bind(now);
    let Some(found) = found.fetch_optional(&mut *tx).await? else {
        return Ok(None);
    };
    let due = Due { since: found.try_get(0)?, is_held: found.try_get(1)? };
    take(tx, agent.as_str(), due, &claim, now).await.map(Some)
}

/// The columns of a row that are read before a claim overwrites them.
#[derive(Clone, Copy)]
struct Due {
    /// From this time on the row could be claimed.
    since: Timestamp,
    /// True if the row still has an expired lease, whose holder has vanished.
    is_held: bool,
}

/// Leases one due row.
async fn take(
    tx: &mut Connection,
    agent: &str,
    due: Due,
    claim: &ClaimRequest,
    now: Timestamp,
) -> StoreResult<Lease> {
    let token = next_token(tx).await?;
    let sql = sql!(
        "-- sql/queue.lease\nUPDATE summary_update_queue SET lease_token = $2, lease_owner = $3, \
               leased_at = $4, visible_at = $5, claimed_wake = wake_seq, attempts = attempts + 1, deferred_at = NULL, \
               crashes = crashes + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END, paused_until = NULL, paused_for = NULL \
               WHERE agent_id = $1 RETURNING agent_id, lease_token, claimed_wake, attempts, crashes, reasons, $6, $7"
    );
    let leased = query(sql)
        .bind(agent)
        .bind(token)
        .bind(claim.owner.as_str())
        .bind(now)
        .bind(now.plus_ms(claim.lease_ms))
        .bind(due.since)
        .bind(due.is_held)
        .fetch_one(tx)
        .await?;
    read_lease(&leased)
}

/// How many fencing tokens one step of PostgreSQL's sequence reserves.
pub(crate) const TOKENS_RESERVED: i64 = 1_000;

/// Reserves a block of fencing tokens that nobody else ever gets, and returns the first. The transaction takes an id, so that its
/// commit waits until the sequence's log is on disk.
pub(crate) async fn reserve_tokens(connection: &mut Connection) -> StoreResult<i64> {
    let sql = sql!(
        "-- postgres/queue.reserve_tokens\nSELECT nextval('lease_token'), CAST(pg_current_xact_id() AS text)"
    );
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

fn read_lease(row: &Row) -> StoreResult<Lease> {
    let agent: String = row.try_get(0)?;
    Ok(Lease {
        agent: agent
            .parse()
            .map_err(|_| row::inconsistent("summary_update_queue", agent.clone(), "agent_id", agent))?,
        token: row.try_get(1)?,
        claimed_wake: row.try_get(2)?,
        attempt: row.try_get(3)?,
        crashes: row.try_get(4)?,
        reasons: row.try_get(5)?,
        ready_at: row.try_get(6)?,
        taken_over: row.try_get(7)?,
    })
}

/// Takes the next fencing token.
pub(crate) async fn next_token(tx: &mut Connection) -> StoreResult<i64> {
    let sql = sql!(
        sqlite: "-- sql/queue.next_token\nUPDATE counters SET value = value + 1 WHERE name = 'lease_token' RETURNING value",
        postgres: "-- sql/queue.next_token\nSELECT nextval('lease_token')",
    );
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}
