//! Completes an update: the one transaction that writes a summary.

mod items;
mod rearm;
mod settle;

use crate::{
    Completion, Fence, Patch, StoreError, StoreResult,
    seal::VersionRow,
    sql::{
        Connection, facts, hold, query,
        queue::{self, RunOutcome},
        seal::fill,
        sql,
    },
};
use recapd_core::domain::{
    agent::AgentId, number::i64_or_max, summary::version::VersionKind, time::Timestamp, work::Lease,
};

use items::guard_coverage;
pub(super) use items::{reserve_items, retire_items, write_items};
use rearm::{finish, park};
pub(super) use settle::{settle, settle_at_once};

/// Applies an update exactly once. Checks four fences in this order: lease, version, watermark, exchanges. If one fails, nothing
/// is written.
pub(super) async fn complete(tx: &mut Connection, lease: Lease, patch: Patch) -> StoreResult<Completion> {
    guard_lease(tx, &lease).await?;
    write_document(tx, &lease, &patch).await?;
    let boundary = move_watermark(tx, &lease.agent, patch.lo, patch.hi, patch.run.finished_at).await?;
    guard_exchanges(tx, &lease.agent, &patch).await?;
    let first_item = reserve_items(tx, &lease.agent, &patch).await?;
    write_items(tx, &lease.agent, &patch, first_item).await?;
    guard_coverage(tx, &lease.agent, &patch, first_item).await?;
    retire_items(tx, &lease.agent, &patch).await?;
    facts::write(tx, &lease.agent, patch.version + 1, &patch.facts).await?;
    write_version(tx, &lease, &patch, VersionKind::Update).await?;
    hold::release(tx, &lease.agent, patch.hi, boundary == patch.hi + 1).await?;
    record(tx, &lease, &patch).await?;
    let now = tx.now(patch.run.finished_at).await?;
    let (rearmed, parked) = match &patch.park {
        Some(error) => (true, park(tx, &lease, &patch, queue::error_text(error), now).await?),
        None => (finish(tx, &lease, boundary, &patch, now).await?, false),
    };
    Ok(Completion { version: patch.version + 1, rearmed, parked })
}

/// See [`crate::Store::age_document`].
pub(super) async fn age_document(tx: &mut Connection, lease: Lease, patch: Patch) -> StoreResult<bool> {
    guard_lease(tx, &lease).await?;
    if is_asked_about(tx, &lease.agent, patch.version).await? {
        return Ok(false);
    }
    write_document(tx, &lease, &patch).await?;
    move_watermark(tx, &lease.agent, patch.lo, patch.hi, patch.run.finished_at).await?;
    retire_items(tx, &lease.agent, &patch).await?;
    write_version(tx, &lease, &patch, VersionKind::Update).await?;
    Ok(true)
}

/// Returns true if a question about this version is unanswered, or has an answer that no update has used. A new version would
/// make such an answer useless.
async fn is_asked_about(tx: &mut Connection, agent: &AgentId, version: i64) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/complete.is_asked_about\nSELECT 1 FROM batch_requests WHERE agent_id = $1 AND version = $2 \
               AND state IN ('waiting', 'out', 'answered') UNION ALL SELECT 1 FROM model_answers m \
               JOIN summary_versions v ON v.agent_id = m.agent_id AND v.version = $2 \
               WHERE m.agent_id = $1 AND m.created_at > v.created_at LIMIT 1"
    );
    let found = query(sql).bind(agent.as_str()).bind(version);
    Ok(found.fetch_optional(tx).await?.is_some())
}

async fn guard_lease(tx: &mut Connection, lease: &Lease) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.guard_lease\nSELECT 1 FROM summary_update_queue WHERE agent_id = $1 AND lease_token = $2 {for_update}"
    );
    let found = query(sql).bind(lease.agent.as_str()).bind(lease.token).fetch_optional(tx).await?;
    found.map(drop).ok_or(StoreError::Fenced(Fence::Lease))
}

/// Writes the document that readers get, unless a rebuild holds an earlier one for them ([`hold`]).
pub(super) async fn write_document(tx: &mut Connection, lease: &Lease, patch: &Patch) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.write_document\nUPDATE summaries SET version = version + 1, next_ageing_at = $6, \
               content = CASE WHEN held_version IS NULL THEN $3 ELSE content END, \
               token_count = CASE WHEN held_version IS NULL THEN $4 ELSE token_count END, \
               updated_at = CASE WHEN held_version IS NULL THEN $5 ELSE updated_at END \
               WHERE agent_id = $1 AND version = $2"
    );
    let row_count = query(sql)
        .bind(lease.agent.as_str())
        .bind(patch.version)
        .bind(patch.content.as_str())
        .bind(patch.token_count)
        .bind(patch.run.finished_at)
        .bind(patch.next_ageing_at)
        .execute(tx)
        .await?;
    if row_count == 1 { Ok(()) } else { Err(StoreError::Fenced(Fence::Version)) }
}

/// Moves the watermark from `lo` to `hi`. Fails if the watermark or the boundary has moved in the meantime. Returns the boundary.
async fn move_watermark(
    tx: &mut Connection,
    agent: &AgentId,
    lo: i64,
    hi: i64,
    now: Timestamp,
) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/complete.move_watermark\nUPDATE agents SET summarized_through = $3, \
               pending_since = CASE WHEN first_exchange = $3 + 1 THEN NULL WHEN $3 > $2 THEN $4 ELSE pending_since END \
               WHERE agent_id = $1 AND summarized_through = $2 AND first_exchange > $3 RETURNING first_exchange"
    );
    let found = query(sql).bind(agent.as_str()).bind(lo).bind(hi).bind(now).fetch_optional(tx).await?;
    Ok(found.ok_or(StoreError::Fenced(Fence::Watermark))?.try_get(0)?)
}

async fn guard_exchanges(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<()> {
    let live = count_live(tx, agent, patch.lo, patch.hi).await?;
    if live == patch.exchanges { Ok(()) } else { Err(StoreError::Fenced(Fence::Exchanges)) }
}

async fn count_live(tx: &mut Connection, agent: &AgentId, lo: i64, hi: i64) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/complete.count_live\nSELECT count(*) FROM exchange_log \
               WHERE agent_id = $1 AND exchange > $2 AND exchange <= $3 AND set_aside_at IS NULL AND role = 'exchange'"
    );
    Ok(query(sql).bind(agent.as_str()).bind(lo).bind(hi).fetch_one(tx).await?.try_get(0)?)
}

/// Writes the version. Its items and facts must be written already.
pub(super) async fn write_version(
    tx: &mut Connection,
    lease: &Lease,
    patch: &Patch,
    kind: VersionKind,
) -> StoreResult<()> {
    let made_of = fill::document_digest(tx, &lease.agent).await?;
    let row = VersionRow {
        version: patch.version + 1,
        kind: kind.name(),
        covers_after: patch.lo,
        covers_through: patch.hi,
        exchanges: patch.exchanges,
        path: patch.path.name(),
        content: &patch.content,
        as_of: patch.as_of,
        created_at: patch.run.finished_at,
        made_of: &made_of,
    };
    let sql = sql!(
        "-- sql/complete.write_version\nINSERT INTO summary_versions (agent_id, version, lease_token, \
               covers_after, covers_through, exchanges, path, content, token_count, as_of, created_at, kind, made_of, digest) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    );
    query(sql)
        .bind(lease.agent.as_str())
        .bind(patch.version + 1)
        .bind(lease.token)
        .bind(patch.lo)
        .bind(patch.hi)
        .bind(patch.exchanges)
        .bind(patch.path.name())
        .bind(patch.content.as_str())
        .bind(patch.token_count)
        .bind(patch.as_of)
        .bind(patch.run.finished_at)
        .bind(kind.name())
        .bind(made_of.as_str())
        .bind(row.digest())
        .execute(tx)
        .await?;
    Ok(())
}

/// Records the attempt in the table of runs.
async fn record(tx: &mut Connection, lease: &Lease, patch: &Patch) -> StoreResult<()> {
    let dropped_new = patch.added.iter().filter(|(_, dropped)| *dropped).count();
    let details = RunOutcome {
        path: Some(patch.path.name()),
        version: Some(patch.version + 1),
        covers: Some((patch.lo, patch.hi)),
        exchanges: patch.exchanges,
        items_added: i64_or_max(patch.added.len()),
        items_dropped: i64_or_max(patch.dropped.len() + dropped_new),
        document_tokens: Some(patch.token_count),
        error: patch.park.as_ref(),
    };
    let outcome = if patch.park.is_some() { "failed" } else { "completed" };
    queue::record_run(tx, lease, outcome, &patch.run, details).await
}
