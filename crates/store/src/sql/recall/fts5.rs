//! The index on SQLite: contentless FTS5, one index for all agents, in order of the messages' ids.
//!
//! A watermark (`counters.recall_indexed`) says how far it reaches.

use futures::TryStreamExt as _;
use serde::Serialize;

use super::{AncestorLine, INDEX_BYTES_MAX, PlacedHit, Wish, hits};
use crate::{
    HITS_MAX, StoreResult,
    sql::{Connection, Lock, SqlStore, query, row, sql},
};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    recall::{Query, indexed, searchable},
    text::hexadecimal,
};

/// The most hits of the index that are read, before those after a fork are left out.
const RANKED_MAX: i64 = 3_000;
/// The pages of the index that one transaction merges: some ten milliseconds of the writer's time.
const MERGE_PAGES: i64 = 16;
/// FTS5's default.
const AUTOMERGE_PARTS: i64 = 4;

/// `counters.recall_unmerged`: the index's pages hold no words of deleted rows …
const MERGED: i64 = 0;
/// … a merge that removes them has begun …
const MERGING: i64 = 1;
/// … or has yet to begin.
const TO_BE_MERGED: i64 = 2;

#[derive(Clone, Debug)]
struct IndexBatch {
    after: i64,
    through: i64,
    messages: i64,
    rows: Vec<IndexRow>,
}

#[derive(Clone, Debug, Serialize)]
struct IndexRow {
    id: i64,
    who: String,
    said: String,
}

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    // Reading and splitting into words happens here, so that the writer only writes.
    let mut reader = store.reader().await?;
    let Some(batch) = next_batch(&mut reader, messages_max).await? else {
        // An earlier process may have been killed before it did this.
        if unmerged(&mut reader).await? != MERGED {
            store.scrub().await?;
        }
        return Ok(0);
    };
    store
        .write(Lock::Nothing, move |tx| Box::pin(write_batch(tx, batch)))
        .await
}

/// Returns the word for an agent in the index: ids may have characters that no word has.
fn who(agent: &str) -> String {
    format!("a{}", hexadecimal(agent.as_bytes()))
}

/// Returns the next messages to index; `None` if all are indexed.
async fn next_batch(connection: &mut Connection, messages_max: i64) -> StoreResult<Option<IndexBatch>> {
    let after = indexed_through(connection).await?;
    let sql = sql!(
        "-- sqlite/recall.unindexed\nSELECT seq, format, payload, tokens, said_at, kind, id, agent_id \
               FROM message_log WHERE id > $1 ORDER BY id LIMIT $2"
    );
    let mut found = query(sql).bind(after).bind(messages_max).fetch(connection)?;
    let mut batch = IndexBatch {
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

/// Writes a batch, unless another one was written first. Leaves out messages that were forgotten in the meantime. Returns how many
/// messages.
async fn write_batch(tx: &mut Connection, batch: IndexBatch) -> StoreResult<i64> {
    let sql = sql!(
        "-- sqlite/recall.advance\nUPDATE counters SET value = $2 WHERE name = 'recall_indexed' AND value = $1"
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
        "-- sqlite/recall.index\nINSERT INTO recall_index (rowid, who, said) \
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
    let sql =
        sql!("-- sqlite/recall.indexed_through\nSELECT value FROM counters WHERE name = 'recall_indexed'");
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

fn expression(wanted: &Query, line: &AncestorLine, wish: Wish) -> String {
    let terms: Vec<String> = wanted
        .terms()
        .iter()
        .map(|term| {
            // Words consist of letters and digits only, so they can't end the quotation.
            let open = if term.is_open() { " *" } else { "" };
            format!("\"{}\"{open}", term.words().join(" "))
        })
        .collect();
    let said = terms.join(match wish {
        Wish::All => " AND ",
        Wish::Any => " OR ",
    });
    let names: Vec<String> = line.agents().map(|agent| who(agent.as_str())).collect();
    format!("who : ({}) AND said : ({said})", names.join(" OR "))
}

pub(super) async fn ranked(
    tx: &mut Connection,
    line: &AncestorLine,
    wanted: &Query,
    wish: Wish,
) -> StoreResult<Vec<PlacedHit>> {
    let sql = sql!(
        "-- sqlite/recall.ranked\nWITH best (id, rank) AS (SELECT rowid, rank FROM recall_index \
               WHERE recall_index MATCH $1 ORDER BY rank LIMIT $4) \
               SELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, m.exchange, b.rank FROM best b \
               CROSS JOIN message_log m ON m.id = b.id JOIN json_each($2) l ON l.value ->> 0 = m.agent_id \
               WHERE m.seq <= l.value ->> 1 AND m.forgotten_at IS NULL ORDER BY b.rank LIMIT $3"
    );
    let found = query(sql)
        .bind(expression(wanted, line, wish))
        .bind(line.json())
        .bind(i64_or_max(HITS_MAX / 2))
        .bind(RANKED_MAX)
        .fetch_all(tx)
        .await?;
    hits(&found)
}

/// Removes messages from the index, with everything left of their words.
pub(super) async fn forget(tx: &mut Connection, agent: &AgentId, seqs: &[i64]) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.forget\nDELETE FROM recall_index WHERE rowid IN (SELECT m.id FROM json_each($2) j \
               CROSS JOIN message_log m ON m.agent_id = $1 AND m.seq = j.value)"
    );
    note_unmerged(tx).await?;
    query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(seqs).to_string())
        .execute(tx)
        .await?;
    Ok(())
}

/// Does the same as [`forget`] for the newest messages of an agent.
pub(super) async fn forget_newest(tx: &mut Connection, agent: &AgentId, limit: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.forget_newest\nDELETE FROM recall_index WHERE rowid IN \
               (SELECT id FROM message_log WHERE agent_id = $1 ORDER BY seq DESC LIMIT $2)"
    );
    note_unmerged(tx).await?;
    query(sql).bind(agent.as_str()).bind(limit).execute(tx).await?;
    Ok(())
}

/// Records that the index's pages hold words of deleted rows, which only a merge of all its segments removes. Until then FTS5's automatic
/// merge is off: it would do as much work for each deleted row as for a written page.
async fn note_unmerged(tx: &mut Connection) -> StoreResult<()> {
    if unmerged(tx).await? == TO_BE_MERGED {
        return Ok(());
    }
    set_automerge(tx, 0).await?;
    set_unmerged(tx, TO_BE_MERGED).await
}

/// Sets how many segments of one level FTS5 collects before it merges them while writing; 0: it never does.
async fn set_automerge(tx: &mut Connection, parts: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.automerge\nINSERT INTO recall_index (recall_index, rank) VALUES ('automerge', $1)"
    );
    query(sql).bind(parts).execute(tx).await?;
    Ok(())
}

async fn set_unmerged(tx: &mut Connection, state: i64) -> StoreResult<()> {
    let sql =
        sql!("-- sqlite/recall.set_unmerged\nUPDATE counters SET value = $1 WHERE name = 'recall_unmerged'");
    query(sql).bind(state).execute(tx).await?;
    Ok(())
}

/// Begins a stepwise merge of all segments of the index: only that removes the words of deleted rows.
async fn begin_merge(tx: &mut Connection) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.begin_merge\nINSERT INTO recall_index (recall_index, rank) VALUES ('merge', -1)"
    );
    query(sql).execute(&mut *tx).await?;
    set_unmerged(tx, MERGING).await
}

/// Returns the state of the removal of deleted rows' words.
async fn unmerged(connection: &mut Connection) -> StoreResult<i64> {
    let sql = sql!("-- sqlite/recall.unmerged\nSELECT value FROM counters WHERE name = 'recall_unmerged'");
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

/// Merges some pages of the index. Returns false once nothing is left to do.
pub(crate) async fn merge_some(tx: &mut Connection) -> StoreResult<bool> {
    match unmerged(tx).await? {
        MERGED => return Ok(false),
        MERGING => {}
        _ => {
            begin_merge(tx).await?;
            return Ok(true);
        }
    }
    let changes = sql!("-- sqlite/recall.changes\nSELECT total_changes()");
    let before: i64 = query(changes).fetch_one(&mut *tx).await?.try_get(0)?;
    let sql =
        sql!("-- sqlite/recall.merge\nINSERT INTO recall_index (recall_index, rank) VALUES ('merge', $1)");
    query(sql).bind(MERGE_PAGES).execute(&mut *tx).await?;
    let after: i64 = query(changes).fetch_one(&mut *tx).await?.try_get(0)?;
    // The command itself counts as one.
    if after - before >= 2 {
        return Ok(true);
    }
    set_unmerged(tx, MERGED).await?;
    set_automerge(tx, AUTOMERGE_PARTS).await?;
    Ok(false)
}

/// Lowers the watermark if it is beyond the last message, because ids of deleted messages are reused.
pub(super) async fn hold_watermark(tx: &mut Connection) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.hold\nUPDATE counters SET value = min(value, \
               (SELECT coalesce(max(id), 0) FROM message_log)) WHERE name = 'recall_indexed'"
    );
    query(sql).execute(tx).await?;
    Ok(())
}
