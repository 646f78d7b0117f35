//! Closes a batch: stores each question's outcome and its answer's cost, and wakes the agents' rows.

use super::lock_asking;
use crate::{
    JournalledAnswer, RunRecord, StoreResult,
    batch::{BatchClosed, BatchEnd, BatchReply},
    sql::{
        Connection, Row, batch, query,
        queue::{self, RunOutcome},
        row, sql, summary,
    },
};
use recapd_core::domain::{agent::AgentId, batch::QuestionOutcome, time::Timestamp, work::Lease};

/// See [`crate::batch::BatchStore::close_batch`].
pub(crate) async fn close(tx: &mut Connection, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed> {
    lock_asking(tx, batch).await?;
    let mut closed = BatchClosed::default();
    for question in sent_questions(tx, batch).await? {
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
    // `now` stands for the time of the question: `sent_questions` has checked that nothing was forgotten since.
    summary::journal_of(tx, (agent.clone(), reply.key.clone()), answer, now, now).await
}

/// Records the cost of an answer that no update uses; the provider bills it.
async fn record_unused(
    tx: &mut Connection,
    question: &SentQuestion,
    reply: &BatchReply,
    now: Timestamp,
) -> StoreResult<()> {
    if reply.input_tokens + reply.output_tokens == 0 {
        return Ok(());
    }
    let (lease, run) = unused_run(question, reply, now);
    queue::record_run(tx, &lease, "superseded", &run, RunOutcome::default()).await
}

/// Returns the run of an answer that no update used. The run has no real lease, because the queue row of a sent question has
/// none.
fn unused_run(question: &SentQuestion, reply: &BatchReply, now: Timestamp) -> (Lease, RunRecord) {
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
    let lease = Lease {
        agent: question.agent.clone(),
        token: 0,
        claimed_wake: 0,
        attempt: 0,
        crashes: 0,
        taken_over: false,
        reasons: 0,
        ready_at: now,
    };
    (lease, run)
}

/// A question that was sent, and whether its answer is still useful.
struct SentQuestion {
    agent: AgentId,
    key: String,
    provider: String,
    model: String,
    is_current: bool,
}

async fn sent_questions(tx: &mut Connection, batch: i64) -> StoreResult<Vec<SentQuestion>> {
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
        Ok(SentQuestion {
            agent: agent.parse().map_err(|_| {
                row::inconsistent("batch_requests", format!("batch {batch}"), "agent_id", agent)
            })?,
            key: row.try_get(1)?,
            is_current: row.try_get(2)?,
            provider: row.try_get(3)?,
            model: row.try_get(4)?,
        })
    };
    found.iter().map(question).collect()
}

/// Stores a question's outcome, and replaces its expected cost with the billed cost.
async fn settle(
    tx: &mut Connection,
    question: &SentQuestion,
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

/// Makes the agent's row due if it waits for an answer or for the next day. Doesn't if another question about the summary's
/// present state is still unsent or unanswered.
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

/// Accounts for answers that arrived in time but that no update used, because the summary has changed since.
pub(crate) async fn account_unused(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/round.unaccounted\nSELECT r.journal_key, r.provider, r.model, r.cost_microusd, \
               coalesce(m.input_tokens, 0), coalesce(m.output_tokens, 0) FROM batch_requests r \
               JOIN agents a ON a.agent_id = r.agent_id JOIN summaries s ON s.agent_id = r.agent_id \
               LEFT JOIN model_answers m ON m.agent_id = r.agent_id AND m.journal_key = r.journal_key \
               WHERE r.agent_id = $1 AND r.state = 'answered' AND r.accounted_at IS NULL \
               AND (s.version <> r.version OR a.summarized_through <> r.covers_after)"
    );
    for row in query(sql).bind(agent.as_str()).fetch_all(&mut *tx).await? {
        let question = SentQuestion {
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
        let (lease, run) = unused_run(&question, &reply, now);
        queue::insert_run(tx, &lease, "superseded", &run, RunOutcome::default()).await?;
        batch::account(tx, agent, &run).await?;
    }
    Ok(())
}
