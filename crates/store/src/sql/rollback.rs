//! Rollback: writes a new version with the items of an earlier one.
//!
//! The rows show which items each version had, because versions only add, drop and remove items and never change them. Unchanged
//! items stay. Other items are restored as copies with new numbers, so that every version in between keeps its own items. The
//! watermark returns to that of the earlier version, because the later versions are undone. It never moves into the window, where
//! a rewind or a raised budget may have brought exchanges back.

use std::collections::BTreeSet;

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{RollbackRequest, StoreError, StoreResult},
    exchange, facts,
    revision_plan::{PlanBasis, RevisionPlan},
    row::{self, exchange_columns},
    version,
    withdrawals::RemovedItems,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    number::i64_or_max,
    summary::{
        coverage::{digest_items, gaps},
        item::{ExchangeRange, Item},
        version::VersionKind,
    },
};

/// An item in force as of the earlier version.
struct FormerItem {
    item: Item,
    /// True if it covered its exchanges but didn't appear in the document.
    was_hidden: bool,
    /// True if it hasn't changed since.
    stands: bool,
}

/// Plans a rollback from a consistent read of the agent.
pub(super) async fn plan(
    tx: &mut Connection,
    request: &RollbackRequest,
    basis: PlanBasis,
) -> StoreResult<RevisionPlan> {
    let (agent, ledger) = (&request.agent, &basis.row.ledger);
    let covered = ledger.summarized_through;
    let through = covers_through(tx, agent, request.version).await?.min(ledger.first_exchange - 1);
    let former = former_items(tx, agent, request.version, through).await?;
    let stands: BTreeSet<i64> =
        former.iter().filter(|former| former.stands).map(|former| former.item.item).collect();
    let removed = RemovedItems::of(tx, agent, |item, _| stands.contains(&item)).await?;
    let orphans = orphans(tx, agent, &former, through).await?;
    let (mut added, mut hidden) = (Vec::new(), Vec::new());
    for former in former.into_iter().filter(|former| !former.stands) {
        let item = as_of_today(tx, agent, former.item).await?;
        if former.was_hidden { &mut hidden } else { &mut added }.push(item);
    }
    let restored = i64_or_max(added.len() + hidden.len());
    added.extend(digest_items(&orphans));
    Ok(RevisionPlan {
        kind: VersionKind::Rollback,
        policy: request.policy,
        now: request.now,
        through,
        removed,
        added,
        has_digests: !orphans.is_empty(),
        hidden,
        inherited: Vec::new(),
        restored,
        facts: facts::as_of(tx, agent, request.version, through).await?,
        gained: exchange::count(tx, agent, covered + 1, through).await?,
        uncovered: exchange::count(tx, agent, through + 1, covered).await?,
        basis,
    })
}

async fn covers_through(tx: &mut Connection, agent: &AgentId, version: i64) -> StoreResult<i64> {
    match version::load(tx, agent, version).await? {
        Some(found) => Ok(found.figures.covers_through),
        None => Err(StoreError::UnknownVersion { version, kept: version::kept_range(tx, agent).await? }),
    }
}

/// Returns the items in force as of `version`. Leaves out items about exchanges after `through` or set aside since, and removed
/// items about anything forgotten.
async fn former_items(
    tx: &mut Connection,
    agent: &AgentId,
    version: i64,
    through: i64,
) -> StoreResult<Vec<FormerItem>> {
    let sql = sql!(
        "-- sql/rollback.former_items\nSELECT i.item, i.importance, i.origin, i.provisional, i.started_at, \
               i.ended_at, i.source_tokens, i.text, i.brief, i.gist, \
               (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r \
                WHERE r.agent_id = i.agent_id AND r.item = i.item), i.pinned, \
               coalesce(i.dropped_version <= $2, {false}), \
               i.removed_version IS NULL AND (i.dropped_version IS NULL OR i.dropped_version <= $2) \
               FROM summary_items i WHERE i.agent_id = $1 AND i.added_version <= $2 \
               AND (i.removed_version IS NULL OR i.removed_version > $2) \
               AND NOT EXISTS (SELECT 1 FROM summary_item_ranges b WHERE b.agent_id = i.agent_id AND b.item = i.item \
               AND (b.last_exchange > $3 OR EXISTS (SELECT 1 FROM exchange_log e WHERE e.agent_id = b.agent_id \
               AND e.exchange BETWEEN b.first_exchange AND b.last_exchange AND (e.set_aside_at IS NOT NULL \
               OR i.removed_version IS NOT NULL AND EXISTS (SELECT 1 FROM message_log m \
               WHERE m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq \
               AND m.forgotten_at IS NOT NULL))))) \
               ORDER BY i.item"
    );
    let found = query(sql).bind(agent.as_str()).bind(version).bind(through).fetch_all(tx).await?;
    let read = |found: &Row| -> StoreResult<FormerItem> {
        Ok(FormerItem { item: row::item(found)?, was_hidden: found.try_get(12)?, stands: found.try_get(13)? })
    };
    found.iter().map(read).collect()
}

/// Returns the live exchanges up to `through` that no former item covers.
async fn orphans(
    tx: &mut Connection,
    agent: &AgentId,
    former: &[FormerItem],
    through: i64,
) -> StoreResult<Vec<Exchange>> {
    let ranges = former.iter().flat_map(|former| former.item.ranges.iter().copied());
    let sql = sql!(
        "-- sql/rollback.orphans\nSELECT ",
        exchange_columns!("e"),
        " FROM {each}($2{::jsonb}) g {join} exchange_log e ON e.agent_id = $1 AND e.exchange ",
        "BETWEEN CAST(g.value ->> 0 AS bigint) AND CAST(g.value ->> 1 AS bigint) ",
        "WHERE e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange"
    );
    let found =
        query(sql).bind(agent.as_str()).bind(pairs(&gaps(ranges.collect(), through))).fetch_all(tx).await?;
    found.iter().map(|row| row::exchange(row, 0)).collect()
}

/// Returns `item` with the present times and tokens of its exchanges, which may have been counted again. An inherited item, whose
/// exchanges have no rows here, keeps its own times and tokens.
async fn as_of_today(tx: &mut Connection, agent: &AgentId, item: Item) -> StoreResult<Item> {
    let sql = sql!(
        "-- sql/rollback.as_of_today\nSELECT min(e.opened_at), max(e.last_at), CAST(sum(e.tokens) AS bigint) \
               FROM {each}($2{::jsonb}) g {join} exchange_log e ON e.agent_id = $1 AND e.exchange \
               BETWEEN CAST(g.value ->> 0 AS bigint) AND CAST(g.value ->> 1 AS bigint) \
               WHERE e.set_aside_at IS NULL AND e.role = 'exchange'"
    );
    let row = query(sql).bind(agent.as_str()).bind(pairs(&item.ranges)).fetch_one(tx).await?;
    Ok(Item {
        started_at: row::time(&row, 0)?.unwrap_or(item.started_at),
        ended_at: row::time(&row, 1)?.unwrap_or(item.ended_at),
        source_tokens: row.try_get::<Option<i64>>(2)?.unwrap_or(item.source_tokens),
        ..item
    })
}

fn pairs(ranges: &[ExchangeRange]) -> String {
    let pairs: Vec<(i64, i64)> = ranges.iter().map(|range| (range.first, range.last)).collect();
    serde_json::json!(pairs).to_string()
}
