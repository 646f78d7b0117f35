//! A batch's way round: gathered, looked after, closed.

use crate::store::sql::{Connection, Row, query, sql, statement::Dialect};

use super::{
    super::{
        super::{
            JournalledAnswer, RunRecord, StoreError, StoreResult,
            batch::{
                BatchClosed, BatchEnd, BatchFigures, BatchLine, BatchMove, BatchReply, Gather, OpenBatch,
            },
        },
        queue::{self, RunOutcome},
        row, summary,
    },
    numbers,
};
use crate::domain::{
    agent::AgentId,
    batch::{BatchState, LOOK_MS, QuestionOutcome, Wanted},
    time::Timestamp,
    work::Lease,
};

/// Agents whose questions are withdrawn, or that are woken, in one look: the rest follows in the next one.
const CLEARED_MAX: i64 = 1_000;

/// That somebody waits for the answer to the question `r`: the summary hasn't moved on since.
macro_rules! is_current {
    () => {
        "EXISTS (SELECT 1 FROM agents c JOIN summaries s ON s.agent_id = c.agent_id WHERE c.agent_id = r.agent_id \
         AND s.version = r.version AND c.summarized_through = r.covers_after)"
    };
}

/// That the agent of the row `q` has no question that waits or is out.
macro_rules! asks_nothing {
    () => {
        "NOT EXISTS (SELECT 1 FROM batch_requests r WHERE r.agent_id = q.agent_id AND r.ended_at IS NULL)"
    };
}

/// See [`BatchStore::gather`]. Questions are written under their agents' locks, and nobody is waited for: the question of an
/// agent that somebody else holds, be it for long, goes with a later batch. No agent is held for a look in vain.
pub(super) async fn gather(tx: &mut Connection, gather: Gather) -> StoreResult<Option<OpenBatch>> {
    if count_open(tx).await? >= gather.open_max {
        return Ok(None);
    }
    let keys = next_questions(tx, &gather).await?;
    let keys = held(tx, &keys).await?;
    if keys.is_empty() {
        return Ok(None);
    }
    let requests = i64::try_from(keys.len()).unwrap_or(i64::MAX);
    let batch = write(tx, &gather, requests).await?;
    let sql = sql!(
        "-- sql/round.send_out\nUPDATE batch_requests SET state = 'out', batch = $1 \
               WHERE state = 'waiting' AND journal_key IN (SELECT value FROM {each_text}($2{::jsonb}))"
    );
    query(sql)
        .bind(batch)
        .bind(serde_json::json!(keys).to_string())
        .execute(tx)
        .await?;
    Ok(Some(OpenBatch {
        batch,
        wanted: Wanted {
            name: gather.name,
            requests,
            created_at: gather.now,
        },
        provider: gather.provider,
        model: gather.model,
        state: BatchState::Intent,
        provider_id: None,
        looks: 0,
        held_until: gather.next_at,
    }))
}

/// Nobody waits for an answer about a summary that has moved on, and whose question is gone waits for nothing. Returns how
/// many questions are withdrawn.
pub(super) async fn clear_outdated(tx: &mut Connection, now: Timestamp) -> StoreResult<u64> {
    let outdated = sql!(
        "-- sql/round.lock_outdated\nSELECT a.agent_id FROM batch_requests r JOIN agents a ON a.agent_id = r.agent_id \
               WHERE r.state = 'waiting' AND NOT ",
        is_current!(),
        " LIMIT $1 {a_skip_locked}"
    );
    let idle = sql!(
        "-- sql/round.lock_idle\nSELECT a.agent_id FROM summary_update_queue q JOIN agents a ON a.agent_id = q.agent_id \
               WHERE q.deferred_at IS NOT NULL AND q.lease_token IS NULL AND ",
        asks_nothing!(),
        " LIMIT $1 {a_skip_locked}"
    );
    let mut agents: Vec<String> = Vec::new();
    for sql in [outdated, idle] {
        let found = query(sql).bind(CLEARED_MAX).fetch_column::<String>(&mut *tx);
        agents.extend(found.await?);
    }
    if agents.is_empty() {
        return Ok(0);
    }
    let agents = serde_json::json!(agents).to_string();
    let withdrawn = withdraw_outdated(tx, &agents, now).await?;
    wake_idle(tx, &agents, now).await?;
    Ok(withdrawn)
}

/// Withdraws the outdated questions of `agents`, which are locked: an array in JSON.
async fn withdraw_outdated(tx: &mut Connection, agents: &str, now: Timestamp) -> StoreResult<u64> {
    let sql = sql!(
        "-- sql/round.withdraw_outdated\nUPDATE batch_requests AS r SET state = 'withdrawn', ended_at = $1, \
               body = '' WHERE r.state = 'waiting' AND r.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) AND NOT ",
        is_current!()
    );
    Ok(query(sql).bind(now).bind(agents).execute(tx).await?)
}

/// Has those of `agents` wait no longer that have no question.
async fn wake_idle(tx: &mut Connection, agents: &str, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.wake_outdated\nUPDATE summary_update_queue AS q SET visible_at = {min}(visible_at, $1), \
               due_at = {min}(due_at, $1 + behind_ms {ms}), deferred_at = NULL WHERE deferred_at IS NOT NULL AND lease_token IS NULL \
               AND agent_id IN (SELECT w.agent_id FROM summary_update_queue w WHERE w.deferred_at IS NOT NULL \
                AND w.lease_token IS NULL AND w.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) \
                ORDER BY w.agent_id {for_update}) AND ",
        asks_nothing!()
    );
    let now = tx.now(now).await?;
    query(sql).bind(now).bind(agents).execute(tx).await?;
    Ok(())
}

/// Locks the agents of questions, those that nobody else holds. Returns which of their questions wait all the same.
async fn held(tx: &mut Connection, keys: &[String]) -> StoreResult<Vec<String>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys = serde_json::json!(keys).to_string();
    let lock = sql!(
        "-- sql/round.lock_next\nSELECT a.agent_id FROM agents a WHERE a.agent_id IN (SELECT agent_id FROM batch_requests \
               WHERE journal_key IN (SELECT value FROM {each_text}($1{::jsonb}))) {a_skip_locked}"
    );
    let agents: Vec<String> = query(lock).bind(keys.as_str()).fetch_column(&mut *tx).await?;
    // What was read before the lock may be so no more.
    let waiting = sql!(
        "-- sql/round.still_waiting\nSELECT r.journal_key FROM batch_requests r WHERE r.state = 'waiting' \
               AND r.journal_key IN (SELECT value FROM {each_text}($1{::jsonb})) \
               AND r.agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) AND ",
        is_current!()
    );
    let agents = serde_json::json!(agents).to_string();
    Ok(query(waiting)
        .bind(keys.as_str())
        .bind(agents.as_str())
        .fetch_column(tx)
        .await?)
}

async fn count_open(tx: &mut Connection) -> StoreResult<i64> {
    let sql = sql!("-- sql/round.count_open\nSELECT count(*) FROM provider_batches WHERE state <> 'closed'");
    Ok(query(sql).fetch_one(tx).await?.try_get(0)?)
}

/// The oldest questions within the limits, if they are many enough or the oldest has waited long enough.
async fn next_questions(tx: &mut Connection, gather: &Gather) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/round.next_questions\nSELECT r.journal_key, CAST(octet_length(r.body) AS bigint), r.queued_at \
               FROM batch_requests r WHERE r.state = 'waiting' AND r.provider = $1 AND r.model = $2 AND ",
        is_current!(),
        " ORDER BY r.queued_at, r.agent_id LIMIT $3"
    );
    let found = query(sql)
        .bind(gather.provider.as_str())
        .bind(gather.model.as_str())
        .bind(gather.requests_max)
        .fetch_all(tx)
        .await?;
    let (mut keys, mut bytes, mut is_full) = (Vec::new(), 0, false);
    for row in &found {
        bytes += row.try_get::<i64>(1)?;
        if bytes > gather.bytes_max && !keys.is_empty() {
            is_full = true;
            break;
        }
        keys.push(row.try_get(0)?);
    }
    is_full |= i64::try_from(keys.len()).unwrap_or(i64::MAX) >= gather.requests_max;
    let oldest = found.first().map(|row| row.try_get::<Timestamp>(2)).transpose()?;
    let is_due = is_full || oldest.is_some_and(|at| at <= gather.waiting_before);
    Ok(if is_due { keys } else { Vec::new() })
}

async fn write(tx: &mut Connection, gather: &Gather, requests: i64) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/round.write\nINSERT INTO provider_batches (name, provider, model, state, requests, next_at, \
               created_at) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING batch"
    );
    Ok(query(sql)
        .bind(gather.name.as_str())
        .bind(gather.provider.as_str())
        .bind(gather.model.as_str())
        .bind(BatchState::Intent.name())
        .bind(requests)
        .bind(gather.next_at)
        .bind(gather.now)
        .fetch_one(tx)
        .await?
        .try_get(0)?)
}

/// No look at a batch is farther away than any ever is put off: what is, was put off by a clock that ran ahead.
pub(in super::super) async fn look_in_time(tx: &mut Connection, now: Timestamp) -> StoreResult<u64> {
    let sql = sql!(
        "-- sql/round.look_in_time\nUPDATE provider_batches SET next_at = $1 WHERE state <> 'closed' AND next_at > $1"
    );
    Ok(query(sql).bind(now.plus_ms(LOOK_MS)).execute(tx).await?)
}

/// Whether any batch is due to be looked at.
pub(super) async fn is_any_due(connection: &mut Connection, now: Timestamp) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/round.is_any_due\nSELECT 1 FROM provider_batches WHERE state <> 'closed' AND next_at <= $1 LIMIT 1"
    );
    let found = query(sql).bind(now).fetch_optional(connection).await?;
    Ok(found.is_some())
}

/// See [`BatchStore::due_batches`].
pub(super) async fn due(
    tx: &mut Connection,
    now: Timestamp,
    next_at: Timestamp,
    limit: i64,
) -> StoreResult<Vec<OpenBatch>> {
    let sql = sql!(
        "-- sql/round.due\nUPDATE provider_batches SET next_at = $2, looks = looks + 1 WHERE batch IN \
               (SELECT batch FROM provider_batches WHERE state <> 'closed' AND next_at <= $1 ORDER BY next_at LIMIT $3) \
               RETURNING batch, name, requests, created_at, model, state, provider_id, looks - 1, provider, next_at"
    );
    let found = query(sql)
        .bind(now)
        .bind(next_at)
        .bind(limit)
        .fetch_all(tx)
        .await?;
    found.iter().map(open).collect()
}

fn open(row: &Row) -> StoreResult<OpenBatch> {
    let (batch, state): (i64, String) = (row.try_get(0)?, row.try_get(5)?);
    Ok(OpenBatch {
        batch,
        wanted: Wanted {
            name: row.try_get(1)?,
            requests: row.try_get(2)?,
            created_at: row.try_get(3)?,
        },
        provider: row.try_get(8)?,
        model: row.try_get(4)?,
        state: BatchState::from_name(&state).ok_or_else(|| StoreError::Inconsistent {
            table: "provider_batches",
            row: format!("batch {batch}"),
            column: "state",
            value: state,
        })?,
        provider_id: row.try_get(6)?,
        looks: row.try_get(7)?,
        held_until: row.try_get(9)?,
    })
}

/// See [`BatchStore::batch_lines`].
pub(super) async fn lines(connection: &mut Connection, batch: i64) -> StoreResult<Vec<BatchLine>> {
    let sql = sql!(
        "-- sql/round.lines\nSELECT journal_key, exchanges, body FROM batch_requests \
               WHERE batch = $1 AND state = 'out' ORDER BY queued_at, agent_id"
    );
    let found = query(sql).bind(batch).fetch_all(connection).await?;
    let line = |row: &Row| {
        Ok(BatchLine {
            key: row.try_get(0)?,
            exchanges: numbers(row, 1, "exchanges")?,
            body: row.try_get(2)?,
        })
    };
    found.iter().map(line).collect()
}

/// See [`BatchStore::move_batch`]. What the provider has needn't be kept.
pub(super) async fn move_on(tx: &mut Connection, batch: i64, step: BatchMove) -> StoreResult<bool> {
    let is_submitted = step.submitted_as.is_some();
    if is_submitted {
        lock_asking(tx, batch).await?;
    }
    let sql = sql!(
        "-- sql/round.move_on\nUPDATE provider_batches SET next_at = $3, \
               state = CASE WHEN $4 IS NULL THEN state ELSE 'submitted' END, provider_id = coalesce($4, provider_id), \
               looks = CASE WHEN $4 IS NULL THEN looks ELSE 0 END \
               WHERE batch = $1 AND state = $2 AND ($4 IS NOT NULL OR next_at = $5)"
    );
    let done = query(sql)
        .bind(batch)
        .bind(step.from.name())
        .bind(step.next_at)
        .bind(step.submitted_as)
        .bind(step.held_until)
        .execute(&mut *tx)
        .await?;
    if done == 0 {
        return Ok(false);
    }
    if is_submitted {
        let sql = sql!("-- sql/round.forget_bodies\nUPDATE batch_requests SET body = '' WHERE batch = $1");
        query(sql).bind(batch).execute(tx).await?;
    }
    Ok(true)
}

/// Questions belong to agents, and are written under their agents' locks: of several in the order of the agents.
async fn lock_asking(tx: &mut Connection, batch: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- postgres/round.lock_asking\nSELECT agent_id FROM agents WHERE agent_id IN \
               (SELECT agent_id FROM batch_requests WHERE batch = $1) ORDER BY agent_id {for_update}"
    );
    if tx.dialect() == Dialect::Postgres {
        query(sql).bind(batch).execute(tx).await?;
    }
    Ok(())
}

/// See [`BatchStore::close_batch`].
pub(super) async fn close(tx: &mut Connection, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed> {
    lock_asking(tx, batch).await?;
    let mut closed = BatchClosed::default();
    for question in out(tx, batch).await? {
        let reply = end.results.iter().find(|reply| reply.key == question.key);
        let (outcome, class) = match reply.map(|reply| &reply.answer) {
            Some(Ok(_)) if question.is_current => (QuestionOutcome::Answered, None),
            Some(Ok(_)) => (QuestionOutcome::Late, None),
            Some(Err(class)) => (QuestionOutcome::Failed, Some(class)),
            None => (QuestionOutcome::Failed, Some(&end.otherwise)),
        };
        match reply {
            Some(reply) if outcome == QuestionOutcome::Answered => {
                journal(tx, &question.agent, reply, end.now).await?;
            }
            Some(reply) => record_unused(tx, &question, reply, end.now).await?,
            None => {}
        }
        settle(tx, &question, outcome, (class, reply), end.now).await?;
        wake(tx, &question.agent, end.now).await?;
        match outcome {
            QuestionOutcome::Answered => closed.answered += 1,
            QuestionOutcome::Failed => closed.failed += 1,
            QuestionOutcome::Late => closed.late += 1,
        }
    }
    let sql = sql!(
        "-- sql/round.close\nUPDATE provider_batches SET state = 'closed', closed_at = $2, \
               error_class = CASE WHEN $4 THEN NULL ELSE $3 END WHERE batch = $1 AND state <> 'closed'"
    );
    query(sql)
        .bind(batch)
        .bind(end.now)
        .bind(end.otherwise)
        .bind(!end.results.is_empty())
        .execute(tx)
        .await?;
    Ok(closed)
}

async fn journal(
    tx: &mut Connection,
    agent: &AgentId,
    reply: &BatchReply,
    now: Timestamp,
) -> StoreResult<()> {
    let answer = JournalledAnswer {
        answer: reply.answer.clone().unwrap_or_default(),
        input_tokens: reply.input_tokens,
        output_tokens: reply.output_tokens,
    };
    // Whether anything was forgotten since it was asked is known.
    summary::journal_of(tx, (agent.clone(), reply.key.clone()), answer, now, now).await
}

/// An answer that nobody uses was paid for all the same.
async fn record_unused(
    tx: &mut Connection,
    question: &Out,
    reply: &BatchReply,
    now: Timestamp,
) -> StoreResult<()> {
    if reply.input_tokens + reply.output_tokens == 0 {
        return Ok(());
    }
    let (nobody, run) = unused(question, reply, now);
    queue::record_run(tx, &nobody, "superseded", &run, RunOutcome::default()).await
}

/// The run of an answer that nobody used. Nobody holds a lease while a question is out.
fn unused(question: &Out, reply: &BatchReply, now: Timestamp) -> (Lease, RunRecord) {
    let run = RunRecord {
        started_at: now,
        finished_at: now,
        provider: Some(question.provider.clone()),
        model: Some(question.model.clone()),
        model_calls: 1,
        input_tokens: reply.input_tokens,
        output_tokens: reply.output_tokens,
        cost_microusd: reply.cost_microusd,
        truncated: false,
        batched: Some(reply.key.clone()),
    };
    let nobody = Lease {
        agent: question.agent.clone(),
        token: 0,
        claimed_wake: 0,
        attempt: 0,
        crashes: 0,
        reasons: 0,
        ready_at: now,
    };
    (nobody, run)
}

/// A question that is out, and whether somebody waits for its answer.
struct Out {
    agent: AgentId,
    key: String,
    provider: String,
    model: String,
    is_current: bool,
}

async fn out(tx: &mut Connection, batch: i64) -> StoreResult<Vec<Out>> {
    let sql = sql!(
        "-- sql/round.out\nSELECT r.agent_id, r.journal_key, \
               s.version = r.version AND a.summarized_through = r.covers_after \
               AND (a.forgotten_at IS NULL OR a.forgotten_at < r.queued_at), r.provider, r.model FROM batch_requests r \
               JOIN agents a ON a.agent_id = r.agent_id JOIN summaries s ON s.agent_id = r.agent_id \
               WHERE r.batch = $1 AND r.state = 'out' ORDER BY r.queued_at, r.agent_id"
    );
    let found = query(sql).bind(batch).fetch_all(tx).await?;
    let question = |row: &Row| {
        let agent: String = row.try_get(0)?;
        Ok(Out {
            agent: agent.parse().map_err(|_| StoreError::Inconsistent {
                table: "batch_requests",
                row: format!("batch {batch}"),
                column: "agent_id",
                value: agent,
            })?,
            key: row.try_get(1)?,
            is_current: row.try_get(2)?,
            provider: row.try_get(3)?,
            model: row.try_get(4)?,
        })
    };
    found.iter().map(question).collect()
}

/// Tells what became of a question, and what was billed for it in place of what was expected.
async fn settle(
    tx: &mut Connection,
    question: &Out,
    outcome: QuestionOutcome,
    (error_class, reply): (Option<&String>, Option<&BatchReply>),
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.settle\nUPDATE batch_requests SET state = $3, error_class = $4, ended_at = $5, \
               cost_microusd = $6, tokens = $7, body = '' \
               WHERE agent_id = $1 AND journal_key = $2 AND state = 'out'"
    );
    query(sql)
        .bind(question.agent.as_str())
        .bind(question.key.as_str())
        .bind(outcome.name())
        .bind(error_class.map(String::as_str))
        .bind(now)
        .bind(reply.and_then(|reply| reply.cost_microusd))
        .bind(reply.map(|reply| reply.input_tokens.saturating_add(reply.output_tokens)))
        .execute(tx)
        .await?;
    Ok(())
}

/// Makes the row visible that waited, for an answer or for the next day, unless another question about the summary as it
/// is now is still on its way.
async fn wake(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.wake\nUPDATE summary_update_queue SET visible_at = $2, due_at = $2 + behind_ms {ms}, deferred_at = NULL, \
               paused_until = NULL, paused_for = NULL \
               WHERE agent_id = $1 AND (deferred_at IS NOT NULL OR paused_until IS NOT NULL) AND lease_token IS NULL \
               AND coalesce(paused_for, '') <> 'hand' \
               AND NOT EXISTS (SELECT 1 FROM batch_requests r JOIN agents a ON a.agent_id = r.agent_id \
               JOIN summaries s ON s.agent_id = r.agent_id WHERE r.agent_id = $1 AND r.ended_at IS NULL \
               AND s.version = r.version AND a.summarized_through = r.covers_after)"
    );
    let now = tx.now(now).await?;
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

/// Tells what answers cost that came in time and were used by no update: the summary has moved on without them.
pub(in super::super) async fn account_unused(
    tx: &mut Connection,
    agent: &AgentId,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.unaccounted\nSELECT r.journal_key, r.provider, r.model, r.cost_microusd, \
               coalesce(m.input_tokens, 0), coalesce(m.output_tokens, 0) FROM batch_requests r \
               JOIN agents a ON a.agent_id = r.agent_id JOIN summaries s ON s.agent_id = r.agent_id \
               LEFT JOIN model_answers m ON m.agent_id = r.agent_id AND m.journal_key = r.journal_key \
               WHERE r.agent_id = $1 AND r.state = 'answered' AND r.accounted_at IS NULL \
               AND (s.version <> r.version OR a.summarized_through <> r.covers_after)"
    );
    for row in query(sql).bind(agent.as_str()).fetch_all(&mut *tx).await? {
        let question = Out {
            agent: agent.clone(),
            key: row.try_get(0)?,
            provider: row.try_get(1)?,
            model: row.try_get(2)?,
            is_current: false,
        };
        let reply = BatchReply {
            key: question.key.clone(),
            answer: Ok(String::new()),
            input_tokens: row.try_get(4)?,
            output_tokens: row.try_get(5)?,
            cost_microusd: row.try_get(3)?,
        };
        let (nobody, run) = unused(&question, &reply, now);
        queue::insert_run(tx, &nobody, "superseded", &run, RunOutcome::default()).await?;
        super::account(tx, agent, &run).await?;
    }
    Ok(())
}

/// See [`BatchStore::known_batches`].
pub(super) async fn known(
    connection: &mut Connection,
    provider: &str,
    limit: i64,
) -> StoreResult<Vec<String>> {
    let sql = sql!(
        "-- sql/round.known\nSELECT provider_id FROM provider_batches \
               WHERE provider = $1 AND provider_id IS NOT NULL ORDER BY batch DESC LIMIT $2"
    );
    Ok(query(sql)
        .bind(provider)
        .bind(limit)
        .fetch_column(connection)
        .await?)
}

/// Batches in figures.
pub(in crate::store::sql) async fn figures(connection: &mut Connection) -> StoreResult<BatchFigures> {
    let sql = sql!(
        "-- sql/round.figures\nSELECT count(*) FILTER (WHERE state = 'intent'), \
               count(*) FILTER (WHERE state = 'submitted'), min(created_at), \
               (SELECT count(*) FROM batch_requests WHERE state = 'waiting'), \
               (SELECT count(*) FROM batch_requests WHERE batch IN \
                (SELECT batch FROM provider_batches WHERE state <> 'closed') AND state = 'out') \
               FROM provider_batches WHERE state <> 'closed'"
    );
    let row = query(sql).fetch_one(connection).await?;
    Ok(BatchFigures {
        intents: row.try_get(0)?,
        submitted: row.try_get(1)?,
        oldest_at: row::time(&row, 2)?,
        waiting: row.try_get(3)?,
        out: row.try_get(4)?,
    })
}
