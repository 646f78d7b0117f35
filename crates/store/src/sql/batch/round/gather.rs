//! Gathers waiting questions into a batch.

use super::outdated::is_current;
use crate::{
    StoreResult,
    batch::{Gather, OpenBatch},
    sql::{Connection, query, sql},
};
use recapd_core::domain::{
    batch::{BatchIdentity, BatchState},
    number::i64_or_max,
    time::{CLOCK_JUMP_MS_MIN, Timestamp},
};

/// See [`crate::batch::BatchStore::gather`]. Changes questions only under their agents' locks, and doesn't wait for a lock: if
/// another transaction has locked an agent, its question goes into a later batch. If no batch is due, locks no agent.
pub(crate) async fn gather(tx: &mut Connection, gather: Gather) -> StoreResult<Option<OpenBatch>> {
    if count_open(tx).await? >= gather.open_max {
        return Ok(None);
    }
    let keys = next_questions(tx, &gather).await?;
    let keys = lock_agents(tx, &keys).await?;
    if keys.is_empty() {
        return Ok(None);
    }
    let requests = i64_or_max(keys.len());
    let batch = write(tx, &gather, requests).await?;
    let sql = sql!(
        "-- sql/round.send_out\nUPDATE batch_requests SET state = 'out', batch = $1 \
               WHERE state = 'waiting' AND journal_key IN (SELECT value FROM {each_text}($2{::jsonb}))"
    );
    query(sql).bind(batch).bind(serde_json::json!(keys).to_string()).execute(tx).await?;
    Ok(Some(OpenBatch {
        batch,
        identity: BatchIdentity { name: gather.name, requests, created_at: gather.now },
        provider: gather.provider,
        model: gather.model,
        state: BatchState::Intent,
        provider_id: None,
        looks: 0,
        held_until: gather.next_at,
    }))
}

/// Locks the agents of the questions, and skips agents that are locked already. Returns the questions that are still waiting.
async fn lock_agents(tx: &mut Connection, keys: &[String]) -> StoreResult<Vec<String>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys = serde_json::json!(keys).to_string();
    let lock = sql!(
        "-- sql/round.lock_next\nSELECT a.agent_id FROM agents a WHERE a.agent_id IN (SELECT agent_id FROM batch_requests \
               WHERE journal_key IN (SELECT value FROM {each_text}($1{::jsonb}))) {a_skip_locked}"
    );
    let agents: Vec<String> = query(lock).bind(keys.as_str()).fetch_column(&mut *tx).await?;
    // The questions were read before the lock, and may have been withdrawn since.
    let waiting = sql!(
        "-- sql/round.still_waiting\nSELECT r.journal_key FROM batch_requests r WHERE r.state = 'waiting' \
               AND r.journal_key IN (SELECT value FROM {each_text}($1{::jsonb})) \
               AND r.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) AND ",
        is_current!()
    );
    let agents = serde_json::json!(agents).to_string();
    Ok(query(waiting).bind(keys.as_str()).bind(agents.as_str()).fetch_column(tx).await?)
}

async fn count_open(tx: &mut Connection) -> StoreResult<i64> {
    let sql = sql!("-- sql/round.count_open\nSELECT count(*) FROM provider_batches WHERE state <> 'closed'");
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// Returns the oldest questions within the limits, if they fill a batch or the oldest has waited long enough. If the oldest has a
/// time in the future, a clock ran ahead when it was queued. Its real wait is unknown, so the batch is due at once.
async fn next_questions(tx: &mut Connection, gather: &Gather) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/round.next_questions\nSELECT r.journal_key, CAST(octet_length(r.body) AS bigint), r.queued_at \
               FROM batch_requests r WHERE r.state = 'waiting' AND r.provider = $1 AND r.model = $2 AND ",
        is_current!(),
        " ORDER BY r.queued_at, r.agent_id LIMIT $3"
    );
    let found = query(sql)
        .bind(gather.provider.as_str())
        .bind(gather.model.as_str())
        .bind(gather.requests_max)
        .fetch_all(tx)
        .await?;
    let (mut keys, mut bytes, mut is_full) = (Vec::new(), 0, false);
    for row in &found {
        bytes += row.try_get::<i64>(1)?;
        if bytes > gather.bytes_max && !keys.is_empty() {
            is_full = true;
            break;
        }
        keys.push(row.try_get(0)?);
    }
    is_full |= i64_or_max(keys.len()) >= gather.requests_max;
    let oldest = found.first().map(|row| row.try_get::<Timestamp>(2)).transpose()?;
    let future = gather.now.plus_ms(CLOCK_JUMP_MS_MIN);
    let is_due = is_full || oldest.is_some_and(|at| at <= gather.waiting_before || at > future);
    Ok(if is_due { keys } else { Vec::new() })
}

async fn write(tx: &mut Connection, gather: &Gather, requests: i64) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/round.write\nINSERT INTO provider_batches (name, provider, model, state, requests, next_at, \
               created_at) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING batch"
    );
    Ok(query(sql)
        .bind(gather.name.as_str())
        .bind(gather.provider.as_str())
        .bind(gather.model.as_str())
        .bind(BatchState::Intent.name())
        .bind(requests)
        .bind(gather.next_at)
        .bind(gather.now)
        .fetch_one(tx)
        .await?
        .try_get(0)?)
}
