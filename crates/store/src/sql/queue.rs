//! The queue: one row per agent, with one column that says when the row may be claimed.
//!
//! This module creates and wakes rows. [`claim`](mod@claim) leases them to workers, [`lease`] renews and ends leases, [`repair`]
//! repairs rows, and [`run`] records attempts.

mod claim;
mod lease;
mod repair;
mod run;

use crate::{
    EnqueueOutcome, StoreError, StoreResult,
    sql::{Connection, fairness::rows_ahead, query, sql},
};
use recapd_core::domain::{
    agent::AgentId,
    time::Timestamp,
    work::{PROJECT_SPACING_MS, Priority, ROWS_AHEAD_MAX, Reason},
};

pub(crate) use claim::{TOKENS_RESERVED, claim_at_once, reserve_tokens};
pub(super) use claim::{claim, claim_one, is_any_due, next_due_ms, next_token};
pub(super) use lease::{disclaim, error_text, fail, reclaim, release, renew};
pub(super) use repair::{probe_parked, reconcile, set_back};
pub(super) use run::{RunOutcome, insert_run, record_run};

/// A wake: says that an agent's summary needs an update. These are the parameters of [`enqueue`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub(super) reason: Reason,
    /// How long the row may wait for more work, so that one update does more.
    pub(super) delay_ms: i64,
    /// The shortest time between two revivals of a parked row; 0 revives the row at once.
    pub(super) revive_after_ms: i64,
    pub(super) now: Timestamp,
}

impl Wake {
    /// Returns a wake that makes the row due at once.
    pub(super) fn at_once(reason: Reason, now: Timestamp) -> Self {
        Self { reason, delay_ms: 0, revive_after_ms: 0, now }
    }
}

/// Creates the row, or counts a wake in the existing one. A wake never shortens a lease, a backoff or a pause, and never lowers
/// the urgency. A row that waits for a batch's answer keeps waiting, unless the wake is urgent. A new row gets a place behind the
/// waiting rows of its project. An existing row keeps its place, unless it becomes more urgent: then it gets the place of a new
/// row.
pub(super) async fn enqueue(tx: &mut Connection, agent: &AgentId, wake: Wake) -> StoreResult<EnqueueOutcome> {
    let Wake { reason, delay_ms, revive_after_ms, now } = wake;
    let now = tx.now(now).await?;
    let level = reason.priority().level();
    let visible_at = now.plus_ms(delay_ms);
    let sql = sql!(
        "-- sql/queue.enqueue\nINSERT INTO summary_update_queue AS q \
               (agent_id, project_id, priority, reasons, queued_at, visible_at, behind_ms, due_at) \
               SELECT agent_id, project_id, $2, $3, $4, $5, behind, $6 + behind {ms} FROM (SELECT a.agent_id, a.project_id, \
               CASE WHEN a.project_id IS NULL THEN 0 ELSE coalesce((SELECT o.behind_ms FROM summary_update_queue o \
               WHERE o.agent_id = a.agent_id AND o.priority >= $2), $8 * ",
        rows_ahead!("$2", "", "$9"),
        ") END AS behind FROM agents a WHERE a.agent_id = $1 LIMIT 1 {for_share}) place WHERE true \
               ON CONFLICT (agent_id) DO UPDATE SET wake_seq = q.wake_seq + 1, reasons = q.reasons | excluded.reasons, \
               priority = {max}(q.priority, excluded.priority), due_at = {min}(q.due_at, excluded.due_at), \
               behind_ms = {min}(q.behind_ms, excluded.behind_ms), \
               visible_at = CASE WHEN q.lease_token IS NULL AND q.attempts = 0 AND q.paused_until IS NULL \
                                 AND (q.deferred_at IS NULL OR excluded.priority >= $7) \
                                 THEN {min}(q.visible_at, excluded.visible_at) ELSE q.visible_at END \
               RETURNING wake_seq, visible_at, parked_at"
    );
    let row = query(sql)
        .bind(agent.as_str())
        .bind(level)
        .bind(reason.bit())
        .bind(now)
        .bind(visible_at)
        .bind(visible_at.plus_ms(Priority::slack_ms(level)))
        .bind(Priority::High.level())
        .bind(PROJECT_SPACING_MS)
        .bind(ROWS_AHEAD_MAX)
        .fetch_optional(&mut *tx)
        .await?
        .ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let is_new = row.try_get::<i64>(0)? == 1;
    let visible_at = row.try_get(1)?;
    let is_parked = row.try_get::<Option<Timestamp>>(2)?.is_some();
    let revived = is_parked && revive(tx, agent, level, revive_after_ms, now).await?;
    Ok(EnqueueOutcome { is_new, revived, visible_at: if revived { now } else { visible_at } })
}

/// Gives a parked row a new series of attempts. After a third crash it gets only one more attempt.
async fn revive(
    tx: &mut Connection,
    agent: &AgentId,
    level: i64,
    revive_after_ms: i64,
    now: Timestamp,
) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/queue.revive\nUPDATE summary_update_queue SET parked_at = NULL, attempts = 0, \
               crashes = {min}(crashes, 2), revived_at = $2, visible_at = $2, due_at = $3 + behind_ms {ms} \
               WHERE agent_id = $1 AND parked_at IS NOT NULL AND (revived_at IS NULL OR revived_at <= $4)"
    );
    let row_count = query(sql)
        .bind(agent.as_str())
        .bind(now)
        .bind(now.plus_ms(Priority::slack_ms(level)))
        .bind(now.plus_ms(-revive_after_ms))
        .execute(tx)
        .await?;
    Ok(row_count == 1)
}

#[cfg(test)]
mod tests;
