//! The one transaction that writes a summary.

use crate::store::sql::{Connection, Value, insert, query, sql};

use super::{
    super::{Completed, Fence, Patch, Settle, StoreError, StoreResult},
    append::write::runs,
    fairness::rows_ahead,
    hold,
    queue::{self, RunOutcome},
};
use crate::domain::{
    agent::AgentId,
    summary::item::Item,
    time::Timestamp,
    work::{Lease, Priority, WOKEN_RETRY_MS_MIN},
};

/// Applies an update. The guards stand in the order lease, version, watermark, exchanges; any that doesn't hold
/// undoes everything.
pub(super) async fn complete(tx: &mut Connection, lease: Lease, patch: Patch) -> StoreResult<Completed> {
    guard_lease(tx, &lease).await?;
    write_document(tx, &lease, &patch).await?;
    let boundary = move_watermark(tx, &lease.agent, patch.lo, patch.hi, patch.run.finished_at).await?;
    guard_exchanges(tx, &lease.agent, &patch).await?;
    write_version(tx, &lease, &patch).await?;
    hold::release(tx, &lease.agent, patch.hi, boundary == patch.hi + 1).await?;
    let first_item = reserve_items(tx, &lease.agent, &patch).await?;
    write_items(tx, &lease.agent, &patch, first_item).await?;
    guard_coverage(tx, &lease.agent, &patch, first_item).await?;
    retire_items(tx, &lease.agent, &patch).await?;
    record(tx, &lease, &patch).await?;
    let now = tx.now(patch.run.finished_at).await?;
    let (rearmed, parked) = match &patch.park {
        Some(error) => (
            true,
            park(tx, &lease, &patch, queue::error_text(error), now).await?,
        ),
        None => (finish(tx, &lease, boundary, &patch, now).await?, false),
    };
    Ok(Completed {
        version: patch.version + 1,
        rearmed,
        parked,
    })
}

async fn guard_lease(tx: &mut Connection, lease: &Lease) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.guard_lease\nSELECT 1 FROM summary_update_queue WHERE agent_id = $1 AND lease_token = $2 {for_update}"
    );
    let found = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .fetch_optional(tx)
        .await?;
    found.map(drop).ok_or(StoreError::Fenced(Fence::Lease))
}

/// Readers get the document, unless an earlier one is held until a rebuild has caught up ([`hold`]).
pub(super) async fn write_document(tx: &mut Connection, lease: &Lease, patch: &Patch) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.write_document\nUPDATE summaries SET version = version + 1, next_ageing_at = $6, \
               content = CASE WHEN held_version IS NULL THEN $3 ELSE content END, \
               token_count = CASE WHEN held_version IS NULL THEN $4 ELSE token_count END, \
               updated_at = CASE WHEN held_version IS NULL THEN $5 ELSE updated_at END \
               WHERE agent_id = $1 AND version = $2"
    );
    let done = query(sql)
        .bind(lease.agent.as_str())
        .bind(patch.version)
        .bind(patch.content.as_str())
        .bind(patch.token_count)
        .bind(patch.run.finished_at)
        .bind(patch.next_ageing_at)
        .execute(tx)
        .await?;
    if done == 1 {
        Ok(())
    } else {
        Err(StoreError::Fenced(Fence::Version))
    }
}

/// Moves the watermark from `lo` to `hi`, unless it moved meanwhile or the boundary came back. Returns the boundary.
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
    let found = query(sql)
        .bind(agent.as_str())
        .bind(lo)
        .bind(hi)
        .bind(now)
        .fetch_optional(tx)
        .await?;
    Ok(found.ok_or(StoreError::Fenced(Fence::Watermark))?.try_get(0)?)
}

async fn guard_exchanges(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<()> {
    let live = count_live(tx, agent, patch.lo, patch.hi).await?;
    if live == patch.exchanges {
        Ok(())
    } else {
        Err(StoreError::Fenced(Fence::Exchanges))
    }
}

async fn count_live(tx: &mut Connection, agent: &AgentId, lo: i64, hi: i64) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/complete.count_live\nSELECT count(*) FROM exchange_log \
               WHERE agent_id = $1 AND exchange > $2 AND exchange <= $3 AND set_aside_at IS NULL AND role = 'exchange'"
    );
    Ok(query(sql)
        .bind(agent.as_str())
        .bind(lo)
        .bind(hi)
        .fetch_one(tx)
        .await?
        .try_get(0)?)
}

pub(super) async fn write_version(tx: &mut Connection, lease: &Lease, patch: &Patch) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.write_version\nINSERT INTO summary_versions (agent_id, version, lease_token, \
               covers_after, covers_through, exchanges, path, content, token_count, as_of, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
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
        .execute_soon(tx)
        .await?;
    Ok(())
}

/// Takes the next item numbers. Returns the first.
pub(super) async fn reserve_items(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<i64> {
    let count = i64::try_from(patch.added.len()).unwrap_or(i64::MAX);
    let sql = sql!(
        "-- sql/complete.reserve_items\nUPDATE agents SET last_item = last_item + $2 WHERE agent_id = $1 \
               RETURNING last_item - $2 + 1"
    );
    Ok(query(sql)
        .bind(agent.as_str())
        .bind(count)
        .fetch_one(tx)
        .await?
        .try_get(0)?)
}

pub(super) async fn write_items(
    tx: &mut Connection,
    agent: &AgentId,
    patch: &Patch,
    first_item: i64,
) -> StoreResult<()> {
    let version = patch.version + 1;
    let numbered: Vec<_> = (first_item..).zip(&patch.added).collect();
    for run in runs(&numbered) {
        let rows = run.iter().map(|&(number, (item, dropped))| {
            item_row(agent, number, item, dropped.then_some(version), version)
        });
        let head = sql!(
            "-- sql/complete.write_items\nINSERT INTO summary_items (agent_id, item, added_version, \
                   dropped_version, importance, origin, provisional, started_at, ended_at, source_tokens, text, brief, \
                   gist, pinned)"
        );
        insert(head, rows.collect(), sql!(""))
            .execute_soon(&mut *tx)
            .await?;
    }
    let ranges = numbered.iter().flat_map(|&(number, (item, _))| {
        item.ranges
            .iter()
            .map(move |range| [number, range.first, range.last])
    });
    write_ranges(tx, agent, &ranges.collect::<Vec<_>>()).await
}

fn item_row<'r>(
    agent: &'r AgentId,
    number: i64,
    item: &'r Item,
    dropped_version: Option<i64>,
    added_version: i64,
) -> Vec<Value<'r>> {
    vec![
        agent.as_str().into(),
        number.into(),
        added_version.into(),
        dropped_version.into(),
        item.importance.name().into(),
        item.origin.name().into(),
        item.provisional.into(),
        item.started_at.into(),
        item.ended_at.into(),
        item.source_tokens.into(),
        item.text.as_str().into(),
        item.brief.as_str().into(),
        item.gist.as_str().into(),
        item.pinned.into(),
    ]
}

/// Writes which exchanges items stand for: item, first and last exchange.
async fn write_ranges(tx: &mut Connection, agent: &AgentId, ranges: &[[i64; 3]]) -> StoreResult<()> {
    for run in runs(ranges) {
        let row = |&[item, first, last]: &[i64; 3]| -> Vec<Value<'_>> {
            vec![agent.as_str().into(), item.into(), first.into(), last.into()]
        };
        let head = sql!(
            "-- sql/complete.write_ranges\nINSERT INTO summary_item_ranges \
                   (agent_id, item, first_exchange, last_exchange)"
        );
        insert(head, run.iter().map(row).collect(), sql!(""))
            .execute_soon(&mut *tx)
            .await?;
    }
    Ok(())
}

/// Each exchange of the batch stands in exactly one new item; beyond the batch new items stand for what the removed
/// ones stood for, and for nothing else. Anything else is a bug, and nothing is written.
async fn guard_coverage(
    tx: &mut Connection,
    agent: &AgentId,
    patch: &Patch,
    first_item: i64,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.guard_coverage\nWITH changed (item, added, removed) AS (\
               SELECT item, 1, 0 FROM summary_items WHERE agent_id = $1 AND item >= $4 \
               UNION ALL SELECT CAST(value AS bigint), 0, 1 FROM {each}($5{::jsonb})), \
               stands AS (SELECT CAST(sum(c.added) AS bigint) AS added, CAST(sum(c.removed) AS bigint) AS removed, \
               e.exchange > $2 AND e.exchange <= $3 AS due FROM changed c \
               JOIN summary_item_ranges r ON r.agent_id = $1 AND r.item = c.item \
               JOIN exchange_log e ON e.agent_id = $1 AND e.exchange BETWEEN r.first_exchange AND r.last_exchange \
               WHERE e.set_aside_at IS NULL AND e.role = 'exchange' GROUP BY e.exchange) \
               SELECT count(*) FILTER (WHERE due), count(*) FILTER (WHERE added <> removed + CASE WHEN due THEN 1 ELSE 0 END) FROM stands"
    );
    let row = query(sql)
        .bind(agent.as_str())
        .bind(patch.lo)
        .bind(patch.hi)
        .bind(first_item)
        .bind(serde_json::json!(patch.removed).to_string())
        .fetch_one(tx)
        .await?;
    let (covered, wrong): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if (covered, wrong) == (patch.exchanges, 0) {
        return Ok(());
    }
    Err(StoreError::Inconsistent {
        table: "summary_item_ranges",
        row: format!("exchanges {} to {}", patch.lo + 1, patch.hi),
        column: "first_exchange",
        value: format!("{covered} of {} covered, {wrong} not once", patch.exchanges),
    })
}

pub(super) async fn retire_items(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<()> {
    let dropped = sql!(
        "-- sql/complete.drop_items\nUPDATE summary_items SET dropped_version = $3 WHERE agent_id = $1 \
                   AND item IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb})) AND dropped_version IS NULL AND removed_version IS NULL"
    );
    let removed = sql!(
        "-- sql/complete.remove_items\nUPDATE summary_items SET removed_version = $3 WHERE agent_id = $1 \
                   AND item IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb})) AND removed_version IS NULL"
    );
    for (sql, items) in [(dropped, &patch.dropped), (removed, &patch.removed)] {
        if items.is_empty() {
            continue;
        }
        let done = query(sql)
            .bind(agent.as_str())
            .bind(serde_json::json!(items).to_string())
            .bind(patch.version + 1)
            .execute(&mut *tx)
            .await?;
        // The version fence holds, so nobody else can have touched them: a miss is a bug.
        if usize::try_from(done).ok() != Some(items.len()) {
            let value = format!("{} of {} retired", done, items.len());
            let row = agent.to_string();
            return Err(StoreError::Inconsistent {
                table: "summary_items",
                row,
                column: "item",
                value,
            });
        }
    }
    Ok(())
}

async fn record(tx: &mut Connection, lease: &Lease, patch: &Patch) -> StoreResult<()> {
    let dropped_new = patch.added.iter().filter(|(_, dropped)| *dropped).count();
    let details = RunOutcome {
        path: Some(patch.path.name()),
        version: Some(patch.version + 1),
        covers: Some((patch.lo, patch.hi)),
        exchanges: patch.exchanges,
        items_added: i64::try_from(patch.added.len()).unwrap_or(i64::MAX),
        items_dropped: i64::try_from(patch.dropped.len() + dropped_new).unwrap_or(i64::MAX),
        document_tokens: Some(patch.token_count),
        error: patch.park.as_ref(),
    };
    let outcome = if patch.park.is_some() {
        "failed"
    } else {
        "completed"
    };
    queue::record_run(tx, lease, outcome, &patch.run, details).await
}

/// Parks the row after its last attempt. One that was woken meanwhile is tried once more after the longest wait, since nobody
/// may wake it again: what left the window during the attempt would be pending until then.
async fn park(
    tx: &mut Connection,
    lease: &Lease,
    patch: &Patch,
    error: String,
    now: Timestamp,
) -> StoreResult<bool> {
    let low = Priority::Low.level();
    let again_at = now.plus_ms(patch.rearm_wait_ms.max(WOKEN_RETRY_MS_MIN));
    let sql = sql!(
        "-- sql/complete.park\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, last_error = $4, parked_at = CASE WHEN wake_seq = $5 THEN $3 END, \
               priority = CASE WHEN wake_seq = $5 THEN priority ELSE $6 END, \
               visible_at = CASE WHEN wake_seq = $5 THEN visible_at ELSE $7 END, \
               due_at = CASE WHEN wake_seq = $5 THEN due_at ELSE $8 + behind_ms {ms} END \
               WHERE agent_id = $1 AND lease_token = $2 RETURNING parked_at IS NOT NULL"
    );
    let row = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(now)
        .bind(error)
        .bind(lease.claimed_wake)
        .bind(low)
        .bind(again_at)
        .bind(again_at.plus_ms(Priority::slack_ms(low)))
        .fetch_one(tx)
        .await?;
    Ok(row.try_get(0)?)
}

/// Deletes the row if it asked for nothing more than was done, else re-arms it: after the longest wait if less than a
/// batch is pending and nobody urged meanwhile, else at once.
async fn finish(
    tx: &mut Connection,
    lease: &Lease,
    boundary: i64,
    patch: &Patch,
    now: Timestamp,
) -> StoreResult<bool> {
    if boundary == patch.hi + 1 && !patch.has_more && delete_row(tx, lease).await? {
        return Ok(false);
    }
    let pending = boundary - 1 - patch.hi;
    let is_lonely = pending > 0 && pending < patch.batch_exchanges;
    let wait_ms = if is_lonely && !is_urged(tx, lease).await? {
        patch.rearm_wait_ms
    } else {
        0
    };
    rearm(tx, lease, wait_ms, now).await?;
    Ok(true)
}

/// Whether the row was woken during the work, and somebody waits for it: a session ended, or a hand asked.
async fn is_urged(tx: &mut Connection, lease: &Lease) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/complete.is_urged\nSELECT wake_seq <> $3 AND priority >= $4 FROM summary_update_queue \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let row = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.claimed_wake)
        .bind(Priority::High.level())
        .fetch_one(tx)
        .await?;
    Ok(row.try_get(0)?)
}

async fn delete_row(tx: &mut Connection, lease: &Lease) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/complete.delete_row\nDELETE FROM summary_update_queue \
               WHERE agent_id = $1 AND lease_token = $2 AND wake_seq = $3"
    );
    let query = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.claimed_wake);
    Ok(query.execute(tx).await? == 1)
}

async fn rearm(tx: &mut Connection, lease: &Lease, wait_ms: i64, now: Timestamp) -> StoreResult<()> {
    let visible_at = now.plus_ms(wait_ms);
    let normal = Priority::Normal.level();
    let fairness = tx.fairness();
    let sql = sql!(
        "-- sql/complete.rearm\nUPDATE summary_update_queue AS q SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, attempts = 0, crashes = 0, last_error = NULL, queued_at = $3, priority = $4, \
               visible_at = $5, project_id = p.project_id, behind_ms = p.behind, due_at = $6 + p.behind {ms} \
               FROM (SELECT a.project_id, CASE WHEN a.project_id IS NULL THEN 0 ELSE $7 * ",
        rows_ahead!("$4", "AND w.agent_id <> a.agent_id", "$8"),
        " END AS behind FROM agents a WHERE a.agent_id = $1 LIMIT 1) p WHERE q.agent_id = $1 AND q.lease_token = $2"
    );
    let done = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(now)
        .bind(normal)
        .bind(visible_at)
        .bind(visible_at.plus_ms(Priority::slack_ms(normal)))
        .bind(fairness.project_spacing_ms)
        .bind(fairness.rows_counted_max())
        .execute(tx)
        .await?;
    if done == 1 {
        Ok(())
    } else {
        Err(StoreError::Fenced(Fence::Lease))
    }
}

/// As [`settle`], where nothing was pending, in one statement. None if there is more to it.
///
/// It needs no lock: whoever moves the boundary forward moves the wake counter in the same transaction, and whoever takes
/// something back takes the lease.
pub(super) async fn settle_at_once(
    connection: &mut Connection,
    lease: &Lease,
    settle: &Settle,
) -> StoreResult<Option<Completed>> {
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
    Ok(Some(Completed {
        version: row.try_get(0)?,
        rearmed: false,
        parked: false,
    }))
}

/// Finishes a lease with nothing to write. Only set-aside exchanges may lie between the watermarks.
pub(super) async fn settle(tx: &mut Connection, lease: Lease, settle: Settle) -> StoreResult<Completed> {
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
    let version = query(sql)
        .bind(lease.agent.as_str())
        .fetch_one(tx)
        .await?
        .try_get(0)?;
    Ok(Completed {
        version,
        rearmed,
        parked: false,
    })
}
