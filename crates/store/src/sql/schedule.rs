//! The statements of scheduled jobs, and the sampled figures.

use crate::sql::{Connection, query, sql};

use super::{
    super::{CalibrationFigures, FIRING_MS_MAX, Sample, Slot, StoreResult, operate::AgeingDue},
    batch, calibration, database_totals,
    fairness::{Newcomers, enqueue_all},
    row, spending,
};
use recapd_core::domain::{spend::day_start, time::Timestamp, work::Reason};

/// SQL that is true if the parked row `$row` of agent `a` may be made due at `$now` to age its document: nothing is pending for a
/// model, and the row has been parked for ten minutes. Without that wait, a row that keeps failing would be tried each time the
/// job runs.
macro_rules! may_age {
    ($row:literal, $now:literal) => {
        concat!(
            $row,
            ".parked_at <= ",
            $now,
            " - 600000 {ms} AND a.pending_since IS NULL AND NOT EXISTS (SELECT 1 FROM summary_items i \
             WHERE i.agent_id = a.agent_id AND i.provisional = {true} AND i.removed_version IS NULL AND i.dropped_version IS NULL)"
        )
    };
}

/// SQL that selects the documents `s` of agents `a` with an item that is too old for its section at time `$1`, unless the queue's
/// row `o` already waits to age it. `$reason` is the bit of [`Reason::Ageing`].
macro_rules! outgrown {
    ($reason:literal, $now:literal) => {
        concat!(
            "FROM summaries s JOIN agents a ON a.agent_id = s.agent_id \
             LEFT JOIN summary_update_queue o ON o.agent_id = s.agent_id \
             WHERE s.next_ageing_at <= $1 AND s.next_ageing_at <= coalesce(a.as_of, $1) \
             AND (o.agent_id IS NULL OR (o.reasons & ",
            $reason,
            ") = 0 OR o.wake_seq = o.claimed_wake OR (",
            may_age!("o", $now),
            "))"
        )
    };
}

/// Wakes the queue for documents with an item that is too old for its section. An index finds these documents, so the job's cost
/// depends on how many it finds, not on how many exist. Skips a row that already waits for ageing. Makes a parked row due again
/// if nothing is pending for its model, because its document must age, too.
pub(super) async fn enqueue_ageing(tx: &mut Connection, now: Timestamp, limit: i64) -> StoreResult<u64> {
    let sql = sql!(enqueue_all!(
        [
            "-- sql/schedule.enqueue_ageing\nWITH newcomers AS (SELECT s.agent_id, a.project_id, \
             o.agent_id IS NOT NULL AS is_queued ",
            outgrown!("$3", "$4"),
            " ORDER BY s.next_ageing_at LIMIT $9 {a_for_share})"
        ],
        [
            "DO UPDATE SET wake_seq = q.wake_seq + 1, reasons = q.reasons | excluded.reasons, parked_at = CASE \
             WHEN EXISTS (SELECT 1 FROM agents a WHERE a.agent_id = q.agent_id AND ",
            may_age!("q", "$4"),
            ") THEN NULL ELSE q.parked_at END"
        ]
    ));
    let newcomers =
        Newcomers { by: now, reason: Reason::Ageing, priority: Reason::Ageing.priority(), now, limit };
    newcomers.enqueue(tx, sql).await
}

/// Returns the documents for which [`enqueue_ageing`] would wake the queue.
pub(super) async fn ageing_due(
    tx: &mut Connection,
    now: Timestamp,
    limit: i64,
) -> StoreResult<Vec<AgeingDue>> {
    let sql = sql!(
        "-- sql/schedule.ageing_due\nSELECT s.agent_id, s.next_ageing_at ",
        outgrown!("$2", "$1"),
        " ORDER BY s.next_ageing_at, s.agent_id LIMIT $3"
    );
    let rows = query(sql).bind(now).bind(Reason::Ageing.bit()).bind(limit).fetch_all(tx).await?;
    rows.iter()
        .map(|found| {
            Ok(AgeingDue { agent_id: row::agent_id(found, 0)?, due_at: row::time(found, 1)?.unwrap_or(now) })
        })
        .collect()
}

/// Takes a slot of a schedule. The primary key lets only one caller take it. If that caller doesn't finish in time, another may
/// take it.
pub(super) async fn take_slot(
    tx: &mut Connection,
    name: String,
    slot: Timestamp,
    now: Timestamp,
) -> StoreResult<Slot> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/schedule.take_slot\nINSERT INTO schedule_slots AS o (name, slot, fired_at) VALUES ($1, $2, $3) \
               ON CONFLICT (name, slot) DO UPDATE SET fired_at = excluded.fired_at \
               WHERE o.done_at IS NULL AND o.fired_at <= $4"
    );
    let row_count = query(sql)
        .bind(name.as_str())
        .bind(slot)
        .bind(now)
        .bind(now.plus_ms(-FIRING_MS_MAX))
        .execute(&mut *tx)
        .await?;
    if row_count == 1 {
        return Ok(Slot::Ours);
    }
    let sql = sql!(
        "-- sql/schedule.is_slot_done\nSELECT done_at IS NOT NULL FROM schedule_slots WHERE name = $1 AND slot = $2"
    );
    let found = query(sql).bind(name).bind(slot).fetch_optional(tx).await?;
    let is_done = found.map(|row| row.try_get::<bool>(0)).transpose()?;
    Ok(if is_done == Some(true) { Slot::Done } else { Slot::Busy })
}

pub(super) async fn finish_slot(
    tx: &mut Connection,
    name: String,
    slot: Timestamp,
    now: Timestamp,
) -> StoreResult<()> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/schedule.finish_slot\nUPDATE schedule_slots SET done_at = $3 WHERE name = $1 AND slot = $2"
    );
    query(sql).bind(name).bind(slot).bind(now).execute(tx).await?;
    Ok(())
}

pub(super) async fn fired_at(connection: &mut Connection, name: &str) -> StoreResult<Option<Timestamp>> {
    let sql = sql!(
        "-- sql/schedule.fired_at\nSELECT fired_at FROM schedule_slots WHERE name = $1 ORDER BY slot DESC LIMIT 1"
    );
    let found = query(sql).bind(name).fetch_optional(connection).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn done_at(connection: &mut Connection, name: &str) -> StoreResult<Option<Timestamp>> {
    let sql = sql!(
        "-- sql/schedule.done_at\nSELECT done_at FROM schedule_slots WHERE name = $1 AND done_at IS NOT NULL \
               ORDER BY slot DESC LIMIT 1"
    );
    let found = query(sql).bind(name).fetch_optional(connection).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

/// Selects the figures of the last runs. The two databases compute durations differently.
macro_rules! sample_runs {
    ($mean_ms:literal) => {
        concat!(
            "-- sql/schedule.sample_runs\nSELECT count(*) FILTER (WHERE outcome = 'completed'), ",
            "count(*) FILTER (WHERE outcome = 'failed'), (SELECT coalesce(CAST(",
            $mean_ms,
            " AS bigint), 0) FROM update_runs WHERE finished_at >= $1 AND outcome = 'completed'), ",
            "coalesce(CAST(avg(document_tokens) AS bigint), 0), count(*) FILTER (WHERE truncated), ",
            "coalesce(CAST(sum(input_tokens) AS bigint), 0), coalesce(CAST(sum(output_tokens) AS bigint), 0), ",
            "coalesce(CAST(sum(model_calls) AS bigint), 0) FROM update_runs WHERE finished_at >= $1"
        )
    };
}

/// Returns the present figures, and those of the last `window_ms`.
///
/// A row with an expired lease counts as ready, because no worker has it and the next claim takes it.
pub(super) async fn sample(tx: &mut Connection, now: Timestamp, window_ms: i64) -> StoreResult<Sample> {
    let queue = sql!(
        "-- sql/schedule.sample_queue\nSELECT \
                 count(*) FILTER (WHERE parked_at IS NULL AND visible_at <= $1), \
                 count(*) FILTER (WHERE parked_at IS NULL AND lease_token IS NULL AND visible_at > $1), \
                 count(*) FILTER (WHERE parked_at IS NULL AND lease_token IS NOT NULL AND visible_at > $1), \
                 count(*) FILTER (WHERE parked_at IS NOT NULL), \
                 min(visible_at) FILTER (WHERE parked_at IS NULL AND visible_at <= $1) \
                 FROM summary_update_queue"
    );
    let queue = query(queue).bind(now).fetch_one(&mut *tx).await?;
    let totals = database_totals::totals(&mut *tx).await?;
    let runs = sql!(
        sqlite: sample_runs!("avg(finished_at - started_at)"),
        postgres: sample_runs!("extract(epoch FROM avg(finished_at - started_at)) * 1000")
    );
    let runs = query(runs).bind(now.plus_ms(-window_ms)).fetch_one(&mut *tx).await?;
    let today = spending::total_spending(&mut *tx, day_start(now)).await?;
    let (paused, paused_until) = spending::paused(&mut *tx).await?;
    let last_run = spending::last_run(&mut *tx).await?;
    let calibrations = calibration::load(&mut *tx).await?;
    Ok(Sample {
        batches: batch::figures(tx).await?,
        calibrations: calibrations.iter().map(CalibrationFigures::from).collect(),
        ready: queue.try_get(0)?,
        scheduled: queue.try_get(1)?,
        running: queue.try_get(2)?,
        parked: queue.try_get(3)?,
        oldest_ready_at: row::time(&queue, 4)?,
        agents: totals.agents,
        oldest_pending_at: totals.oldest_pending_at,
        documents: totals.documents,
        documents_tokens: totals.documents_tokens,
        stock_is_estimated: totals.is_estimated,
        completed: runs.try_get(0)?,
        failed: runs.try_get(1)?,
        mean_duration_ms: runs.try_get(2)?,
        mean_document_tokens: runs.try_get(3)?,
        truncated: runs.try_get(4)?,
        input_tokens: runs.try_get(5)?,
        output_tokens: runs.try_get(6)?,
        model_calls: runs.try_get(7)?,
        today,
        paused,
        paused_until,
        last_run,
    })
}
