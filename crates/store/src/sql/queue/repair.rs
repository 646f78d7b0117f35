//! Repairs the queue after a clock was set back, creates missing rows, and retries rows parked long ago.

use crate::{
    StoreResult,
    sql::{
        Connection, Lock, SqlStore, batch,
        fairness::{Newcomers, enqueue_all},
        query, sql,
    },
};
use recapd_core::domain::{
    time::{CLOCK_JUMP_MS_MIN, Timestamp},
    work::{CRASHED_PROBE_MS, Priority, Reason},
};

/// Limits how many missing rows one transaction creates.
const RECONCILED_MAX: i64 = 1_000;

/// See [`crate::Store::set_back`].
pub(crate) async fn set_back(tx: &mut Connection, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64> {
    // Batches always use the daemons' clocks, even where leases use the database's.
    batch::limit_next_polls(tx, now).await?;
    let Some(now) = tx.caller_time(now) else {
        return Ok(0);
    };
    let ahead_ms = match ahead_ms {
        Some(ahead_ms) => ahead_ms,
        None => newest(tx).await?.map_or(0, |newest| newest.since_ms(now)),
    };
    if ahead_ms < CLOCK_JUMP_MS_MIN {
        return Ok(0);
    }
    let sql = sql!(
        "-- sql/queue.set_back\nUPDATE summary_update_queue SET visible_at = {max}(visible_at - $2 {ms}, $1), \
               due_at = due_at - $2 {ms}, paused_until = CASE WHEN paused_until IS NOT NULL \
               THEN {max}(paused_until - $2 {ms}, $1) END \
               WHERE parked_at IS NULL AND visible_at > $1 AND (lease_token IS NULL OR leased_at > $1)"
    );
    let changed = query(sql).bind(now).bind(ahead_ms).execute(&mut *tx).await?;
    let sql = sql!(
        "-- sql/queue.set_back_parked\nUPDATE summary_update_queue SET parked_at = {min}(parked_at, $1), \
               revived_at = CASE WHEN revived_at > $1 THEN $1 ELSE revived_at END \
               WHERE parked_at IS NOT NULL AND (parked_at > $1 OR revived_at > $1)"
    );
    query(sql).bind(now).execute(tx).await?;
    Ok(changed)
}

/// Returns the latest stored time of any past action.
async fn newest(tx: &mut Connection) -> StoreResult<Option<Timestamp>> {
    let sql = sql!(
        "-- sql/queue.newest\nSELECT max(at) FROM (SELECT max(queued_at) AS at FROM summary_update_queue \
               UNION ALL SELECT max(leased_at) FROM summary_update_queue \
               UNION ALL SELECT finished_at FROM (SELECT finished_at FROM update_runs ORDER BY run DESC LIMIT 1) last) times"
    );
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// See [`crate::Store::reconcile`]. Works in short steps, so that no other write waits for long.
pub(crate) async fn reconcile(
    store: &SqlStore,
    pending_before: Timestamp,
    now: Timestamp,
) -> StoreResult<u64> {
    let mut row_count = 0;
    loop {
        let step = store
            .write(Lock::Nothing, move |tx| Box::pin(reconcile_some(tx, pending_before, now, RECONCILED_MAX)))
            .await?;
        row_count += step;
        if step < RECONCILED_MAX.unsigned_abs() {
            return Ok(row_count);
        }
    }
}

/// Creates up to `limit` missing rows, for the agents that have been pending longest. No row should ever be missing, so each
/// created row raises an alert.
async fn reconcile_some(
    tx: &mut Connection,
    pending_before: Timestamp,
    now: Timestamp,
    limit: i64,
) -> StoreResult<u64> {
    let sql = sql!(enqueue_all!(
        [
            "-- sql/queue.reconcile\nWITH newcomers AS (SELECT a.agent_id, a.project_id, {false} AS is_queued FROM agents a \
             WHERE a.pending_since < $1 AND NOT EXISTS (SELECT 1 FROM summary_update_queue o WHERE o.agent_id = a.agent_id) \
             ORDER BY a.pending_since LIMIT $9 {for_share})"
        ],
        ["DO NOTHING"]
    ));
    let newcomers =
        Newcomers { by: pending_before, reason: Reason::Reconcile, priority: Priority::Normal, now, limit };
    newcomers.enqueue(tx, sql).await
}

/// Gives rows parked long ago one more attempt; a failure parks them again. If the workers of a row's attempts crashed, another
/// row may have caused the crashes. Such a row gets its attempt after
/// [`CRASHED_PROBE_MS`], unless it was revived after `parked_before`.
pub(crate) async fn probe_parked(
    tx: &mut Connection,
    parked_before: Timestamp,
    attempts_max: i64,
    now: Timestamp,
) -> StoreResult<u64> {
    let now = tx.now(now).await?;
    let low = Priority::Low.level();
    let sql = sql!(
        "-- sql/queue.probe_parked\nUPDATE summary_update_queue SET parked_at = NULL, attempts = $2, \
               crashes = {min}(crashes, 2), revived_at = $3, visible_at = $3, due_at = $4 + behind_ms {ms} \
               WHERE (parked_at < $1 OR parked_at < $5 AND last_error LIKE 'crashed:%' \
               AND (revived_at IS NULL OR revived_at < $1)) AND coalesce(last_error, '') NOT LIKE 'cancelled:%' \
               AND agent_id IN (SELECT agent_id FROM summary_update_queue WHERE parked_at < $1 OR parked_at < $5 \
               ORDER BY agent_id {for_update})"
    );
    let crashed_before = now.plus_ms(-CRASHED_PROBE_MS);
    let row_count = query(sql)
        .bind(parked_before)
        .bind((attempts_max - 1).max(0))
        .bind(now)
        .bind(now.plus_ms(Priority::slack_ms(low)))
        .bind(crashed_before)
        .execute(tx)
        .await?;
    Ok(row_count)
}
