//! The queue's side of batches: defers questions to a batch, withdraws them, and reads their answers.

mod round;

use crate::sql::{Connection, Lock, Row, query, sql};
use async_trait::async_trait;

use super::{
    super::{
        Fence, JournalledAnswer, RunRecord, StoreError, StoreResult,
        batch::{
            BatchClosed, BatchEnd, BatchLine, BatchMove, BatchQuestion, BatchStore, BatchedAnswer, Gather,
            OpenBatch,
        },
    },
    SqlStore, row,
};
use recapd_core::domain::{
    agent::AgentId,
    time::Timestamp,
    work::{Lease, Priority},
};

pub(super) use round::{account_unused, figures, limit_next_polls};

#[async_trait]
impl BatchStore for SqlStore {
    async fn defer(
        &self,
        lease: &Lease,
        question: BatchQuestion,
        until: Timestamp,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let lease = lease.clone();
        self.write(Lock::Agent(lease.agent.clone()), move |tx| {
            Box::pin(defer(tx, lease, question, until, now))
        })
        .await
    }

    async fn withdraw_question(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| Box::pin(withdraw(tx, agent, now))).await
    }

    async fn batched_answer(&self, agent: &AgentId) -> StoreResult<Option<BatchedAnswer>> {
        load_answer(&mut self.reader().await?, agent).await
    }

    async fn has_waiting(&self) -> StoreResult<bool> {
        Ok(figures(&mut self.reader().await?).await?.waiting > 0)
    }

    async fn withdraw_outdated(&self, now: Timestamp) -> StoreResult<u64> {
        self.write(Lock::Batches, move |tx| Box::pin(round::clear_outdated(tx, now))).await
    }

    async fn gather(&self, gather: Gather) -> StoreResult<Option<OpenBatch>> {
        self.write(Lock::Batches, move |tx| Box::pin(round::gather(tx, gather))).await
    }

    async fn due_batches(
        &self,
        now: Timestamp,
        next_at: Timestamp,
        limit: i64,
    ) -> StoreResult<Vec<OpenBatch>> {
        if !round::is_any_due(&mut self.reader().await?, now).await? {
            return Ok(Vec::new());
        }
        self.write(Lock::Batches, move |tx| Box::pin(round::take_due(tx, now, next_at, limit))).await
    }

    async fn batch_lines(&self, batch: i64) -> StoreResult<Vec<BatchLine>> {
        round::lines(&mut self.reader().await?, batch).await
    }

    async fn move_batch(&self, batch: i64, step: BatchMove) -> StoreResult<bool> {
        self.write(Lock::Batches, move |tx| Box::pin(round::move_on(tx, batch, step))).await
    }

    async fn close_batch(&self, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed> {
        self.write(Lock::Batches, move |tx| Box::pin(round::close(tx, batch, end))).await
    }

    async fn known_batches(&self, provider: &str, limit: i64) -> StoreResult<Vec<String>> {
        round::known_ids(&mut self.reader().await?, provider, limit).await
    }
}

fn numbers(row: &Row, column: usize, name: &'static str) -> StoreResult<Vec<i64>> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|_| row::inconsistent("batch_requests", "a question", name, text))
}

async fn defer(
    tx: &mut Connection,
    lease: Lease,
    question: BatchQuestion,
    until: Timestamp,
    now: Timestamp,
) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/batch.priority\nSELECT priority FROM summary_update_queue \
               WHERE agent_id = $1 AND lease_token = $2 {for_update}"
    );
    let found = query(sql).bind(lease.agent.as_str()).bind(lease.token).fetch_optional(&mut *tx).await?;
    let level: i64 = found.ok_or(StoreError::Fenced(Fence::Lease))?.try_get(0)?;
    if level >= Priority::High.level() || !write(tx, &lease.agent, &question, now).await? {
        return Ok(false);
    }
    let sql = sql!(
        "-- sql/batch.defer\nUPDATE summary_update_queue SET lease_token = NULL, lease_owner = NULL, \
               leased_at = NULL, attempts = {max}(attempts - 1, 0), visible_at = $3, due_at = $4 + behind_ms {ms}, deferred_at = $5 \
               WHERE agent_id = $1 AND lease_token = $2"
    );
    // The queue's times are by the database's clock, `until` is by the daemon's.
    let until = tx.now(now).await?.plus_ms(until.0 - now.0);
    query(sql)
        .bind(lease.agent.as_str())
        .bind(lease.token)
        .bind(until)
        .bind(until.plus_ms(Priority::slack_ms(level)))
        .bind(now)
        .execute(tx)
        .await?;
    Ok(true)
}

/// Stores a question. Returns false if one about the same state of the summary exists.
async fn write(
    tx: &mut Connection,
    agent: &AgentId,
    question: &BatchQuestion,
    now: Timestamp,
) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/batch.write\nINSERT INTO batch_requests (agent_id, version, covers_after, covers_through, \
               exchanges, revisited, journal_key, provider, model, body, state, queued_at, tokens, cost_microusd) \
               VALUES ($1, $2, $3, $4, $5, $11, $6, $7, $8, $9, 'waiting', $10, $12, $13) ON CONFLICT DO NOTHING"
    );
    let row_count = query(sql)
        .bind(agent.as_str())
        .bind(question.version)
        .bind(question.lo)
        .bind(question.hi)
        .bind(serde_json::json!(question.exchanges).to_string())
        .bind(question.key.as_str())
        .bind(question.provider.as_str())
        .bind(question.model.as_str())
        .bind(question.body.as_str())
        .bind(now)
        .bind(serde_json::json!(question.revisited).to_string())
        .bind(question.tokens)
        .bind(question.cost_microusd)
        .execute(tx)
        .await?;
    Ok(row_count == 1)
}

/// Makes the agent's row due if it waits for a batch's answer. The summary has changed, so no question is about its present
/// state.
pub(super) async fn end_batch_wait(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/batch.wait_no_longer\nUPDATE summary_update_queue SET deferred_at = NULL, visible_at = $2, \
               due_at = {min}(due_at, $2 + behind_ms {ms}) WHERE agent_id = $1 AND deferred_at IS NOT NULL"
    );
    let now = tx.now(now).await?;
    query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(())
}

/// Withdraws the agent's unsent question, which may hold forgotten text, and makes the agent's row due. The answer to a sent
/// question will be ignored, because forgetting has changed the summary's version.
pub(super) async fn forget(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    // If a batch is being gathered at this moment, this lock waits until it is written.
    let open = sql!(
        "-- sql/batch.lock_questions\nSELECT 1 FROM batch_requests WHERE agent_id = $1 AND ended_at IS NULL {for_update}"
    );
    query(open).bind(agent.as_str()).fetch_all(&mut *tx).await?;
    let questions = sql!(
        "-- sql/batch.forget\nUPDATE batch_requests SET state = 'withdrawn', batch = NULL, ended_at = $2, \
                     body = '' WHERE agent_id = $1 AND (state = 'waiting' OR state = 'out' AND batch IN \
                     (SELECT batch FROM provider_batches WHERE state = 'intent'))"
    );
    query(questions).bind(agent.as_str()).bind(now).execute(&mut *tx).await?;
    end_batch_wait(tx, agent, now).await
}

async fn withdraw(tx: &mut Connection, agent: AgentId, now: Timestamp) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/batch.withdraw\nUPDATE batch_requests SET state = 'withdrawn', ended_at = $2, body = '' \
               WHERE agent_id = $1 AND state = 'waiting'"
    );
    let row_count = query(sql).bind(agent.as_str()).bind(now).execute(tx).await?;
    Ok(row_count > 0)
}

async fn load_answer(connection: &mut Connection, agent: &AgentId) -> StoreResult<Option<BatchedAnswer>> {
    let sql = sql!(
        "-- sql/batch.answered\nSELECT r.journal_key, r.version, r.covers_after, r.covers_through, \
               r.exchanges, r.provider, r.model, r.accounted_at IS NOT NULL, m.answer, m.input_tokens, m.output_tokens, r.cost_microusd, \
               r.revisited \
               FROM batch_requests r JOIN agents a ON a.agent_id = r.agent_id \
               JOIN summaries s ON s.agent_id = r.agent_id \
               JOIN model_answers m ON m.agent_id = r.agent_id AND m.journal_key = r.journal_key \
               WHERE r.agent_id = $1 AND r.state = 'answered' AND r.version = s.version \
               AND r.covers_after = a.summarized_through"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(BatchedAnswer {
        key: row.try_get(0)?,
        version: row.try_get(1)?,
        lo: row.try_get(2)?,
        hi: row.try_get(3)?,
        exchanges: numbers(&row, 4, "exchanges")?,
        revisited: numbers(&row, 12, "revisited")?,
        provider: row.try_get(5)?,
        model: row.try_get(6)?,
        is_accounted: row.try_get(7)?,
        answer: JournalledAnswer {
            answer: row.try_get(8)?,
            input_tokens: row.try_get(9)?,
            output_tokens: row.try_get(10)?,
        },
        cost_microusd: row.try_get(11)?,
    }))
}

/// Marks the cost of a batch's answer as accounted for by `run`, so that no other run counts it.
pub(super) async fn account(tx: &mut Connection, agent: &AgentId, run: &RunRecord) -> StoreResult<()> {
    let Some(key) = &run.batched else {
        return Ok(());
    };
    let sql = sql!(
        "-- sql/batch.account\nUPDATE batch_requests SET accounted_at = $3 \
               WHERE agent_id = $1 AND journal_key = $2 AND accounted_at IS NULL"
    );
    query(sql).bind(agent.as_str()).bind(key.as_str()).bind(run.finished_at).execute(tx).await?;
    Ok(())
}
