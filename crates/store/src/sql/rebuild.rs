//! Rebuild: discards the items and makes new ones from the archive.
//!
//! Everything outside of the window becomes pending again, and the queue summarises it batch by batch. Readers get the old
//! document until the new one covers as much ([`super::hold`]). A fork has no rows of the exchanges that its inherited items
//! cover, so these items stay. Missing inherited items are restored from the record made at the fork.

use crate::sql::{Connection, query, sql};

use super::{
    super::{RebuildRequest, StoreResult},
    exchange, facts, fork,
    revise::WrittenVersion,
    revision_plan::{PlanBasis, RevisionPlan},
    seal::fill,
    withdrawals::RemovedItems,
};
use recapd_core::domain::{
    agent::AgentId,
    journal::{ForkRecord, ItemRecord},
    number::i64_or_max,
    summary::{item::Item, version::VersionKind},
    time::Timestamp,
};

/// Plans a rebuild from a consistent read of the agent.
pub(super) async fn plan(
    tx: &mut Connection,
    request: &RebuildRequest,
    basis: PlanBasis,
) -> StoreResult<RevisionPlan> {
    let agent = &request.agent;
    let record = fork::record::load_if_recorded(tx, agent).await?;
    let covered_through = basis.row.ledger.summarized_through;
    let through = base(tx, agent).await?;
    let lost = lost_items(tx, agent, record, through).await?;
    Ok(RevisionPlan {
        kind: VersionKind::Rebuild,
        policy: request.policy,
        now: request.now,
        through,
        // Also removes items without ranges: for these, `last_exchange` is the largest number.
        removed: RemovedItems::of(tx, agent, |_, last_exchange| last_exchange <= through).await?,
        added: lost.iter().map(item).collect(),
        has_digests: false,
        hidden: Vec::new(),
        restored: i64_or_max(lost.len()),
        inherited: lost,
        facts: facts::beyond(tx, agent, through).await?,
        gained: 0,
        uncovered: exchange::count(tx, agent, through + 1, covered_through).await?,
        basis,
    })
}

/// Returns the last exchange that a fork can't summarise again: the last one covered when it was forked.
async fn base(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/rebuild.base\nSELECT CASE WHEN a.parent_agent_id IS NULL THEN 0 ELSE \
               coalesce((SELECT {min}(min(e.exchange) - 1, a.summarized_through) FROM exchange_log e \
               WHERE e.agent_id = a.agent_id AND e.role = 'exchange'), a.summarized_through) END \
               FROM agents a WHERE a.agent_id = $1"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

/// Creates the row of the agent's document if it is missing. Versions continue from the last one.
pub(super) async fn mend(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/rebuild.mend\nINSERT INTO summaries (agent_id, version, updated_at) \
               SELECT $1, coalesce(max(version), 0), $2 FROM summary_versions WHERE agent_id = $1 \
               ON CONFLICT (agent_id) DO NOTHING"
    );
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

/// Returns the inherited items in the fork's record whose first exchange isn't covered by any item that stays.
async fn lost_items(
    tx: &mut Connection,
    agent: &AgentId,
    record: Option<Box<ForkRecord>>,
    through: i64,
) -> StoreResult<Vec<ItemRecord>> {
    let sql = sql!(
        "-- sql/rebuild.is_told\nSELECT 1 FROM summary_items i JOIN summary_item_ranges r \
               ON r.agent_id = i.agent_id AND r.item = i.item WHERE i.agent_id = $1 AND i.removed_version IS NULL \
               AND $2 BETWEEN r.first_exchange AND r.last_exchange AND NOT EXISTS (SELECT 1 FROM summary_item_ranges b \
               WHERE b.agent_id = i.agent_id AND b.item = i.item AND b.last_exchange > $3) LIMIT 1"
    );
    let mut lost = Vec::new();
    for item in record.into_iter().flat_map(|record| record.items) {
        let first = item.ranges.first().map(|range| range.first);
        let covering =
            query(sql).bind(agent.as_str()).bind(first).bind(through).fetch_optional(&mut *tx).await?;
        if covering.is_none() {
            lost.push(item);
        }
    }
    Ok(lost)
}

fn item(record: &ItemRecord) -> Item {
    Item {
        item: 0,
        ranges: record.ranges.clone(),
        started_at: record.started_at,
        ended_at: record.ended_at,
        source_tokens: record.source_tokens,
        importance: record.importance,
        text: record.text.clone(),
        brief: record.brief.clone(),
        gist: record.gist.clone(),
        origin: record.origin,
        provisional: false,
        pinned: false,
    }
}

/// Makes the digests of discarded items again from what their rows hold now. A rebuild is the cure for damaged items, and
/// `recapd verify` needn't report them any more.
pub(super) async fn seal_removed(tx: &mut Connection, agent: &AgentId, version: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/rebuild.seal_removed\nUPDATE summary_items SET digest = NULL WHERE agent_id = $1 AND removed_version = $2"
    );
    query(sql).bind(agent.as_str()).bind(version).execute(&mut *tx).await?;
    fill::items(tx, agent, i64::MAX).await.map(drop)
}

/// Records from which item each of the new items was copied.
pub(super) async fn note_sources(
    tx: &mut Connection,
    agent: &AgentId,
    lost: &[ItemRecord],
    written: WrittenVersion,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/rebuild.note_source\nUPDATE summary_items SET source_agent_id = $3, source_item = $4 \
               WHERE agent_id = $1 AND item = $2"
    );
    for (number, item) in (written.first_item..).zip(lost) {
        query(sql)
            .bind(agent.as_str())
            .bind(number)
            .bind(item.source.as_str())
            .bind(item.item)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
