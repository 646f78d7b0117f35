//! Recall: searches of the archive, and exchanges in their original form.
//!
//! The index is written after the appends, some messages at a time, because indexing a message costs more than storing it. Messages that
//! aren't indexed yet are searched by reading them. Each database has its own kind of index ([`fts5`], [`tsvector`]) over the same words,
//! which gives the same results.

mod fts5;
mod legs;
mod line;
mod tsvector;

use futures::{TryStreamExt as _, stream::BoxStream};

use crate::sql::{Connection, Row, SqlStore, query, sql, statement::SqlDialect};

use super::{
    super::{
        ExpandedExchange, FoundExchange, HITS_MAX, Hit, MessageRange, MessageScope, PlacedExchange,
        SearchHits, StoreResult, StoredMessage, TAIL_MESSAGES_MAX,
    },
    row,
};
pub(crate) use fts5::merge_some;
pub(super) use legs::legs;
pub(super) use line::AncestorLine;
use recapd_core::domain::{
    agent::AgentId,
    context::is_safe_boundary,
    number::{i64_or_max, usize_or_max},
    recall::{Query, searchable},
};

/// The most bytes of payloads indexed in one transaction: some ten milliseconds of writing.
const INDEX_BYTES_MAX: usize = 131_072;
/// How many of an agent's newest messages are examined to count the unindexed ones.
const UNINDEXED_COUNTED_MAX: i64 = 100_000;

type PlacedHit = (i64, Hit);

#[derive(Clone, Copy, Debug)]
enum Wish {
    /// Messages with all terms.
    All,
    /// Messages with any of the terms.
    Any,
}

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    match store.dialect() {
        SqlDialect::Sqlite => fts5::index(store, messages_max).await,
        SqlDialect::Postgres => tsvector::index(store, messages_max).await,
    }
}

pub(super) async fn search(
    tx: &mut Connection,
    agent: &AgentId,
    wanted: &Query,
) -> StoreResult<Option<SearchHits>> {
    let Some(line) = AncestorLine::of(tx, agent).await? else {
        return Ok(None);
    };
    let mut hits: Vec<PlacedHit> = Vec::new();
    let is_single = wanted.terms().len() == 1;
    for wish in [Wish::All, Wish::Any]
        .into_iter()
        .take(if is_single { 1 } else { 2 })
    {
        let found = ranked(tx, &line, wanted, wish).await?;
        add_new(&mut hits, found);
    }
    let (tail, unsearched) = unindexed(tx, &line, wanted).await?;
    add_new(&mut hits, tail);
    hits.sort_by_key(|(exchange, hit)| (*exchange, hit.message.seq));
    let mut found: Vec<FoundExchange> = Vec::new();
    for (exchange, hit) in hits {
        if found
            .last()
            .is_none_or(|last| last.placed.exchange.exchange != exchange)
        {
            let Some(placed) = line.find(tx, exchange).await?.filter(PlacedExchange::is_found) else {
                continue;
            };
            found.push(FoundExchange {
                placed,
                hits: Vec::new(),
            });
        }
        let last = found.last_mut();
        if let Some(last) = last.filter(|last| last.placed.exchange.holds(hit.message.seq)) {
            last.hits.push(hit);
        }
    }
    found.retain(|found| !found.hits.is_empty());
    Ok(Some(SearchHits { found, unsearched }))
}

fn add_new(hits: &mut Vec<PlacedHit>, found: Vec<PlacedHit>) {
    for (exchange, hit) in found {
        if !hits.iter().any(|(_, known)| known.message.seq == hit.message.seq) {
            hits.push((exchange, hit));
        }
    }
}

async fn ranked(
    tx: &mut Connection,
    line: &AncestorLine,
    wanted: &Query,
    wish: Wish,
) -> StoreResult<Vec<PlacedHit>> {
    match tx.dialect() {
        SqlDialect::Sqlite => fts5::ranked(tx, line, wanted, wish).await,
        SqlDialect::Postgres => tsvector::ranked(tx, line, wanted, wish).await,
    }
}

/// Returns hits among the newest unindexed messages of the line, and the number of older unindexed messages.
async fn unindexed(
    tx: &mut Connection,
    line: &AncestorLine,
    wanted: &Query,
) -> StoreResult<(Vec<PlacedHit>, i64)> {
    let (spans, unsearched) = tail(tx, line).await?;
    let sql = sql!(
        "-- sql/recall.tail\nSELECT seq, format, payload, tokens, said_at, kind, exchange FROM message_log \
               WHERE agent_id = $1 AND seq > $2 AND seq <= $3 AND forgotten_at IS NULL ORDER BY seq DESC"
    );
    let mut hits = Vec::new();
    for (agent, after, through) in &spans {
        let query = query(sql).bind(agent.as_str()).bind(*after).bind(*through);
        add_matching(&mut hits, query.fetch(&mut *tx)?, wanted).await?;
    }
    Ok((hits, unsearched))
}

/// Returns, for each agent of the line, the range of messages to read (after the first number, up to the second), and how many unindexed
/// messages come before these. An agent's messages have consecutive numbers. Their ids in SQLite ascend with them, and other agents' ids
/// in between don't matter.
async fn tail(tx: &mut Connection, line: &AncestorLine) -> StoreResult<(Vec<(String, i64, i64)>, i64)> {
    let sql = sql!(
        sqlite: "-- sql/recall.behind\nSELECT a.agent_id, max(a.fork_seq, min(a.last_seq, l.value ->> 1) - $2, \
               coalesce((SELECT n.seq FROM (SELECT m.id, m.seq FROM message_log m WHERE m.agent_id = a.agent_id \
               AND m.seq <= l.value ->> 1 ORDER BY m.seq DESC LIMIT $2) n \
               WHERE n.id <= (SELECT value FROM counters WHERE name = 'recall_indexed') LIMIT 1), 0)), \
               min(a.last_seq, l.value ->> 1) FROM json_each($1) l CROSS JOIN agents a ON a.agent_id = l.value ->> 0 \
               ORDER BY l.key",
        postgres: "-- sql/recall.behind\nSELECT a.agent_id, greatest(a.fork_seq, \
               least(a.last_seq, CAST(l.value ->> 1 AS bigint)) - $2, coalesce(k.indexed_seq, 0)), \
               least(a.last_seq, CAST(l.value ->> 1 AS bigint)) \
               FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY l (value, place) \
               JOIN agents a ON a.agent_id = l.value ->> 0 LEFT JOIN recall_marks k ON k.agent_id = a.agent_id \
               ORDER BY l.place",
    );
    let (mut spans, mut left, mut unsearched) = (Vec::new(), TAIL_MESSAGES_MAX, 0);
    let query = query(sql).bind(line.json()).bind(UNINDEXED_COUNTED_MAX);
    for row in query.fetch_all(tx).await? {
        let (indexed, through): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let behind = (through - indexed).max(0);
        let read = behind.min(left);
        left -= read;
        unsearched += behind - read;
        if read > 0 {
            spans.push((row.try_get(0)?, through - read, through));
        }
    }
    Ok((spans, unsearched))
}

/// Reads hits of the index: a message's columns, its exchange, its rank.
fn hits(found: &[Row]) -> StoreResult<Vec<PlacedHit>> {
    found.iter().map(|row| hit(row, Some(row.try_get(7)?))).collect()
}

fn hit(row: &Row, rank: Option<f64>) -> StoreResult<PlacedHit> {
    let message = row::message(row)?;
    Ok((row.try_get(6)?, Hit { rank, message }))
}

/// Adds the messages that match a term.
async fn add_matching(
    hits: &mut Vec<PlacedHit>,
    mut rows: BoxStream<'_, Result<Row, sqlx::Error>>,
    wanted: &Query,
) -> StoreResult<()> {
    while hits.len() < HITS_MAX {
        let Some(row) = rows.try_next().await? else { break };
        let (exchange, hit) = hit(&row, None)?;
        let found = wanted.found_in(&searchable(&hit.message.message));
        if found.contains(&true) {
            hits.push((exchange, hit));
        }
    }
    Ok(())
}

/// Returns the line of `agent` and an exchange in it; `None` if there is no such exchange or agent.
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
    Ok(Some(ExpandedExchange {
        placed,
        messages,
        has_more,
    }))
}

/// The most user messages of an exchange among which its request is searched for.
const REQUESTS_LOOKED_AT: i64 = 8;

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
        .bind(REQUESTS_LOOKED_AT)
        .fetch_all(tx)
        .await?;
    let found: StoreResult<Vec<StoredMessage>> = found.iter().map(row::message).collect();
    Ok(found?
        .into_iter()
        .find(|stored| is_safe_boundary(&stored.message)))
}

/// Returns the messages of an exchange within the range, and whether there are more. It reads their sizes first, because a statement that
/// ends early has read its rows by then.
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
               WHERE m.agent_id = $1 AND m.seq BETWEEN {max}($2, $4 + 1) AND $3 AND m.exchange = $5 \
               AND ($7 > 0 OR m.kind IN ('user', 'assistant', 'tool_call', 'tool_result', 'interrupted', 'compact_summary')) ORDER BY m.seq"
    );
    let of = &placed.exchange;
    let found = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(through_seq)
        .bind(range.after_seq)
        .bind(of.exchange)
        .bind(agent.as_str())
        .bind(all(range))
        .fetch_all(tx)
        .await?;
    let messages: StoreResult<Vec<StoredMessage>> = found.iter().map(row::message).collect();
    Ok((messages?, has_more))
}

/// 1 if the range has messages of every kind.
fn all(range: MessageRange) -> i64 {
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
               WHERE m.agent_id = $1 AND m.seq BETWEEN {max}($2, $4 + 1) AND $3 AND m.exchange = $5 \
               AND ($7 > 0 OR m.kind IN ('user', 'assistant', 'tool_call', 'tool_result', 'interrupted', 'compact_summary')) ORDER BY m.seq LIMIT $6"
    );
    let of = &placed.exchange;
    let found = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(of.last_seq)
        .bind(range.after_seq)
        .bind(of.exchange)
        // One more than may be read shows whether there are more.
        .bind(range.messages_max.saturating_add(1))
        .bind(all(range))
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

pub(super) async fn forget(tx: &mut Connection, agent: &AgentId, seqs: &[i64]) -> StoreResult<()> {
    match tx.dialect() {
        SqlDialect::Sqlite => fts5::forget(tx, agent, seqs).await,
        SqlDialect::Postgres => tsvector::forget(tx, agent, seqs).await,
    }
}

/// Removes the newest messages of an agent from the index, before their rows are deleted. PostgreSQL's index names agents, so it is
/// deleted like other tables.
pub(super) async fn forget_newest(tx: &mut Connection, agent: &AgentId, limit: i64) -> StoreResult<()> {
    match tx.dialect() {
        SqlDialect::Sqlite => fts5::forget_newest(tx, agent, limit).await,
        SqlDialect::Postgres => Ok(()),
    }
}

/// Runs after messages of an agent were deleted.
pub(super) async fn forgot_newest(tx: &mut Connection) -> StoreResult<()> {
    match tx.dialect() {
        SqlDialect::Sqlite => fts5::hold_watermark(tx).await,
        SqlDialect::Postgres => Ok(()),
    }
}
