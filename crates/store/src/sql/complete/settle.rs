//! Ends a lease that has nothing to write.

use super::{
    count_live, guard_lease, move_watermark,
    rearm::{delete_row, rearm},
};
use crate::{
    Completion, Fence, Settle, StoreError, StoreResult,
    sql::{Connection, hold, query, sql},
};
use recapd_core::domain::work::Lease;

/// Does the work of [`settle`] in one statement if nothing is pending, the row wasn't woken and no rebuild holds a document;
/// otherwise changes nothing and returns `None`.
///
/// This needs no lock: a transaction that moves the boundary forward also raises the wake counter, and one that takes coverage
/// back voids the lease.
pub(crate) async fn settle_at_once(
    connection: &mut Connection,
    lease: &Lease,
    settle: &Settle,
) -> StoreResult<Option<Completion>> {
    if settle.lo != settle.hi {
        return Ok(None);
    }
    let sql = sql!(
        "-- postgres/complete.settle\nDELETE FROM summary_update_queue q USING summaries s, agents a WHERE q.agent_id = $1 \
         AND q.lease_token = $2 AND q.wake_seq = $3 AND s.agent_id = q.agent_id AND s.held_version IS NULL AND a.agent_id = q.agent_id AND a.summarized_through = $4 AND a.first_exchange = $4 + 1 \
         RETURNING s.version"
    );
    let found = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.claimed_wake)
        .bind(settle.hi)
        .fetch_optional(connection)
        .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(Completion { version: row.try_get(0)?, rearmed: false, parked: false }))
}

/// Ends a lease that has nothing to write. Only set-aside exchanges may lie between the watermarks.
pub(crate) async fn settle(tx: &mut Connection, lease: Lease, settle: Settle) -> StoreResult<Completion> {
    guard_lease(tx, &lease).await?;
    let boundary = move_watermark(tx, &lease.agent, settle.lo, settle.hi, settle.now).await?;
    if count_live(tx, &lease.agent, settle.lo, settle.hi).await? != 0 {
        return Err(StoreError::Fenced(Fence::Exchanges));
    }
    hold::release(tx, &lease.agent, settle.hi, boundary == settle.hi + 1).await?;
    let rearmed = !(boundary == settle.hi + 1 && delete_row(tx, &lease).await?);
    if rearmed {
        let now = tx.now(settle.now).await?;
        rearm(tx, &lease, 0, now).await?;
    }
    let sql = sql!("-- sql/complete.version\nSELECT version FROM summaries WHERE agent_id = $1");
    let version = query(sql).bind(lease.agent.as_str()).fetch_one(tx).await?.try_get(0)?;
    Ok(Completion { version, rearmed, parked: false })
}
