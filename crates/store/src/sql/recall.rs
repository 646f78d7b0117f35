//! Recall: searches the archive, and shows exchanges in their original form.
//!
//! The index is written after the appends, some messages at a time, because indexing a message costs more than storing it. A
//! search reads messages that aren't indexed yet. Both databases have the same rows ([`rows`]), so they find the same messages in
//! the same order. They differ in how they record which messages still need indexing ([`watermark`], [`marks`]).

mod legs;
mod line;
mod marks;
mod rows;
mod search;
mod vectors;
mod watermark;

use crate::sql::{Connection, SqlStore, query, sql, statement::SqlDialect};

use super::{
    super::{ExpandedExchange, MessageRange, MessageScope, PlacedExchange, StoreResult, StoredMessage},
    row,
};
pub(super) use legs::legs;
pub(super) use line::AncestorLine;
use recapd_core::domain::{
    agent::AgentId,
    context::is_safe_boundary,
    number::{i64_or_max, usize_or_max},
};
pub(super) use rows::forget;
pub(super) use search::search;
pub(super) use vectors::forget as forget_vectors;

/// Limits the bytes of payloads that one transaction indexes, because an append may have to wait for it: a few milliseconds.
const INDEX_BYTES_MAX: usize = 16_384;

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    match store.dialect() {
        SqlDialect::Sqlite => watermark::index(store, messages_max).await,
        SqlDialect::Postgres => marks::index(store, messages_max).await,
    }
}

/// Returns the ancestor line of `agent`, and an exchange in it; `None` if there is no such exchange or agent.
async fn look_up(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: i64,
) -> StoreResult<Option<(AncestorLine, PlacedExchange)>> {
    let Some(line) = AncestorLine::of(tx, agent).await? else {
        return Ok(None);
    };
    let placed = line.find(tx, exchange).await?;
    Ok(placed.map(|placed| (line, placed)))
}

pub(super) async fn expand(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: i64,
    range: MessageRange,
) -> StoreResult<Option<ExpandedExchange>> {
    let Some((_, placed)) = look_up(tx, agent, exchange).await? else {
        return Ok(None);
    };
    let (messages, has_more) = messages(tx, agent, &placed, range).await?;
    Ok(Some(ExpandedExchange { placed, messages, has_more }))
}

/// Limits how many of an exchange's first user messages are read to find its request.
const REQUESTS_READ_MAX: i64 = 8;

pub(super) async fn request_of(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: i64,
) -> StoreResult<Option<StoredMessage>> {
    let Some((_, placed)) = look_up(tx, agent, exchange).await? else {
        return Ok(None);
    };
    let sql = sql!(
        "-- sql/recall.request_of\nSELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), m.said_at, \
               m.kind FROM message_log m LEFT JOIN recounts r ON r.agent_id = $5 AND r.seq = m.seq \
               WHERE m.agent_id = $1 AND m.seq BETWEEN $2 AND $3 AND m.exchange = $4 AND m.kind = 'user' \
               ORDER BY m.seq LIMIT $6"
    );
    let of = &placed.exchange;
    let found = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(of.last_seq)
        .bind(of.exchange)
        .bind(agent.as_str())
        .bind(REQUESTS_READ_MAX)
        .fetch_all(tx)
        .await?;
    let found: StoreResult<Vec<StoredMessage>> = found.iter().map(row::message).collect();
    Ok(found?.into_iter().find(|stored| is_safe_boundary(&stored.message)))
}

/// SQL that is true if message `m` belongs to the scope of parameter 7 (see [`all_kinds_flag`]).
macro_rules! is_in_scope {
    () => {
        "($7 > 0 OR m.kind IN ('user', 'assistant', 'tool_call', 'tool_result', 'interrupted', 'compact_summary'))"
    };
}

/// Returns the messages of an exchange within the range, and whether there are more. Reads their sizes first, because a statement
/// that is stopped early has read its rows already.
async fn messages(
    tx: &mut Connection,
    agent: &AgentId,
    placed: &PlacedExchange,
    range: MessageRange,
) -> StoreResult<(Vec<StoredMessage>, bool)> {
    let (through_seq, has_more) = last_within(&mut *tx, placed, range).await?;
    let sql = sql!(
        "-- sql/recall.messages\nSELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), m.said_at, \
               m.kind FROM message_log m LEFT JOIN recounts r ON r.agent_id = $6 AND r.seq = m.seq \
               WHERE m.agent_id = $1 AND m.seq BETWEEN {max}($2, $4 + 1) AND $3 AND m.exchange = $5 AND ",
        is_in_scope!(),
        " ORDER BY m.seq"
    );
    let of = &placed.exchange;
    let found = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(through_seq)
        .bind(range.after_seq)
        .bind(of.exchange)
        .bind(agent.as_str())
        .bind(all_kinds_flag(range))
        .fetch_all(tx)
        .await?;
    let messages: StoreResult<Vec<StoredMessage>> = found.iter().map(row::message).collect();
    Ok((messages?, has_more))
}

/// Returns 1 if the range has messages of every kind.
fn all_kinds_flag(range: MessageRange) -> i64 {
    i64::from(range.scope == MessageScope::All)
}

/// Returns the last message of an exchange within the range, and whether there are more.
async fn last_within(
    tx: &mut Connection,
    placed: &PlacedExchange,
    range: MessageRange,
) -> StoreResult<(i64, bool)> {
    let sql = sql!(
        "-- sql/recall.sizes\nSELECT m.seq, CAST(octet_length(m.payload) AS bigint) FROM message_log m \
               WHERE m.agent_id = $1 AND m.seq BETWEEN {max}($2, $4 + 1) AND $3 AND m.exchange = $5 AND ",
        is_in_scope!(),
        " ORDER BY m.seq LIMIT $6"
    );
    let of = &placed.exchange;
    let found = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(of.last_seq)
        .bind(range.after_seq)
        .bind(of.exchange)
        // One row more than may be read shows whether there are more.
        .bind(range.messages_max.saturating_add(1))
        .bind(all_kinds_flag(range))
        .fetch_all(tx)
        .await?;
    let messages_max = usize_or_max(range.messages_max);
    let bytes_max = i64_or_max(range.bytes_max);
    let (mut through_seq, mut bytes) = (range.after_seq, 0);
    for (count, row) in found.iter().enumerate() {
        if count >= messages_max || bytes >= bytes_max {
            return Ok((through_seq, true));
        }
        through_seq = row.try_get(0)?;
        bytes += row.try_get::<i64>(1)?;
    }
    Ok((through_seq, false))
}

/// Corrects the index after messages of an agent were deleted.
pub(super) async fn correct_after_deletion(tx: &mut Connection) -> StoreResult<()> {
    match tx.dialect() {
        SqlDialect::Sqlite => watermark::lower(tx).await,
        SqlDialect::Postgres => Ok(()),
    }
}
