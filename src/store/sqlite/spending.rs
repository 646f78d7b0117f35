//! What models cost, work that waits without having failed, and items to be condensed again.

use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{Fence, LastRun, Paused, Postponement, RunRecord, Spending, StoreError, StoreResult},
    queue::{self, RunOutcome},
    row,
};
use crate::domain::{
    agent::AgentId,
    spend::{SpendLimit, Spent},
    time::Timestamp,
    work::{Lease, Priority, Reason},
};

/// See [`super::super::Store::postpone`].
pub(super) async fn postpone(
    tx: &mut SqliteConnection,
    lease: Lease,
    postponement: Postponement,
) -> StoreResult<()> {
    let Postponement { until, limit, run } = postponement;
    let sql = "-- sqlite/spending.postpone\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, attempts = max(attempts - 1, 0), visible_at = ?3, \
               due_at = ?3 + CASE WHEN priority >= ?6 THEN 0 WHEN priority >= ?7 THEN ?8 ELSE ?9 END, \
               paused_until = CASE WHEN ?4 IS NOT NULL THEN ?5 END, paused_for = ?4 \
               WHERE agent_id = ?1 AND lease_token = ?2";
    let [high, normal, low] = [Priority::High, Priority::Normal, Priority::Low].map(Priority::level);
    let done = sqlx::query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(until.0)
        .bind(limit.map(SpendLimit::name))
        .bind(until.0)
        .bind(high)
        .bind(normal)
        .bind(Priority::slack_ms(normal))
        .bind(Priority::slack_ms(low))
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 0 {
        return Err(StoreError::Fenced(Fence::Lease));
    }
    if run.model_calls > 0 {
        record_run(tx, lease, run).await?;
    }
    Ok(())
}

/// See [`super::super::Store::record_run`].
pub(super) async fn record_run(tx: &mut SqliteConnection, lease: Lease, run: RunRecord) -> StoreResult<()> {
    let sql = "-- sqlite/spending.is_recorded\nSELECT 1 FROM update_runs WHERE agent_id = ?1 AND lease_token = ?2 LIMIT 1";
    let query = sqlx::query(sql).bind(lease.agent.as_str()).bind(lease.token);
    // The lease may have been lost because its end was recorded, and nobody heard of it.
    if query.fetch_optional(&mut *tx).await?.is_some() {
        return Ok(());
    }
    queue::record_run(tx, &lease, "superseded", &run, RunOutcome::default()).await
}

/// See [`super::super::Store::resume_paused`].
pub(super) async fn resume_paused(tx: &mut SqliteConnection, now: Timestamp) -> StoreResult<u64> {
    let sql = "-- sqlite/spending.resume_paused\nUPDATE summary_update_queue SET visible_at = min(visible_at, ?1), \
               due_at = min(due_at, ?1), paused_until = NULL, paused_for = NULL WHERE paused_until IS NOT NULL";
    Ok(sqlx::query(sql).bind(now.0).execute(tx).await?.rows_affected())
}

/// Other limits may hold for an agent now.
pub(super) async fn resume_agent(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = "-- sqlite/spending.resume_agent\nUPDATE summary_update_queue SET visible_at = min(visible_at, ?2), \
               due_at = min(due_at, ?2), paused_until = NULL, paused_for = NULL \
               WHERE agent_id = ?1 AND paused_until IS NOT NULL";
    sqlx::query(sql)
        .bind(agent.as_str())
        .bind(now.0)
        .execute(tx)
        .await?;
    Ok(())
}

/// See [`super::super::Store::spending`].
pub(super) async fn spending(
    tx: &mut SqliteConnection,
    agent: &AgentId,
    since: Timestamp,
) -> StoreResult<Spending> {
    let sql = "-- sqlite/spending.settings\nSELECT settings FROM agents WHERE agent_id = ?1";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .fetch_optional(&mut *tx)
        .await?;
    let settings = found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let (own, open) = in_batches(tx, agent).await?;
    let with = |spent: Spent, calls: i64| Spent {
        calls: spent.calls.saturating_add(calls),
        ..spent
    };
    Ok(Spending {
        settings: row::settings(&settings, 0, agent.as_str())?,
        agent: with(of_agent(tx, agent, since).await?, own),
        all: with(of_all(tx, since).await?, open),
    })
}

/// Questions of the agent, and of all, that wait in batches or are on their way: calls that are as good as made.
async fn in_batches(tx: &mut SqliteConnection, agent: &AgentId) -> StoreResult<(i64, i64)> {
    let sql = "-- sqlite/spending.in_batches\nSELECT coalesce(sum(agent_id = ?1), 0), count(*) FROM batch_requests \
               WHERE ended_at IS NULL";
    let row = sqlx::query(sql).bind(agent.as_str()).fetch_one(tx).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

async fn of_agent(tx: &mut SqliteConnection, agent: &AgentId, since: Timestamp) -> StoreResult<Spent> {
    let sql = "-- sqlite/spending.of_agent\nSELECT coalesce(sum(model_calls), 0), \
               coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_microusd), 0), \
               coalesce(sum(model_calls) FILTER (WHERE cost_microusd IS NULL), 0) FROM update_runs \
               WHERE agent_id = ?1 AND finished_at >= ?2 AND model_calls > 0";
    spent(
        &sqlx::query(sql)
            .bind(agent.as_str())
            .bind(since.0)
            .fetch_one(tx)
            .await?,
    )
}

/// What all agents spent since then.
pub(super) async fn of_all(tx: &mut SqliteConnection, since: Timestamp) -> StoreResult<Spent> {
    let sql = "-- sqlite/spending.of_all\nSELECT coalesce(sum(model_calls), 0), \
               coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_microusd), 0), \
               coalesce(sum(model_calls) FILTER (WHERE cost_microusd IS NULL), 0) FROM update_runs \
               WHERE finished_at >= ?1 AND model_calls > 0";
    spent(&sqlx::query(sql).bind(since.0).fetch_one(tx).await?)
}

fn spent(row: &SqliteRow) -> StoreResult<Spent> {
    Ok(Spent {
        calls: row.try_get(0)?,
        tokens: row.try_get(1)?,
        cost_microusd: row.try_get(2)?,
        unpriced_calls: row.try_get(3)?,
    })
}

/// How many updates are paused, and until when the first one is.
pub(super) async fn paused(tx: &mut SqliteConnection) -> StoreResult<(i64, Option<Timestamp>)> {
    let sql = "-- sqlite/spending.paused\nSELECT count(*), min(paused_until) FROM summary_update_queue \
               WHERE paused_until IS NOT NULL";
    let row = sqlx::query(sql).fetch_one(tx).await?;
    Ok((row.try_get(0)?, row::time(&row, 1)?))
}

/// Why and until when an agent's updates are paused.
pub(super) async fn paused_agent(
    connection: &mut SqliteConnection,
    agent: &AgentId,
) -> StoreResult<Option<Paused>> {
    let sql = "-- sqlite/spending.paused_agent\nSELECT paused_for, paused_until FROM summary_update_queue \
               WHERE agent_id = ?1 AND paused_until IS NOT NULL";
    let found = sqlx::query(sql)
        .bind(agent.as_str())
        .fetch_optional(connection)
        .await?;
    let Some(row) = found else { return Ok(None) };
    let name: String = row.try_get(0)?;
    let limit = SpendLimit::from_name(&name).ok_or_else(|| StoreError::Inconsistent {
        table: "summary_update_queue",
        row: agent.to_string(),
        column: "paused_for",
        value: name,
    })?;
    let until = Timestamp(row.try_get(1)?);
    Ok(Some(Paused { limit, until }))
}

/// The newest update that asked a model.
pub(super) async fn last_run(tx: &mut SqliteConnection) -> StoreResult<Option<LastRun>> {
    let sql = "-- sqlite/spending.last_run\nSELECT coalesce(provider, ''), coalesce(model, ''), error_class, finished_at \
               FROM update_runs WHERE model_calls > 0 ORDER BY finished_at DESC, run DESC LIMIT 1";
    let found = sqlx::query(sql).fetch_optional(tx).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(LastRun {
        provider: row.try_get(0)?,
        model: row.try_get(1)?,
        error_class: row.try_get(2)?,
        at: Timestamp(row.try_get(3)?),
    }))
}

/// See [`super::super::Store::enqueue_revisits`].
pub(super) async fn enqueue_revisits(
    tx: &mut SqliteConnection,
    now: Timestamp,
    limit: i64,
) -> StoreResult<u64> {
    let level = Priority::Low.level();
    let sql = "-- sqlite/spending.enqueue_revisits\nINSERT INTO summary_update_queue \
               (agent_id, priority, reasons, queued_at, visible_at, due_at) \
               SELECT DISTINCT i.agent_id, ?2, ?3, ?1, ?1, ?4 FROM summary_items i \
               WHERE i.provisional = 1 AND i.removed_version IS NULL AND i.dropped_version IS NULL \
               AND NOT EXISTS (SELECT 1 FROM summary_update_queue q WHERE q.agent_id = i.agent_id) LIMIT ?5 \
               ON CONFLICT (agent_id) DO NOTHING";
    let done = sqlx::query(sql)
        .bind(now.0)
        .bind(level)
        .bind(Reason::Reconcile.bit())
        .bind(now.plus_ms(Priority::slack_ms(level)).0)
        .bind(limit)
        .execute(tx)
        .await?;
    Ok(done.rows_affected())
}
