//! Recall: the index of the archive, searches, and exchanges as they were.
//!
//! The index is written behind the appends, some messages at a time, because a word's place in it costs more than the
//! message's row. A watermark (`counters.recall_indexed`) says how far it reaches; what lies behind is searched by
//! reading it.

mod line;

use crate::store::sql::{Connection, Row, query, sql};
use futures::TryStreamExt as _;
use serde::Serialize;

use super::{
    super::{
        Expanded, FoundExchange, HITS_MAX, Hit, MessageRange, PlacedExchange, Searched, StoreResult,
        StoredMessage, TAIL_MESSAGES_MAX,
    },
    row,
};
use crate::domain::{
    agent::AgentId,
    recall::{Query, indexed, searchable},
};
pub(super) use line::Line;

/// Payloads that are indexed in one transaction, in bytes: some ten milliseconds of the writer's time.
const INDEX_BYTES_MAX: usize = 131_072;
/// Hits of the index that are looked at before those of forks' later lives are left out.
const RANKED_MAX: i64 = 3_000;

/// Pages of the index that are merged in one transaction: some ten milliseconds of the writer's time.
const MERGE_PAGES: i64 = 16;

/// Messages on their way into the index.
#[derive(Debug)]
pub(super) struct Batch {
    after: i64,
    through: i64,
    messages: i64,
    rows: Vec<IndexRow>,
}

#[derive(Debug, Serialize)]
struct IndexRow {
    id: i64,
    who: String,
    said: String,
}

/// The word that stands for an agent in the index: an id may hold what is no part of a word.
fn who(agent: &str) -> String {
    let bytes = agent.bytes().map(|byte| format!("{byte:02x}"));
    std::iter::once("a".to_owned()).chain(bytes).collect()
}

/// The next messages to be indexed; none if all are.
pub(super) async fn next_batch(connection: &mut Connection, messages_max: i64) -> StoreResult<Option<Batch>> {
    let after = indexed_through(connection).await?;
    let sql = sql!(
        "-- sql/recall.unindexed\nSELECT seq, format, payload, tokens, said_at, kind, id, agent_id \
               FROM message_log WHERE id > $1 ORDER BY id LIMIT $2"
    );
    let mut found = query(sql).bind(after).bind(messages_max).fetch(connection)?;
    let mut batch = Batch {
        after,
        through: after,
        messages: 0,
        rows: Vec::new(),
    };
    let mut bytes = 0;
    while bytes < INDEX_BYTES_MAX {
        let Some(row) = found.try_next().await? else { break };
        let stored = row::message(&row)?;
        bytes += stored.message.payload.len();
        batch.through = row.try_get(6)?;
        batch.messages += 1;
        let said = indexed(&searchable(&stored.message));
        if !said.is_empty() {
            batch.rows.push(IndexRow {
                id: batch.through,
                who: who(&row.try_get::<String>(7)?),
                said,
            });
        }
    }
    Ok((batch.messages > 0).then_some(batch))
}

/// Writes a batch, unless another one went first. What was forgotten meanwhile is left out. Returns how many messages.
pub(super) async fn write_batch(tx: &mut Connection, batch: Batch) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/recall.advance\nUPDATE counters SET value = $2 WHERE name = 'recall_indexed' AND value = $1"
    );
    let done = query(sql)
        .bind(batch.after)
        .bind(batch.through)
        .execute(&mut *tx)
        .await?;
    if done == 0 {
        return Ok(batch.messages);
    }
    let sql = sql!(
        "-- sql/recall.index\nINSERT INTO recall_index (rowid, who, said) \
               SELECT m.id, j.value ->> 'who', j.value ->> 'said' FROM json_each($1) j \
               CROSS JOIN message_log m ON m.id = j.value ->> 'id' WHERE m.forgotten_at IS NULL"
    );
    query(sql)
        .bind(serde_json::json!(batch.rows).to_string())
        .execute(tx)
        .await?;
    Ok(batch.messages)
}

async fn indexed_through(connection: &mut Connection) -> StoreResult<i64> {
    let sql = sql!("-- sql/recall.indexed_through\nSELECT value FROM counters WHERE name = 'recall_indexed'");
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

/// See [`super::super::Store::search`].
pub(super) async fn search(
    tx: &mut Connection,
    agent: &AgentId,
    wanted: &Query,
) -> StoreResult<Option<Searched>> {
    let Some(line) = Line::of(tx, agent).await? else {
        return Ok(None);
    };
    let mut hits: Vec<(i64, Hit)> = Vec::new();
    for expression in expressions(wanted, &line) {
        let found = ranked(tx, &line, &expression).await?;
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
    Ok(Some(Searched { found, unsearched }))
}

fn add_new(hits: &mut Vec<(i64, Hit)>, found: Vec<(i64, Hit)>) {
    for (exchange, hit) in found {
        if !hits.iter().any(|(_, known)| known.message.seq == hit.message.seq) {
            hits.push((exchange, hit));
        }
    }
}

/// What the index is asked: for messages that hold all terms, and, if there are several, for those that hold any.
fn expressions(wanted: &Query, line: &Line) -> Vec<String> {
    let terms: Vec<String> = wanted
        .terms()
        .iter()
        .map(|term| {
            // The words hold nothing but letters and digits, so that none of them can end the quotation.
            let open = if term.is_open() { " *" } else { "" };
            format!("\"{}\"{open}", term.words().join(" "))
        })
        .collect();
    let names: Vec<String> = line.agents().map(|agent| who(agent.as_str())).collect();
    let within = |said: String| format!("who : ({}) AND said : ({said})", names.join(" OR "));
    let mut expressions = vec![within(terms.join(" AND "))];
    if terms.len() > 1 {
        expressions.push(within(terms.join(" OR ")));
    }
    expressions
}

/// The best hits of the index, with their exchanges.
async fn ranked(tx: &mut Connection, line: &Line, expression: &str) -> StoreResult<Vec<(i64, Hit)>> {
    let sql = sql!(
        "-- sql/recall.ranked\nWITH best (id, rank) AS (SELECT rowid, rank FROM recall_index \
               WHERE recall_index MATCH $1 ORDER BY rank LIMIT $4) \
               SELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, m.exchange, b.rank FROM best b \
               CROSS JOIN message_log m ON m.id = b.id JOIN json_each($2) l ON l.value ->> 0 = m.agent_id \
               WHERE m.seq <= l.value ->> 1 AND m.forgotten_at IS NULL ORDER BY b.rank LIMIT $3"
    );
    let found = query(sql)
        .bind(expression)
        .bind(line.json())
        .bind(i64::try_from(HITS_MAX / 2).unwrap_or(i64::MAX))
        .bind(RANKED_MAX)
        .fetch_all(tx)
        .await?;
    found.iter().map(|row| hit(row, Some(row.try_get(7)?))).collect()
}

fn hit(row: &Row, rank: Option<f64>) -> StoreResult<(i64, Hit)> {
    let message = row::message(row)?;
    Ok((row.try_get(6)?, Hit { rank, message }))
}

/// What isn't in the index yet, among the newest messages; and how many there are besides.
async fn unindexed(tx: &mut Connection, line: &Line, wanted: &Query) -> StoreResult<(Vec<(i64, Hit)>, i64)> {
    let through = indexed_through(tx).await?;
    let newest = sql!("-- sql/recall.newest\nSELECT coalesce(max(id), 0) FROM message_log");
    let newest: i64 = query(newest).fetch_one(&mut *tx).await?.try_get(0)?;
    let after = through.max(newest - TAIL_MESSAGES_MAX);
    let sql = sql!(
        "-- sql/recall.tail\nSELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, m.exchange \
               FROM message_log m JOIN json_each($1) l ON l.value ->> 0 = m.agent_id \
               WHERE m.id > $2 AND m.seq <= l.value ->> 1 AND m.forgotten_at IS NULL ORDER BY m.id DESC"
    );
    let json = line.json();
    let mut rows = query(sql).bind(json).bind(after).fetch(tx)?;
    let mut hits = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let (exchange, hit) = hit(&row, None)?;
        let found = wanted.found_in(&searchable(&hit.message.message));
        if found.contains(&true) {
            hits.push((exchange, hit));
        }
        if hits.len() >= HITS_MAX {
            break;
        }
    }
    Ok((hits, after - through))
}

/// See [`super::super::Store::expand`].
pub(super) async fn expand(
    tx: &mut Connection,
    agent: &AgentId,
    exchange: i64,
    range: MessageRange,
) -> StoreResult<Option<Expanded>> {
    let Some(line) = Line::of(tx, agent).await? else {
        return Ok(None);
    };
    let Some(placed) = line.find(tx, exchange).await? else {
        return Ok(None);
    };
    let (messages, has_more) = messages(tx, agent, &placed, range).await?;
    Ok(Some(Expanded {
        placed,
        messages,
        has_more,
    }))
}

/// The messages of an exchange within the range, and whether there are more.
async fn messages(
    tx: &mut Connection,
    agent: &AgentId,
    placed: &PlacedExchange,
    range: MessageRange,
) -> StoreResult<(Vec<StoredMessage>, bool)> {
    let sql = sql!(
        "-- sql/recall.messages\nSELECT m.seq, m.format, m.payload, coalesce(r.tokens, m.tokens), m.said_at, \
               m.kind FROM message_log m LEFT JOIN recounts r ON r.agent_id = $6 AND r.seq = m.seq \
               WHERE m.agent_id = $1 AND m.seq BETWEEN max($2, $4 + 1) AND $3 AND m.exchange = $5 ORDER BY m.seq"
    );
    let of = &placed.exchange;
    let mut rows = query(sql)
        .bind(placed.source.as_str())
        .bind(of.first_seq)
        .bind(of.last_seq)
        .bind(range.after_seq)
        .bind(of.exchange)
        .bind(agent.as_str())
        .fetch(tx)?;
    let messages_max = usize::try_from(range.messages_max).unwrap_or(usize::MAX);
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        if messages.len() >= messages_max || bytes >= range.bytes_max {
            return Ok((messages, true));
        }
        let stored = row::message(&row)?;
        bytes += stored.message.payload.len();
        messages.push(stored);
    }
    Ok((messages, false))
}

/// Takes messages out of the index, and what is left of their words.
pub(super) async fn forget(tx: &mut Connection, ids: &[i64]) -> StoreResult<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = sql!(
        "-- sql/recall.forget\nDELETE FROM recall_index WHERE rowid IN (SELECT value FROM json_each($1))"
    );
    query(sql)
        .bind(serde_json::json!(ids).to_string())
        .execute(&mut *tx)
        .await?;
    begin_merge(tx).await
}

/// As [`forget`], all messages of an agent. Returns how many messages it has.
pub(super) async fn forget_agent(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let count = sql!("-- sql/recall.count_agent\nSELECT count(*) FROM message_log WHERE agent_id = $1");
    let count: i64 = query(count)
        .bind(agent.as_str())
        .fetch_one(&mut *tx)
        .await?
        .try_get(0)?;
    let sql = sql!(
        "-- sql/recall.forget_agent\nDELETE FROM recall_index \
               WHERE rowid IN (SELECT id FROM message_log WHERE agent_id = $1)"
    );
    let done = query(sql).bind(agent.as_str()).execute(&mut *tx).await?;
    if done > 0 {
        begin_merge(tx).await?;
    }
    Ok(count)
}

/// A deleted row leaves its words in the index until parts of it are merged: so all are, in steps behind the commit.
async fn begin_merge(tx: &mut Connection) -> StoreResult<()> {
    let begin =
        sql!("-- sql/recall.begin_merge\nINSERT INTO recall_index (recall_index, rank) VALUES ('merge', -1)");
    let note =
        sql!("-- sql/recall.note_unmerged\nUPDATE counters SET value = 1 WHERE name = 'recall_unmerged'");
    for sql in [begin, note] {
        query(sql).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Whether words of what was forgotten are still in the index's pages.
pub(super) async fn is_unmerged(connection: &mut Connection) -> StoreResult<bool> {
    let sql = sql!("-- sql/recall.is_unmerged\nSELECT value FROM counters WHERE name = 'recall_unmerged'");
    Ok(query(sql).fetch_one(connection).await?.try_get::<i64>(0)? != 0)
}

/// Merges some pages of the index. False when there is nothing left to do.
pub(in crate::store) async fn merge_some(tx: &mut Connection) -> StoreResult<bool> {
    if !is_unmerged(tx).await? {
        return Ok(false);
    }
    let changes = sql!("-- sql/recall.changes\nSELECT total_changes()");
    let before: i64 = query(changes).fetch_one(&mut *tx).await?.try_get(0)?;
    let sql = sql!("-- sql/recall.merge\nINSERT INTO recall_index (recall_index, rank) VALUES ('merge', $1)");
    query(sql).bind(MERGE_PAGES).execute(&mut *tx).await?;
    let after: i64 = query(changes).fetch_one(&mut *tx).await?.try_get(0)?;
    // The command itself counts as one.
    if after - before >= 2 {
        return Ok(true);
    }
    let sql = sql!("-- sql/recall.note_merged\nUPDATE counters SET value = 0 WHERE name = 'recall_unmerged'");
    query(sql).execute(tx).await?;
    Ok(false)
}

/// Ids of deleted messages are given anew: the watermark must not be beyond them.
pub(super) async fn hold_watermark(tx: &mut Connection) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/recall.hold\nUPDATE counters SET value = min(value, \
               (SELECT coalesce(max(id), 0) FROM message_log)) WHERE name = 'recall_indexed'"
    );
    query(sql).execute(tx).await?;
    Ok(())
}
