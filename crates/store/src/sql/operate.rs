//! Implements the operations of operators; see [`OperatorStore`].

mod operator;
mod proxy_traffic;
mod runs;

use async_trait::async_trait;

use super::{
    super::{
        ClaimRequest, EnqueueOutcome, Store as _, StoreResult,
        operate::{
            AgeingDue, OperatorOutcome, OperatorStore, ProxyTotals, QueueRow, QueueState, QueueWait, Run,
            RunFigures, RunHour, RunQuery,
        },
    },
    Connection, Lock, SqlStore, query, queue,
    row::{self, time},
    schedule,
    spending::{self, PROVIDER},
    sql,
    value::Row,
};
use recapd_core::domain::{
    agent::AgentId,
    proxy_traffic::ProxyReport,
    spend::SpendTotal,
    time::Timestamp,
    work::{Lease, Reason},
};

/// `paused_for` of a row that an operator paused.
const HAND: &str = "hand";

#[async_trait]
impl OperatorStore for SqlStore {
    async fn queue_rows(
        &self,
        after: Option<&AgentId>,
        limit: i64,
        now: Timestamp,
    ) -> StoreResult<Vec<QueueRow>> {
        rows(&mut self.reader().await?, after, limit, now).await
    }

    async fn queue_row(&self, agent: &AgentId, now: Timestamp) -> StoreResult<Option<QueueRow>> {
        row(&mut self.reader().await?, agent, now).await
    }

    async fn refresh(&self, agent: &AgentId, now: Timestamp) -> StoreResult<EnqueueOutcome> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { operator::refresh(tx, &agent, now).await })
        })
        .await
    }

    async fn retry(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { operator::retry(tx, &agent, now).await })
        })
        .await
    }

    async fn claim_one(&self, agent: &AgentId, claim: ClaimRequest) -> StoreResult<Option<Lease>> {
        let agent = agent.clone();
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move { queue::claim_one(tx, &agent, claim).await })
        })
        .await
    }

    async fn cancel(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { operator::cancel(tx, &agent, now).await })
        })
        .await
    }

    async fn pause_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { operator::pause_agent(tx, &agent, now).await })
        })
        .await
    }

    async fn resume_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool> {
        let agent = agent.clone();
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { operator::resume_agent(tx, &agent, now).await })
        })
        .await
    }

    async fn pause_queue(&self, now: Timestamp) -> StoreResult<Timestamp> {
        self.write(Lock::Nothing, move |tx| Box::pin(operator::pause_queue(tx, now))).await
    }

    async fn resume_queue(&self) -> StoreResult<bool> {
        self.write(Lock::Nothing, move |tx| Box::pin(operator::resume_queue(tx))).await
    }

    async fn queue_paused_since(&self) -> StoreResult<Option<Timestamp>> {
        operator::paused_since(&mut self.reader().await?).await
    }

    async fn ageing_due(&self, now: Timestamp, limit: i64) -> StoreResult<Vec<AgeingDue>> {
        schedule::ageing_due(&mut self.reader().await?, now, limit).await
    }

    async fn age(&self, now: Timestamp, limit: i64) -> StoreResult<u64> {
        self.enqueue_ageing(now, limit).await
    }

    async fn clock(&self, callers: Timestamp) -> StoreResult<Timestamp> {
        Ok(self.reader().await?.now(callers).await?)
    }

    async fn runs(&self, query: RunQuery) -> StoreResult<Vec<Run>> {
        self.past(|mut tx| {
            let query = query.clone();
            async move { runs::list(&mut tx, query).await }
        })
        .await
    }

    async fn run(&self, run: i64) -> StoreResult<Option<Run>> {
        self.past_found(|mut tx| async move { runs::load(&mut tx, run).await }).await
    }

    async fn run_figures(&self, since: Timestamp) -> StoreResult<RunFigures> {
        self.past(|mut tx| async move { runs::figures(&mut tx, since).await }).await
    }

    async fn run_hours(&self, since: Timestamp) -> StoreResult<Vec<RunHour>> {
        self.past(|mut tx| async move { runs::hours(&mut tx, since).await }).await
    }

    async fn spent(&self, agents: &[AgentId], since: Timestamp) -> StoreResult<Vec<SpendTotal>> {
        self.past(|mut tx| {
            let agents = agents.to_vec();
            async move {
                let mut all = Vec::with_capacity(agents.len());
                for agent in &agents {
                    all.push(spending::agent_spending(&mut tx, agent, since).await?);
                }
                Ok(all)
            }
        })
        .await
    }

    async fn fired_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>> {
        schedule::fired_at(&mut self.reader().await?, schedule).await
    }

    async fn done_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>> {
        schedule::done_at(&mut self.reader().await?, schedule).await
    }

    async fn stalest(&self, limit: i64) -> StoreResult<Vec<(AgentId, Timestamp, i64)>> {
        self.past(|mut tx| async move { runs::stalest(&mut tx, limit).await }).await
    }

    async fn count_proxy_traffic(
        &self,
        agent: &AgentId,
        report: &ProxyReport,
        now: Timestamp,
    ) -> StoreResult<ProxyTotals> {
        let (agent, report) = (agent.clone(), report.clone());
        self.write(Lock::Agent(agent.clone()), move |tx| {
            Box::pin(async move { proxy_traffic::count(tx, &agent, &report, now).await })
        })
        .await
    }

    async fn proxy_totals(&self, agent: &AgentId) -> StoreResult<ProxyTotals> {
        proxy_traffic::totals(&mut self.reader().await?, agent).await
    }
}

macro_rules! row_select {
    ($label:literal, $where:literal) => {
        sql!(
            $label,
            "\nSELECT agent_id, reasons, priority, queued_at, visible_at, attempts, crashes, lease_token, lease_owner, ",
            "leased_at, parked_at, paused_for, deferred_at, last_error FROM summary_update_queue ",
            $where
        )
    };
}

async fn rows(
    connection: &mut Connection,
    after: Option<&AgentId>,
    limit: i64,
    now: Timestamp,
) -> StoreResult<Vec<QueueRow>> {
    let now = connection.now(now).await?;
    let sql = row_select!("-- sql/operate.rows", "WHERE agent_id > $1 ORDER BY agent_id LIMIT $2");
    let after = after.map_or("", AgentId::as_str);
    let found = query(sql).bind(after).bind(limit).fetch_all(connection).await?;
    found.iter().map(|row| read(row, now)).collect()
}

async fn row(connection: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<Option<QueueRow>> {
    let now = connection.now(now).await?;
    let sql = row_select!("-- sql/operate.row", "WHERE agent_id = $1");
    let found = query(sql).bind(agent.as_str()).fetch_optional(connection).await?;
    found.map(|row| read(&row, now)).transpose()
}

fn read(row: &Row, now: Timestamp) -> StoreResult<QueueRow> {
    let queued_at: Timestamp = row.try_get(3)?;
    let visible_at: Timestamp = row.try_get(4)?;
    let attempts: i64 = row.try_get(5)?;
    let is_leased = row.try_get::<Option<i64>>(7)?.is_some();
    let parked_at = time(row, 10)?;
    let paused_for: Option<String> = row.try_get(11)?;
    let is_paused_by_hand = paused_for.as_deref() == Some(HAND);
    let is_paused_by_provider = paused_for.as_deref() == Some(PROVIDER);
    let paused_for = paused_for.filter(|_| !is_paused_by_provider);
    let state = match (parked_at, &paused_for) {
        (Some(_), _) => QueueState::Parked,
        (None, _) if is_leased && visible_at > now => QueueState::Running,
        (None, None) if visible_at <= now => QueueState::Ready,
        (None, Some(_)) if visible_at > now => QueueState::Paused,
        (None, None) => QueueState::Scheduled,
        (None, Some(_)) => QueueState::Ready,
    };
    let waits_for = match state {
        QueueState::Ready | QueueState::Running => None,
        QueueState::Parked => Some(QueueWait::Operator),
        QueueState::Paused if is_paused_by_hand => Some(QueueWait::Operator),
        QueueState::Paused => Some(QueueWait::Limit),
        QueueState::Scheduled if is_paused_by_provider => Some(QueueWait::Provider),
        QueueState::Scheduled if time(row, 12)?.is_some() => Some(QueueWait::Batch),
        QueueState::Scheduled if attempts > 0 => Some(QueueWait::Backoff),
        QueueState::Scheduled => Some(QueueWait::Batching),
    };
    Ok(QueueRow {
        agent_id: agent(row, 0)?,
        state,
        waits_for,
        next_at: (waits_for != Some(QueueWait::Operator)).then_some(visible_at),
        reason: Reason::first_of(row.try_get(1)?).name().to_owned(),
        priority: row.try_get(2)?,
        queued_at,
        age_ms: now.since_ms(queued_at).max(0),
        attempts,
        crashes: row.try_get(6)?,
        owner: row.try_get(8)?,
        leased_at: time(row, 9)?,
        parked_at,
        paused_for: paused_for.filter(|_| !is_paused_by_hand),
        last_error: row.try_get(13)?,
    })
}

fn agent(row: &Row, column: usize) -> StoreResult<AgentId> {
    let text: String = row.try_get(column)?;
    let tables = "summary_update_queue or update_runs";
    text.parse().map_err(|_| row::inconsistent(tables, text.clone(), "agent_id", text))
}
