//! Where the boundary goes: forward when the window is over budget, back when a raised budget has room.

use sqlx::{Row as _, SqliteConnection};

use super::super::super::StoreResult;
use crate::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::{Cut, Ledger, Overflow, Return},
    window::Budget,
};

/// The first exchange with enough tokens before it: one index look-up among the stored ones, whose totals are all
/// below those of this append.
pub(in super::super) async fn find_cut(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    overflow: Overflow,
    unwritten: &[Exchange],
) -> StoreResult<Option<Cut>> {
    let sql = "-- sqlite/append.find_cut\nSELECT exchange, tokens_before FROM exchange_log \
               WHERE agent_id = ?1 AND tokens_before >= ?2 AND set_aside_at IS NULL AND role = 'exchange' \
               ORDER BY tokens_before, exchange LIMIT 1";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(overflow.tokens_before_min)
        .fetch_optional(tx)
        .await?;
    if let Some(row) = found {
        return Ok(Some(Cut {
            exchange: row.try_get(0)?,
            tokens_before: row.try_get(1)?,
        }));
    }
    let first = unwritten.partition_point(|exchange| exchange.tokens_before < overflow.tokens_before_min);
    Ok(unwritten.get(first).map(|exchange| Cut {
        exchange: exchange.exchange,
        tokens_before: exchange.tokens_before,
    }))
}

/// Takes pending exchanges back into the window, as many as `budget` has room for; none that a clear sent away.
pub(super) async fn take_back(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    budget: Budget,
    ledger: &mut Ledger,
) -> StoreResult<Option<Return>> {
    let Some(room) = ledger.room(budget) else {
        return Ok(None);
    };
    let sql = "-- sqlite/boundary.take_back\nSELECT exchange, tokens_before FROM exchange_log WHERE agent_id = ?1 \
               AND tokens_before >= ?2 AND exchange > ?3 AND set_aside_at IS NULL AND role = 'exchange' \
               AND exchange >= coalesce((SELECT max(s.first_exchange) FROM sessions c JOIN sessions s \
               ON s.agent_id = c.agent_id AND s.session = c.session + 1 \
               WHERE c.agent_id = ?1 AND c.end_reason = 'clear'), 0) ORDER BY tokens_before, exchange LIMIT 1";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(room.tokens_before_min)
        .bind(ledger.summarized_through)
        .fetch_optional(tx)
        .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(ledger.take_back(Cut {
        exchange: row.try_get(0)?,
        tokens_before: row.try_get(1)?,
    }))
}
