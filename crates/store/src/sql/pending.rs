//! Measures how much is pending.

use super::{Connection, query, sql};
use crate::StoreResult;
use recapd_core::domain::agent::AgentId;

/// Returns true if the exchanges pending after `through` have at least `tokens_min` tokens. Counts set-aside exchanges, too: the
/// result only serves scheduling, and this way one row is enough.
pub(super) async fn has_tokens(
    tx: &mut Connection,
    agent: &AgentId,
    through: i64,
    tokens_min: i64,
) -> StoreResult<bool> {
    if tokens_min == 0 {
        return Ok(true);
    }
    let sql = sql!(
        "-- sql/pending.has_tokens\nSELECT a.tokens_before_window - e.tokens_before FROM agents a \
               JOIN exchange_log e ON e.agent_id = a.agent_id WHERE a.agent_id = $1 AND e.exchange > $2 \
               ORDER BY e.exchange LIMIT 1"
    );
    let query = query(sql).bind(agent.as_str()).bind(through);
    let row = query.fetch_optional(tx).await?;
    let tokens = row.map(|row| row.try_get::<i64>(0)).transpose()?;
    Ok(tokens.is_some_and(|tokens| tokens >= tokens_min))
}
