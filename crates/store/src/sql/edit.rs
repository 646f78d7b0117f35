//! Lists items for operators, and applies operators' changes to items.

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{EditOutcome, EditRequest, ITEM_PINS_MAX, ItemQuery, ItemRow, StoreError, StoreResult},
    agent, lineage,
    revise::{self, Revision},
    row,
    withdrawals::{self, in_force},
};
use recapd_core::domain::{
    agent::AgentId,
    summary::{state::FactUpdate, version::VersionKind},
};

/// The columns of an [`ItemRow`], as [`read`] reads them.
macro_rules! item_columns {
    () => {
        "i.item, i.importance, i.origin, i.provisional, i.started_at, i.ended_at, i.source_tokens, i.text, i.brief, \
         i.gist, (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r \
         WHERE r.agent_id = i.agent_id AND r.item = i.item), i.pinned, i.added_version, i.dropped_version IS NULL"
    };
}

/// Lists the items in force, in order of their numbers.
pub(super) async fn list(
    connection: &mut Connection,
    agent: &AgentId,
    wanted: ItemQuery,
) -> StoreResult<Vec<ItemRow>> {
    let sql = sql!(
        "-- sql/edit.list\nSELECT ",
        item_columns!(),
        " FROM summary_items i WHERE i.agent_id = $1 AND i.item > $2 AND ",
        in_force!(),
        " ",
        "AND ($3 OR i.dropped_version IS NULL) ORDER BY i.item LIMIT $4"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(wanted.after)
        .bind(wanted.all)
        .bind(wanted.limit)
        .fetch_all(connection)
        .await?;
    found.iter().map(read).collect()
}

pub(super) async fn edit(tx: &mut Connection, request: EditRequest) -> StoreResult<EditOutcome> {
    let EditRequest { agent, item, edit, policy, now } = request;
    let row = agent::load_known(tx, &agent).await?;
    withdrawals::write_rest(tx, &agent).await?;
    let Some(found) = load(tx, &agent, item).await? else {
        let now = successor(tx, &agent, item).await?;
        return Err(StoreError::UnknownItem { item, now });
    };
    let edited_item = edit.apply(&found.item);
    if edited_item.pinned && !found.item.pinned && count_pinned(tx, &agent).await? >= ITEM_PINS_MAX {
        return Err(StoreError::ItemPinsFull);
    }
    // A pin alone changes the item's row, unless an item that isn't shown is pinned: then a new, shown item replaces it.
    let is_in_place = edit.is_pin_alone() && (found.shown || !edited_item.pinned);
    if is_in_place {
        pin(tx, &agent, item, edited_item.pinned).await?;
    }
    let replaced_item = (!is_in_place).then_some(item);
    let new_version = revise::write(
        tx,
        Revision {
            agent: agent.clone(),
            kind: VersionKind::Edit,
            through: row.ledger.summarized_through,
            gains: None,
            removed: replaced_item.into_iter().collect(),
            added: replaced_item.map(|_| edited_item).into_iter().collect(),
            hidden: Vec::new(),
            facts: FactUpdate::default(),
            policy,
            as_of: row.as_of.unwrap_or(now),
            now,
        },
        None,
    )
    .await?;
    lineage::void_lease(tx, &agent, now).await?;
    let number = replaced_item.map_or(item, |_| new_version.first_item);
    let row = load(tx, &agent, number).await?;
    Ok(EditOutcome {
        version: new_version.version,
        row: row.ok_or(StoreError::UnknownItem { item: number, now: None })?,
    })
}

async fn load(tx: &mut Connection, agent: &AgentId, item: i64) -> StoreResult<Option<ItemRow>> {
    let sql = sql!(
        "-- sql/edit.load\nSELECT ",
        item_columns!(),
        " FROM summary_items i WHERE i.agent_id = $1 AND i.item = $2 AND i.removed_version IS NULL"
    );
    let found = query(sql).bind(agent.as_str()).bind(item).fetch_optional(tx).await?;
    found.as_ref().map(read).transpose()
}

/// Returns the item that now covers the first exchange of `item`, which covers nothing any more.
async fn successor(tx: &mut Connection, agent: &AgentId, item: i64) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/edit.successor\nSELECT i.item FROM summary_items i JOIN summary_item_ranges r \
               ON r.agent_id = i.agent_id AND r.item = i.item WHERE i.agent_id = $1 AND i.removed_version IS NULL \
               AND (SELECT min(o.first_exchange) FROM summary_item_ranges o WHERE o.agent_id = $1 AND o.item = $2) \
               BETWEEN r.first_exchange AND r.last_exchange LIMIT 1"
    );
    let found = query(sql).bind(agent.as_str()).bind(item).fetch_optional(tx).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

async fn count_pinned(tx: &mut Connection, agent: &AgentId) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/edit.count_pinned\nSELECT count(*) FROM summary_items \
               WHERE agent_id = $1 AND pinned = {true} AND removed_version IS NULL"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

async fn pin(tx: &mut Connection, agent: &AgentId, item: i64, pinned: bool) -> StoreResult<()> {
    // A provisional item is replaced once the model is back, but a pinned item must stay. So pinning ends the provisional state.
    let sql = sql!(
        "-- sql/edit.pin\nUPDATE summary_items SET pinned = $3, \
               provisional = CASE WHEN $3 THEN {false} ELSE provisional END WHERE agent_id = $1 AND item = $2"
    );
    query(sql).bind(agent.as_str()).bind(item).bind(pinned).execute(tx).await?;
    Ok(())
}

fn read(found: &Row) -> StoreResult<ItemRow> {
    Ok(ItemRow { item: row::item(found)?, added_version: found.try_get(12)?, shown: found.try_get(13)? })
}
