//! Adds up what the proxies report, one row for each agent.

use super::{
    super::{agent, row::time},
    Connection, StoreResult, query, sql,
};
use crate::operate::ProxyTotals;
use recapd_core::domain::{
    agent::AgentId,
    proxy_traffic::{ProxyReport, ProxyTraffic},
    time::Timestamp,
};

/// The first columns of a row hold the counts, in the order of [`ProxyTraffic::counts`].
const COUNTS: usize = ProxyTraffic::COUNTS;

struct StoredTotals {
    totals: ProxyTotals,
    recent_reports: String,
}

/// See [`super::OperatorStore::count_proxy_traffic`].
pub(super) async fn count(
    tx: &mut Connection,
    agent: &AgentId,
    report: &ProxyReport,
    now: Timestamp,
) -> StoreResult<ProxyTotals> {
    agent::load_known(tx, agent).await?;
    let stored = load(tx, agent).await?;
    let (mut totals, recent) =
        stored.map_or_else(Default::default, |stored| (stored.totals, stored.recent_reports));
    let Some(recent) = report.remembered(&recent) else {
        return Ok(totals);
    };
    totals.traffic.add(&report.traffic);
    totals.first_at = totals.first_at.or(Some(now));
    totals.last_at = Some(now);
    let sql = sql!(
        "-- sql/proxy_traffic.count\nINSERT INTO proxy_traffic (requests, request_bytes, answer_bytes, compactions_answered, \
               compactions_forwarded, answering_ms, window_steps, saved_input_tokens, failed_open, unstored, \
               agent_id, first_at, last_at, recent_reports) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (agent_id) DO UPDATE SET \
               requests = excluded.requests, request_bytes = excluded.request_bytes, answer_bytes = excluded.answer_bytes, \
               compactions_answered = excluded.compactions_answered, \
               compactions_forwarded = excluded.compactions_forwarded, answering_ms = excluded.answering_ms, \
               window_steps = excluded.window_steps, saved_input_tokens = excluded.saved_input_tokens, \
               failed_open = excluded.failed_open, unstored = excluded.unstored, last_at = excluded.last_at, \
               recent_reports = excluded.recent_reports"
    );
    let mut query = query(sql);
    for count in totals.traffic.counts() {
        query = query.bind(count);
    }
    let query = query.bind(agent.as_str()).bind(totals.first_at).bind(totals.last_at);
    query.bind(recent).execute(tx).await?;
    Ok(totals)
}

/// See [`super::OperatorStore::proxy_totals`].
pub(super) async fn totals(connection: &mut Connection, agent: &AgentId) -> StoreResult<ProxyTotals> {
    let stored = load(connection, agent).await?;
    Ok(stored.map_or_else(ProxyTotals::default, |stored| stored.totals))
}

async fn load(connection: &mut Connection, agent: &AgentId) -> StoreResult<Option<StoredTotals>> {
    let sql = sql!(
        "-- sql/proxy_traffic.load\nSELECT requests, request_bytes, answer_bytes, compactions_answered, \
               compactions_forwarded, answering_ms, window_steps, saved_input_tokens, failed_open, unstored, \
               first_at, last_at, recent_reports FROM proxy_traffic WHERE agent_id = $1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    let Some(row) = found else {
        return Ok(None);
    };
    let mut counts = [0; COUNTS];
    for (column, count) in counts.iter_mut().enumerate() {
        *count = row.try_get(column)?;
    }
    Ok(Some(StoredTotals {
        totals: ProxyTotals {
            traffic: ProxyTraffic::from_counts(counts),
            first_at: time(&row, COUNTS)?,
            last_at: time(&row, COUNTS + 1)?,
        },
        recent_reports: row.try_get(COUNTS + 2)?,
    }))
}
