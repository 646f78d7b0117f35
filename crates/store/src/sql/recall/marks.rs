//! Decides what to index next on PostgreSQL: a mark per agent says how far the index reaches.
//!
//! An append marks its agent as pending in its own transaction. The indexer locks some of these agents, and other daemons skip
//! them. It moves the marks in the transaction that writes the words.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt as _;
use serde_json::json;

use super::{
    INDEX_BYTES_MAX,
    rows::{self, IndexBatch, PlacedMessage},
};
use crate::{
    StoreResult,
    sql::{Connection, Lock, SqlStore, query, sql},
};
use recapd_core::domain::{number::i64_or_max, recall::IndexPart};

/// Limits how many agents one transaction indexes.
const AGENTS_MAX: i64 = 32;

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    store.write(Lock::Nothing, move |tx| Box::pin(index_some(tx, messages_max))).await
}

/// Indexes some messages without waiting for locks. An agent that another transaction writes or indexes stays pending.
async fn index_some(tx: &mut Connection, messages_max: i64) -> StoreResult<i64> {
    // A commit needn't wait for the disk: if a crash of the server undoes it, the messages are indexed again.
    let sql = sql!("-- postgres/recall.hurry\nSET LOCAL synchronous_commit = off");
    query(sql).execute(&mut *tx).await?;
    let sql = sql!(
        "-- postgres/recall.claim\nSELECT agent_id FROM recall_pending ORDER BY turn LIMIT $1 \
               FOR UPDATE SKIP LOCKED"
    );
    let claimed: Vec<String> = query(sql).bind(AGENTS_MAX).fetch_column(&mut *tx).await?;
    if claimed.is_empty() {
        return Ok(0);
    }
    // Splits the messages into words before it locks the agents, so that no append waits for the splitting.
    let mut batch = unindexed_messages(tx, &claimed, messages_max).await?;
    let mut parts: BTreeMap<String, Vec<IndexPart>> =
        batch.iter().map(|(agent, messages)| (agent.clone(), PlacedMessage::indexed(messages))).collect();
    let mut locked = lock(tx, &claimed).await?;
    // If one of an agent's messages was forgotten meanwhile, the agent stays pending and is read again.
    let changed = rows::forgotten_since(tx, &batch).await?;
    locked.retain(|agent| !changed.contains(agent));
    batch.retain(|agent, _| locked.contains(agent));
    parts.retain(|agent, _| locked.contains(agent));
    rows::add(tx, &parts).await?;
    advance(tx, &batch).await?;
    release(tx, &locked, &batch).await?;
    Ok(i64_or_max(batch.values().map(Vec::len).sum::<usize>()))
}

async fn lock(tx: &mut Connection, agents: &[String]) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- postgres/recall.lock\nSELECT agent_id FROM agents WHERE agent_id IN \
               (SELECT value FROM jsonb_array_elements_text($1::jsonb)) FOR NO KEY UPDATE SKIP LOCKED"
    );
    Ok(query(sql).bind(json!(agents).to_string()).fetch_column(tx).await?)
}

/// Returns the messages after the marks of these agents.
async fn unindexed_messages(
    tx: &mut Connection,
    agents: &[String],
    messages_max: i64,
) -> StoreResult<IndexBatch> {
    let sql = sql!(
        "-- postgres/recall.unindexed\nSELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, m.exchange, p.agent_id \
               FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY p (agent_id, place) \
               LEFT JOIN recall_marks k ON k.agent_id = p.agent_id CROSS JOIN LATERAL (SELECT l.seq, l.format, l.payload, \
               l.tokens, l.said_at, l.kind, l.exchange FROM message_log l WHERE l.agent_id = p.agent_id \
               AND l.seq > coalesce(k.indexed_seq, 0) ORDER BY l.seq LIMIT $2) m ORDER BY p.place, m.seq LIMIT $2"
    );
    let mut found = query(sql).bind(json!(agents).to_string()).bind(messages_max).fetch(tx)?;
    let (mut batch, mut bytes) = (IndexBatch::new(), 0);
    while bytes < INDEX_BYTES_MAX {
        let Some(row) = found.try_next().await? else { break };
        let placed = PlacedMessage::read(&row)?;
        bytes += placed.stored.message.payload.len();
        batch.entry(row.try_get(7)?).or_default().push(placed);
    }
    Ok(batch)
}

async fn advance(tx: &mut Connection, batch: &IndexBatch) -> StoreResult<()> {
    let through: BTreeMap<&str, i64> = batch
        .iter()
        .filter_map(|(agent, messages)| Some((agent.as_str(), messages.last()?.stored.seq)))
        .collect();
    let sql = sql!(
        "-- postgres/recall.advance\nINSERT INTO recall_marks (agent_id, indexed_seq) \
               SELECT key, CAST(value AS bigint) FROM jsonb_each_text($1::jsonb) \
               ON CONFLICT (agent_id) DO UPDATE SET indexed_seq = excluded.indexed_seq"
    );
    query(sql).bind(json!(through).to_string()).execute(tx).await?;
    Ok(())
}

/// Ends the pending state of agents that have caught up. Moves the other agents behind those that wait.
async fn release(tx: &mut Connection, agents: &[String], batch: &IndexBatch) -> StoreResult<()> {
    let done = sql!(
        "-- postgres/recall.done\nDELETE FROM recall_pending p \
               WHERE p.agent_id IN (SELECT value FROM jsonb_array_elements_text($1::jsonb)) \
               AND NOT EXISTS (SELECT 1 FROM message_log m WHERE m.agent_id = p.agent_id AND m.seq > \
               coalesce((SELECT k.indexed_seq FROM recall_marks k WHERE k.agent_id = p.agent_id), 0))"
    );
    let again = sql!(
        "-- postgres/recall.again\nUPDATE recall_pending SET turn = nextval('recall_turn') \
               WHERE agent_id IN (SELECT value FROM jsonb_array_elements_text($1::jsonb))"
    );
    let served: BTreeSet<&String> = batch.keys().collect();
    for (sql, agents) in [(done, json!(agents)), (again, json!(served))] {
        query(sql).bind(agents.to_string()).execute(&mut *tx).await?;
    }
    Ok(())
}
