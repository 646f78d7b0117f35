//! Applies operators' actions to the queue, and notifies the workers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::Receiver;
use tracing::info;

use recapd_core::domain::{
    agent::AgentId,
    number::usize_or_max,
    proxy_traffic::ProxyReport,
    spend::{SpendTotal, day_start},
    time::Timestamp,
    work::Reason,
};
use recapd_platform::{
    clock::Clock,
    notice::{Change, Notices},
};
use recapd_store::{
    EnqueueOutcome, StoreResult,
    operate::{
        AgeingDue, OperatorOutcome, OperatorStore, ProxyTotals, QueueRow, QueueState, Run, RunFigures,
        RunHour, RunQuery,
    },
};

/// Limits how many documents one step of ageing changes. The next step continues.
const STEP_ROWS_MAX: i64 = 1_000;
/// Limits how many documents a dry run lists.
const AGEING_SHOWN_MAX: i64 = 200;

/// The reply to a run of the ageing job, over HTTP and on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Aged)]
pub struct AgedReply {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How many documents were queued for an update.
    pub queued: u64,
    /// After a dry run: the documents that would be queued.
    pub due: Vec<AgeingDue>,
    /// True if more documents are due than `due` lists.
    pub has_more: bool,
}

/// An operator's view of the queue and the runs. Clones share it.
#[derive(Clone)]
pub struct Operator {
    store: Arc<dyn OperatorStore>,
    clock: Arc<dyn Clock>,
    notices: Notices,
}

impl Operator {
    pub fn new(store: Arc<dyn OperatorStore>, clock: Arc<dyn Clock>, notices: Notices) -> Self {
        Self { store, clock, notices }
    }

    /// Subscribes to changes in this process: of agents' states and of queue rows.
    pub fn moves(&self) -> Receiver<Change> {
        self.notices.moves()
    }

    /// Returns queue rows in the order of their agents, after `after`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<QueueRow>> {
        self.store.queue_rows(after, limit, self.clock.now()).await
    }

    /// Returns an agent's row, if it has one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn row(&self, agent: &AgentId) -> StoreResult<Option<QueueRow>> {
        self.store.queue_row(agent, self.clock.now()).await
    }

    /// Asks for an update of an agent's summary at once. Returns its queue row; if a worker has finished it already, the row as
    /// it was created.
    ///
    /// # Errors
    /// As [`OperatorStore::refresh`].
    pub async fn refresh(&self, agent: &AgentId) -> StoreResult<QueueRow> {
        let now = self.clock.now();
        let enqueued = self.store.refresh(agent, now).await?;
        let row = self.row(agent).await;
        self.notices.wake_queue();
        self.notices.agent_moved(agent);
        // A worker may have finished the row before it was read back.
        Ok(row?.unwrap_or_else(|| new_row(agent, enqueued, now)))
    }

    /// Makes a waiting, parked or paused row due. Returns the outcome with the row's new state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn retry(&self, agent: &AgentId) -> StoreResult<OperatorOutcome> {
        let outcome = self.store.retry(agent, self.clock.now()).await?;
        info!(agent_id = %agent, handled = outcome.name(), "queue.retried");
        self.notices.agent_moved(agent);
        self.notices.wake_queue();
        Ok(outcome)
    }

    /// Parks a row, so that no worker takes it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn cancel(&self, agent: &AgentId) -> StoreResult<OperatorOutcome> {
        let outcome = self.store.cancel(agent, self.clock.now()).await?;
        info!(agent_id = %agent, handled = outcome.name(), "queue.cancelled");
        self.notices.agent_moved(agent);
        Ok(outcome)
    }

    /// Pauses or resumes an agent's updates.
    ///
    /// # Errors
    /// As [`OperatorStore::pause_agent`].
    pub async fn set_agent_paused(&self, agent: &AgentId, paused: bool) -> StoreResult<()> {
        let now = self.clock.now();
        if paused {
            self.store.pause_agent(agent, now).await?;
        } else {
            self.store.resume_agent(agent, now).await?;
            self.notices.wake_queue();
        }
        info!(agent_id = %agent, paused, "updates.paused_by_hand");
        self.notices.agent_moved(agent);
        Ok(())
    }

    /// Pauses or resumes the updates of all daemons on the database. Returns since when they are paused.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_paused(&self, paused: bool) -> StoreResult<Option<Timestamp>> {
        let since = if paused {
            Some(self.store.pause_queue(self.clock.now()).await?)
        } else {
            self.store.resume_queue().await?;
            None
        };
        self.notices.wake_queue();
        info!(paused, "queue.paused_by_hand");
        Ok(since)
    }

    /// Returns since when all updates are paused, if they are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn paused_since(&self) -> StoreResult<Option<Timestamp>> {
        self.store.queue_paused_since().await
    }

    /// Queues updates of documents with an item that is too old for its section, as the ageing job does. With `dry_run`, only
    /// lists them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn age(&self, dry_run: bool) -> StoreResult<AgedReply> {
        let now = self.clock.now();
        if dry_run {
            let mut due = self.store.ageing_due(now, AGEING_SHOWN_MAX + 1).await?;
            let limit = usize_or_max(AGEING_SHOWN_MAX);
            let has_more = due.len() > limit;
            due.truncate(limit);
            return Ok(AgedReply { dry_run, queued: 0, due, has_more });
        }
        let mut queued = 0;
        loop {
            let step = self.store.age(now, STEP_ROWS_MAX).await?;
            queued += step;
            self.notices.wake_queue();
            if step < STEP_ROWS_MAX.unsigned_abs() {
                info!(rows = queued, "ageing.asked_for");
                return Ok(AgedReply { dry_run, queued, due: Vec::new(), has_more: false });
            }
        }
    }

    /// Returns runs, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn runs(&self, query: RunQuery) -> StoreResult<Vec<Run>> {
        self.store.runs(query).await
    }

    pub async fn run(&self, run: i64) -> StoreResult<Option<Run>> {
        self.store.run(run).await
    }

    /// Returns figures about the runs that ended in the last `window_ms`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn run_figures(&self, window_ms: i64) -> StoreResult<RunFigures> {
        self.store.run_figures(self.clock.now().plus_ms(-window_ms)).await
    }

    /// Returns the figures of [`Self::run_figures`] for each hour in which a run ended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn run_hours(&self, window_ms: i64) -> StoreResult<Vec<RunHour>> {
        self.store.run_hours(self.clock.now().plus_ms(-window_ms)).await
    }

    /// Returns what each of `agents` has spent since midnight UTC, in the same order.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn spent_today(&self, agents: &[AgentId]) -> StoreResult<Vec<SpendTotal>> {
        self.store.spent(agents, day_start(self.clock.now())).await
    }

    /// Returns the agents whose exchanges have waited longest for a summary, each with the time since which they wait and the
    /// number of these exchanges.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stalest(&self, limit: i64) -> StoreResult<Vec<(AgentId, Timestamp, i64)>> {
        self.store.stalest(limit).await
    }

    /// Adds a proxy's report to the agent's totals, and returns them.
    ///
    /// # Errors
    /// As [`OperatorStore::count_proxy_traffic`].
    pub async fn count_proxy_traffic(
        &self,
        agent: &AgentId,
        report: &ProxyReport,
    ) -> StoreResult<ProxyTotals> {
        self.store.count_proxy_traffic(agent, report, self.clock.now()).await
    }

    /// Returns what the proxies did for an agent.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn proxy_totals(&self, agent: &AgentId) -> StoreResult<ProxyTotals> {
        self.store.proxy_totals(agent).await
    }
}

/// Returns a row as it is after it was created or made due.
fn new_row(agent: &AgentId, enqueued: EnqueueOutcome, now: Timestamp) -> QueueRow {
    QueueRow {
        agent_id: agent.clone(),
        state: QueueState::Ready,
        waits_for: None,
        next_at: Some(enqueued.visible_at),
        reason: Reason::Manual.name().to_owned(),
        priority: Reason::Manual.priority().level(),
        queued_at: now,
        age_ms: 0,
        attempts: 0,
        crashes: 0,
        owner: None,
        leased_at: None,
        parked_at: None,
        paused_for: None,
        last_error: None,
    }
}
