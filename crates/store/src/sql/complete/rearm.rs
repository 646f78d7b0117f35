//! Ends a lease after an update: deletes the queue's row, arms it again, or parks it.

use crate::{
    Fence, Patch, StoreError, StoreResult,
    sql::{Connection, fairness::rows_ahead, pending, query, sql},
};
use recapd_core::domain::{
    time::Timestamp,
    work::{Lease, PROJECT_SPACING_MS, Priority, ROWS_AHEAD_MAX, WOKEN_RETRY_MS_MIN},
};

/// Parks the row after its last attempt; [`RetryPolicy`](recapd_core::domain::work::RetryPolicy) decides which attempt is the
/// last. A row that was woken during the attempt isn't parked, but gets one more attempt after a wait: exchanges left the window
/// meanwhile, and perhaps no further wake comes.
///
/// Resets the count of crashes: digests now cover the exchanges with which workers crashed, and the next questions are about
/// other exchanges.
pub(super) async fn park(
    tx: &mut Connection,
    lease: &Lease,
    patch: &Patch,
    error: String,
    now: Timestamp,
) -> StoreResult<bool> {
    let low = Priority::Low.level();
    let again_at = now.plus_ms(patch.rearm_wait_ms.max(WOKEN_RETRY_MS_MIN));
    let sql = sql!(
        "-- sql/complete.park\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, crashes = 0, last_error = $4, parked_at = CASE WHEN wake_seq = $5 THEN $3 END, \
               priority = CASE WHEN wake_seq = $5 THEN priority ELSE $6 END, \
               visible_at = CASE WHEN wake_seq = $5 THEN visible_at ELSE $7 END, \
               due_at = CASE WHEN wake_seq = $5 THEN due_at ELSE $8 + behind_ms {ms} END \
               WHERE agent_id = $1 AND lease_token = $2 RETURNING parked_at IS NOT NULL"
    );
    let row = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(now)
        .bind(error)
        .bind(lease.claimed_wake)
        .bind(low)
        .bind(again_at)
        .bind(again_at.plus_ms(Priority::slack_ms(low)))
        .fetch_one(tx)
        .await?;
    Ok(row.try_get(0)?)
}

/// Deletes the row if no work is left. Otherwise arms it again: after `rearm_wait_ms` if a partial batch is pending and nothing
/// urgent woke the row during the update, else at once. Returns true if the row is armed again.
pub(super) async fn finish(
    tx: &mut Connection,
    lease: &Lease,
    boundary: i64,
    patch: &Patch,
    now: Timestamp,
) -> StoreResult<bool> {
    if boundary == patch.hi + 1 && !patch.has_more && delete_row(tx, lease).await? {
        return Ok(false);
    }
    let pending = boundary - 1 - patch.hi;
    let is_batch = pending >= patch.batch_exchanges
        && pending::has_tokens(tx, &lease.agent, patch.hi, patch.batch_tokens_min).await?;
    let is_partial_batch = pending > 0 && !is_batch;
    let wait_ms =
        if is_partial_batch && !was_woken_urgently(tx, lease).await? { patch.rearm_wait_ms } else { 0 };
    rearm(tx, lease, wait_ms, now).await?;
    Ok(true)
}

/// Returns true if something urgent woke the row during the update: a session ended, or an operator asked.
async fn was_woken_urgently(tx: &mut Connection, lease: &Lease) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/complete.is_urged\nSELECT wake_seq <> $3 AND priority >= $4 FROM summary_update_queue \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let row = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.claimed_wake)
        .bind(Priority::High.level())
        .fetch_one(tx)
        .await?;
    Ok(row.try_get(0)?)
}

/// Deletes the row, unless it was woken during the update. Returns true if it is deleted.
pub(super) async fn delete_row(tx: &mut Connection, lease: &Lease) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/complete.delete_row\nDELETE FROM summary_update_queue \
               WHERE agent_id = $1 AND lease_token = $2 AND wake_seq = $3"
    );
    let query = query(sql).bind(lease.agent.as_str()).bind(lease.token).bind(lease.claimed_wake);
    Ok(query.execute(tx).await? == 1)
}

/// Ends the lease. The row may be claimed again after `wait_ms`, with a new series of attempts.
pub(super) async fn rearm(
    tx: &mut Connection,
    lease: &Lease,
    wait_ms: i64,
    now: Timestamp,
) -> StoreResult<()> {
    let visible_at = now.plus_ms(wait_ms);
    let normal = Priority::Normal.level();
    let sql = sql!(
        "-- sql/complete.rearm\nUPDATE summary_update_queue AS q SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, attempts = 0, crashes = 0, last_error = NULL, queued_at = $3, priority = $4, \
               visible_at = $5, project_id = p.project_id, behind_ms = p.behind, due_at = $6 + p.behind {ms} \
               FROM (SELECT a.project_id, CASE WHEN a.project_id IS NULL THEN 0 ELSE $7 * ",
        rows_ahead!("$4", "AND w.agent_id <> a.agent_id", "$8"),
        " END AS behind FROM agents a WHERE a.agent_id = $1 LIMIT 1) p WHERE q.agent_id = $1 AND q.lease_token = $2"
    );
    let row_count = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(now)
        .bind(normal)
        .bind(visible_at)
        .bind(visible_at.plus_ms(Priority::slack_ms(normal)))
        .bind(PROJECT_SPACING_MS)
        .bind(ROWS_AHEAD_MAX)
        .execute(tx)
        .await?;
    if row_count == 1 { Ok(()) } else { Err(StoreError::Fenced(Fence::Lease)) }
}
