//! Moves the boundary: forward (eviction) when the window is over budget, back when a raised budget has room.

use crate::sql::{Connection, Row, query, sql};

use super::super::super::{AppendRequest, StoreResult};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::{CutPoint, Eviction, Ledger, Overflow, Return, WindowExchange},
    time::Timestamp,
    window::Budget,
};

/// Evicts the oldest exchanges if the window exceeds its ceiling in tokens or in messages. `unwritten` holds the exchanges whose
/// rows don't exist yet or are out of date.
pub(super) async fn evict(
    tx: &mut Connection,
    request: &AppendRequest,
    unwritten: &[Exchange],
    ledger: &mut Ledger,
    at: Timestamp,
) -> StoreResult<Option<Eviction>> {
    let budget = request.rules.budget;
    let token_cut = match ledger.overflow(budget) {
        Some(overflow) => Some(find_cut(tx, &request.agent, overflow, unwritten).await?),
        None => None,
    };
    let window = if budget.max_messages() > 0 {
        load_window(tx, &request.agent, ledger.first_exchange, unwritten).await?
    } else {
        Vec::new()
    };
    let message_cut = ledger.message_overflow(budget, window.iter().copied());
    let cut = ledger.later_cut(token_cut, message_cut);
    Ok(cut.and_then(|cut| ledger.evict_to(cut, at)))
}

/// Returns the exchanges of the window. The window's ceiling in messages keeps them few.
async fn load_window(
    tx: &mut Connection,
    agent: &AgentId,
    first_exchange: i64,
    unwritten: &[Exchange],
) -> StoreResult<Vec<WindowExchange>> {
    let sql = sql!(
        "-- sql/boundary.window\nSELECT exchange, tokens_before, messages FROM exchange_log \
               WHERE agent_id = $1 AND exchange >= $2 AND exchange < $3 AND set_aside_at IS NULL \
               AND role = 'exchange' ORDER BY exchange"
    );
    let stored_before = unwritten.first().map_or(i64::MAX, |first| first.exchange);
    let found =
        query(sql).bind(agent.as_str()).bind(first_exchange).bind(stored_before).fetch_all(tx).await?;
    let stored = found.iter().map(|row| {
        let (cut, messages) = (read_cut(row)?, row.try_get(2)?);
        Ok(WindowExchange { cut, messages })
    });
    let mut window = stored.collect::<Result<Vec<_>, sqlx::Error>>()?;
    let first = unwritten.partition_point(|exchange| exchange.exchange < first_exchange);
    window.extend(unwritten.iter().skip(first).map(WindowExchange::from));
    Ok(window)
}

/// Reads a cut from a row's first two columns.
fn read_cut(row: &Row) -> Result<CutPoint, sqlx::Error> {
    Ok(CutPoint { exchange: row.try_get(0)?, tokens_before: row.try_get(1)? })
}

/// Finds the first exchange with enough tokens before it, or the overflow's floor if that comes first. This takes one index
/// look-up among the stored exchanges, whose totals are all below the totals of this append.
pub(crate) async fn find_cut(
    tx: &mut Connection,
    agent: &AgentId,
    overflow: Overflow,
    unwritten: &[Exchange],
) -> StoreResult<Option<CutPoint>> {
    let sql = sql!(
        "-- sql/append.find_cut\nSELECT exchange, tokens_before FROM exchange_log \
               WHERE agent_id = $1 AND tokens_before >= $2 AND set_aside_at IS NULL AND role = 'exchange' \
               ORDER BY tokens_before, exchange LIMIT 1"
    );
    let found =
        query(sql).bind(agent.as_str()).bind(overflow.tokens_before_min).fetch_optional(&mut *tx).await?;
    let stored = found.map(|row| read_cut(&row)).transpose()?;
    let first = unwritten.partition_point(|exchange| exchange.tokens_before < overflow.tokens_before_min);
    let found = stored.or_else(|| unwritten.get(first).map(CutPoint::before));
    match found.filter(|cut| cut.exchange <= overflow.floor) {
        Some(found) => Ok(Some(found)),
        None => cut_before(tx, agent, overflow.floor).await,
    }
}

/// Returns the cut before an exchange. Returns `None` for an exchange without a row, which is the newest one. An exchange that a
/// fork or a rewind continues has a row already.
async fn cut_before(tx: &mut Connection, agent: &AgentId, exchange: i64) -> StoreResult<Option<CutPoint>> {
    let sql = sql!(
        "-- sql/append.stored_cut\nSELECT exchange, tokens_before FROM exchange_log \
               WHERE agent_id = $1 AND exchange = $2"
    );
    let found = query(sql).bind(agent.as_str()).bind(exchange).fetch_optional(tx).await?;
    Ok(found.map(|row| read_cut(&row)).transpose()?)
}

/// Moves the boundary back over as many pending exchanges as `budget` has room for. Exchanges that a clear removed stay outside.
pub(super) async fn take_back(
    tx: &mut Connection,
    agent: &AgentId,
    budget: Budget,
    ledger: &mut Ledger,
) -> StoreResult<Option<Return>> {
    let Some(room) = ledger.room(budget) else {
        return Ok(None);
    };
    // A ceiling in messages admits only the newest exchanges that fit it, and always the newest one of all.
    let sql = sql!(
        "-- sql/boundary.take_back\nSELECT e.exchange, e.tokens_before FROM exchange_log e WHERE e.agent_id = $1 \
               AND e.tokens_before >= $2 AND e.exchange > $3 AND e.set_aside_at IS NULL AND e.role = 'exchange' \
               AND e.exchange >= coalesce((SELECT max(s.first_exchange) FROM sessions c JOIN sessions s \
               ON s.agent_id = c.agent_id AND s.session = c.session + 1 \
               WHERE c.agent_id = $1 AND c.end_reason = 'clear'), 0) \
               AND ($4 = 0 OR e.exchange >= (SELECT min(f.exchange) FROM (SELECT n.exchange, \
               CAST(sum(n.messages) OVER (ORDER BY n.exchange DESC) AS bigint) AS messages FROM exchange_log n WHERE n.agent_id = $1 \
               AND n.exchange > $3 AND n.set_aside_at IS NULL AND n.role = 'exchange') f WHERE f.messages <= $4)) \
               ORDER BY e.tokens_before, e.exchange LIMIT 1"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(room.tokens_before_min)
        .bind(ledger.summarized_through)
        .bind(budget.max_messages())
        .fetch_optional(tx)
        .await?;
    let cut = found.map(|row| read_cut(&row)).transpose()?;
    Ok(cut.and_then(|cut| ledger.take_back(cut)))
}
