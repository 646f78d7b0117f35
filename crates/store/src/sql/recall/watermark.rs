//! Decides what to index next on SQLite: messages in order of their ids. A watermark (`counters.recall_indexed`) says how far the
//! index reaches.

use futures::TryStreamExt as _;

use super::{
    INDEX_BYTES_MAX,
    rows::{self, IndexBatch, PlacedMessage},
};
use crate::{
    StoreResult,
    sql::{Connection, Lock, SqlStore, query, sql},
};

#[derive(Clone)]
struct NextBatch {
    /// The watermark before the batch.
    after: i64,
    /// The watermark after the batch.
    through: i64,
    /// How many messages the batch has.
    messages: i64,
    batch: IndexBatch,
}

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    // Reads messages and splits them into words here, so that the writer only writes.
    let mut reader = store.reader().await?;
    let Some(next) = next_batch(&mut reader, messages_max).await? else {
        return Ok(0);
    };
    let parts = next
        .batch
        .iter()
        .map(|(agent, messages)| (agent.clone(), PlacedMessage::indexed(messages)))
        .collect();
    store
        .write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                // Another process may have indexed these messages. If one was forgotten meanwhile, the batch is read again.
                let is_unchanged = rows::forgotten_since(tx, &next.batch).await?.is_empty();
                if is_unchanged && advance(tx, &next).await? {
                    rows::add(tx, &parts).await?;
                }
                Ok(next.messages)
            })
        })
        .await
}

/// Returns the next messages to index; `None` if all are indexed.
async fn next_batch(connection: &mut Connection, messages_max: i64) -> StoreResult<Option<NextBatch>> {
    let sql =
        sql!("-- sqlite/recall.indexed_through\nSELECT value FROM counters WHERE name = 'recall_indexed'");
    let after: i64 = query(sql).fetch_one(&mut *connection).await?.try_get(0)?;
    let sql = sql!(
        "-- sqlite/recall.unindexed\nSELECT seq, format, payload, tokens, said_at, kind, exchange, id, agent_id \
               FROM message_log WHERE id > $1 ORDER BY id LIMIT $2"
    );
    let mut found = query(sql).bind(after).bind(messages_max).fetch(connection)?;
    let mut next = NextBatch { after, through: after, messages: 0, batch: IndexBatch::new() };
    let mut bytes = 0;
    while bytes < INDEX_BYTES_MAX {
        let Some(row) = found.try_next().await? else { break };
        let placed = PlacedMessage::read(&row)?;
        bytes += placed.stored.message.payload.len();
        next.through = row.try_get(7)?;
        next.messages += 1;
        next.batch.entry(row.try_get(8)?).or_default().push(placed);
    }
    Ok((next.messages > 0).then_some(next))
}

/// Moves the watermark past the batch. Returns false if it moved in the meantime.
async fn advance(tx: &mut Connection, next: &NextBatch) -> StoreResult<bool> {
    let sql = sql!(
        "-- sqlite/recall.advance\nUPDATE counters SET value = $2 WHERE name = 'recall_indexed' AND value = $1"
    );
    let row_count = query(sql).bind(next.after).bind(next.through).execute(tx).await?;
    Ok(row_count > 0)
}

/// Lowers the watermark to the last message if it is beyond that, because SQLite reuses the ids of deleted messages.
pub(super) async fn lower(tx: &mut Connection) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/recall.hold\nUPDATE counters SET value = min(value, \
               (SELECT coalesce(max(id), 0) FROM message_log)) WHERE name = 'recall_indexed'"
    );
    query(sql).execute(tx).await?;
    Ok(())
}
