//! Deletes rows whose retention has ended. Works in short transactions that block nobody, each of which reads an amount that
//! doesn't grow with the database.

use crate::sql::{Connection, Lock, query, sql, statement::Statement};

use super::{
    super::{Prune, StoreResult},
    SqlStore,
};
use recapd_core::domain::time::Timestamp;

/// Limits how many agents' versions one step reads.
const AGENTS_MAX: i64 = 200;

pub(super) async fn prune(store: &SqlStore, prune: Prune) -> StoreResult<u64> {
    let limit = prune.limit.max(1);
    let mut deleted = 0;
    let runs_before = prune.runs_before;
    store.write(Lock::Nothing, move |tx| Box::pin(note(tx, runs_before))).await?;
    for (sql, before) in age_limits(&prune) {
        deleted += all_before(store, sql, before, limit).await?;
    }
    Ok(deleted + versions(store, prune.versions_keep, limit).await?)
}

/// Returns the statements that delete by age alone, each with the time before which rows are deleted.
fn age_limits(prune: &Prune) -> [(&'static Statement, Timestamp); 6] {
    let runs = sql!(
        "-- sql/prune.runs\nDELETE FROM update_runs WHERE run IN \
                (SELECT run FROM update_runs WHERE finished_at < $1 ORDER BY finished_at LIMIT $2 {skip_locked})"
    );
    let answers = sql!(
        "-- sql/prune.answers\nDELETE FROM model_answers WHERE (agent_id, journal_key) IN \
                   (SELECT agent_id, journal_key FROM model_answers WHERE created_at < $1 ORDER BY created_at LIMIT $2 {skip_locked})"
    );
    // The latest slot of a schedule stays, however old, because without it the schedule would fire again. The latest completed
    // slot stays, too, because it shows since when later slots have failed.
    let slots = sql!(
        "-- sql/prune.slots\nDELETE FROM schedule_slots WHERE (name, slot) IN \
                 (SELECT o.name, o.slot FROM schedule_slots o WHERE o.fired_at < $1 AND EXISTS \
                  (SELECT 1 FROM schedule_slots n WHERE n.name = o.name AND n.slot > o.slot \
                   AND n.done_at IS NOT NULL) LIMIT $2)"
    );
    let keys = sql!(
        "-- sql/prune.keys\nDELETE FROM idempotency_keys WHERE (agent_id, key) IN \
                (SELECT agent_id, key FROM idempotency_keys WHERE used_at < $1 ORDER BY used_at LIMIT $2 {skip_locked})"
    );
    // Deletes ended questions, and then batches without questions, at the same age as model answers.
    let questions = sql!(
        "-- sql/prune.questions\nDELETE FROM batch_requests WHERE (agent_id, version, covers_after) IN \
                     (SELECT agent_id, version, covers_after FROM batch_requests WHERE ended_at < $1 \
                      ORDER BY ended_at LIMIT $2 {skip_locked})"
    );
    let batches = sql!(
        "-- sql/prune.batches\nDELETE FROM provider_batches WHERE batch IN \
                   (SELECT b.batch FROM provider_batches b WHERE b.state = 'closed' AND b.closed_at < $1 AND NOT EXISTS \
                    (SELECT 1 FROM batch_requests r WHERE r.batch = b.batch) LIMIT $2)"
    );
    [
        (runs, prune.runs_before),
        (answers, prune.answers_before),
        (slots, prune.runs_before),
        (keys, prune.runs_before),
        (questions, prune.answers_before),
        (batches, prune.answers_before),
    ]
}

/// Records the time from which on all runs are kept.
async fn note(tx: &mut Connection, runs_before: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/prune.note\nINSERT INTO prunings (table_name, before_at) VALUES ('update_runs', $1) \
               ON CONFLICT (table_name) DO UPDATE SET before_at = excluded.before_at \
               WHERE prunings.before_at < excluded.before_at"
    );
    query(sql).bind(runs_before).execute(tx).await?;
    Ok(())
}

/// Repeats a statement until it deletes fewer rows than the limit.
async fn all_before(
    store: &SqlStore,
    sql: &'static Statement,
    before: Timestamp,
    limit: i64,
) -> StoreResult<u64> {
    let mut deleted = 0;
    loop {
        let step =
            store.write(Lock::Nothing, move |tx| Box::pin(some_before(tx, sql, before, limit))).await?;
        deleted += step;
        if step < limit.unsigned_abs() {
            return Ok(deleted);
        }
    }
}

/// Runs a statement of [`age_limits`] once.
async fn some_before(
    tx: &mut Connection,
    sql: &'static Statement,
    before: Timestamp,
    limit: i64,
) -> StoreResult<u64> {
    Ok(query(sql).bind(before).bind(limit).execute(tx).await?)
}

/// Deletes all versions except each agent's newest `keep`. Goes agent by agent, because no index shows which versions are too
/// old.
async fn versions(store: &SqlStore, keep: i64, limit: i64) -> StoreResult<u64> {
    let (mut deleted, mut after) = (0, String::new());
    loop {
        let from = after.clone();
        let (step, last) =
            store.write(Lock::Nothing, move |tx| Box::pin(some_versions(tx, from, keep, limit))).await?;
        deleted += step;
        match last {
            None => return Ok(deleted),
            // The same agents may have more old versions.
            Some(_) if step == limit.unsigned_abs() => {}
            Some(last) => after = last,
        }
    }
}

/// Deletes old versions of the next agents after `after`. Returns how many versions, and the last of those agents.
async fn some_versions(
    tx: &mut Connection,
    after: String,
    keep: i64,
    limit: i64,
) -> StoreResult<(u64, Option<String>)> {
    let sql = sql!(
        "-- sql/prune.last_agent\nSELECT max(agent_id) FROM \
               (SELECT agent_id FROM summaries WHERE agent_id > $1 ORDER BY agent_id LIMIT $2) AS agents"
    );
    let row = query(sql).bind(after.as_str()).bind(AGENTS_MAX).fetch_one(&mut *tx).await?;
    let Some(last) = row.try_get::<Option<String>>(0)? else {
        return Ok((0, None));
    };
    let sql = sql!(
        "-- sql/prune.versions\nDELETE FROM summary_versions WHERE (agent_id, version) IN \
               (SELECT v.agent_id, v.version FROM summaries s {join} summary_versions v ON v.agent_id = s.agent_id \
                WHERE s.agent_id > $1 AND s.agent_id <= $2 AND v.version <= s.version - $3 LIMIT $4 {v_skip_locked})"
    );
    let deleted = query(sql).bind(after).bind(last.as_str()).bind(keep).bind(limit).execute(tx).await?;
    Ok((deleted, Some(last)))
}
