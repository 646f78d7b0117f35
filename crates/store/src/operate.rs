//! Operators' view of the updates, and operators' actions: the queue, its pauses, the runs.
//!
//! Invariant: no action loses work. The watermarks say what is pending; a queue row only says when to update.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClaimRequest, EnqueueOutcome, StoreResult};
use recapd_core::domain::{
    agent::AgentId,
    proxy_traffic::{ProxyReport, ProxyTraffic},
    spend::SpendTotal,
    time::Timestamp,
    work::Lease,
};

/// Limits how many queue rows or runs one search reads. The next search continues from there.
pub const SEARCHED_MAX: i64 = 10_000;

/// The state of a row of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It may be claimed.
    Ready,
    /// A worker holds it.
    Running,
    /// It waits for its time.
    Scheduled,
    /// A spending limit or an operator has paused it.
    Paused,
    /// Its attempts are used up, or an operator cancelled it. The next eviction or an operator revives it.
    Parked,
}

impl QueueState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Scheduled => "scheduled",
            Self::Paused => "paused",
            Self::Parked => "parked",
        }
    }
}

/// The reason why a row waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueWait {
    /// For more exchanges, to update them together.
    #[serde(alias = "company")]
    Batching,
    /// For a provider, which is resting after failures, limits the rate, or has its maximum of calls.
    Provider,
    /// For the wait after a failed attempt.
    Backoff,
    /// For a batch's answer.
    Batch,
    /// For the next day, because of a spending limit.
    Limit,
    /// For an operator.
    #[serde(alias = "hand")]
    Operator,
}

/// A row of the queue: an agent whose summary is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// The agent, which is also the row's name.
    pub agent_id: AgentId,
    /// The row's state.
    pub state: QueueState,
    /// What it waits for, if it waits.
    pub waits_for: Option<QueueWait>,
    /// When it may next be claimed; while it runs, when its lease ends. None if only an operator or an eviction revives it.
    pub next_at: Option<Timestamp>,
    /// The most important reason for the update.
    pub reason: String,
    /// How urgent it is; larger is more urgent.
    pub priority: i64,
    /// When the update was first asked for.
    pub queued_at: Timestamp,
    /// The time since `queued_at`.
    pub age_ms: i64,
    /// Attempts so far, including the running one.
    pub attempts: i64,
    /// How often a worker that held it vanished.
    pub crashes: i64,
    /// The daemon that holds it.
    pub owner: Option<String>,
    /// Since when the daemon holds it.
    pub leased_at: Option<Timestamp>,
    /// Since when it is parked.
    pub parked_at: Option<Timestamp>,
    /// The spending limit that pauses it.
    pub paused_for: Option<String>,
    /// The last attempt's error: a class, a colon, a message.
    pub last_error: Option<String>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// It wrote a version.
    Completed,
    /// It failed.
    Failed,
    /// Another attempt came first.
    Superseded,
    /// It asked a model, and then had to wait for a provider or for the next day. The table stores it as superseded, with a class of
    /// error, because older daemons know no other name.
    Postponed,
}

impl RunOutcome {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            "superseded" => Some(Self::Superseded),
            "postponed" => Some(Self::Postponed),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Postponed => "postponed",
        }
    }
}

/// One attempt to update a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The run's number.
    pub run: i64,
    /// The agent whose summary it was to update.
    pub agent_id: AgentId,
    /// The number of the attempt, from 1.
    pub attempt: i64,
    /// Why the update was asked for.
    pub reason: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// How the document was composed: `append`, `merge` or `full`.
    pub path: Option<String>,
    /// The version that it wrote.
    pub version: Option<i64>,
    /// The last exchange that the summary covered before.
    pub covers_after: Option<i64>,
    /// The last exchange that it covers now.
    pub covers_through: Option<i64>,
    /// Exchanges that it summarised.
    pub exchanges: i64,
    /// Items that it wrote.
    pub items_added: i64,
    /// Items that left the document.
    pub items_dropped: i64,
    /// The document's tokens.
    pub document_tokens: Option<i64>,
    /// True if the document lost decisions or constraints for its size.
    pub truncated: bool,
    /// The provider that was asked.
    pub provider: Option<String>,
    /// The model that was asked.
    pub model: Option<String>,
    /// The number of calls to the model.
    pub model_calls: i64,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that the model wrote.
    pub output_tokens: i64,
    /// Its cost in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// True if the answer came from a batch.
    pub batched: bool,
    /// The class of its error.
    pub error_class: Option<String>,
    /// The text of its error.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// Its duration.
    pub duration_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs of this agent.
    pub agent: Option<AgentId>,
    /// Only runs with this outcome.
    pub outcome: Option<RunOutcome>,
    /// Only runs that ended then or later.
    pub since: Option<Timestamp>,
    /// Only runs that ended before then.
    pub until: Option<Timestamp>,
    /// Only runs with a lower number.
    pub before: Option<i64>,
    /// The most runs; the newest are read.
    pub limit: i64,
}

/// Figures about the updates in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunFigures {
    /// Updates that wrote a version.
    pub completed: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// Attempts that another one overtook.
    pub superseded: i64,
    /// Attempts that asked a model, and then waited for a provider or a limit.
    #[serde(default)]
    pub postponed: i64,
    /// Mean duration of the completed updates.
    pub mean_duration_ms: i64,
    /// The 95th percentile of their durations.
    #[serde(default)]
    pub p95_duration_ms: i64,
    /// The longest of their durations.
    pub max_duration_ms: i64,
    /// Mean tokens of the documents that they wrote.
    pub mean_document_tokens: i64,
    /// Exchanges that they summarised.
    pub exchanges: i64,
    /// Documents that lost decisions or constraints for their size.
    pub truncated: i64,
    /// Tokens that models read.
    pub input_tokens: i64,
    /// Tokens that models wrote.
    pub output_tokens: i64,
    /// The cost.
    pub spent: SpendTotal,
}

/// Figures about the updates that ended in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunHour {
    pub began_at: Timestamp,
    /// Updates that wrote a version.
    pub completed: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// Attempts that another one overtook.
    pub superseded: i64,
    /// Attempts that asked a model, and then waited for a provider or a limit.
    pub postponed: i64,
    /// Mean duration of the completed updates.
    pub mean_duration_ms: i64,
    /// Median of their durations.
    pub p50_duration_ms: i64,
    /// The 95th percentile of their durations.
    pub p95_duration_ms: i64,
    /// Mean tokens of the documents that they wrote.
    pub mean_document_tokens: i64,
    /// The cost in micro-dollars, of calls with a known price.
    pub cost_microusd: i64,
}

/// The result of an operator's action on a row of the queue, with the row as the transaction left it: it may be gone a moment later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorOutcome {
    /// The action was carried out.
    Done(Box<QueueRow>),
    /// A worker holds the row, so there is nothing to hasten.
    Running(Box<QueueRow>),
    /// There is no such row.
    NoRow,
}

impl OperatorOutcome {
    /// Returns the name that the log uses.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Running(_) => "running",
            Self::NoRow => "no_row",
        }
    }
}

/// A document with an item that is too old for its section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgeingDue {
    /// The agent whose document it is.
    pub agent_id: AgentId,
    /// When the item became too old for its section.
    pub due_at: Timestamp,
}

/// What the proxies did for an agent, by their reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProxyTotals {
    /// The sums of the counts.
    pub traffic: ProxyTraffic,
    /// The time of the first report; null if there is none.
    pub first_at: Option<Timestamp>,
    /// The time of the last report; null if there is none.
    pub last_at: Option<Timestamp>,
}

/// The operations of operators. Each is one transaction.
#[async_trait]
pub trait OperatorStore: Send + Sync {
    /// Returns the queue's rows after `after`, in order of their agents.
    async fn queue_rows(
        &self,
        after: Option<&AgentId>,
        limit: i64,
        now: Timestamp,
    ) -> StoreResult<Vec<QueueRow>>;

    /// Returns an agent's row, if it has one.
    async fn queue_row(&self, agent: &AgentId, now: Timestamp) -> StoreResult<Option<QueueRow>>;

    /// Asks for an update at once: creates a row, or makes the existing one due, even if it waits. A row that an operator paused
    /// stays paused.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn refresh(&self, agent: &AgentId, now: Timestamp) -> StoreResult<EnqueueOutcome>;

    /// Makes a waiting, parked or paused row due, with a new series of attempts.
    async fn retry(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome>;

    /// Leases an agent's row if it is due and not paused, whatever other rows are due.
    async fn claim_one(&self, agent: &AgentId, claim: ClaimRequest) -> StoreResult<Option<Lease>>;

    /// Parks a row, and voids the lease of an update in progress. The row's exchanges stay pending until an operator revives the
    /// row, or an eviction does so, at the earliest after [`super::AppendRules::revive_after_ms`].
    async fn cancel(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome>;

    /// Pauses an agent's updates until [`Self::resume_agent`]. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn pause_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()>;

    /// Undoes [`Self::pause_agent`]. Returns false if no operator had paused the agent.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn resume_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool>;

    /// Pauses all updates of all daemons on this database. Nothing is claimed any more; updates in progress finish. Returns since
    /// when updates are paused. A second call changes nothing.
    async fn pause_queue(&self, now: Timestamp) -> StoreResult<Timestamp>;

    /// Undoes [`Self::pause_queue`]. Returns false if the queue wasn't paused.
    async fn resume_queue(&self) -> StoreResult<bool>;

    /// Returns since when all updates are paused, if they are.
    async fn queue_paused_since(&self) -> StoreResult<Option<Timestamp>>;

    /// Returns up to `limit` documents that [`Self::age`] would have updated now, the longest overdue first.
    async fn ageing_due(&self, now: Timestamp, limit: i64) -> StoreResult<Vec<AgeingDue>>;

    /// Makes the rows of these documents due, as [`super::Store::enqueue_ageing`] does.
    async fn age(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Returns the time by the clock that leases and backoffs use: the server's on PostgreSQL, otherwise `callers`.
    async fn clock(&self, callers: Timestamp) -> StoreResult<Timestamp>;

    /// Returns runs, newest first.
    async fn runs(&self, query: RunQuery) -> StoreResult<Vec<Run>>;

    /// Returns one run; `None` if it never existed or has been deleted for its age.
    async fn run(&self, run: i64) -> StoreResult<Option<Run>>;

    /// Returns figures about the runs that ended since `since`.
    async fn run_figures(&self, since: Timestamp) -> StoreResult<RunFigures>;

    /// Returns figures about the runs that ended since `since`, hour by hour. Leaves out hours without runs.
    async fn run_hours(&self, since: Timestamp) -> StoreResult<Vec<RunHour>>;

    /// Returns what each of `agents` has spent since `since`, in the order of `agents`.
    async fn spent(&self, agents: &[AgentId], since: Timestamp) -> StoreResult<Vec<SpendTotal>>;

    /// Returns when any daemon last fired a schedule; `None` if never.
    async fn fired_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>>;

    /// Returns when the latest completed firing of a schedule finished; `None` if none did.
    async fn done_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>>;

    /// Returns the agents whose exchanges have been pending longest, longest first: the agent, the time since which, and how many
    /// exchanges.
    async fn stalest(&self, limit: i64) -> StoreResult<Vec<(AgentId, Timestamp, i64)>>;

    /// Adds a proxy's report to the agent's totals, and returns them. Adds nothing if the report was counted before.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn count_proxy_traffic(
        &self,
        agent: &AgentId,
        report: &ProxyReport,
        now: Timestamp,
    ) -> StoreResult<ProxyTotals>;

    /// Returns the agent's totals; zeros if nothing was reported.
    async fn proxy_totals(&self, agent: &AgentId) -> StoreResult<ProxyTotals>;
}
