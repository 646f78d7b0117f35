//! Marks items as removed in their own rows: items that a rollback or a rebuild removed and that weren't in the document. A long
//! history has thousands of them.
//!
//! The version's transaction records the numbers of these items, and from then on they count as removed ([`in_force`]). Their own
//! rows are marked later, some at a time. Any other operation that changes which items are in force first marks all of these rows
//! ([`write_rest`]). So the record is always about the newest rollback or rebuild.

use crate::sql::{Connection, SqlStore, Value, insert, query, sql};

use super::{super::StoreResult, append::write::runs, database::Lock, row, seal::fill};
use recapd_core::domain::{agent::AgentId, number::i64_or_max};

/// Limits how many items' rows one transaction marks, to some five milliseconds.
const ITEMS_MAX: i64 = 256;

/// SQL that is true if item `i` is in force: no version has removed it.
macro_rules! in_force {
    () => {
        "i.removed_version IS NULL AND NOT EXISTS (SELECT 1 FROM withdrawals w WHERE w.agent_id = i.agent_id \
         AND i.item BETWEEN w.first_item AND w.last_item)"
    };
}
pub(super) use in_force;

/// Items that a version removes.
#[derive(Clone, Debug, Default)]
pub(super) struct RemovedItems {
    /// The items in the document.
    pub(super) shown: Vec<i64>,
    /// The other items, as ranges from a first to a last number. All items in force within a range are removed.
    pub(super) hidden: Vec<(i64, i64)>,
    pub(super) count: i64,
    /// How many of all these items an operator edited or pinned.
    pub(super) edited: i64,
}

impl RemovedItems {
    /// Reads the agent's items in force, except those that stay: `stays` gets an item's number and its last exchange.
    pub(super) async fn of(
        tx: &mut Connection,
        agent: &AgentId,
        stays: impl Fn(i64, i64) -> bool,
    ) -> StoreResult<Self> {
        let sql = sql!(
            "-- sql/withdrawals.in_force\nSELECT i.item, i.dropped_version IS NULL, i.origin = 'edited' OR i.pinned = {true}, \
                   coalesce((SELECT max(r.last_exchange) FROM summary_item_ranges r WHERE r.agent_id = i.agent_id \
                   AND r.item = i.item), 9223372036854775807) FROM summary_items i WHERE i.agent_id = $1 \
                   AND i.removed_version IS NULL ORDER BY i.item"
        );
        let (mut removed, mut is_open) = (Self::default(), false);
        for found in query(sql).bind(agent.as_str()).fetch_all(tx).await? {
            let item: i64 = found.try_get(0)?;
            if stays(item, found.try_get(3)?) {
                is_open = false;
                continue;
            }
            removed.count += 1;
            removed.edited += i64::from(found.try_get::<bool>(2)?);
            if found.try_get(1)? {
                removed.shown.push(item);
                continue;
            }
            match removed.hidden.last_mut().filter(|_| is_open) {
                Some((_, last)) => *last = item,
                None => removed.hidden.push((item, item)),
            }
            is_open = true;
        }
        Ok(removed)
    }
}

/// Records that `version` removes these items. If `reseals`, their digests are made again when their rows are marked.
pub(super) async fn note(
    tx: &mut Connection,
    agent: &AgentId,
    version: i64,
    hidden: &[(i64, i64)],
    reseals: bool,
) -> StoreResult<()> {
    let head = sql!(
        "-- sql/withdrawals.note\nINSERT INTO withdrawals (agent_id, first_item, last_item, version, reseals)"
    );
    for run in runs(hidden) {
        let row = |&(first, last): &(i64, i64)| -> Vec<Value<'_>> {
            vec![agent.as_str().into(), first.into(), last.into(), version.into(), reseals.into()]
        };
        insert(head, run.iter().map(row).collect(), sql!("")).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Marks the rows of all items that the record still holds.
pub(super) async fn write_rest(tx: &mut Connection, agent: &AgentId) -> StoreResult<()> {
    while write_rows(tx, agent).await? {}
    Ok(())
}

/// See [`super::super::Store::withdraw_some`].
pub(super) async fn write_some(store: &SqlStore, agent: &AgentId) -> StoreResult<bool> {
    if recorded(&mut store.reader().await?, agent).await?.is_none() {
        return Ok(false);
    }
    let agent = agent.clone();
    store
        .write(Lock::Agent(agent.clone()), move |tx| Box::pin(async move { write_rows(tx, &agent).await }))
        .await
}

/// Returns the version that removed the recorded items, and whether it reseals them.
pub(super) async fn recorded(
    connection: &mut Connection,
    agent: &AgentId,
) -> StoreResult<Option<(i64, bool)>> {
    let sql = sql!(
        "-- sql/withdrawals.recorded\nSELECT version, reseals FROM withdrawals WHERE agent_id = $1 LIMIT 1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    found.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Marks the next rows. Returns true if any may be left.
async fn write_rows(tx: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let Some((version, reseals)) = recorded(tx, agent).await? else {
        return Ok(false);
    };
    let sql = sql!(
        "-- sql/withdrawals.some\nUPDATE summary_items SET removed_version = $2, digest = CASE WHEN $3 THEN NULL ELSE digest END \
               WHERE agent_id = $1 AND item IN (SELECT i.item FROM withdrawals w {join} summary_items i \
               ON i.agent_id = w.agent_id AND i.item BETWEEN w.first_item AND w.last_item WHERE w.agent_id = $1 \
               AND i.removed_version IS NULL ORDER BY i.item LIMIT $4) RETURNING item"
    );
    let query = query(sql).bind(agent.as_str()).bind(version).bind(reseals).bind(ITEMS_MAX);
    let items: Vec<i64> = query.fetch_column(&mut *tx).await?;
    if reseals {
        fill::items(tx, agent, ITEMS_MAX).await?;
    }
    let is_full = i64_or_max(items.len()) == ITEMS_MAX;
    let last = items.into_iter().max().filter(|_| is_full);
    strike_off(tx, agent, last.map_or(i64::MAX, |last| last + 1)).await?;
    Ok(is_full)
}

/// Removes items before number `next` from the record.
async fn strike_off(tx: &mut Connection, agent: &AgentId, next: i64) -> StoreResult<()> {
    let delete_sql =
        sql!("-- sql/withdrawals.strike_off\nDELETE FROM withdrawals WHERE agent_id = $1 AND last_item < $2");
    let shorten_sql = sql!(
        "-- sql/withdrawals.shorten\nUPDATE withdrawals SET first_item = $2 WHERE agent_id = $1 AND first_item < $2"
    );
    for sql in [delete_sql, shorten_sql] {
        query(sql).bind(agent.as_str()).bind(next).execute(&mut *tx).await?;
    }
    Ok(())
}

pub(super) async fn due(connection: &mut Connection, limit: i64) -> StoreResult<Vec<AgentId>> {
    let sql = sql!(
        "-- sql/withdrawals.due\nSELECT DISTINCT w.agent_id FROM withdrawals w JOIN agents a ON a.agent_id = w.agent_id \
               WHERE a.deleted_at IS NULL ORDER BY w.agent_id LIMIT $1"
    );
    let found = query(sql).bind(limit).fetch_all(connection).await?;
    found.iter().map(|found| row::agent_id(found, 0)).collect()
}
