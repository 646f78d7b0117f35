//! Recalculates the running totals of an agent's exchanges after the tokens of some have changed.
//!
//! A change affects the totals of all later exchanges, of which there may be a hundred thousand. So `agents.totals_from` holds
//! the exchange after which totals are outdated, and they are recalculated from there, some at a time. Meanwhile appends continue
//! from the outdated totals, and the window is measured by them. Totals up to that of `totals_from` are right.

use crate::sql::{Connection, query, sql};

use super::{super::StoreResult, row};
use recapd_core::domain::agent::AgentId;

/// Limits how many totals one transaction recalculates, to some ten milliseconds of writing.
const SETTLED_MAX: i64 = 2_000;

/// Handles a change in the tokens of exchange `from` or later ones. Recalculates the totals at once if few exchanges follow.
/// Returns true if all totals are right.
pub(super) async fn handle_change(tx: &mut Connection, agent: &AgentId, from: i64) -> StoreResult<bool> {
    let note = sql!(
        "-- sql/totals.note\nUPDATE agents SET totals_from = {min}(coalesce(totals_from, $2), $2) WHERE agent_id = $1 \
               RETURNING totals_from"
    );
    let query = query(note).bind(agent.as_str()).bind(from);
    let Some(row) = query.fetch_optional(&mut *tx).await? else {
        return Ok(true);
    };
    if end_of_some(tx, agent, row.try_get(0)?).await?.is_some() {
        return Ok(false);
    }
    settle_some(tx, agent).await?;
    Ok(true)
}

/// Recalculates the next totals. Returns true if all are right now; `None` if all were right before.
pub(super) async fn settle_some(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<bool>> {
    let Some(from) = outdated_after(tx, agent).await? else {
        return Ok(None);
    };
    let end = end_of_some(tx, agent, from).await?;
    recalculate(tx, agent, from, end).await?;
    let sql = sql!("-- sql/totals.settled\nUPDATE agents SET totals_from = $2 WHERE agent_id = $1");
    query(sql).bind(agent.as_str()).bind(end).execute(tx).await?;
    Ok(Some(end.is_none()))
}

/// Returns the exchange after which totals are outdated, if there is one. Its own total is right.
pub(super) async fn outdated_after(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<i64>> {
    let sql = sql!("-- sql/totals.from\nSELECT totals_from FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?.flatten())
}

pub(super) async fn due(connection: &mut Connection, limit: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/totals.due\nSELECT agent_id FROM agents WHERE totals_from IS NOT NULL ORDER BY agent_id LIMIT $1"
    );
    let found = query(sql).bind(limit).fetch_all(connection).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}

/// Returns the last exchange of the next recalculation from `from` on; `None` if that one reaches the newest exchange.
async fn end_of_some(tx: &mut Connection, agent: &AgentId, from: i64) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/totals.end_of_some\nSELECT exchange FROM exchange_log WHERE agent_id = $1 AND exchange >= $2 \
               AND set_aside_at IS NULL AND role = 'exchange' ORDER BY exchange LIMIT 1 OFFSET $3"
    );
    let query = query(sql).bind(agent.as_str()).bind(from).bind(SETTLED_MAX);
    let found = query.fetch_optional(tx).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

/// Recalculates the totals after `from` up to `end`, and the copies of these totals in the agent's row and in its marks.
async fn recalculate(tx: &mut Connection, agent: &AgentId, from: i64, end: Option<i64>) -> StoreResult<()> {
    let totals = sql!(
        "-- sql/totals.exchanges\nUPDATE exchange_log SET tokens_before = n.total FROM \
                  (SELECT exchange, first_value(tokens_before) OVER (ORDER BY exchange) \
                  + CAST(sum(tokens) OVER (ORDER BY exchange) AS bigint) - tokens AS total FROM exchange_log \
                  WHERE agent_id = $1 AND exchange BETWEEN $2 AND $3 AND set_aside_at IS NULL AND role = 'exchange') n \
                  WHERE exchange_log.agent_id = $1 AND exchange_log.exchange = n.exchange \
                  AND exchange_log.tokens_before <> n.total"
    );
    query(totals).bind(agent.as_str()).bind(from).bind(end.unwrap_or(i64::MAX)).execute(&mut *tx).await?;
    let window = sql!(
        "-- sql/totals.window\nUPDATE agents SET tokens_before_window = coalesce(\
                  (SELECT e.tokens_before FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange >= first_exchange \
                  AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange LIMIT 1), \
                  (SELECT e.tokens_before + e.tokens FROM exchange_log e WHERE e.agent_id = $1 \
                  AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange DESC LIMIT 1), \
                  tokens_before_window) WHERE agent_id = $1 AND first_exchange > $2"
    );
    let marks = sql!(
        "-- sql/totals.marks\nUPDATE marks SET tokens_before_window = coalesce(\
                 (SELECT e.tokens_before FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange >= first_exchange \
                 AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange LIMIT 1), \
                 (SELECT e.tokens_before + e.tokens FROM exchange_log e WHERE e.agent_id = $1 \
                 AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange DESC LIMIT 1), \
                 tokens_before_window) WHERE agent_id = $1 AND first_exchange > $2"
    );
    for sql in [window, marks] {
        query(sql).bind(agent.as_str()).bind(from).execute(&mut *tx).await?;
    }
    Ok(())
}
