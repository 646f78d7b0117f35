//! Accounts for the cost of models, and delays work that hasn't failed: postponed and paused updates.

use crate::sql::{Connection, Row, query, sql};

use super::{
    super::{
        AttemptError, Fence, LastRun, Postponement, Resume, RunRecord, SpendPause, Spending, StoreError,
        StoreResult,
    },
    fairness::{Newcomers, enqueue_all},
    queue::{self, RunOutcome},
    row,
};
use recapd_core::domain::{
    agent::AgentId,
    batch::LIFE_MAX_MS,
    spend::{SpendLimit, SpendTotal},
    time::Timestamp,
    work::{Lease, Priority, Reason},
};

/// `paused_for` of a row that waits for a provider. Such a row isn't paused and has no `paused_until`. The other values are
/// `hand` and the names of spending limits.
pub(super) const PROVIDER: &str = "provider";
/// Limits a wait, in milliseconds, if the daemon's clock and the database's differ so much that the right wait is unknown.
const UNSURE_MS: i64 = 1_000;

/// Converts the time `until` from the daemon's clock to the database's. The daemon's clock showed `finished_at` when the
/// database's showed `now`. The daemon's clock may be wrong, or may have jumped since it set `until`, so the nearer of the two
/// possible times counts.
fn to_database_clock(until: Timestamp, finished_at: Timestamp, now: Timestamp) -> Timestamp {
    let (own_ms, seen_ms) = (until.0 - finished_at.0, until.0 - now.0);
    now.plus_ms(if seen_ms < 0 && own_ms > seen_ms {
        own_ms.clamp(0, UNSURE_MS)
    } else {
        own_ms.min(seen_ms)
    })
}

pub(super) async fn postpone(
    tx: &mut Connection,
    lease: Lease,
    postponement: Postponement,
) -> StoreResult<()> {
    let Postponement { until, limit, why, run } = postponement;
    let until = to_database_clock(until, run.finished_at, tx.now(run.finished_at).await?);
    let sql = sql!(
        "-- sql/spending.postpone\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, attempts = {max}(attempts - 1, 0), visible_at = $3, \
               due_at = CASE WHEN priority >= $6 THEN $3 WHEN priority >= $7 THEN $8 ELSE $9 END + behind_ms {ms}, \
               paused_until = $5, paused_for = $4 \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let [high, normal, low] = [Priority::High, Priority::Normal, Priority::Low].map(Priority::level);
    let row_count = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(until)
        .bind(limit.map_or(PROVIDER, SpendLimit::name))
        .bind(limit.map(|_| until))
        .bind(high)
        .bind(normal)
        .bind(until.plus_ms(Priority::slack_ms(normal)))
        .bind(until.plus_ms(Priority::slack_ms(low)))
        .execute(&mut *tx)
        .await?;
    if row_count == 0 {
        return Err(StoreError::Fenced(Fence::Lease));
    }
    if run.model_calls > 0 {
        record_run_once(tx, &lease, &run, Some(&why)).await?;
    }
    Ok(())
}

pub(super) async fn record_run(tx: &mut Connection, lease: Lease, run: RunRecord) -> StoreResult<()> {
    record_run_once(tx, &lease, &run, None).await
}

/// Records the cost of an attempt that had no effect, and the error that postponed it, if there is one.
async fn record_run_once(
    tx: &mut Connection,
    lease: &Lease,
    run: &RunRecord,
    error: Option<&AttemptError>,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/spending.is_recorded\nSELECT 1 FROM update_runs WHERE agent_id = $1 AND lease_token = $2 LIMIT 1"
    );
    let query = query(sql).bind(lease.agent.as_str()).bind(lease.token);
    // A call whose answer was lost may have recorded the run already, and ended the lease.
    if query.fetch_optional(&mut *tx).await?.is_some() {
        return Ok(());
    }
    let details = RunOutcome { error, ..RunOutcome::default() };
    queue::record_run(tx, lease, "superseded", run, details).await
}

/// Makes the rows that meet `$condition` due. Parked rows get a new series of attempts.
macro_rules! resume {
    ($label:literal, $condition:literal) => {
        sql!(
            $label,
            "\nUPDATE summary_update_queue SET \
             visible_at = CASE WHEN parked_at IS NULL THEN {min}(visible_at, $1) ELSE $1 END, \
             due_at = CASE WHEN parked_at IS NULL THEN {min}(due_at, $1 + behind_ms {ms}) ELSE $1 + behind_ms {ms} END, \
             attempts = CASE WHEN parked_at IS NULL THEN attempts ELSE 0 END, \
             parked_at = NULL, paused_until = NULL, paused_for = NULL WHERE ",
            $condition,
            " AND agent_id IN (SELECT agent_id FROM summary_update_queue WHERE ",
            $condition,
            " ORDER BY agent_id {for_update})"
        )
    };
}

/// See [`super::super::Store::resume`]. Uses one statement, so that rows are always locked in the same order.
pub(super) async fn resume(tx: &mut Connection, kind: Resume, now: Timestamp) -> StoreResult<u64> {
    let sql = match kind {
        Resume::Paused => {
            resume!("-- sql/spending.resume_paused", "paused_until IS NOT NULL AND paused_for <> 'hand'")
        }
        Resume::Waiting => resume!("-- sql/spending.resume_waiting", "paused_for <> 'hand'"),
        Resume::Refused => resume!(
            "-- sql/spending.resume_refused",
            // A row that was woken during its attempt waits instead of being parked.
            "(paused_for <> 'hand' OR (last_error LIKE 'provider_auth:%' AND (parked_at IS NOT NULL \
             OR (visible_at > $1 AND lease_token IS NULL AND paused_for IS NULL AND deferred_at IS NULL))))"
        ),
    };
    let now = tx.now(now).await?;
    Ok(query(sql).bind(now).execute(tx).await?)
}

/// Makes an agent's paused update due, because other spending limits may apply now.
pub(super) async fn resume_agent(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/spending.resume_agent\nUPDATE summary_update_queue SET visible_at = {min}(visible_at, $2), \
               due_at = {min}(due_at, $2 + behind_ms {ms}), paused_until = NULL, paused_for = NULL \
               WHERE agent_id = $1 AND paused_until IS NOT NULL AND paused_for <> 'hand'"
    );
    let now = tx.now(now).await?;
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

pub(super) async fn spending(
    tx: &mut Connection,
    agent: &AgentId,
    since: Timestamp,
) -> StoreResult<Spending> {
    let sql = sql!("-- sql/spending.settings\nSELECT CAST(settings AS text) FROM agents WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(&mut *tx).await?;
    let settings = found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let (agent_cost, total_cost) = cost_in_batches(tx, agent, since).await?;
    Ok(Spending {
        settings: row::settings(&settings, 0, agent.as_str())?,
        agent: agent_spending(tx, agent, since).await?.plus(agent_cost),
        all: total_spending(tx, since).await?.plus(total_cost),
    })
}

/// Returns the expected cost of questions in batches that no run accounts for yet, for the agent and for all agents. This cost
/// counts as spent. Of the agent's own questions only those in a batch count: the caller withdraws a waiting question, and
/// uses an answer that is there. Questions older than the longest life of a batch don't count, because no answer to them comes
/// any more.
async fn cost_in_batches(
    tx: &mut Connection,
    agent: &AgentId,
    since: Timestamp,
) -> StoreResult<(SpendTotal, SpendTotal)> {
    let sql = sql!(
        "-- sql/spending.in_batches\nSELECT count(*), coalesce(CAST(sum(tokens) AS bigint), 0), \
               coalesce(CAST(sum(cost_microusd) AS bigint), 0), count(*) FILTER (WHERE cost_microusd IS NULL), agent_id = $1 \
               FROM batch_requests WHERE accounted_at IS NULL AND state IN ('waiting', 'out', 'answered') \
               AND (state = 'out' OR agent_id <> $1) AND queued_at > $2 GROUP BY 5"
    );
    let found = query(sql).bind(agent.as_str()).bind(since.plus_ms(-LIFE_MAX_MS)).fetch_all(tx).await?;
    let (mut agent_cost, mut total_cost) = (SpendTotal::default(), SpendTotal::default());
    for row in found {
        let cost = read_total(&row)?;
        total_cost = total_cost.plus(cost);
        if row.try_get(4)? {
            agent_cost = cost;
        }
    }
    Ok((agent_cost, total_cost))
}

pub(super) async fn agent_spending(
    tx: &mut Connection,
    agent: &AgentId,
    since: Timestamp,
) -> StoreResult<SpendTotal> {
    let sql = sql!(
        "-- sql/spending.of_agent\nSELECT coalesce(CAST(sum(model_calls) AS bigint), 0), \
               coalesce(CAST(sum(input_tokens + output_tokens) AS bigint), 0), coalesce(CAST(sum(cost_microusd) AS bigint), 0), \
               coalesce(CAST(sum(model_calls) FILTER (WHERE cost_microusd IS NULL) AS bigint), 0) FROM update_runs \
               WHERE agent_id = $1 AND finished_at >= $2 AND model_calls > 0"
    );
    read_total(&query(sql).bind(agent.as_str()).bind(since).fetch_one(tx).await?)
}

pub(super) async fn total_spending(tx: &mut Connection, since: Timestamp) -> StoreResult<SpendTotal> {
    let sql = sql!(
        "-- sql/spending.of_all\nSELECT coalesce(CAST(sum(model_calls) AS bigint), 0), \
               coalesce(CAST(sum(input_tokens + output_tokens) AS bigint), 0), coalesce(CAST(sum(cost_microusd) AS bigint), 0), \
               coalesce(CAST(sum(model_calls) FILTER (WHERE cost_microusd IS NULL) AS bigint), 0) FROM update_runs \
               WHERE finished_at >= $1 AND model_calls > 0"
    );
    read_total(&query(sql).bind(since).fetch_one(tx).await?)
}

fn read_total(row: &Row) -> StoreResult<SpendTotal> {
    Ok(SpendTotal {
        calls: row.try_get(0)?,
        tokens: row.try_get(1)?,
        cost_microusd: row.try_get(2)?,
        unpriced_calls: row.try_get(3)?,
    })
}

/// Returns how many updates are paused, and when the first pause ends.
pub(super) async fn paused(tx: &mut Connection) -> StoreResult<(i64, Option<Timestamp>)> {
    let sql = sql!(
        "-- sql/spending.paused\nSELECT count(*), min(paused_until) FROM summary_update_queue \
               WHERE paused_until IS NOT NULL AND paused_for <> 'hand'"
    );
    let row = query(sql).fetch_one(tx).await?;
    Ok((row.try_get(0)?, row::time(&row, 1)?))
}

/// Returns which spending limit pauses an agent's updates, and until when.
pub(super) async fn paused_agent(
    connection: &mut Connection,
    agent: &AgentId,
) -> StoreResult<Option<SpendPause>> {
    let sql = sql!(
        "-- sql/spending.paused_agent\nSELECT paused_for, paused_until FROM summary_update_queue \
               WHERE agent_id = $1 AND paused_until IS NOT NULL AND paused_for <> 'hand'"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    let Some(row) = found else { return Ok(None) };
    let name: String = row.try_get(0)?;
    let limit = SpendLimit::from_name(&name)
        .ok_or_else(|| row::inconsistent("summary_update_queue", agent.to_string(), "paused_for", name))?;
    let until = row.try_get(1)?;
    Ok(Some(SpendPause { limit, until }))
}

/// Returns the newest update that asked a model. Leaves out its error if that is a spending limit, for which the provider isn't
/// to blame.
pub(super) async fn last_run(tx: &mut Connection) -> StoreResult<Option<LastRun>> {
    let sql = sql!(
        "-- sql/spending.last_run\nSELECT coalesce(provider, ''), coalesce(model, ''), \
               nullif(error_class, 'spend_limit'), finished_at FROM update_runs WHERE model_calls > 0 ORDER BY finished_at DESC, run DESC LIMIT 1"
    );
    let found = query(sql).fetch_optional(tx).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(LastRun {
        provider: row.try_get(0)?,
        model: row.try_get(1)?,
        error_class: row.try_get(2)?,
        at: row.try_get(3)?,
    }))
}

pub(super) async fn enqueue_revisits(tx: &mut Connection, now: Timestamp, limit: i64) -> StoreResult<u64> {
    let sql = sql!(enqueue_all!(
        [
            "-- sql/spending.enqueue_revisits\nWITH newcomers AS (SELECT a.agent_id, a.project_id, {false} AS is_queued \
             FROM (SELECT DISTINCT i.agent_id FROM summary_items i \
             WHERE i.provisional = {true} AND i.removed_version IS NULL AND i.dropped_version IS NULL \
             AND NOT EXISTS (SELECT 1 FROM summary_update_queue o WHERE o.agent_id = i.agent_id) ORDER BY i.agent_id LIMIT $9) p \
             {join} agents a ON a.agent_id = p.agent_id WHERE a.deleted_at IS NULL ORDER BY a.agent_id LIMIT $9 {a_for_share})"
        ],
        ["DO NOTHING"]
    ));
    let newcomers = Newcomers { by: now, reason: Reason::Reconcile, priority: Priority::Low, now, limit };
    newcomers.enqueue(tx, sql).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wrong_clock_makes_a_row_wait_for_long() {
        let hour = 3_600_000;
        for (until, finished_at, now, waits_ms) in [
            // The clocks agree; the daemon's is ahead, is behind (a short and a long wait), jumped back, jumped ahead.
            (hour + 500, hour, hour, 500),
            (2 * hour + 500, 2 * hour, hour, 500),
            (hour + 500, hour, 2 * hour, 500),
            (hour + 9_000, hour, 2 * hour, UNSURE_MS),
            (hour + 500, 0, hour, 500),
            (hour + 500, 2 * hour, hour, 500 - hour),
        ] {
            let at = to_database_clock(Timestamp(until), Timestamp(finished_at), Timestamp(now));
            assert_eq!(at.0 - now, waits_ms, "{until} {finished_at} {now}");
        }
    }
}
