//! Withdrawing items: what a rewind does to the summary.
//!
//! An item about anything beyond the watermark is withdrawn as a whole; the live exchanges before the watermark that it
//! covered get digest items, so that coverage has no gap. All of it is one version, with a fencing token of its own.

use sqlx::{Row as _, SqliteConnection};

use super::super::{
    super::{AppendRequest, Patch, RunRecord, StoreResult},
    complete, queue,
    row::{self, exchange_columns},
    summary,
};
use crate::{
    domain::{
        agent::AgentId,
        exchange::Exchange,
        ledger::Ledger,
        summary::{
            compaction::{Composition, compose},
            coverage::digest_items,
            item::Item,
        },
        time::Timestamp,
        work::Lease,
    },
    tokenizer,
};

/// Withdraws what reaches beyond the watermark of `ledger`. Returns the new version.
pub(super) async fn withdraw(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    ledger: &Ledger,
    at: Timestamp,
) -> StoreResult<i64> {
    let (agent, through) = (&request.agent, ledger.summarized_through);
    let removed = reaching_beyond(tx, agent, through).await?;
    let orphans = covered_before(tx, agent, &removed, through).await?;
    let mut items = summary::shown_items(tx, agent).await?;
    items.retain(|item| !removed.contains(&item.item));
    let old = items.len();
    items.extend(digest_items(&orphans));
    let (version, as_of) = current(tx, request, at).await?;
    let counter = tokenizer::ceiling_counter();
    let policy = request
        .rules
        .policy
        .for_agent(summary::agent_time(tx, agent).await?);
    let composition = compose(&items, as_of, &policy, counter.as_ref());
    let patch = patch(request, &items, old, composition, (version, through, as_of));
    let lease = Lease {
        agent: agent.clone(),
        token: queue::next_token(tx).await?,
        claimed_wake: 0,
        attempt: 0,
        crashes: 0,
        reasons: 0,
        ready_at: request.now,
    };
    complete::write_document(tx, &lease, &patch).await?;
    complete::write_version(tx, &lease, &patch).await?;
    note_rewind(tx, agent, version + 1, ledger.last_seq).await?;
    let first_item = complete::reserve_items(tx, agent, &patch).await?;
    complete::write_items(tx, agent, &patch, first_item).await?;
    complete::retire_items(tx, agent, &Patch { removed, ..patch }).await?;
    Ok(version + 1)
}

/// The items that stand for an exchange after `through`.
async fn reaching_beyond(tx: &mut SqliteConnection, agent: &AgentId, through: i64) -> StoreResult<Vec<i64>> {
    let sql = "-- sqlite/withdraw.reaching_beyond\nSELECT i.item FROM summary_items i \
               WHERE i.agent_id = ?1 AND i.removed_version IS NULL AND EXISTS (SELECT 1 FROM summary_item_ranges r \
               WHERE r.agent_id = i.agent_id AND r.item = i.item AND r.last_exchange > ?2) ORDER BY i.item";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(through)
        .fetch_all(tx)
        .await?;
    Ok(found
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, sqlx::Error>>()?)
}

/// The live exchanges up to `through` that `items` stand for.
async fn covered_before(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    items: &[i64],
    through: i64,
) -> StoreResult<Vec<Exchange>> {
    let sql = concat!(
        "-- sqlite/withdraw.covered_before\nSELECT ",
        exchange_columns!("e"),
        " FROM summary_item_ranges r JOIN exchange_log e ON e.agent_id = r.agent_id ",
        "AND e.exchange BETWEEN r.first_exchange AND min(r.last_exchange, ?3) ",
        "WHERE r.agent_id = ?1 AND r.item IN (SELECT value FROM json_each(?2)) ",
        "AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange"
    );
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(items).to_string())
        .bind(through)
        .fetch_all(tx)
        .await?;
    found.iter().map(|row| row::exchange(row, 0)).collect()
}

/// The document's version, and the time its items are aged by.
async fn current(
    tx: &mut SqliteConnection,
    request: &AppendRequest,
    at: Timestamp,
) -> StoreResult<(i64, Timestamp)> {
    let sql = "-- sqlite/withdraw.current\nSELECT s.version, a.as_of FROM summaries s \
               JOIN agents a ON a.agent_id = s.agent_id WHERE s.agent_id = ?1";
    let row = sqlx::query(sql)
        .bind(request.agent.as_str())
        .fetch_one(tx)
        .await?;
    let as_of = if request.replayed {
        row::time(&row, 1)?.map_or(at, |as_of| as_of.max(at))
    } else {
        request.now
    };
    Ok((row.try_get(0)?, as_of))
}

fn patch(
    request: &AppendRequest,
    items: &[Item],
    old: usize,
    composition: Composition,
    (version, through, as_of): (i64, i64, Timestamp),
) -> Patch {
    let is_dropped = |index: usize| composition.dropped.binary_search(&index).is_ok();
    let (kept, digests) = items.split_at(old);
    Patch {
        version,
        lo: through,
        hi: through,
        exchanges: 0,
        added: (old..)
            .zip(digests)
            .map(|(index, item)| (item.clone(), is_dropped(index)))
            .collect(),
        dropped: (0..)
            .zip(kept)
            .filter(|(index, _)| is_dropped(*index))
            .map(|(_, item)| item.item)
            .collect(),
        removed: Vec::new(),
        content: composition.document,
        token_count: composition.tokens,
        path: composition.path,
        as_of,
        next_ageing_at: composition.next_change,
        has_more: !digests.is_empty(),
        park: None,
        rearm_wait_ms: 0,
        batch_exchanges: request.rules.batch_exchanges,
        run: RunRecord {
            started_at: request.now,
            finished_at: request.now,
            ..RunRecord::default()
        },
    }
}

async fn note_rewind(tx: &mut SqliteConnection, agent: &AgentId, version: i64, seq: i64) -> StoreResult<()> {
    let sql = "-- sqlite/withdraw.note_rewind\nUPDATE summary_versions SET rewind_seq = ?3 \
               WHERE agent_id = ?1 AND version = ?2";
    sqlx::query(sql)
        .bind(agent.as_str())
        .bind(version)
        .bind(seq)
        .execute(tx)
        .await?;
    Ok(())
}
