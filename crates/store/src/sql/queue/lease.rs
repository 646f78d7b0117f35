//! Leases: renews them, gives them back after a failure or without an attempt, and ends those that an earlier process left over.

use super::run::{RunOutcome, record_run};
use crate::{
    AttemptError, ERROR_CHARS_MAX, Failure, Fence, StoreError, StoreResult,
    sql::{Connection, query, sql, statement::SqlDialect},
};
use recapd_core::domain::{
    text::cut,
    time::Timestamp,
    work::{Lease, Priority},
};

/// Sorts leases by agent. All writers of several rows lock them in this order, which prevents deadlocks.
fn in_order(leases: &mut [Lease]) {
    leases.sort_by(|a, b| a.agent.cmp(&b.agent));
}

/// Renews the leases that are still held, and returns their fencing tokens.
pub(crate) async fn renew(
    tx: &mut Connection,
    mut leases: Vec<Lease>,
    now: Timestamp,
    lease_ms: i64,
) -> StoreResult<Vec<i64>> {
    in_order(&mut leases);
    let visible_at = tx.now(now).await?.plus_ms(lease_ms);
    match tx.dialect() {
        SqlDialect::Sqlite => renew_each(tx, &leases, visible_at).await,
        SqlDialect::Postgres => renew_free(tx, &leases, visible_at).await,
    }
}

/// Renews row by row, for a database with a single writer.
async fn renew_each(tx: &mut Connection, leases: &[Lease], visible_at: Timestamp) -> StoreResult<Vec<i64>> {
    let sql = sql!(
        "-- sqlite/queue.renew\nUPDATE summary_update_queue SET visible_at = $3 \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let mut tokens = Vec::new();
    for lease in leases {
        let row_count = query(sql)
            .bind(lease.agent.as_str())
            .bind(lease.token)
            .bind(visible_at)
            .execute(&mut *tx)
            .await?;
        tokens.extend((row_count == 1).then_some(lease.token));
    }
    Ok(tokens)
}

/// Renews for a database with many writers. Skips rows that another transaction is writing, so that one long transaction doesn't
/// cost all leases. Whether a skipped row's lease is still held is read from its last committed state. The lease is renewed at
/// the next heartbeat; while the row is locked, no claim takes it, because claims skip locked rows, too.
async fn renew_free(tx: &mut Connection, leases: &[Lease], visible_at: Timestamp) -> StoreResult<Vec<i64>> {
    let sql = sql!(
        "-- postgres/queue.renew\nWITH asked AS MATERIALIZED (SELECT value ->> 0 AS agent_id, \
               CAST(value ->> 1 AS bigint) AS token FROM jsonb_array_elements($1::jsonb)), \
               free AS MATERIALIZED (SELECT q.agent_id FROM asked l JOIN summary_update_queue q \
               ON q.agent_id = l.agent_id AND q.lease_token = l.token \
               ORDER BY q.agent_id FOR NO KEY UPDATE OF q SKIP LOCKED), \
               renewed AS (UPDATE summary_update_queue q SET visible_at = $2 FROM free f WHERE q.agent_id = f.agent_id) \
               SELECT q.lease_token FROM asked l JOIN summary_update_queue q \
               ON q.agent_id = l.agent_id AND q.lease_token = l.token ORDER BY q.agent_id"
    );
    let pairs: Vec<(&str, i64)> = leases.iter().map(|lease| (lease.agent.as_str(), lease.token)).collect();
    Ok(query(sql).bind(serde_json::json!(pairs).to_string()).bind(visible_at).fetch_column(tx).await?)
}

/// Gives a lease back after a failure. Lowers the row's urgency, so that a failing agent doesn't delay other agents. A row that
/// was woken during the attempt isn't parked, but retried once more after the wait, because perhaps no further wake comes.
pub(crate) async fn fail(tx: &mut Connection, lease: Lease, failure: Failure) -> StoreResult<bool> {
    let now = tx.now(failure.run.finished_at).await?;
    let visible_at = now.plus_ms(failure.backoff_ms);
    let low = Priority::Low.level();
    let sql = sql!(
        "-- sql/queue.fail\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, last_error = $3, priority = {min}(priority, $4), visible_at = $5, due_at = $6 + behind_ms {ms}, \
               parked_at = CASE WHEN $7 AND wake_seq = claimed_wake THEN $8 END WHERE agent_id = $1 AND lease_token = $2 \
               RETURNING parked_at IS NOT NULL"
    );
    let row = query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(error_text(&failure.error))
        .bind(low)
        .bind(visible_at)
        .bind(visible_at.plus_ms(Priority::slack_ms(low)))
        .bind(failure.park)
        .bind(now)
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(StoreError::Fenced(Fence::Lease))?;
    let is_parked = row.try_get(0)?;
    record_run(
        tx,
        &lease,
        "failed",
        &failure.run,
        RunOutcome { error: Some(&failure.error), ..RunOutcome::default() },
    )
    .await?;
    Ok(is_parked)
}

pub(crate) fn error_text(error: &AttemptError) -> String {
    cut(&format!("{}: {}", error.class, error.message), ERROR_CHARS_MAX)
}

/// Gives leases back without counting an attempt.
pub(crate) async fn release(tx: &mut Connection, mut leases: Vec<Lease>, now: Timestamp) -> StoreResult<u64> {
    in_order(&mut leases);
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/queue.release\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, visible_at = $3, attempts = {max}(attempts - 1, 0) \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let mut released = 0;
    for lease in &leases {
        let query = query(sql).bind(lease.agent.as_str()).bind(lease.token).bind(now);
        released += query.execute(&mut *tx).await?;
    }
    Ok(released)
}

/// See [`crate::Store::disclaim`]. Lowers the count of crashes only if it is higher than at the claim of this lease: only then a
/// later claim has counted this lease as a crash.
pub(crate) async fn disclaim(tx: &mut Connection, mut leases: Vec<Lease>) -> StoreResult<u64> {
    in_order(&mut leases);
    let given_back = sql!(
        "-- sql/queue.disclaim_held\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL WHERE agent_id = $1 AND lease_token = $2"
    );
    let uncounted = sql!(
        "-- sql/queue.disclaim_lost\nUPDATE summary_update_queue SET crashes = crashes - 1 \
               WHERE agent_id = $1 AND (lease_token IS NULL OR lease_token > $2) AND crashes > $3"
    );
    let mut changed = 0;
    for lease in &leases {
        let bind_lease = |sql| query(sql).bind(lease.agent.as_str()).bind(lease.token);
        let row_count = bind_lease(given_back).execute(&mut *tx).await?;
        changed += match row_count {
            0 => bind_lease(uncounted).bind(lease.crashes).execute(&mut *tx).await?,
            row_count => row_count,
        };
    }
    Ok(changed)
}

/// Ends the leases of the owner's earlier process, so that their rows are due at once. Keeps the fencing tokens in the rows, so
/// that the next claim counts a crash.
pub(crate) async fn reclaim(tx: &mut Connection, owner: String, now: Timestamp) -> StoreResult<u64> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/queue.reclaim\nUPDATE summary_update_queue SET visible_at = $2 \
               WHERE lease_owner = $1 AND lease_token IS NOT NULL AND visible_at > $2 AND agent_id IN \
               (SELECT agent_id FROM summary_update_queue WHERE lease_owner = $1 AND lease_token IS NOT NULL \
                ORDER BY agent_id {for_update})"
    );
    Ok(query(sql).bind(owner).bind(now).execute(tx).await?)
}
