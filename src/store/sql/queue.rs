//! The queue: one row per agent, one column that says when it may be claimed.

use crate::store::sql::{Connection, Row, query, sql};

use super::{
    super::{
        AttemptError, ClaimRequest, ERROR_CHARS_MAX, Enqueued, Failure, Fence, RunRecord, StoreError,
        StoreResult,
    },
    batch,
    fairness::{Newcomers, enqueue_all, rows_ahead},
    statement::Dialect,
};
use crate::domain::{
    agent::AgentId,
    text::cut,
    time::{SETBACK_MS_MIN, Timestamp},
    work::{Lease, Priority, Reason},
};

/// Rows that are looked at to say when the next one falls due.
const ROWS_LOOKED_AT: i64 = 1_000;

/// A request to look at an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    /// Why.
    pub(super) reason: Reason,
    /// How long others of its kind may be waited for.
    pub(super) delay_ms: i64,
    /// A parked row is revived at most so often; 0 revives it at once.
    pub(super) revive_after_ms: i64,
    /// When.
    pub(super) now: Timestamp,
}

/// Makes the row, or moves its wake counter on. Never shortens a lease, a backoff or a pause, never lowers the urgency. A
/// row that waits for a batch's answer goes on waiting, unless it is urgent now. A new row stands behind those of its project
/// that wait already; one that is woken keeps its place, and if it is more urgent now, gets that of a new one.
pub(super) async fn enqueue(tx: &mut Connection, agent: &AgentId, wake: Wake) -> StoreResult<Enqueued> {
    let Wake {
        reason,
        delay_ms,
        revive_after_ms,
        now,
    } = wake;
    let now = tx.now(now).await?;
    let level = reason.priority().level();
    let visible_at = now.plus_ms(delay_ms);
    let fairness = tx.fairness();
    let sql = sql!(
        "-- sql/queue.enqueue\nINSERT INTO summary_update_queue AS q \
               (agent_id, project_id, priority, reasons, queued_at, visible_at, behind_ms, due_at) \
               SELECT agent_id, project_id, $2, $3, $4, $5, behind, $6 + behind {ms} FROM (SELECT a.agent_id, a.project_id, \
               CASE WHEN a.project_id IS NULL THEN 0 ELSE coalesce((SELECT o.behind_ms FROM summary_update_queue o \
               WHERE o.agent_id = a.agent_id AND o.priority >= $2), $8 * ",
        rows_ahead!("$2", "", "$9"),
        ") END AS behind FROM agents a WHERE a.agent_id = $1 LIMIT 1 {for_share}) place WHERE true \
               ON CONFLICT (agent_id) DO UPDATE SET wake_seq = q.wake_seq + 1, reasons = q.reasons | excluded.reasons, \
               priority = {max}(q.priority, excluded.priority), due_at = {min}(q.due_at, excluded.due_at), \
               behind_ms = {min}(q.behind_ms, excluded.behind_ms), \
               visible_at = CASE WHEN q.lease_token IS NULL AND q.attempts = 0 AND q.paused_until IS NULL \
                                 AND (q.deferred_at IS NULL OR excluded.priority >= $7) \
                                 THEN {min}(q.visible_at, excluded.visible_at) ELSE q.visible_at END \
               RETURNING wake_seq, visible_at, parked_at"
    );
    let row = query(sql)
        .bind(agent.as_str())
        .bind(level)
        .bind(reason.bit())
        .bind(now)
        .bind(visible_at)
        .bind(visible_at.plus_ms(Priority::slack_ms(level)))
        .bind(Priority::High.level())
        .bind(fairness.project_spacing_ms)
        .bind(fairness.rows_counted_max())
        .fetch_optional(&mut *tx)
        .await?
        .ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    let is_new = row.try_get::<i64>(0)? == 1;
    let visible_at = row.try_get(1)?;
    let is_parked = row.try_get::<Option<Timestamp>>(2)?.is_some();
    let revived = is_parked && revive(tx, agent, level, revive_after_ms, now).await?;
    Ok(Enqueued {
        is_new,
        revived,
        visible_at: if revived { now } else { visible_at },
    })
}

/// Gives a parked row another series of attempts; after a third crash just one more try, not three.
async fn revive(
    tx: &mut Connection,
    agent: &AgentId,
    level: i64,
    revive_after_ms: i64,
    now: Timestamp,
) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/queue.revive\nUPDATE summary_update_queue SET parked_at = NULL, attempts = 0, \
               crashes = {min}(crashes, 2), revived_at = $2, visible_at = $2, due_at = $3 + behind_ms {ms} \
               WHERE agent_id = $1 AND parked_at IS NOT NULL AND (revived_at IS NULL OR revived_at <= $4)"
    );
    let done = query(sql)
        .bind(agent.as_str())
        .bind(now)
        .bind(now.plus_ms(Priority::slack_ms(level)))
        .bind(now.plus_ms(-revive_after_ms))
        .execute(tx)
        .await?;
    Ok(done == 1)
}

/// Whether a claim would find anything. Nothing is found while all updates are paused.
/// On PostgreSQL the claim itself is the look.
pub(super) async fn is_any_due(connection: &mut Connection, now: Timestamp) -> StoreResult<bool> {
    let now = connection.now(now).await?;
    let sql = sql!(
        "-- sqlite/queue.is_any_due\nSELECT 1 FROM summary_update_queue \
               WHERE parked_at IS NULL AND visible_at <= $1 AND NOT EXISTS (SELECT 1 FROM queue_pauses) LIMIT 1"
    );
    Ok(query(sql).bind(now).fetch_optional(connection).await?.is_some())
}

/// In how many milliseconds a row falls due, if any can: those of the first [`ROWS_LOOKED_AT`]. What is due already, or
/// would be if updates weren't paused, and more rows than that may be due at any time: zero.
pub(super) async fn next_due_ms(connection: &mut Connection, now: Timestamp) -> StoreResult<Option<i64>> {
    let sql = sql!(
        "-- sql/queue.next_due_ms\nSELECT count(*), min(visible_at) FROM (SELECT visible_at FROM summary_update_queue \
               WHERE parked_at IS NULL LIMIT $1) AS first_rows"
    );
    let row = query(sql)
        .bind(ROWS_LOOKED_AT)
        .fetch_one(&mut *connection)
        .await?;
    let Some(due_at) = row.try_get::<Option<Timestamp>>(1)? else {
        return Ok(None);
    };
    if row.try_get::<i64>(0)? == ROWS_LOOKED_AT {
        return Ok(Some(0));
    }
    let now = connection.now(now).await?;
    Ok(Some(due_at.since_ms(now).max(0)))
}

/// Leases what is due, first what is due first. Each row gets a fencing token of its own.
///
/// With one writer, row by row.
pub(super) async fn claim(tx: &mut Connection, claim: ClaimRequest) -> StoreResult<Vec<Lease>> {
    let due = sql!(
        "-- sqlite/queue.next_due\nSELECT agent_id, visible_at FROM summary_update_queue \
               WHERE parked_at IS NULL AND visible_at <= $1 AND NOT EXISTS (SELECT 1 FROM queue_pauses) \
               ORDER BY due_at, visible_at, agent_id LIMIT 1"
    );
    let (now, mut leases) = (claim.now, Vec::new());
    for _ in 0..claim.limit {
        let Some(row) = query(due).bind(now).fetch_optional(&mut *tx).await? else {
            break;
        };
        let agent: String = row.try_get(0)?;
        leases.push(take(tx, &agent, row.try_get(1)?, &claim, now).await?);
    }
    Ok(leases)
}

/// As [`claim`], with many writers: all in one statement, past the rows that others are taking, with the tokens from
/// `first_token` on.
///
/// It doesn't wait for the disk: what a crash of the server undoes is a lease, and its row can be claimed again. So the
/// tokens are of a block that is on the disk ([`reserve_tokens`]), or one could be given twice.
pub(in crate::store) async fn claim_at_once(
    connection: &mut Connection,
    claim: &ClaimRequest,
    first_token: i64,
) -> StoreResult<Vec<Lease>> {
    let sql = sql!(
        "-- postgres/queue.claim\nWITH due AS MATERIALIZED (SELECT agent_id, visible_at, due_at \
               FROM summary_update_queue WHERE parked_at IS NULL AND visible_at <= coalesce($1, now()) \
               AND NOT EXISTS (SELECT 1 FROM queue_pauses) \
               ORDER BY due_at, visible_at, agent_id LIMIT $2 FOR UPDATE SKIP LOCKED), \
               numbered AS (SELECT d.*, row_number() OVER (ORDER BY due_at, visible_at, agent_id) AS number FROM due d) \
               UPDATE summary_update_queue q SET lease_token = $5 - 1 + n.number, lease_owner = $3, \
               leased_at = coalesce($1, now()), visible_at = coalesce($1, now()) + $4 * interval '1 millisecond', \
               claimed_wake = q.wake_seq, attempts = q.attempts + 1, deferred_at = NULL, \
               crashes = q.crashes + CASE WHEN q.lease_token IS NULL THEN 0 ELSE 1 END, paused_until = NULL, \
               paused_for = NULL FROM numbered n WHERE q.agent_id = n.agent_id RETURNING q.agent_id, q.lease_token, \
               q.claimed_wake, q.attempts, q.crashes, q.reasons, n.visible_at, \
               set_config('synchronous_commit', 'off', true)"
    );
    let found = query(sql)
        .bind(connection.judging(claim.now))
        .bind(claim.limit.min(TOKENS_RESERVED))
        .bind(claim.owner.as_str())
        .bind(claim.lease_ms)
        .bind(first_token)
        .fetch_all(connection)
        .await?;
    let mut leases = found
        .iter()
        .map(read_lease)
        .collect::<StoreResult<Vec<Lease>>>()?;
    leases.sort_by_key(|lease| lease.token);
    Ok(leases)
}

/// As [`claim`], nothing but an agent's row.
pub(super) async fn claim_one(
    tx: &mut Connection,
    agent: &AgentId,
    claim: ClaimRequest,
) -> StoreResult<Option<Lease>> {
    let now = tx.now(claim.now).await?;
    let due = sql!(
        "-- sql/queue.is_due\nSELECT visible_at FROM summary_update_queue WHERE agent_id = $1 AND parked_at IS NULL \
               AND visible_at <= $2 AND NOT EXISTS (SELECT 1 FROM queue_pauses) {for_update}"
    );
    let found = query(due).bind(agent.as_str()).bind(now);
    let Some(found) = found.fetch_optional(&mut *tx).await? else {
        return Ok(None);
    };
    let ready_at = found.try_get(0)?;
    take(tx, agent.as_str(), ready_at, &claim, now).await.map(Some)
}

/// Takes a row that is due since `ready_at`.
async fn take(
    tx: &mut Connection,
    agent: &str,
    ready_at: Timestamp,
    claim: &ClaimRequest,
    now: Timestamp,
) -> StoreResult<Lease> {
    let token = next_token(tx).await?;
    let sql = sql!(
        "-- sql/queue.lease\nUPDATE summary_update_queue SET lease_token = $2, lease_owner = $3, \
               leased_at = $4, visible_at = $5, claimed_wake = wake_seq, attempts = attempts + 1, deferred_at = NULL, \
               crashes = crashes + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END, paused_until = NULL, paused_for = NULL \
               WHERE agent_id = $1 RETURNING agent_id, lease_token, claimed_wake, attempts, crashes, reasons, $6"
    );
    let leased = query(sql)
        .bind(agent)
        .bind(token)
        .bind(claim.owner.as_str())
        .bind(now)
        .bind(now.plus_ms(claim.lease_ms))
        .bind(ready_at)
        .fetch_one(tx)
        .await?;
    read_lease(&leased)
}

/// The tokens that one step of PostgreSQL's sequence stands for.
pub(in crate::store) const TOKENS_RESERVED: i64 = 1_000;

/// The first of a block of tokens that nobody else has, nor ever had: a transaction with an id of its own commits only when
/// what was logged of the sequence is on the disk.
pub(in crate::store) async fn reserve_tokens(connection: &mut Connection) -> StoreResult<i64> {
    let sql = sql!(
        "-- postgres/queue.reserve_tokens\nSELECT nextval('lease_token'), CAST(pg_current_xact_id() AS text)"
    );
    Ok(query(sql).fetch_one(connection).await?.try_get(0)?)
}

fn read_lease(row: &Row) -> StoreResult<Lease> {
    let agent: String = row.try_get(0)?;
    Ok(Lease {
        agent: agent.parse().map_err(|_| inconsistent(&agent))?,
        token: row.try_get(1)?,
        claimed_wake: row.try_get(2)?,
        attempt: row.try_get(3)?,
        crashes: row.try_get(4)?,
        reasons: row.try_get(5)?,
        ready_at: row.try_get(6)?,
    })
}

fn inconsistent(agent: &str) -> StoreError {
    let (row, value) = (agent.to_owned(), agent.to_owned());
    StoreError::Inconsistent {
        table: "summary_update_queue",
        row,
        column: "agent_id",
        value,
    }
}

/// The next fencing token.
pub(super) async fn next_token(tx: &mut Connection) -> StoreResult<i64> {
    let sql = sql!(
        sqlite: "-- sql/queue.next_token\nUPDATE counters SET value = value + 1 WHERE name = 'lease_token' RETURNING value",
        postgres: "-- sql/queue.next_token\nSELECT nextval('lease_token')",
    );
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// Who writes several rows takes them in the order of their agents, so that none waits for another in a circle.
fn in_order(leases: &mut [Lease]) {
    leases.sort_by(|one, other| one.agent.cmp(&other.agent));
}

/// Prolongs the leases that are still held, and says which.
pub(super) async fn renew(
    tx: &mut Connection,
    mut leases: Vec<Lease>,
    now: Timestamp,
    lease_ms: i64,
) -> StoreResult<Vec<i64>> {
    in_order(&mut leases);
    let visible_at = tx.now(now).await?.plus_ms(lease_ms);
    match tx.dialect() {
        Dialect::Sqlite => renew_each(tx, &leases, visible_at).await,
        Dialect::Postgres => renew_free(tx, &leases, visible_at).await,
    }
}

/// With one writer, row by row.
async fn renew_each(tx: &mut Connection, leases: &[Lease], visible_at: Timestamp) -> StoreResult<Vec<i64>> {
    let sql = sql!(
        "-- sqlite/queue.renew\nUPDATE summary_update_queue SET visible_at = $3 \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    let mut held = Vec::new();
    for lease in leases {
        let done = query(sql)
            .bind(lease.agent.as_str())
            .bind(lease.token)
            .bind(visible_at)
            .execute(&mut *tx)
            .await?;
        held.extend((done == 1).then_some(lease.token));
    }
    Ok(held)
}

/// With many writers: past the rows that somebody is writing, so that one long transaction doesn't cost all leases. Such a row
/// counts as what was last committed says, and is prolonged at a later beat; until then no claim takes it either.
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
    let asked: Vec<(&str, i64)> = leases
        .iter()
        .map(|lease| (lease.agent.as_str(), lease.token))
        .collect();
    Ok(query(sql)
        .bind(serde_json::json!(asked).to_string())
        .bind(visible_at)
        .fetch_column(tx)
        .await?)
}

/// Gives a lease back after a failure. Retries lose their urgency: a failing agent must not hold up the others. A row that
/// was woken during the attempt isn't parked but tried once more after the wait, since nobody may wake it again.
pub(super) async fn fail(tx: &mut Connection, lease: Lease, failure: Failure) -> StoreResult<bool> {
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
        RunOutcome {
            error: Some(&failure.error),
            ..RunOutcome::default()
        },
    )
    .await?;
    Ok(is_parked)
}

/// An error as the row keeps it.
pub(super) fn error_text(error: &AttemptError) -> String {
    cut(&format!("{}: {}", error.class, error.message), ERROR_CHARS_MAX)
}

/// Gives leases back untouched.
pub(super) async fn release(tx: &mut Connection, mut leases: Vec<Lease>, now: Timestamp) -> StoreResult<u64> {
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

/// Makes an earlier life's leases due at once. The token stays, so that the next claim counts the crash.
pub(super) async fn reclaim(tx: &mut Connection, owner: String, now: Timestamp) -> StoreResult<u64> {
    let now = tx.now(now).await?;
    let sql = sql!(
        "-- sql/queue.reclaim\nUPDATE summary_update_queue SET visible_at = $2 \
               WHERE lease_owner = $1 AND lease_token IS NOT NULL AND visible_at > $2 AND agent_id IN \
               (SELECT agent_id FROM summary_update_queue WHERE lease_owner = $1 AND lease_token IS NOT NULL \
                ORDER BY agent_id {for_update})"
    );
    Ok(query(sql).bind(owner).bind(now).execute(tx).await?)
}

/// See [`super::super::Store::set_back`].
pub(super) async fn set_back(tx: &mut Connection, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64> {
    // Batches are looked at by daemons' own clocks, also where leases aren't judged by them.
    batch::look_in_time(tx, now).await?;
    let Some(now) = tx.judging(now) else {
        return Ok(0);
    };
    let ahead_ms = match ahead_ms {
        Some(ahead_ms) => ahead_ms,
        None => newest(tx).await?.map_or(0, |newest| newest.since_ms(now)),
    };
    if ahead_ms < SETBACK_MS_MIN {
        return Ok(0);
    }
    let sql = sql!(
        "-- sql/queue.set_back\nUPDATE summary_update_queue SET visible_at = {max}(visible_at - $2 {ms}, $1), \
               due_at = due_at - $2 {ms}, paused_until = CASE WHEN paused_until IS NOT NULL \
               THEN {max}(paused_until - $2 {ms}, $1) END \
               WHERE parked_at IS NULL AND visible_at > $1 AND (lease_token IS NULL OR leased_at > $1)"
    );
    let nearer = query(sql).bind(now).bind(ahead_ms).execute(&mut *tx).await?;
    let sql = sql!(
        "-- sql/queue.set_back_parked\nUPDATE summary_update_queue SET parked_at = {min}(parked_at, $1), \
               revived_at = CASE WHEN revived_at > $1 THEN $1 ELSE revived_at END \
               WHERE parked_at IS NOT NULL AND (parked_at > $1 OR revived_at > $1)"
    );
    query(sql).bind(now).execute(tx).await?;
    Ok(nearer)
}

/// The latest time at which something was done that left a trace.
async fn newest(tx: &mut Connection) -> StoreResult<Option<Timestamp>> {
    let sql = sql!(
        "-- sql/queue.newest\nSELECT max(at) FROM (SELECT max(queued_at) AS at FROM summary_update_queue \
               UNION ALL SELECT max(leased_at) FROM summary_update_queue \
               UNION ALL SELECT finished_at FROM (SELECT finished_at FROM update_runs ORDER BY run DESC LIMIT 1) last) times"
    );
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// Makes rows that are missing, at most `limit`, for who is pending longest. None should ever be missing: each one made is
/// counted and alerted on.
pub(super) async fn reconcile(
    tx: &mut Connection,
    pending_before: Timestamp,
    now: Timestamp,
    limit: i64,
) -> StoreResult<u64> {
    let sql = sql!(enqueue_all!(
        "-- sql/queue.reconcile\nWITH newcomers AS (SELECT a.agent_id, a.project_id, {false} AS is_queued FROM agents a \
         WHERE a.pending_since < $1 AND NOT EXISTS (SELECT 1 FROM summary_update_queue o WHERE o.agent_id = a.agent_id) \
         ORDER BY a.pending_since LIMIT $9 {for_share})",
        "DO NOTHING"
    ));
    let newcomers = Newcomers {
        by: pending_before,
        reason: Reason::Reconcile,
        priority: Priority::Normal,
        now,
        limit,
    };
    newcomers.enqueue(tx, sql).await
}

/// Half-opens what was parked long ago: one try, and parked again if it fails.
pub(super) async fn probe_parked(
    tx: &mut Connection,
    parked_before: Timestamp,
    attempts_max: i64,
    now: Timestamp,
) -> StoreResult<u64> {
    let now = tx.now(now).await?;
    let low = Priority::Low.level();
    let sql = sql!(
        "-- sql/queue.probe_parked\nUPDATE summary_update_queue SET parked_at = NULL, attempts = $2, \
               crashes = {min}(crashes, 2), revived_at = $3, visible_at = $3, due_at = $4 + behind_ms {ms} \
               WHERE parked_at < $1 AND coalesce(last_error, '') NOT LIKE 'cancelled:%' AND agent_id IN (SELECT agent_id FROM summary_update_queue WHERE parked_at < $1 \
               ORDER BY agent_id {for_update})"
    );
    let done = query(sql)
        .bind(parked_before)
        .bind((attempts_max - 1).max(0))
        .bind(now)
        .bind(now.plus_ms(Priority::slack_ms(low)))
        .execute(tx)
        .await?;
    Ok(done)
}

/// What the runs table keeps of an attempt, beside the attempt itself.
#[derive(Default)]
pub(super) struct RunOutcome<'a> {
    pub(super) path: Option<&'static str>,
    pub(super) version: Option<i64>,
    pub(super) covers: Option<(i64, i64)>,
    pub(super) exchanges: i64,
    pub(super) items_added: i64,
    pub(super) items_dropped: i64,
    pub(super) document_tokens: Option<i64>,
    pub(super) error: Option<&'a AttemptError>,
}

/// Keeps what an attempt did. What a batch's answer cost is told once, also of one that nobody used.
pub(super) async fn record_run(
    tx: &mut Connection,
    lease: &Lease,
    outcome: &str,
    run: &RunRecord,
    details: RunOutcome<'_>,
) -> StoreResult<()> {
    insert_run(tx, lease, outcome, run, details).await?;
    batch::account(tx, &lease.agent, run).await?;
    batch::account_unused(tx, &lease.agent, run.finished_at).await
}

/// Writes the row of a run.
pub(super) async fn insert_run(
    tx: &mut Connection,
    lease: &Lease,
    outcome: &str,
    run: &RunRecord,
    details: RunOutcome<'_>,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/queue.record_run\nINSERT INTO update_runs (agent_id, lease_token, attempt, trigger_reason, \
               outcome, path, version, covers_after, covers_through, exchanges, items_added, items_dropped, \
               document_tokens, truncated, provider, model, model_calls, input_tokens, output_tokens, error_class, \
               error, started_at, finished_at, cost_microusd, batched) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
               $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)"
    );
    query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(lease.attempt)
        .bind(lease.trigger())
        .bind(outcome)
        .bind(details.path)
        .bind(details.version)
        .bind(details.covers.map(|(after, _)| after))
        .bind(details.covers.map(|(_, through)| through))
        .bind(details.exchanges)
        .bind(details.items_added)
        .bind(details.items_dropped)
        .bind(details.document_tokens)
        .bind(run.truncated)
        .bind(run.provider.as_deref())
        .bind(run.model.as_deref())
        .bind(run.model_calls)
        .bind(run.input_tokens)
        .bind(run.output_tokens)
        .bind(details.error.map(|error| error.class.as_str()))
        .bind(details.error.map(|error| cut(&error.message, ERROR_CHARS_MAX)))
        .bind(run.started_at)
        .bind(run.finished_at)
        .bind(run.cost_microusd)
        .bind(run.batched.is_some())
        .execute_soon(&mut *tx)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
