//! Stores pins: messages that stay in view after their exchanges have left the window.
//!
//! There is one row per pinned message. It is derived from the messages alone (the message's own `important` flag, pins and
//! unpins), so that a replay ends with the same rows. A replay may exceed the limit, which only a live append must respect.

use crate::sql::{Connection, query, sql};

use super::super::{
    super::{AppendRequest, Pin, Pins, StepOutcome, StoreError, StoreResult},
    row,
};
use recapd_core::domain::{agent::AgentId, context::COPIES_MAX, message::Kind, number::i64_or_max};

/// The message to pin.
struct PinTarget {
    source_agent_id: String,
    exchange: i64,
    session: i64,
    tokens: i64,
}

/// Records that a message is important to its session.
pub(crate) async fn note_important(
    tx: &mut Connection,
    agent: &AgentId,
    (seq, exchange, session): (i64, i64, i64),
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/pins.note_important\nINSERT INTO pins (agent_id, seq, source_agent_id, exchange, session, \
               pinned, important) VALUES ($1, $2, $1, $3, $4, {false}, {true})"
    );
    query(sql).bind(agent.as_str()).bind(seq).bind(exchange).bind(session).execute(tx).await?;
    Ok(())
}

/// Pins a message. Fails if the request is live and the pinned messages would not fit their limit. Pinning twice changes nothing.
pub(crate) async fn pin_within(
    tx: &mut Connection,
    request: &AppendRequest,
    seq: i64,
) -> StoreResult<StepOutcome> {
    let agent = &request.agent;
    let Some(found) = find(tx, agent, seq).await? else {
        return Ok(StepOutcome::NotThere { seq });
    };
    if !request.replayed {
        let (pinned, tokens) = other_pins(tx, agent, seq).await?;
        let tokens = tokens + found.tokens;
        let max_tokens = request.rules.context.copies_max_tokens();
        if tokens > max_tokens || pinned >= i64_or_max(COPIES_MAX) {
            return Err(StoreError::PinsFull { pinned, tokens, max_tokens });
        }
    }
    write(tx, agent, seq, &found).await
}

pub(crate) async fn pin(tx: &mut Connection, agent: &AgentId, seq: i64) -> StoreResult<StepOutcome> {
    match find(tx, agent, seq).await? {
        Some(found) => write(tx, agent, seq, &found).await,
        None => Ok(StepOutcome::NotThere { seq }),
    }
}

/// Unpins a message. Its `important` flag stays.
pub(crate) async fn unpin(tx: &mut Connection, agent: &AgentId, seq: i64) -> StoreResult<StepOutcome> {
    let plain = sql!(
        "-- sql/pins.forget\nDELETE FROM pins WHERE agent_id = $1 AND seq = $2 AND pinned = {true} AND important = {false}"
    );
    let important = sql!(
        "-- sql/pins.unpin\nUPDATE pins SET pinned = {false} WHERE agent_id = $1 AND seq = $2 AND pinned = {true}"
    );
    let mut rows = 0;
    for sql in [plain, important] {
        let pin_query = query(sql).bind(agent.as_str()).bind(seq);
        rows += pin_query.execute(&mut *tx).await?;
    }
    Ok(if rows == 0 { StepOutcome::NotThere { seq } } else { StepOutcome::Unpinned { seq } })
}

/// Removes the pins in exchanges after `last_exchange`, for a rewind.
pub(super) async fn withdraw(tx: &mut Connection, agent: &AgentId, last_exchange: i64) -> StoreResult<()> {
    let sql = sql!("-- sql/pins.withdraw\nDELETE FROM pins WHERE agent_id = $1 AND exchange > $2");
    query(sql).bind(agent.as_str()).bind(last_exchange).execute(tx).await?;
    Ok(())
}

/// Copies the parent's pins to the child: all pinned messages, and the important messages of the running session and of the
/// child's exchanges.
pub(crate) async fn copy(
    tx: &mut Connection,
    parent: &AgentId,
    child: &AgentId,
    (covered_through, session): (i64, i64),
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/pins.copy\nINSERT INTO pins (agent_id, seq, source_agent_id, exchange, session, pinned, important) \
               SELECT $2, seq, source_agent_id, exchange, session, pinned, important FROM pins \
               WHERE agent_id = $1 AND (pinned = {true} OR exchange > $3 OR session = $4)"
    );
    query(sql)
        .bind(parent.as_str())
        .bind(child.as_str())
        .bind(covered_through)
        .bind(session)
        .execute(tx)
        .await?;
    Ok(())
}

pub(crate) async fn load(tx: &mut Connection, agent: &AgentId, limit: i64) -> StoreResult<Pins> {
    let sql = sql!(
        "-- sql/pins.load\nWITH chosen AS (SELECT seq, source_agent_id, exchange, pinned FROM (\
               SELECT seq, source_agent_id, exchange, pinned FROM pins WHERE agent_id = $1 AND pinned = {true} \
               UNION ALL SELECT seq, source_agent_id, exchange, pinned FROM pins WHERE agent_id = $1 AND important = {true} \
               AND pinned = {false} AND session = (SELECT e.session FROM agents a JOIN exchange_log e \
               ON e.agent_id = a.agent_id AND e.exchange = a.newest_exchange WHERE a.agent_id = $1)) own \
               ORDER BY pinned DESC, seq DESC LIMIT $2) \
               SELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), m.said_at, m.kind, c.exchange, c.pinned \
               FROM chosen c JOIN message_log m ON m.agent_id = c.source_agent_id AND m.seq = c.seq \
               LEFT JOIN recounts r ON r.agent_id = $1 AND r.seq = m.seq WHERE m.forgotten_at IS NULL ORDER BY m.seq"
    );
    // One row more than the limit shows whether there are more.
    let found = query(sql).bind(agent.as_str()).bind(limit.saturating_add(1)).fetch_all(&mut *tx).await?;
    let pin = |row| -> StoreResult<Pin> {
        Ok(Pin { message: row::message(row)?, exchange: row.try_get(6)?, pinned: row.try_get(7)? })
    };
    let mut pins = found.iter().map(pin).collect::<StoreResult<Vec<Pin>>>()?;
    let mut oldest_unread = None;
    if i64::try_from(pins.len()).is_ok_and(|count| count > limit) {
        // Leaves out the oldest important message or, if there is none, the oldest pinned one.
        let first = pins.iter().position(|pin| !pin.pinned).unwrap_or(0);
        let unread = pins.remove(first);
        oldest_unread = oldest(tx, agent, unread.pinned).await?;
    }
    Ok(Pins { pins, oldest_unread })
}

/// Returns the exchange of the oldest message that is pinned, or that is only important to the running session.
async fn oldest(tx: &mut Connection, agent: &AgentId, pinned: bool) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/pins.oldest\nSELECT min(exchange) FROM pins WHERE agent_id = $1 AND pinned = $2 \
               AND (pinned = {true} OR session = (SELECT e.session FROM agents a JOIN exchange_log e \
               ON e.agent_id = a.agent_id AND e.exchange = a.newest_exchange WHERE a.agent_id = $1))"
    );
    let query = query(sql).bind(agent.as_str()).bind(pinned);
    Ok(query.fetch_one(tx).await?.try_get(0)?)
}

/// Finds a message in the agent's live history. In a fork it may belong to an ancestor.
async fn find(tx: &mut Connection, agent: &AgentId, seq: i64) -> StoreResult<Option<PinTarget>> {
    let sql = sql!(
        "-- sql/pins.find\nWITH RECURSIVE line (agent_id) AS (SELECT agent_id FROM agents WHERE agent_id = $1 UNION SELECT a.parent_agent_id \
               FROM agents a JOIN line ON a.agent_id = line.agent_id WHERE a.parent_agent_id IS NOT NULL) \
               SELECT m.agent_id, m.exchange, e.session, coalesce(r.tokens, m.tokens), m.kind FROM line JOIN message_log m \
               ON m.agent_id = line.agent_id AND m.seq = $2 JOIN exchange_log e ON e.agent_id = $1 \
               AND e.exchange = m.exchange AND e.source_agent_id = m.agent_id \
               LEFT JOIN recounts r ON r.agent_id = $1 AND r.seq = m.seq WHERE m.seq BETWEEN e.first_seq AND e.last_seq AND e.set_aside_at IS NULL LIMIT 1"
    );
    let found = query(sql).bind(agent.as_str()).bind(seq).fetch_optional(tx).await?;
    let Some(row) = found else { return Ok(None) };
    let kind: String = row.try_get(4)?;
    let found = PinTarget {
        source_agent_id: row.try_get(0)?,
        exchange: row.try_get(1)?,
        session: row.try_get(2)?,
        tokens: row.try_get(3)?,
    };
    Ok(Kind::from_name(&kind).is_conversation().then_some(found))
}

/// Counts the pinned messages other than `seq`, and their tokens.
async fn other_pins(tx: &mut Connection, agent: &AgentId, seq: i64) -> StoreResult<(i64, i64)> {
    let sql = sql!(
        "-- sql/pins.others\nSELECT count(*), coalesce(CAST(sum(coalesce(r.tokens, m.tokens)) AS bigint), 0) FROM pins p JOIN message_log m \
               ON m.agent_id = p.source_agent_id AND m.seq = p.seq LEFT JOIN recounts r ON r.agent_id = p.agent_id \
               AND r.seq = p.seq \
               WHERE p.agent_id = $1 AND p.pinned = {true} AND p.seq <> $2 AND m.forgotten_at IS NULL"
    );
    let row = query(sql).bind(agent.as_str()).bind(seq).fetch_one(tx).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

async fn write(
    tx: &mut Connection,
    agent: &AgentId,
    seq: i64,
    found: &PinTarget,
) -> StoreResult<StepOutcome> {
    let sql = sql!(
        "-- sql/pins.pin\nINSERT INTO pins (agent_id, seq, source_agent_id, exchange, session, pinned, important) \
               VALUES ($1, $2, $3, $4, $5, {true}, {false}) ON CONFLICT (agent_id, seq) DO UPDATE SET pinned = {true}"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(seq)
        .bind(found.source_agent_id.as_str())
        .bind(found.exchange)
        .bind(found.session)
        .execute(tx)
        .await?;
    Ok(StepOutcome::Pinned { seq, exchange: found.exchange })
}
