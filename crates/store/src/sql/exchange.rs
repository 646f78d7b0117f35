//! Reads exchanges and their messages.

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        ExchangeQuery, MESSAGE_BYTES, SAID_EXCHANGES_MAX, SaidMessage, StoreResult, StoredExchange,
        StoredMessage,
    },
    row::{self, evicted_at, exchange_columns},
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::{Exchange, PREAMBLE},
    ledger::CutPoint,
    perspective::HUMANS,
};

/// Loads the newest `limit` live exchanges of a range, in ascending order. Reads the sizes of their messages first, so that it
/// reads no more bytes than allowed.
pub(super) async fn load(
    tx: &mut Connection,
    agent: &AgentId,
    wanted: ExchangeQuery,
) -> StoreResult<Vec<StoredExchange>> {
    let preamble = if wanted.from == PREAMBLE { preamble(tx, agent).await? } else { None };
    let sql = sql!(
        "-- sql/exchange.load\nSELECT ",
        exchange_columns!("e"),
        // Searches for the eviction only if the exchange is outside of the window.
        ", CASE WHEN e.exchange < a.first_exchange THEN ",
        evicted_at!(),
        " END, ",
        "CASE WHEN e.exchange <= a.summarized_through THEN ",
        "(SELECT w.version FROM summary_versions w WHERE w.agent_id = e.agent_id ",
        "   AND w.covers_after < e.exchange AND e.exchange <= w.covers_through AND NOT EXISTS ",
        "   (SELECT 1 FROM summary_versions r WHERE r.agent_id = w.agent_id AND r.version > w.version ",
        // SQLite stores a version's kind after its document, and reading past a document is the most expensive part, so the kind
        // is checked last.
        "    AND r.covers_through < e.exchange AND r.kind <> 'update') ORDER BY w.version LIMIT 1) END, ",
        "CASE WHEN $5 THEN (SELECT CAST(coalesce(sum(octet_length(m.payload) + CAST($8 AS bigint)), 0) AS bigint) FROM message_log m ",
        "   WHERE m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq ",
        "   AND m.exchange = e.exchange) END ",
        "FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id WHERE e.agent_id = $1 ",
        "AND e.exchange BETWEEN $2 AND $6 AND e.set_aside_at IS NULL ",
        "AND CASE WHEN e.role = 'exchange' THEN e.exchange <= $3 ELSE e.exchange = $7 END ",
        "ORDER BY e.exchange DESC LIMIT $4"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(wanted.from)
        .bind(wanted.through)
        .bind(wanted.limit)
        .bind(wanted.bytes_max > 0)
        .bind(preamble.map_or(wanted.through, |number| number.max(wanted.through)))
        .bind(preamble)
        .bind(MESSAGE_BYTES)
        .fetch_all(&mut *tx)
        .await?;
    let mut exchanges = Vec::with_capacity(found.len());
    for row in found.iter().rev() {
        exchanges.push(StoredExchange {
            exchange: row::exchange(row, 0)?,
            evicted_at: row::time(row, 12)?,
            summary_version: row.try_get(13)?,
            messages: Vec::new(),
            unread_bytes: row.try_get(14)?,
            request: None,
        });
    }
    let read_from = choose(&mut exchanges, wanted.bytes_max);
    let (_, chosen) = exchanges.split_at_mut(read_from);
    add_messages(tx, agent, preamble, chosen).await?;
    Ok(exchanges)
}

/// Returns the number of the running session's preamble. It is 0, or a number assigned after a clear.
async fn preamble(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<i64>> {
    let sql = sql!("-- sql/exchange.preamble\nSELECT preamble_exchange FROM agents WHERE agent_id = $1");
    match query(sql).bind(agent.as_str()).fetch_optional(tx).await? {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(None),
    }
}

/// Chooses the newest `exchanges` whose messages have at most `bytes_max` bytes together. Returns the index of the first one.
fn choose(exchanges: &mut [StoredExchange], bytes_max: i64) -> usize {
    let mut room = bytes_max;
    let mut read_from = exchanges.len();
    for stored in exchanges.iter_mut().rev() {
        let remaining = stored.unread_bytes.map(|bytes| room.saturating_sub(bytes));
        let Some(remaining) = remaining.filter(|remaining| *remaining >= 0) else {
            break;
        };
        (room, stored.unread_bytes) = (remaining, None);
        read_from -= 1;
    }
    read_from
}

/// Reads the messages of `exchanges`, which ascend. Reads neighbours together, and skips gaps, which may be long.
pub(super) async fn with_messages(
    tx: &mut Connection,
    agent: &AgentId,
    exchanges: Vec<Exchange>,
) -> StoreResult<Vec<StoredExchange>> {
    let unread = |exchange| StoredExchange {
        exchange,
        evicted_at: None,
        summary_version: None,
        messages: Vec::new(),
        unread_bytes: None,
        request: None,
    };
    let mut stored: Vec<StoredExchange> = exchanges.into_iter().map(unread).collect();
    for run in stored.chunk_by_mut(are_neighbours) {
        add_messages(tx, agent, None, run).await?;
    }
    Ok(stored)
}

fn are_neighbours(one: &StoredExchange, next: &StoredExchange) -> bool {
    next.exchange.exchange == one.exchange.exchange + 1
}

/// Reads the messages of `exchanges`, which ascend, in one statement, because a round trip costs as much as some rows. Leaves out
/// preambles in the range, except `preamble`.
async fn add_messages(
    tx: &mut Connection,
    agent: &AgentId,
    preamble: Option<i64>,
    exchanges: &mut [StoredExchange],
) -> StoreResult<()> {
    let (Some(first), Some(last)) = (exchanges.first(), exchanges.last()) else {
        return Ok(());
    };
    let sql = sql!(
        "-- sql/exchange.add_messages\nSELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), \
               m.said_at, m.kind, e.exchange \
               FROM exchange_log e {join} message_log m ON m.agent_id = e.source_agent_id \
               AND m.seq BETWEEN e.first_seq AND e.last_seq AND m.exchange = e.exchange \
               LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq \
               WHERE e.agent_id = $1 AND e.exchange BETWEEN $2 AND $3 AND e.set_aside_at IS NULL \
               AND (e.role = 'exchange' OR e.exchange = $4) ORDER BY e.exchange, m.seq"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(first.exchange.exchange)
        .bind(last.exchange.exchange)
        .bind(preamble)
        .fetch_all(tx)
        .await?;
    let mut exchanges = exchanges.iter_mut().peekable();
    for row in &found {
        let number: i64 = row.try_get(6)?;
        while exchanges.next_if(|stored| stored.exchange.exchange < number).is_some() {}
        if let Some(stored) = exchanges.peek_mut().filter(|stored| stored.exchange.exchange == number) {
            stored.messages.push(row::message(row)?);
        }
    }
    Ok(())
}

/// Returns an exchange, live or set aside; `None` if the agent has no exchange of that number.
pub(super) async fn find(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: i64,
) -> StoreResult<Option<Exchange>> {
    let sql = sql!(
        "-- sql/exchange.find\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange = $2"
    );
    let query = query(sql).bind(agent.as_str()).bind(exchange);
    let found = query.fetch_optional(tx).await?;
    found.map(|row| row::exchange(&row, 0)).transpose()
}

pub(super) async fn count(
    connection: &mut Connection,
    agent: &AgentId,
    from: i64,
    through: i64,
) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/exchange.count\nSELECT count(*) FROM exchange_log WHERE agent_id = $1 \
               AND exchange BETWEEN $2 AND $3 AND set_aside_at IS NULL AND role = 'exchange'"
    );
    let query = query(sql).bind(agent.as_str()).bind(from).bind(through);
    Ok(query.fetch_one(connection).await?.try_get(0)?)
}

/// See [`super::super::Store::landmarks`].
pub(super) async fn landmarks(
    connection: &mut Connection,
    agent: &AgentId,
    token_offsets: &[i64],
) -> StoreResult<Vec<CutPoint>> {
    let sql = sql!(
        "-- sql/exchange.landmarks\nSELECT e.exchange, e.tokens_before FROM exchange_log e WHERE e.agent_id = $1 \
               AND e.set_aside_at IS NULL AND e.role = 'exchange' AND e.exchange IN (\
               SELECT (SELECT c.exchange FROM exchange_log c WHERE c.agent_id = $1 \
               AND c.tokens_before <= CAST(p.value AS bigint) AND c.set_aside_at IS NULL AND c.role = 'exchange' \
               ORDER BY c.tokens_before DESC, c.exchange DESC LIMIT 1) FROM {each}($2{::jsonb}) p \
               UNION ALL SELECT (SELECT w.exchange FROM exchange_log w WHERE w.agent_id = $1 \
               AND w.exchange > a.summarized_through AND w.set_aside_at IS NULL AND w.role = 'exchange' \
               ORDER BY w.exchange LIMIT 1) FROM agents a WHERE a.agent_id = $1 \
               UNION ALL SELECT (SELECT b.exchange FROM exchange_log b WHERE b.agent_id = $1 \
               AND b.exchange >= a.first_exchange AND b.set_aside_at IS NULL AND b.role = 'exchange' \
               ORDER BY b.exchange LIMIT 1) FROM agents a WHERE a.agent_id = $1) ORDER BY e.exchange"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(token_offsets).to_string())
        .fetch_all(connection)
        .await?;
    let landmarks =
        found.iter().map(|row| Ok(CutPoint { exchange: row.try_get(0)?, tokens_before: row.try_get(1)? }));
    landmarks.collect()
}

/// See [`super::super::Store::session_start`]. Searches from the session's first exchange on, and skips set-aside exchanges. A
/// fork lacks the rows of sessions that ended before the fork, and of exchanges that were covered at the fork.
pub(super) async fn session_start(
    connection: &mut Connection,
    agent: &AgentId,
    session: i64,
) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/exchange.session_start\nSELECT e.exchange, (SELECT s.first_exchange FROM sessions s \
               WHERE s.agent_id = $1 AND s.session = $2), (SELECT x.exchange FROM exchange_log x \
               WHERE x.agent_id = $1 AND x.role = 'exchange' ORDER BY x.exchange LIMIT 1) \
               FROM exchange_log e WHERE e.agent_id = $1 AND e.session = $2 \
               AND e.exchange >= coalesce((SELECT s.first_exchange FROM sessions s \
               WHERE s.agent_id = $1 AND s.session = $2), 0) \
               AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange LIMIT 1"
    );
    let query = query(sql).bind(agent.as_str()).bind(session);
    let Some(row) = query.fetch_optional(connection).await? else {
        return Ok(None);
    };
    let (live, begin, oldest): (i64, Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(Some(begin.filter(|begin| *begin < oldest).unwrap_or(live)))
}

pub(super) async fn has_evicted(connection: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let sql = sql!("-- sql/exchange.has_evicted\nSELECT last_eviction FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    let evictions = found.map(|row| row.try_get::<i64>(0)).transpose()?;
    Ok(evictions.is_some_and(|evictions| evictions > 0))
}

/// Reads the messages of one exchange in order. A fork's exchange may refer to another agent's messages.
pub(super) async fn messages(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: &Exchange,
) -> StoreResult<Vec<StoredMessage>> {
    let sql = sql!(
        "-- sql/exchange.messages\nSELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), \
               m.said_at, m.kind FROM exchange_log e JOIN message_log m ON m.agent_id = e.source_agent_id \
               AND m.seq BETWEEN e.first_seq AND e.last_seq AND m.exchange = e.exchange \
               LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq \
               WHERE e.agent_id = $1 AND e.exchange = $2 ORDER BY m.seq"
    );
    let found = query(sql).bind(agent.as_str()).bind(exchange.exchange).fetch_all(tx).await?;
    found.iter().map(row::message).collect()
}

pub(super) async fn last_said(
    connection: &mut Connection,
    agent: &AgentId,
    limit: i64,
) -> StoreResult<Vec<SaidMessage>> {
    // Reads exchanges from the newest back, and stops at the limit.
    let sql = sql!(
        "-- sql/exchange.last_said\nSELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, e.exchange \
               FROM agents a {join} exchange_log e ON e.agent_id = a.agent_id AND e.exchange > a.last_exchange - $3 \
               {join} message_log m ON m.agent_id = e.source_agent_id \
               AND m.seq BETWEEN e.first_seq AND e.last_seq AND m.exchange = e.exchange \
               WHERE a.agent_id = $1 AND e.set_aside_at IS NULL AND e.role = 'exchange' AND m.speaker IS NOT NULL \
               AND m.kind IN ('user', 'assistant') AND m.speaker NOT IN (SELECT value FROM {each_text}($4{::jsonb})) \
               ORDER BY e.exchange DESC, m.seq DESC LIMIT $2"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(limit)
        .bind(SAID_EXCHANGES_MAX)
        .bind(serde_json::json!(HUMANS).to_string())
        .fetch_all(connection)
        .await?;
    let messages = found
        .iter()
        .rev()
        .map(|row| Ok(SaidMessage { exchange: row.try_get(6)?, stored: row::message(row)? }));
    messages.collect()
}
