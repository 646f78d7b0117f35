//! Applies operators' actions to the queue.

use super::{super::queue, Connection, EnqueueOutcome, HAND, OperatorOutcome, StoreResult, query, sql};
use crate::StoreError;
use recapd_core::domain::{
    agent::AgentId,
    time::{DAY_MS, Timestamp},
    work::{Priority, Reason},
};

/// `last_error` of a row that an operator cancelled.
const CANCELLED: &str = "cancelled: by an operator";
/// How far in the future the end of an operator's pause is set, because such a pause ends only when an operator ends it.
const NEVER_MS: i64 = 36_500 * DAY_MS;

pub(super) async fn refresh(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<EnqueueOutcome> {
    let wake = queue::Wake::at_once(Reason::Manual, now);
    let enqueued = queue::enqueue(tx, agent, wake).await?;
    let now = tx.now(now).await?;
    // `enqueue` keeps the backoff of an existing row; this statement ends it.
    let sql = sql!(
        "-- sql/operate.hasten\nUPDATE summary_update_queue SET visible_at = {min}(visible_at, $2), \
               due_at = {min}(due_at, $2), deferred_at = NULL, paused_until = NULL, paused_for = NULL \
               WHERE agent_id = $1 AND lease_token IS NULL AND (paused_for IS NULL OR paused_for <> $3)"
    );
    let hastened = query(sql).bind(agent.as_str()).bind(now).bind(HAND).execute(tx).await?;
    let visible_at = if hastened == 1 { now } else { enqueued.visible_at };
    Ok(EnqueueOutcome { visible_at, ..enqueued })
}

pub(super) async fn retry(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<OperatorOutcome> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/operate.retry\nUPDATE summary_update_queue SET parked_at = NULL, attempts = 0, \
               crashes = {min}(crashes, 2), revived_at = $2, visible_at = $2, due_at = $2, deferred_at = NULL, \
               paused_until = NULL, paused_for = NULL, lease_token = NULL, lease_owner = NULL, leased_at = NULL, \
               wake_seq = wake_seq + 1 WHERE agent_id = $1 AND (lease_token IS NULL OR visible_at <= $2)"
    );
    let row_count = query(sql).bind(agent.as_str()).bind(now).execute(&mut *tx).await?;
    let row = super::row(tx, agent, now).await?.map(Box::new);
    Ok(match row {
        None => OperatorOutcome::NoRow,
        Some(row) if row_count == 1 => OperatorOutcome::Done(row),
        Some(row) => OperatorOutcome::Running(row),
    })
}

pub(super) async fn cancel(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<OperatorOutcome> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/operate.cancel\nUPDATE summary_update_queue SET parked_at = $2, revived_at = $2, last_error = $3, \
               deferred_at = NULL, paused_until = NULL, paused_for = NULL, lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL WHERE agent_id = $1"
    );
    let row_count = query(sql).bind(agent.as_str()).bind(now).bind(CANCELLED).execute(&mut *tx).await?;
    if row_count == 0 {
        return Ok(OperatorOutcome::NoRow);
    }
    let row = super::row(tx, agent, now).await?.map(Box::new);
    Ok(row.map_or(OperatorOutcome::NoRow, OperatorOutcome::Done))
}

/// See [`super::OperatorStore::pause_agent`]. The row itself stores the pause: until it ends, no claim takes the row, and no wake
/// makes it visible.
pub(super) async fn pause_agent(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let now = tx.now(now).await?;
    let until = now.plus_ms(NEVER_MS);
    let sql = sql!(
        "-- sql/operate.pause_agent\nINSERT INTO summary_update_queue \
               (agent_id, project_id, priority, reasons, queued_at, visible_at, due_at, paused_until, paused_for) \
               SELECT agent_id, project_id, 0, $2, $3, $4, $4, $4, $5 FROM agents WHERE agent_id = $1 {for_share} \
               ON CONFLICT (agent_id) DO UPDATE SET visible_at = excluded.visible_at, due_at = excluded.due_at, \
               paused_until = excluded.paused_until, paused_for = excluded.paused_for, parked_at = NULL, attempts = 0, \
               deferred_at = NULL, lease_token = NULL, lease_owner = NULL, leased_at = NULL"
    );
    let row_count = query(sql)
        .bind(agent.as_str())
        .bind(Reason::Manual.bit())
        .bind(now)
        .bind(until)
        .bind(HAND)
        .execute(tx)
        .await?;
    if row_count == 0 {
        return Err(StoreError::UnknownAgent(agent.clone()));
    }
    Ok(())
}

pub(super) async fn resume_agent(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<bool> {
    let sql = sql!("-- sql/operate.is_known\nSELECT 1 FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(&mut *tx).await?;
    found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let sql = sql!(
        "-- sql/operate.paused_priority\nSELECT priority FROM summary_update_queue \
               WHERE agent_id = $1 AND paused_for = $2 {for_update}"
    );
    let paused = query(sql).bind(agent.as_str()).bind(HAND);
    let Some(paused) = paused.fetch_optional(&mut *tx).await? else {
        return Ok(false);
    };
    let slack_ms = Priority::slack_ms(paused.try_get(0)?);
    let now = tx.now(now).await?;
    // The time of the pause doesn't count as waiting: the row is due as if it had been put into the queue now.
    let sql = sql!(
        "-- sql/operate.resume_agent\nUPDATE summary_update_queue SET visible_at = $2, due_at = $3 + behind_ms {ms}, \
               paused_until = NULL, paused_for = NULL WHERE agent_id = $1"
    );
    query(sql).bind(agent.as_str()).bind(now).bind(now.plus_ms(slack_ms)).execute(tx).await?;
    Ok(true)
}

pub(super) async fn pause_queue(tx: &mut Connection, now: Timestamp) -> StoreResult<Timestamp> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/operate.pause_queue\nINSERT INTO queue_pauses (name, paused_at) VALUES ('all', $1) \
               ON CONFLICT (name) DO UPDATE SET paused_at = queue_pauses.paused_at RETURNING paused_at"
    );
    Ok(query(sql).bind(now).fetch_one(tx).await?.try_get(0)?)
}

pub(super) async fn resume_queue(tx: &mut Connection) -> StoreResult<bool> {
    let sql = sql!("-- sql/operate.resume_queue\nDELETE FROM queue_pauses WHERE name = 'all'");
    Ok(query(sql).execute(tx).await? == 1)
}

pub(super) async fn paused_since(connection: &mut Connection) -> StoreResult<Option<Timestamp>> {
    let sql = sql!("-- sql/operate.paused_since\nSELECT paused_at FROM queue_pauses WHERE name = 'all'");
    let found = query(sql).fetch_optional(connection).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}
