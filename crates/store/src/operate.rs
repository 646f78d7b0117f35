//! What operators see of the updates and do to them: the queue, its pauses, the runs.
//!
//! Invariant: none of it can lose work. The watermarks say what is pending, a row only when it is looked at.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClaimRequest, EnqueueOutcome, StoreResult};
use recapd_core::domain::{agent::AgentId, spend::SpendTotal, time::Timestamp, work::Lease};

/// The most rows of the queue, or runs, that one search looks at; the next search continues from there.
pub const SEARCHED_MAX: i64 = 10_000;

/// Where a row of the queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It may be claimed.
    Ready,
    /// A worker has it.
    Running,
    /// It waits for its time.
    Scheduled,
    /// It waits for a limit of spending, or for the hand that paused it.
    Paused,
    /// Its attempts are used up, or a hand cancelled it: the next eviction brings it back, or a hand.
    Parked,
}

/// What a row waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueWait {
    /// More exchanges, so that one update takes them all in.
    #[serde(alias = "company")]
    Batching,
    /// A provider: it rests after its failures, limits the rate, or has as many calls as may be.
    Provider,
    /// The time after a failed attempt.
    Backoff,
    /// The answer of a batch.
    Batch,
    /// The next day, for a limit of spending.
    Limit,
    /// An operator.
    #[serde(alias = "hand")]
    Operator,
}

/// A row of the queue: an agent whose summary is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// Whose summary; also the row's name.
    pub agent_id: AgentId,
    /// Where it stands.
    pub state: QueueState,
    /// What it waits for, if it does.
    pub waits_for: Option<QueueWait>,
    /// When it may be claimed next, or while it runs: when its lease ends. None if nothing but a hand or an eviction
    /// brings it back.
    pub next_at: Option<Timestamp>,
    /// Why it was asked for: the most telling reason.
    pub reason: String,
    /// How urgent it is; larger is more urgent.
    pub priority: i64,
    /// Since when it is asked for.
    pub queued_at: Timestamp,
    /// How long that is.
    pub age_ms: i64,
    /// Attempts so far, the running one included.
    pub attempts: i64,
    /// How often whoever had it vanished.
    pub crashes: i64,
    /// The daemon that has it.
    pub owner: Option<String>,
    /// Since when.
    pub leased_at: Option<Timestamp>,
    /// Since when it is parked.
    pub parked_at: Option<Timestamp>,
    /// The limit of spending that it is paused for.
    pub paused_for: Option<String>,
    /// What the last attempt failed with: a class, a colon, a message.
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
    /// Somebody else went first.
    Superseded,
    /// It had asked a model, and then waited for a provider or for the next day. In the table it is superseded, with a
    /// class of error: no other name is known to older daemons.
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
    /// Its number.
    pub run: i64,
    /// Whose summary.
    pub agent_id: AgentId,
    /// Which attempt, from 1.
    pub attempt: i64,
    /// Why it was asked for.
    pub reason: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// How the document came to its size: `append`, `merge` or `full`.
    pub path: Option<String>,
    /// The version it wrote.
    pub version: Option<i64>,
    /// The last exchange that the summary covered before.
    pub covers_after: Option<i64>,
    /// The last one that it covers.
    pub covers_through: Option<i64>,
    /// Exchanges that were taken in.
    pub exchanges: i64,
    /// Items it wrote.
    pub items_added: i64,
    /// Items that left the document.
    pub items_dropped: i64,
    /// The document's tokens.
    pub document_tokens: Option<i64>,
    /// The document lost decisions or constraints for its size.
    pub truncated: bool,
    /// The provider that was asked.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How often.
    pub model_calls: i64,
    /// Tokens it read.
    pub input_tokens: i64,
    /// Tokens it wrote.
    pub output_tokens: i64,
    /// What it cost in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// The answer came from a batch.
    pub batched: bool,
    /// What kind of error it failed with.
    pub error_class: Option<String>,
    /// What it failed with.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How long it took.
    pub duration_ms: i64,
}

/// Which runs to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those of this outcome.
    pub outcome: Option<RunOutcome>,
    /// Only those with a lower number.
    pub before: Option<i64>,
    /// The most runs, of which the newest are read.
    pub limit: i64,
}

/// Updates in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunFigures {
    /// Updates that wrote a version.
    pub completed: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// Attempts that somebody else overtook.
    pub superseded: i64,
    /// Attempts that had asked a model, and then waited for a provider or a limit.
    #[serde(default)]
    pub postponed: i64,
    /// Mean duration of the completed ones.
    pub mean_duration_ms: i64,
    /// Of a hundred of them 95 took no longer.
    #[serde(default)]
    pub p95_duration_ms: i64,
    /// The longest one.
    pub max_duration_ms: i64,
    /// Mean tokens of the documents they wrote.
    pub mean_document_tokens: i64,
    /// Exchanges they took in.
    pub exchanges: i64,
    /// Documents that lost decisions or constraints for their size.
    pub truncated: i64,
    /// Model tokens read.
    pub input_tokens: i64,
    /// Model tokens written.
    pub output_tokens: i64,
    /// What was spent.
    pub spent: SpendTotal,
}

/// Updates that ended in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunHour {
    pub began_at: Timestamp,
    /// Updates that wrote a version.
    pub completed: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// Attempts that were overtaken by another one.
    pub superseded: i64,
    /// Attempts that had asked a model, and then waited for a provider or a limit.
    pub postponed: i64,
    /// Mean duration of the completed ones.
    pub mean_duration_ms: i64,
    /// Median duration of the completed ones.
    pub p50_duration_ms: i64,
    /// The 95th percentile of their durations.
    pub p95_duration_ms: i64,
    /// Mean tokens of the documents they wrote.
    pub mean_document_tokens: i64,
    /// Micro-dollars, of the calls whose price is known.
    pub cost_microusd: i64,
}

/// What an operator did to a row of the queue, and the row as the transaction left it: a moment later it may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorOutcome {
    /// It is done; the row as it is now.
    Done(Box<QueueRow>),
    /// A worker has the row right now: there is nothing to hasten.
    Running(Box<QueueRow>),
    /// There is no such row.
    NoRow,
}

impl OperatorOutcome {
    /// As it is logged.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Running(_) => "running",
            Self::NoRow => "no_row",
        }
    }
}

/// A document of which an item has outgrown its section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgeingDue {
    /// Whose.
    pub agent_id: AgentId,
    /// Since when.
    pub due_at: Timestamp,
}

/// The operations of operators. Each is one transaction.
#[async_trait]
pub trait OperatorStore: Send + Sync {
    /// The queue's rows in order of their agents, after `after`.
    async fn queue_rows(
        &self,
        after: Option<&AgentId>,
        limit: i64,
        now: Timestamp,
    ) -> StoreResult<Vec<QueueRow>>;

    /// An agent's row, if it has one.
    async fn queue_row(&self, agent: &AgentId, now: Timestamp) -> StoreResult<Option<QueueRow>>;

    /// Asks for an update at once: makes a row, or makes the existing one due, whatever it waits for. A row that an
    /// operator paused stays paused.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn refresh(&self, agent: &AgentId, now: Timestamp) -> StoreResult<EnqueueOutcome>;

    /// Makes a row due that waits, is parked or paused, with another series of attempts.
    async fn retry(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome>;

    /// Leases an agent's row if it is due and not paused, regardless of other rows that are due.
    async fn claim_one(&self, agent: &AgentId, claim: ClaimRequest) -> StoreResult<Option<Lease>>;

    /// Parks a row. The lease of an update under way is voided. Its exchanges stay pending: an operator revives the
    /// row, or the next eviction, ten minutes later at the earliest.
    async fn cancel(&self, agent: &AgentId, now: Timestamp) -> StoreResult<OperatorOutcome>;

    /// Pauses an agent's updates until [`Self::resume_agent`]. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn pause_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()>;

    /// Undoes [`Self::pause_agent`]. False if no operator had paused it.
    ///
    /// # Errors
    /// [`super::StoreError::UnknownAgent`].
    async fn resume_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool>;

    /// Pauses all updates of all daemons on this database: nothing is claimed any more, and updates under way finish.
    /// Returns since when they are paused; doing it twice changes nothing.
    async fn pause_queue(&self, now: Timestamp) -> StoreResult<Timestamp>;

    /// Undoes [`Self::pause_queue`]. False if the queue wasn't paused.
    async fn resume_queue(&self) -> StoreResult<bool>;

    /// Since when all updates are paused, if they are.
    async fn queue_paused_since(&self) -> StoreResult<Option<Timestamp>>;

    /// The documents that [`Self::age`] would make due now, at most `limit`, the longest overdue first.
    async fn ageing_due(&self, now: Timestamp, limit: i64) -> StoreResult<Vec<AgeingDue>>;

    /// As [`super::Store::enqueue_ageing`].
    async fn age(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// The time by the clock that judges leases and backoffs: the server's on PostgreSQL, else the caller's
    /// (`callers`).
    async fn clock(&self, callers: Timestamp) -> StoreResult<Timestamp>;

    /// The newest runs, newest first.
    async fn runs(&self, query: RunQuery) -> StoreResult<Vec<Run>>;

    /// One run; `None` if there is no such run, or it was deleted for its age.
    async fn run(&self, run: i64) -> StoreResult<Option<Run>>;

    /// Figures about the runs that ended since then.
    async fn run_figures(&self, since: Timestamp) -> StoreResult<RunFigures>;

    /// Figures about the runs that ended since then, for each hour in which any did, in order.
    async fn run_hours(&self, since: Timestamp) -> StoreResult<Vec<RunHour>>;

    /// What each of `agents` spent since then, in their order.
    async fn spent(&self, agents: &[AgentId], since: Timestamp) -> StoreResult<Vec<SpendTotal>>;

    /// When that schedule was fired last, by whichever daemon; `None` if never.
    async fn fired_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>>;

    /// When the latest completed firing of that schedule was done; `None` if none was.
    async fn done_at(&self, schedule: &str) -> StoreResult<Option<Timestamp>>;

    /// The agents with the longest waiting exchanges, longest first: the agent, since when, and how many exchanges.
    async fn stalest(&self, limit: i64) -> StoreResult<Vec<(AgentId, Timestamp, i64)>>;
}
