//! Writes the rows of the index, which are the same in both databases: a block's messages, and the postings of a stem in a block.
//! The domain defines their bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    StoreResult, StoredMessage,
    sql::{Connection, query, row, sql},
};
use recapd_core::domain::{
    agent::AgentId,
    recall::{IndexPart, IndexSource, block_of},
    text::hexadecimal,
};

/// A message with its exchange.
#[derive(Clone)]
pub(super) struct PlacedMessage {
    pub(super) exchange: i64,
    pub(super) stored: StoredMessage,
}

impl PlacedMessage {
    /// Reads a message's columns, and its exchange from the column after them.
    pub(super) fn read(found: &crate::sql::Row) -> StoreResult<Self> {
        Ok(Self { exchange: found.try_get(6)?, stored: row::message(found)? })
    }

    /// Indexes messages with ascending numbers.
    pub(super) fn indexed(messages: &[Self]) -> Vec<IndexPart> {
        IndexPart::of(messages.iter().map(|placed| IndexSource {
            seq: placed.stored.seq,
            exchange: placed.exchange,
            said_at: placed.stored.said_at,
            message: &placed.stored.message,
        }))
    }
}

/// The messages to index, in order, by agent.
pub(super) type IndexBatch = BTreeMap<String, Vec<PlacedMessage>>;

/// Returns the agents that have messages in the batch which were forgotten since the batch was read.
pub(super) async fn forgotten_since(
    tx: &mut Connection,
    batch: &IndexBatch,
) -> StoreResult<BTreeSet<String>> {
    let read: Vec<Value> = batch
        .iter()
        .flat_map(|(agent, messages)| {
            let remaining = messages.iter().filter(|placed| !placed.stored.message.is_forgotten());
            remaining.map(move |placed| json!([agent, placed.stored.seq]))
        })
        .collect();
    let sql = sql!(
        "-- sql/recall.forgotten_since\nSELECT DISTINCT m.agent_id FROM {each}($1{::jsonb}) j {join} message_log m \
               ON m.agent_id = j.value ->> 0 AND m.seq = CAST(j.value ->> 1 AS bigint) WHERE m.forgotten_at IS NOT NULL"
    );
    let found: Vec<String> = query(sql).bind(json!(read).to_string()).fetch_column(tx).await?;
    Ok(found.into_iter().collect())
}

/// Adds an agent's new parts of the index to the rows of their blocks.
pub(super) async fn add(tx: &mut Connection, parts: &BTreeMap<String, Vec<IndexPart>>) -> StoreResult<()> {
    let all = || parts.iter().flat_map(|(agent, parts)| parts.iter().map(move |part| (agent, part)));
    let blocks: Vec<Value> = all()
        .map(|(agent, part)| {
            let (totals, bytes) = (part.totals(), hexadecimal(&part.messages_bytes()));
            json!([agent, part.block(), totals.messages, totals.words, bytes])
        })
        .collect();
    let words: Vec<Value> = all()
        .flat_map(|(agent, part)| {
            part.rows().map(move |(stem, count, bytes)| {
                json!([agent, part.block(), stem, count, hexadecimal(&bytes)])
            })
        })
        .collect();
    let add_blocks = sql!(
        sqlite: "-- sqlite/recall.add_blocks\nINSERT INTO recall_blocks (agent_id, block, messages, words, entries) \
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, unhex(value ->> 4) FROM json_each($1) WHERE true \
                 ON CONFLICT (agent_id, block) DO UPDATE SET messages = recall_blocks.messages + excluded.messages, \
                 words = recall_blocks.words + excluded.words, \
                 entries = CAST(recall_blocks.entries || excluded.entries AS BLOB)",
        postgres: "-- postgres/recall.add_blocks\nINSERT INTO recall_blocks (agent_id, block, messages, words, entries) \
                   SELECT value ->> 0, CAST(value ->> 1 AS bigint), CAST(value ->> 2 AS bigint), \
                   CAST(value ->> 3 AS bigint), decode(value ->> 4, 'hex') FROM jsonb_array_elements($1::jsonb) \
                   ON CONFLICT (agent_id, block) DO UPDATE SET messages = recall_blocks.messages + excluded.messages, \
                   words = recall_blocks.words + excluded.words, entries = recall_blocks.entries || excluded.entries",
    );
    let add_words = sql!(
        sqlite: "-- sqlite/recall.add_words\nINSERT INTO recall_words (agent_id, block, stem, messages, postings) \
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, unhex(value ->> 4) FROM json_each($1) WHERE true \
                 ON CONFLICT (agent_id, block, stem) DO UPDATE SET messages = recall_words.messages + excluded.messages, \
                 postings = CAST(recall_words.postings || excluded.postings AS BLOB)",
        postgres: "-- postgres/recall.add_words\nINSERT INTO recall_words (agent_id, block, stem, messages, postings) \
                   SELECT value ->> 0, CAST(value ->> 1 AS bigint), value ->> 2, CAST(value ->> 3 AS bigint), \
                   decode(value ->> 4, 'hex') FROM jsonb_array_elements($1::jsonb) \
                   ON CONFLICT (agent_id, block, stem) DO UPDATE SET messages = recall_words.messages + excluded.messages, \
                   postings = recall_words.postings || excluded.postings",
    );
    for (sql, rows) in [(add_blocks, blocks), (add_words, words)] {
        query(sql).bind(json!(rows).to_string()).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Removes the words of messages from the index. Reads every row of their blocks, because the texts may be gone already.
pub(in crate::sql) async fn forget(tx: &mut Connection, agent: &AgentId, seqs: &[i64]) -> StoreResult<()> {
    let blocks: BTreeSet<i64> = seqs.iter().map(|seq| block_of(*seq)).collect();
    for block in blocks {
        if let Some(mut part) = block_part(tx, agent, block).await? {
            let changed = part.forget(seqs);
            replace(tx, agent, &part, &changed).await?;
        }
    }
    Ok(())
}

/// Reads a block with all its words.
async fn block_part(tx: &mut Connection, agent: &AgentId, block: i64) -> StoreResult<Option<IndexPart>> {
    let entries =
        sql!("-- sql/recall.block\nSELECT entries FROM recall_blocks WHERE agent_id = $1 AND block = $2");
    let words = sql!(
        "-- sql/recall.block_words\nSELECT stem, postings FROM recall_words WHERE agent_id = $1 AND block = $2"
    );
    let found = query(entries).bind(agent.as_str()).bind(block).fetch_optional(&mut *tx).await?;
    let Some(found) = found else { return Ok(None) };
    let mut part = IndexPart::read(block, &found.try_get::<Vec<u8>>(0)?);
    for row in query(words).bind(agent.as_str()).bind(block).fetch_all(tx).await? {
        part.add_postings(&row.try_get::<String>(0)?, &row.try_get::<Vec<u8>>(1)?);
    }
    Ok(Some(part))
}

async fn replace(
    tx: &mut Connection,
    agent: &AgentId,
    part: &IndexPart,
    changed: &[String],
) -> StoreResult<()> {
    let delete = sql!(
        "-- sql/recall.delete_words\nDELETE FROM recall_words WHERE agent_id = $1 AND block = $2 \
               AND stem IN (SELECT value FROM {each_text}($3{::jsonb}))"
    );
    query(delete)
        .bind(agent.as_str())
        .bind(part.block())
        .bind(json!(changed).to_string())
        .execute(&mut *tx)
        .await?;
    let delete =
        sql!("-- sql/recall.delete_block\nDELETE FROM recall_blocks WHERE agent_id = $1 AND block = $2");
    query(delete).bind(agent.as_str()).bind(part.block()).execute(&mut *tx).await?;
    add(tx, &BTreeMap::from([(agent.to_string(), vec![part.clone()])])).await
}
