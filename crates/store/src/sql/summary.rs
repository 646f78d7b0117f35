//! Reads summaries and the input of updates, and journals model answers.

use crate::sql::{Connection, Row, query, sql, statement::Statement};

use super::{
    super::{
        JournalledAnswer, Material, MaterialLimits, PENDING_SHOWN_MAX, PendingBefore, StoreError,
        StoreResult, StoredExchange, SummaryRow,
    },
    exchange, facts, hold, recall,
    row::{self, exchange_columns},
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    number::usize_or_max,
    summary::{
        calendar::{AgentTime, RunningSession},
        item::Item,
    },
    time::{HOUR_MS, Timestamp},
    zone::Zone,
};

/// Reads the document that readers get, and the exchanges that are pending after it.
pub(super) async fn read(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
    let sql = sql!(
        "-- sql/summary.read\nSELECT coalesce(s.held_version, s.version), s.content, s.token_count, s.updated_at, \
               coalesce(s.held_through, a.summarized_through), a.first_exchange, a.pending_since, a.settings ->> 'time_zone' \
               FROM summaries s JOIN agents a ON a.agent_id = s.agent_id WHERE s.agent_id = $1"
    );
    with_pending(tx, agent, sql).await
}

/// Reads the document of the present items. During a rebuild it differs from what readers get.
pub(super) async fn read_of_items(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
    let sql = sql!(
        "-- sql/summary.read_of_items\nSELECT s.version, s.content, s.token_count, s.updated_at, \
               a.summarized_through, a.first_exchange, a.pending_since, a.settings ->> 'time_zone' \
               FROM summaries s JOIN agents a ON a.agent_id = s.agent_id WHERE s.agent_id = $1"
    );
    with_pending(tx, agent, sql).await
}

/// See [`super::super::Store::summary_of_step`]. Returns the first version that covers the step. Until there is one, returns the
/// version that was current at the step: otherwise a summary that catches up with many steps would change with each version.
/// During a rebuild it returns the held version. A version that no update wrote starts afresh, because it took back or corrected
/// something in the versions before.
///
/// The search goes back from the newest version to the first one that doesn't cover the step or starts afresh. Each version
/// covers at least as much as the one before, so the search reads few versions.
pub(super) async fn of_step(tx: &mut Connection, agent: &AgentId) -> StoreResult<Option<SummaryRow>> {
    if hold::is_held(tx, agent).await? {
        return read(tx, agent).await;
    }
    let sql = sql!(
        "-- sql/summary.of_step\nWITH RECURSIVE step (through, version) AS (SELECT e.through_exchange, \
               coalesce(e.version, 9223372036854775807) FROM evictions e JOIN agents a ON a.agent_id = e.agent_id \
               WHERE e.agent_id = $1 AND e.through_exchange < a.first_exchange ORDER BY e.eviction DESC LIMIT 1), \
               back (version, covers, is_update) AS (SELECT v.version, \
               v.covers_through >= coalesce((SELECT through FROM step), 0), v.kind = 'update' FROM summary_versions v \
               WHERE v.agent_id = $1 AND v.version = (SELECT max(n.version) FROM summary_versions n WHERE n.agent_id = $1) \
               UNION ALL SELECT v.version, v.covers_through >= coalesce((SELECT through FROM step), 0), v.kind = 'update' \
               FROM back b JOIN summary_versions v ON v.agent_id = $1 AND v.version = \
               (SELECT max(n.version) FROM summary_versions n WHERE n.agent_id = $1 AND n.version < b.version) \
               WHERE b.covers AND b.is_update), \
               shown (version) AS (SELECT coalesce((SELECT min(b.version) FROM back b WHERE b.covers), \
               (SELECT max(v.version) FROM summary_versions v \
               WHERE v.agent_id = $1 AND v.version > (SELECT version FROM step) AND v.kind <> 'update'), \
               (SELECT max(v.version) FROM summary_versions v \
               WHERE v.agent_id = $1 AND v.version <= (SELECT version FROM step))) FROM agents a WHERE a.agent_id = $1 \
               AND (EXISTS (SELECT 1 FROM step) OR EXISTS (SELECT 1 FROM back WHERE NOT is_update) \
               OR a.parent_agent_id IS NOT NULL)) \
               SELECT coalesce(v.version, 0), coalesce(v.content, ''), coalesce(v.token_count, 0), \
               coalesce(v.created_at, a.created_at), coalesce(v.covers_through, 0), a.first_exchange, a.pending_since, \
               a.settings ->> 'time_zone' \
               FROM agents a LEFT JOIN summary_versions v ON v.agent_id = a.agent_id \
               AND v.version = (SELECT version FROM shown) WHERE a.agent_id = $1"
    );
    with_pending(tx, agent, sql).await
}

/// Reads the document that `sql` finds, with the exchanges between its coverage and the window.
async fn with_pending(
    tx: &mut Connection,
    agent: &AgentId,
    sql: &'static Statement,
) -> StoreResult<Option<SummaryRow>> {
    let found = query(sql).bind(agent.as_str()).fetch_optional(&mut *tx).await?;
    let Some(row) = found else { return Ok(None) };
    let summarized_through: i64 = row.try_get(4)?;
    let first_exchange: i64 = row.try_get(5)?;
    let pending = newest_pending(tx, agent, summarized_through, first_exchange).await?;
    let listed_from = pending.first().map_or(first_exchange, |first| first.exchange);
    Ok(Some(SummaryRow {
        version: row.try_get(0)?,
        content: row.try_get(1)?,
        token_count: row.try_get(2)?,
        updated_at: row.try_get(3)?,
        summarized_through,
        first_exchange,
        // During a rebuild the held document covers exchanges that are pending again. Readers needn't know of these.
        pending_since: row::time(&row, 6)?.filter(|_| summarized_through + 1 < first_exchange),
        zone: read_zone(&row, 7)?,
        pending_before: count_pending(tx, agent, summarized_through, listed_from).await?,
        pending,
    }))
}

async fn newest_pending(
    tx: &mut Connection,
    agent: &AgentId,
    lo: i64,
    boundary: i64,
) -> StoreResult<Vec<Exchange>> {
    let sql = sql!(
        "-- sql/summary.newest_pending\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange > $2 AND e.exchange < $3 ",
        "AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange DESC LIMIT $4"
    );
    let found =
        query(sql).bind(agent.as_str()).bind(lo).bind(boundary).bind(PENDING_SHOWN_MAX).fetch_all(tx).await?;
    found.iter().rev().map(|row| row::exchange(row, 0)).collect()
}

/// Counts the pending exchanges before `listed_from`, the first one that is listed.
async fn count_pending(
    tx: &mut Connection,
    agent: &AgentId,
    lo: i64,
    listed_from: i64,
) -> StoreResult<PendingBefore> {
    let sql = sql!(
        "-- sql/summary.count_pending\nSELECT count(*), coalesce(CAST(sum(tokens) AS bigint), 0) FROM exchange_log \
               WHERE agent_id = $1 AND exchange > $2 AND exchange < $3 AND set_aside_at IS NULL AND role = 'exchange'"
    );
    let row = query(sql).bind(agent.as_str()).bind(lo).bind(listed_from).fetch_one(tx).await?;
    Ok(PendingBefore { exchanges: row.try_get(0)?, tokens: row.try_get(1)? })
}

/// Reads the input of an update in one consistent read: version, watermarks, items and the next pending exchanges.
pub(super) async fn material(
    tx: &mut Connection,
    agent: &AgentId,
    limits: MaterialLimits,
) -> StoreResult<Material> {
    let sql = sql!(
        "-- sql/summary.material\nSELECT s.version, a.summarized_through, a.first_exchange, a.as_of, \
               a.pending_since, s.next_ageing_at FROM agents a JOIN summaries s ON s.agent_id = a.agent_id \
               WHERE a.agent_id = $1"
    );
    let row = query(sql)
        .bind(agent.as_str())
        .fetch_optional(&mut *tx)
        .await?
        .ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let lo: i64 = row.try_get(1)?;
    let boundary: i64 = row.try_get(2)?;
    let (mut batch, takes_all) = next_pending(tx, agent, lo, boundary, limits).await?;
    // If all pending exchanges are taken, the range includes gaps at its end.
    let hi = if takes_all { boundary - 1 } else { batch.last().map_or(lo, |last| last.exchange) };
    let (items, fixed) = items_and_fixed(tx, agent).await?;
    let revisited = if batch.is_empty() && hi == lo { items_to_revisit(&items, limits) } else { Vec::new() };
    for item in items.iter().filter(|item| revisited.contains(&item.item)) {
        batch.extend(load_covered(tx, agent, item).await?);
    }
    batch.sort_unstable_by_key(|exchange| exchange.exchange);
    let mut exchanges = exchange::with_messages(tx, agent, batch).await?;
    add_requests(tx, agent, &mut exchanges).await?;
    Ok(Material {
        version: row.try_get(0)?,
        lo,
        hi,
        exchanges,
        takes_all,
        items,
        facts: facts::holding(tx, agent).await?,
        revisited,
        fixed,
        as_of: row::time(&row, 3)?,
        time: agent_time(tx, agent).await?,
        pending_since: row::time(&row, 4)?,
        next_ageing_at: row::time(&row, 5)?,
    })
}

/// Adds to each later leg the request that it works on, unless an earlier leg of the same exchange comes right before it.
async fn add_requests(
    tx: &mut Connection,
    agent: &AgentId,
    exchanges: &mut [StoredExchange],
) -> StoreResult<()> {
    let mut previous = None;
    for stored in exchanges {
        let first_leg = stored.exchange.first_leg();
        if first_leg < stored.exchange.exchange && previous != Some(first_leg) {
            stored.request = recall::request_of(tx, agent, first_leg).await?;
        }
        previous = Some(first_leg);
    }
    Ok(())
}

/// Returns the oldest pending exchanges within the limits, and whether these are all.
async fn next_pending(
    tx: &mut Connection,
    agent: &AgentId,
    lo: i64,
    boundary: i64,
    limits: MaterialLimits,
) -> StoreResult<(Vec<Exchange>, bool)> {
    let sql = sql!(
        "-- sql/summary.next_pending\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange > $2 AND e.exchange < $3 ",
        "AND e.set_aside_at IS NULL AND e.role = 'exchange' ORDER BY e.exchange LIMIT $4"
    );
    let found = query(sql)
        .bind(agent.as_str())
        .bind(lo)
        .bind(boundary)
        .bind(limits.exchanges_max + 1)
        .fetch_all(tx)
        .await?;
    let pending: Vec<Exchange> = found.iter().map(|row| row::exchange(row, 0)).collect::<Result<_, _>>()?;
    let mut tokens = 0;
    let fits = |exchange: &&Exchange| {
        tokens += exchange.tokens;
        tokens <= limits.tokens_max
    };
    let within_tokens = pending.iter().take_while(fits).count().max(1);
    let within_count = usize_or_max(limits.exchanges_max);
    let count = within_tokens.min(within_count).min(pending.len());
    let takes_all = count == pending.len();
    Ok((pending.into_iter().take(count).collect(), takes_all))
}

/// Returns the items in the document, in order of their numbers.
pub(super) async fn shown_items(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<Item>> {
    Ok(items_and_fixed(tx, agent).await?.0)
}

/// Returns the items in the document, and which of them compaction must not replace: those that came with a fork.
async fn items_and_fixed(tx: &mut Connection, agent: &AgentId) -> StoreResult<(Vec<Item>, Vec<i64>)> {
    let sql = sql!(
        "-- sql/summary.shown_items\nSELECT i.item, i.importance, i.origin, i.provisional, i.started_at, \
               i.ended_at, i.source_tokens, i.text, i.brief, i.gist, \
               (SELECT coalesce(CAST({array_of}({array}(r.first_exchange, r.last_exchange)) AS text), '[]') FROM summary_item_ranges r \
                WHERE r.agent_id = i.agent_id AND r.item = i.item), i.pinned, \
               i.source_agent_id IS NOT NULL \
               FROM summary_items i WHERE i.agent_id = $1 AND i.removed_version IS NULL AND i.dropped_version IS NULL \
               ORDER BY i.item"
    );
    let found = query(sql).bind(agent.as_str()).fetch_all(tx).await?;
    let (mut items, mut fixed) = (Vec::with_capacity(found.len()), Vec::new());
    for row in &found {
        let item = row::item(row)?;
        if row.try_get(12)? {
            fixed.push(item.item);
        }
        items.push(item);
    }
    Ok((items, fixed))
}

pub(super) async fn agent_time(tx: &mut Connection, agent: &AgentId) -> StoreResult<AgentTime> {
    let sql = sql!(
        "-- sql/summary.agent_time\nSELECT a.settings ->> 'time_zone', s.opened_at, e.last_at FROM agents a \
               LEFT JOIN sessions s ON s.agent_id = a.agent_id AND s.session = a.session AND s.ended_at IS NULL \
               LEFT JOIN exchange_log e ON e.agent_id = a.agent_id AND e.exchange = a.newest_exchange \
               WHERE a.agent_id = $1"
    );
    let row = query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    let times = (row::time(&row, 1)?, row::time(&row, 2)?);
    Ok(AgentTime {
        zone: read_zone(&row, 0)?,
        session: match times {
            (Some(opened_at), Some(last_at)) => Some(RunningSession { opened_at, last_at }),
            _ => None,
        },
    })
}

fn read_zone(row: &Row, column: usize) -> StoreResult<Option<Zone>> {
    let name: Option<String> = row.try_get(column)?;
    Ok(name.as_deref().and_then(Zone::parse))
}

pub(super) async fn load_journalled(
    connection: &mut Connection,
    agent: &AgentId,
    key: &str,
) -> StoreResult<Option<JournalledAnswer>> {
    let sql = sql!(
        "-- sql/summary.journalled\nSELECT answer, input_tokens, output_tokens FROM model_answers \
               WHERE agent_id = $1 AND journal_key = $2"
    );
    let found = query(sql).bind(agent.as_str()).bind(key).fetch_optional(connection).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(JournalledAnswer {
        answer: row.try_get(0)?,
        input_tokens: row.try_get(1)?,
        output_tokens: row.try_get(2)?,
    }))
}

pub(super) async fn journalled_among(
    connection: &mut Connection,
    agent: &AgentId,
    keys: &[String],
) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/summary.journalled_among\nSELECT journal_key FROM model_answers \
               WHERE agent_id = $1 AND journal_key IN (SELECT value FROM {each_text}($2{::jsonb}))"
    );
    Ok(query(sql)
        .bind(agent.as_str())
        .bind(serde_json::json!(keys).to_string())
        .fetch_column(connection)
        .await?)
}

/// For this long after a forgetting no answers are journalled, because their questions may hold forgotten text.
const FORGET_WAIT_MS: i64 = HOUR_MS;

/// Stores a model's answer, so that a crash doesn't make recapd ask again.
pub(super) async fn journal(
    tx: &mut Connection,
    agent: AgentId,
    key: String,
    answer: JournalledAnswer,
    now: Timestamp,
) -> StoreResult<()> {
    let asked_at = now.plus_ms(-FORGET_WAIT_MS);
    journal_of(tx, (agent, key), answer, now, asked_at).await
}

/// Does the same as [`journal`] for a question that was asked at or after `asked_at`. The answer may hold text that was forgotten
/// since.
pub(super) async fn journal_of(
    tx: &mut Connection,
    (agent, key): (AgentId, String),
    answer: JournalledAnswer,
    now: Timestamp,
    asked_at: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/summary.journal\nINSERT INTO model_answers (agent_id, journal_key, answer, input_tokens, \
               output_tokens, created_at) SELECT agent_id, $2, $3, $4, $5, $6 FROM agents WHERE agent_id = $1 \
               AND (forgotten_at IS NULL OR forgotten_at <= $7) \
               ON CONFLICT (agent_id, journal_key) DO UPDATE SET answer = excluded.answer, \
               input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, \
               created_at = excluded.created_at"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(key)
        .bind(answer.answer)
        .bind(answer.input_tokens)
        .bind(answer.output_tokens)
        .bind(now)
        .bind(asked_at)
        .execute(tx)
        .await?;
    Ok(())
}

/// Returns the oldest provisional items within the limits, and at least one if there is one.
fn items_to_revisit(items: &[Item], limits: MaterialLimits) -> Vec<i64> {
    let (mut tokens, mut exchanges) = (0, 0);
    let provisional = items.iter().filter(|item| item.provisional);
    let fitting = provisional.enumerate().take_while(|(index, item)| {
        tokens += item.source_tokens;
        exchanges += item.ranges.iter().map(|range| range.last - range.first + 1).sum::<i64>();
        *index == 0 || (tokens <= limits.tokens_max && exchanges <= limits.exchanges_max)
    });
    fitting.map(|(_, item)| item.item).collect()
}

async fn load_covered(tx: &mut Connection, agent: &AgentId, item: &Item) -> StoreResult<Vec<Exchange>> {
    let sql = sql!(
        "-- sql/summary.covered\nSELECT ",
        exchange_columns!("e"),
        " FROM exchange_log e WHERE e.agent_id = $1 AND e.exchange BETWEEN $2 AND $3 AND e.set_aside_at IS NULL AND e.role = 'exchange'"
    );
    let mut exchanges = Vec::new();
    for range in &item.ranges {
        let query = query(sql).bind(agent.as_str()).bind(range.first).bind(range.last);
        for row in &query.fetch_all(&mut *tx).await? {
            exchanges.push(row::exchange(row, 0)?);
        }
    }
    Ok(exchanges)
}
