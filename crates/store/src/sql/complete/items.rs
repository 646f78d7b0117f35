//! Writes an update's items: reserves their numbers, writes them with the exchanges that they cover, checks the coverage, and
//! retires old items.

use crate::{
    Patch, StoreResult, seal,
    sql::{Connection, Value, append::write::runs, insert, query, row, sql},
};
use recapd_core::domain::{agent::AgentId, number::i64_or_max, summary::item::Item};

/// Reserves a number for each new item, and returns the first number.
pub(crate) async fn reserve_items(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<i64> {
    let count = i64_or_max(patch.added.len());
    let sql = sql!(
        "-- sql/complete.reserve_items\nUPDATE agents SET last_item = last_item + $2 WHERE agent_id = $1 \
               RETURNING last_item - $2 + 1"
    );
    Ok(query(sql).bind(agent.as_str()).bind(count).fetch_one(tx).await?.try_get(0)?)
}

pub(crate) async fn write_items(
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
                   gist, pinned, digest)"
        );
        insert(head, rows.collect(), sql!("")).execute(&mut *tx).await?;
    }
    let ranges = numbered.iter().flat_map(|&(number, (item, _))| {
        item.ranges.iter().map(move |range| [number, range.first, range.last])
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
        seal::of_item(number, item).into(),
    ]
}

/// Writes which exchanges each item covers, from rows of item, first exchange and last exchange.
async fn write_ranges(tx: &mut Connection, agent: &AgentId, ranges: &[[i64; 3]]) -> StoreResult<()> {
    for run in runs(ranges) {
        let row = |&[item, first, last]: &[i64; 3]| -> Vec<Value<'_>> {
            vec![agent.as_str().into(), item.into(), first.into(), last.into()]
        };
        let head = sql!(
            "-- sql/complete.write_ranges\nINSERT INTO summary_item_ranges \
                   (agent_id, item, first_exchange, last_exchange)"
        );
        insert(head, run.iter().map(row).collect(), sql!("")).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Checks that each exchange of the update is in exactly one new item, and that the other new items cover exactly what the
/// removed items covered. A difference is a bug, and fails.
///
/// Compares ranges, and reads exchanges only where the ranges differ, because a removed item may cover a very long past.
pub(super) async fn guard_coverage(
    tx: &mut Connection,
    agent: &AgentId,
    patch: &Patch,
    first_item: i64,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/complete.guard_coverage\nWITH changed (first_exchange, last_exchange, change) AS (\
               SELECT first_exchange, last_exchange, 1 FROM summary_item_ranges WHERE agent_id = $1 AND item >= $4 \
               UNION ALL SELECT r.first_exchange, r.last_exchange, -1 FROM {each}($5{::jsonb}) c \
               {join} summary_item_ranges r ON r.agent_id = $1 AND r.item = CAST(c.value AS bigint) \
               UNION ALL SELECT CAST($2 AS bigint) + 1, CAST($3 AS bigint), -1), \
               edges (exchange, change) AS (SELECT first_exchange, change FROM changed \
               UNION ALL SELECT last_exchange + 1, -change FROM changed), \
               steps (exchange, change) AS (SELECT exchange, sum(change) FROM edges GROUP BY exchange), \
               spans (first_exchange, last_exchange, surplus) AS (SELECT exchange, \
               lead(exchange) OVER (ORDER BY exchange) - 1, sum(change) OVER (ORDER BY exchange) FROM steps) \
               SELECT CAST(coalesce(sum((SELECT count(*) FROM exchange_log e WHERE e.agent_id = $1 \
               AND e.exchange BETWEEN s.first_exchange AND s.last_exchange \
               AND e.set_aside_at IS NULL AND e.role = 'exchange')), 0) AS bigint) FROM spans s WHERE s.surplus <> 0"
    );
    let row = query(sql)
        .bind(agent.as_str())
        .bind(patch.lo)
        .bind(patch.hi)
        .bind(first_item)
        .bind(serde_json::json!(patch.removed).to_string())
        .fetch_one(tx)
        .await?;
    let wrong: i64 = row.try_get(0)?;
    if wrong == 0 {
        return Ok(());
    }
    Err(row::inconsistent(
        "summary_item_ranges",
        format!("exchanges {} to {}", patch.lo + 1, patch.hi),
        "first_exchange",
        format!("{wrong} not covered once"),
    ))
}

pub(crate) async fn retire_items(tx: &mut Connection, agent: &AgentId, patch: &Patch) -> StoreResult<()> {
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
        let row_count = query(sql)
            .bind(agent.as_str())
            .bind(serde_json::json!(items).to_string())
            .bind(patch.version + 1)
            .execute(&mut *tx)
            .await?;
        // The version fence holds, so no other transaction can have changed these items: a miss is a bug.
        if usize::try_from(row_count).ok() != Some(items.len()) {
            let value = format!("{} of {} retired", row_count, items.len());
            return Err(row::inconsistent("summary_items", agent.to_string(), "item", value));
        }
    }
    Ok(())
}
