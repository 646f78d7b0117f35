//! Reads the table of runs: single runs, and figures for a span or for each hour.

use super::{Connection, Row, Run, RunFigures, RunHour, RunQuery, StoreResult, agent, query, row, sql};
use crate::operate::RunOutcome;
use recapd_core::domain::{
    agent::AgentId,
    spend::SpendTotal,
    time::{HOUR_MS, Timestamp},
};

/// SQL for the outcome of a run. A superseded run with an error was postponed.
macro_rules! outcome {
    () => {
        "CASE WHEN outcome = 'superseded' AND error_class IS NOT NULL THEN 'postponed' ELSE outcome END"
    };
}

macro_rules! run_select {
    ($label:literal, $($where:tt)+) => {
        sql!(
            $label,
            "\nSELECT run, agent_id, attempt, trigger_reason, ",
            outcome!(),
            ", path, version, covers_after, covers_through, ",
            "exchanges, items_added, items_dropped, document_tokens, truncated, provider, model, model_calls, ",
            "input_tokens, output_tokens, cost_microusd, batched, error_class, error, started_at, finished_at ",
            "FROM update_runs ",
            $($where)+
        )
    };
}

/// Restricts a list of runs. $2 is its limit.
macro_rules! listed {
    ($label:literal, $agent:literal) => {
        run_select!(
            $label,
            "WHERE run < $1 AND (CAST($3 AS text) IS NULL OR ",
            outcome!(),
            " = $3) AND finished_at >= $4 AND finished_at < $5",
            $agent,
            " ORDER BY run DESC LIMIT $2"
        )
    };
}

/// See [`super::OperatorStore::runs`]. Has a separate statement for the runs of one agent, so that their index is used.
pub(super) async fn list(connection: &mut Connection, wanted: RunQuery) -> StoreResult<Vec<Run>> {
    let all_sql = listed!("-- sql/operate.runs", "");
    let agent_sql = listed!("-- sql/operate.runs_of_agent", " AND agent_id = $6");
    let agent = wanted.agent.as_ref().map(AgentId::as_str);
    let select = query(if agent.is_some() { agent_sql } else { all_sql })
        .bind(wanted.before.unwrap_or(i64::MAX))
        .bind(wanted.limit)
        .bind(wanted.outcome.map(RunOutcome::name))
        .bind(wanted.since.unwrap_or(Timestamp::MIN))
        .bind(wanted.until.unwrap_or(Timestamp::MAX));
    let select = match agent {
        Some(agent) => select.bind(agent),
        None => select,
    };
    select.fetch_all(connection).await?.iter().map(read).collect()
}

pub(super) async fn load(connection: &mut Connection, run: i64) -> StoreResult<Option<Run>> {
    let sql = run_select!("-- sql/operate.run", "WHERE run = $1");
    let found = query(sql).bind(run).fetch_optional(connection).await?;
    found.as_ref().map(read).transpose()
}

fn read(row: &Row) -> StoreResult<Run> {
    let (run, outcome): (i64, String) = (row.try_get(0)?, row.try_get(4)?);
    let (started_at, finished_at): (Timestamp, Timestamp) = (row.try_get(23)?, row.try_get(24)?);
    Ok(Run {
        run,
        agent_id: agent(row, 1)?,
        attempt: row.try_get(2)?,
        reason: row.try_get(3)?,
        outcome: RunOutcome::from_name(&outcome)
            .ok_or_else(|| row::inconsistent("update_runs", format!("run {run}"), "outcome", outcome))?,
        path: row.try_get(5)?,
        version: row.try_get(6)?,
        covers_after: row.try_get(7)?,
        covers_through: row.try_get(8)?,
        exchanges: row.try_get(9)?,
        items_added: row.try_get(10)?,
        items_dropped: row.try_get(11)?,
        document_tokens: row.try_get(12)?,
        truncated: row.try_get(13)?,
        provider: row.try_get(14)?,
        model: row.try_get(15)?,
        model_calls: row.try_get(16)?,
        input_tokens: row.try_get(17)?,
        output_tokens: row.try_get(18)?,
        cost_microusd: row.try_get(19)?,
        batched: row.try_get(20)?,
        error_class: row.try_get(21)?,
        error: row.try_get(22)?,
        started_at,
        finished_at,
        duration_ms: finished_at.since_ms(started_at).max(0),
    })
}

macro_rules! figures_select {
    ($duration_ms:literal) => {
        concat!(
            "-- sql/operate.run_figures\nSELECT count(*) FILTER (WHERE outcome = 'completed'), ",
            "count(*) FILTER (WHERE outcome = 'failed'), ",
            "count(*) FILTER (WHERE ",
            outcome!(),
            " = 'superseded'), ",
            "coalesce(CAST(avg(",
            $duration_ms,
            ") FILTER (WHERE outcome = 'completed') AS bigint), 0), ",
            "coalesce(CAST(max(",
            $duration_ms,
            ") FILTER (WHERE outcome = 'completed') AS bigint), 0), ",
            "coalesce(CAST(avg(document_tokens) AS bigint), 0), coalesce(CAST(sum(exchanges) AS bigint), 0), ",
            "count(*) FILTER (WHERE truncated), coalesce(CAST(sum(input_tokens) AS bigint), 0), ",
            "coalesce(CAST(sum(output_tokens) AS bigint), 0), coalesce(CAST(sum(model_calls) AS bigint), 0), ",
            "coalesce(CAST(sum(cost_microusd) AS bigint), 0), ",
            "coalesce(CAST(sum(model_calls) FILTER (WHERE cost_microusd IS NULL) AS bigint), 0), ",
            "count(*) FILTER (WHERE ",
            outcome!(),
            " = 'postponed') ",
            "FROM update_runs WHERE finished_at >= $1"
        )
    };
}

macro_rules! p95_select {
    ($duration_ms:literal) => {
        concat!(
            "-- sql/operate.run_p95\nSELECT CAST(",
            $duration_ms,
            " AS bigint) FROM update_runs WHERE finished_at >= $1 AND outcome = 'completed' ORDER BY 1 LIMIT 1 OFFSET $2"
        )
    };
}

/// Returns the 95th percentile of the durations of the `completed` updates.
async fn p95(connection: &mut Connection, since: Timestamp, completed: i64) -> StoreResult<i64> {
    let sql = sql!(
        sqlite: p95_select!("finished_at - started_at"),
        postgres: p95_select!("extract(epoch FROM finished_at - started_at) * 1000")
    );
    let rank = (completed * 95 + 99) / 100 - 1;
    let found = query(sql).bind(since).bind(rank.max(0)).fetch_optional(connection).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}

pub(super) async fn figures(connection: &mut Connection, since: Timestamp) -> StoreResult<RunFigures> {
    let sql = sql!(
        sqlite: figures_select!("finished_at - started_at"),
        postgres: figures_select!("extract(epoch FROM finished_at - started_at) * 1000")
    );
    let row = query(sql).bind(since).fetch_one(&mut *connection).await?;
    let completed = row.try_get(0)?;
    let p95_duration_ms = p95(connection, since, completed).await?;
    let (input_tokens, output_tokens): (i64, i64) = (row.try_get(8)?, row.try_get(9)?);
    Ok(RunFigures {
        completed,
        p95_duration_ms,
        failed: row.try_get(1)?,
        superseded: row.try_get(2)?,
        postponed: row.try_get(13)?,
        mean_duration_ms: row.try_get(3)?,
        max_duration_ms: row.try_get(4)?,
        mean_document_tokens: row.try_get(5)?,
        exchanges: row.try_get(6)?,
        truncated: row.try_get(7)?,
        input_tokens,
        output_tokens,
        spent: SpendTotal {
            calls: row.try_get(10)?,
            tokens: input_tokens + output_tokens,
            cost_microusd: row.try_get(11)?,
            unpriced_calls: row.try_get(12)?,
        },
    })
}

macro_rules! hours_select {
    ($hour:literal, $duration_ms:literal) => {
        concat!(
            "-- sql/operate.run_hours\nSELECT ",
            $hour,
            " AS hour, count(*) FILTER (WHERE outcome = 'completed'), count(*) FILTER (WHERE outcome = 'failed'), ",
            "count(*) FILTER (WHERE ",
            outcome!(),
            " = 'superseded'), coalesce(CAST(avg(",
            $duration_ms,
            ") FILTER (WHERE outcome = 'completed') AS bigint), 0), ",
            "coalesce(CAST(avg(document_tokens) AS bigint), 0), coalesce(CAST(sum(cost_microusd) AS bigint), 0), ",
            "count(*) FILTER (WHERE ",
            outcome!(),
            " = 'postponed') ",
            "FROM update_runs WHERE finished_at >= $1 GROUP BY 1 ORDER BY 1"
        )
    };
}

macro_rules! percentiles_select {
    ($hour:literal, $duration_ms:literal) => {
        concat!(
            "-- sql/operate.run_percentiles\nSELECT hour, max(CASE WHEN place = (ended * 50 + 99) / 100 THEN took END), ",
            "max(CASE WHEN place = (ended * 95 + 99) / 100 THEN took END) FROM ",
            "(SELECT hour, took, row_number() OVER (PARTITION BY hour ORDER BY took) AS place, ",
            "count(*) OVER (PARTITION BY hour) AS ended FROM (SELECT ",
            $hour,
            " AS hour, CAST(",
            $duration_ms,
            " AS bigint) AS took FROM update_runs WHERE finished_at >= $1 AND outcome = 'completed') AS completed) AS ranked ",
            "GROUP BY hour ORDER BY hour"
        )
    };
}

pub(super) async fn hours(connection: &mut Connection, since: Timestamp) -> StoreResult<Vec<RunHour>> {
    let sql = sql!(
        sqlite: hours_select!("finished_at / 3600000", "finished_at - started_at"),
        postgres: hours_select!(
            "CAST(floor(extract(epoch FROM finished_at) / 3600) AS bigint)",
            "extract(epoch FROM finished_at - started_at) * 1000"
        )
    );
    let rows = query(sql).bind(since).fetch_all(&mut *connection).await?;
    let mut hours: Vec<RunHour> = rows.iter().map(hour).collect::<StoreResult<_>>()?;
    let sql = sql!(
        sqlite: percentiles_select!("finished_at / 3600000", "finished_at - started_at"),
        postgres: percentiles_select!(
            "CAST(floor(extract(epoch FROM finished_at) / 3600) AS bigint)",
            "extract(epoch FROM finished_at - started_at) * 1000"
        )
    );
    for row in query(sql).bind(since).fetch_all(connection).await? {
        let began_at = hour_start(row.try_get(0)?);
        if let Some(hour) = hours.iter_mut().find(|hour| hour.began_at == began_at) {
            hour.p50_duration_ms = row.try_get(1)?;
            hour.p95_duration_ms = row.try_get(2)?;
        }
    }
    Ok(hours)
}

fn hour(row: &Row) -> StoreResult<RunHour> {
    Ok(RunHour {
        began_at: hour_start(row.try_get(0)?),
        completed: row.try_get(1)?,
        failed: row.try_get(2)?,
        superseded: row.try_get(3)?,
        mean_duration_ms: row.try_get(4)?,
        mean_document_tokens: row.try_get(5)?,
        cost_microusd: row.try_get(6)?,
        postponed: row.try_get(7)?,
        ..RunHour::default()
    })
}

fn hour_start(number: i64) -> Timestamp {
    Timestamp(number.saturating_mul(HOUR_MS))
}

/// See [`super::OperatorStore::stalest`]. Reads the index of agents with pending exchanges.
pub(super) async fn stalest(
    connection: &mut Connection,
    limit: i64,
) -> StoreResult<Vec<(AgentId, Timestamp, i64)>> {
    let sql = sql!(
        "-- sql/operate.stalest\nSELECT agent_id, pending_since, first_exchange - summarized_through - 1 FROM agents ",
        "WHERE pending_since IS NOT NULL ORDER BY pending_since LIMIT $1"
    );
    let rows = query(sql).bind(limit).fetch_all(connection).await?;
    let one = |row: &Row| Ok((agent(row, 0)?, row.try_get(1)?, row.try_get(2)?));
    rows.iter().map(one).collect()
}
