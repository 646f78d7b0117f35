//! Withdraws questions about an older version of a summary, whose answers would be useless, and makes their agents' rows due.

use crate::{
    StoreResult,
    sql::{Connection, query, sql},
};
use recapd_core::domain::time::Timestamp;

/// Limits how many agents one call handles. The next call continues.
const CLEARED_MAX: i64 = 1_000;

/// SQL that is true if the summary hasn't changed since question `r` was written, so that its answer is still useful.
macro_rules! is_current {
    () => {
        "EXISTS (SELECT 1 FROM agents c JOIN summaries s ON s.agent_id = c.agent_id WHERE c.agent_id = r.agent_id \
         AND s.version = r.version AND c.summarized_through = r.covers_after)"
    };
}
pub(super) use is_current;

/// SQL that is true if the agent of row `q` has no unanswered question.
macro_rules! asks_nothing {
    () => {
        "NOT EXISTS (SELECT 1 FROM batch_requests r WHERE r.agent_id = q.agent_id AND r.ended_at IS NULL)"
    };
}

/// Withdraws waiting questions about older versions of summaries, and makes rows due that wait for a question that no longer
/// exists. Returns how many questions it withdrew.
pub(crate) async fn clear_outdated(tx: &mut Connection, now: Timestamp) -> StoreResult<u64> {
    let outdated = sql!(
        "-- sql/round.lock_outdated\nSELECT a.agent_id FROM batch_requests r JOIN agents a ON a.agent_id = r.agent_id \
               WHERE r.state = 'waiting' AND NOT ",
        is_current!(),
        " LIMIT $1 {a_skip_locked}"
    );
    let idle = sql!(
        "-- sql/round.lock_idle\nSELECT a.agent_id FROM summary_update_queue q JOIN agents a ON a.agent_id = q.agent_id \
               WHERE q.deferred_at IS NOT NULL AND q.lease_token IS NULL AND ",
        asks_nothing!(),
        " LIMIT $1 {a_skip_locked}"
    );
    let mut agents: Vec<String> = Vec::new();
    for sql in [outdated, idle] {
        let found = query(sql).bind(CLEARED_MAX).fetch_column::<String>(&mut *tx);
        agents.extend(found.await?);
    }
    if agents.is_empty() {
        return Ok(0);
    }
    let agents = serde_json::json!(agents).to_string();
    let withdrawn = withdraw_outdated(tx, &agents, now).await?;
    wake_idle(tx, &agents, now).await?;
    Ok(withdrawn)
}

/// Withdraws the outdated questions of `agents`, a JSON array of locked agents.
async fn withdraw_outdated(tx: &mut Connection, agents: &str, now: Timestamp) -> StoreResult<u64> {
    let sql = sql!(
        "-- sql/round.withdraw_outdated\nUPDATE batch_requests AS r SET state = 'withdrawn', ended_at = $1, \
               body = '' WHERE r.state = 'waiting' AND r.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) AND NOT ",
        is_current!()
    );
    Ok(query(sql).bind(now).bind(agents).execute(tx).await?)
}

/// Makes the rows of those `agents` due that have no question.
async fn wake_idle(tx: &mut Connection, agents: &str, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.wake_outdated\nUPDATE summary_update_queue AS q SET visible_at = {min}(visible_at, $1), \
               due_at = {min}(due_at, $1 + behind_ms {ms}), deferred_at = NULL WHERE deferred_at IS NOT NULL AND lease_token IS NULL \
               AND agent_id IN (SELECT w.agent_id FROM summary_update_queue w WHERE w.deferred_at IS NOT NULL \
                AND w.lease_token IS NULL AND w.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) \
                ORDER BY w.agent_id {for_update}) AND ",
        asks_nothing!()
    );
    let now = tx.now(now).await?;
    query(sql).bind(now).bind(agents).execute(tx).await?;
    Ok(())
}
