//! The input and output of updates, and figures about them.

use serde::{Deserialize, Serialize};

use super::{CalibrationFigures, LastRun, StoredExchange, batch::BatchFigures};
use recapd_core::domain::{
    spend::SpendTotal,
    summary::{calendar::AgentTime, compaction::Path, fact::Fact, item::Item, state::FactUpdate},
    time::{MINUTE_MS, Timestamp},
};

#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker's name, which stays the same when a daemon restarts.
    pub owner: String,
    pub limit: i64,
    /// How long the leases last.
    pub lease_ms: i64,
    pub now: Timestamp,
}

/// The limits of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaterialLimits {
    pub exchanges_max: i64,
    /// Limits the tokens of all exchanges together. A single exchange may have more.
    pub tokens_max: i64,
}

/// The input of an update.
#[derive(Clone, Debug)]
pub struct Material {
    /// The summary's version that the update starts from.
    pub version: i64,
    /// The watermark that the update starts from.
    pub lo: i64,
    /// The last exchange of this update; equals [`Self::lo`] if nothing is pending.
    pub hi: i64,
    /// The live pending exchanges of this update, with their messages. If nothing is pending, the exchanges of the provisional
    /// items that are condensed again.
    pub exchanges: Vec<StoredExchange>,
    /// True if the update takes all pending exchanges; false if the limits left some for the next update.
    pub takes_all: bool,
    pub items: Vec<Item>,
    /// The facts that hold.
    pub facts: Vec<Fact>,
    /// Provisional items to condense again, if nothing is pending.
    pub revisited: Vec<i64>,
    /// Shown items that compaction must not replace. A fork's inherited items are among them, because the fork doesn't have their
    /// exchanges and couldn't write them again.
    pub fixed: Vec<i64>,
    /// The time for which items are aged; `None` for the clock's time.
    pub as_of: Option<Timestamp>,
    pub time: AgentTime,
    /// When the oldest pending exchange left the window.
    pub pending_since: Option<Timestamp>,
    /// When the next item becomes too old for its section.
    pub next_ageing_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalledAnswer {
    pub answer: String,
    /// Tokens of the question.
    pub input_tokens: i64,
    pub output_tokens: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// The model's provider, if one was asked.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// The number of calls to the model.
    pub model_calls: i64,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that the model wrote.
    pub output_tokens: i64,
    /// The cost in micro-dollars; `None` if the price of any of the calls is unknown.
    pub cost_microusd: Option<i64>,
    /// True if the new document lost decisions or constraints for its size.
    pub truncated: bool,
    /// The journal key of a batch's answer whose cost this attempt accounts for. Its tokens are included above, at the price of a batch.
    pub batched: Option<String>,
}

/// The output of an update, applied as a whole or not at all.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The version that was read. If it has changed, the patch is fenced off.
    pub version: i64,
    /// The watermark that was read. If it has changed, the patch is fenced off.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    /// How many live exchanges lie between `lo` and `hi`.
    pub exchanges: i64,
    /// New items. `true` marks an item that covers its exchanges but isn't shown.
    pub added: Vec<(Item, bool)>,
    /// Shown items that leave the document but still cover their exchanges.
    pub dropped: Vec<i64>,
    /// Items that new ones replace, over the same exchanges.
    pub removed: Vec<i64>,
    pub facts: FactUpdate,
    pub content: String,
    pub token_count: i64,
    pub path: Path,
    pub as_of: Timestamp,
    /// When the next item becomes too old for its section.
    pub next_ageing_at: Option<Timestamp>,
    /// True if the row stays due, because provisional items must be condensed again.
    pub has_more: bool,
    /// Parks the row with this error. Set if the model failed up to the last attempt, so that the patch has digests instead of an
    /// answer.
    pub park: Option<AttemptError>,
    /// After this many milliseconds a row that stays in the queue may be claimed again, if no whole batch is pending.
    pub rearm_wait_ms: i64,
    /// The number of pending exchanges that makes an update due at once.
    pub batch_exchanges: i64,
    /// The tokens that these exchanges must also have; 0 means none.
    pub batch_tokens_min: i64,
    pub run: RunRecord,
}

/// Ends a lease that has nothing to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The watermark that was read.
    pub lo: i64,
    /// The new watermark, which moves only over set-aside exchanges.
    pub hi: i64,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub version: i64,
    /// True if the row stays in the queue, because exchanges are pending or an update was asked for meanwhile.
    pub rearmed: bool,
    pub parked: bool,
}

/// An error in the queue and the runs table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// A short, stable name.
    pub class: String,
    /// At most [`ERROR_CHARS_MAX`] characters.
    pub message: String,
}

pub const ERROR_CHARS_MAX: usize = 2_000;

/// The class of the error with which a row is parked after its workers crashed repeatedly.
pub const CRASHED: &str = "crashed";

#[derive(Clone, Debug)]
pub struct Failure {
    pub error: AttemptError,
    /// In how many milliseconds the row may be claimed again.
    pub backoff_ms: i64,
    /// Parks the row until an operator or an eviction revives it. Has no effect if an eviction woke the row during the attempt.
    pub park: bool,
    pub run: RunRecord,
}

/// After this time a firing that isn't finished counts as lost, because its daemon was killed or failed, and another daemon takes
/// it. If the firing only takes longer, two daemons fire at the same time and skip each other's rows.
pub const FIRING_MS_MAX: i64 = 15 * MINUTE_MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The caller has the slot and must fire the job.
    Ours,
    /// Another caller has the slot, or failed with it less than [`FIRING_MS_MAX`] ago.
    Busy,
    /// The job has been fired.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Deletes ended runs, finished slots and idempotency keys that were last used before this time.
    pub runs_before: Timestamp,
    /// Deletes answers journalled before this time.
    pub answers_before: Timestamp,
    /// How many of each agent's newest versions stay.
    pub versions_keep: i64,
    /// Limits the rows that one transaction deletes.
    pub limit: i64,
}

/// Figures at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Sample {
    /// Agents in the database.
    pub agents: i64,
    /// Rows that may be claimed.
    pub ready: i64,
    /// Rows waiting for their time.
    pub scheduled: i64,
    /// Rows leased.
    pub running: i64,
    /// Rows parked.
    pub parked: i64,
    /// Since when the oldest ready row may be claimed.
    pub oldest_ready_at: Option<Timestamp>,
    /// Since when the oldest pending exchange waits.
    pub oldest_pending_at: Option<Timestamp>,
    /// Summaries stored.
    pub documents: i64,
    /// Tokens of all summaries.
    pub documents_tokens: i64,
    /// True if agents, summaries and their tokens are too many to be counted each time: then these are estimates, off by some percent on
    /// PostgreSQL, and lower bounds on SQLite.
    #[serde(default)]
    pub stock_is_estimated: bool,
    /// Updates completed in the requested window of time.
    pub completed: i64,
    /// Attempts that failed in it.
    pub failed: i64,
    /// Mean duration of the updates completed in it.
    pub mean_duration_ms: i64,
    /// Mean tokens of the documents written in it.
    pub mean_document_tokens: i64,
    /// Updates in it whose document lost decisions or constraints for its size.
    pub truncated: i64,
    /// Tokens that models read in it.
    pub input_tokens: i64,
    /// Tokens that models wrote in it.
    pub output_tokens: i64,
    /// Calls to models in it.
    pub model_calls: i64,
    /// The cost since the day began, in UTC.
    #[serde(default)]
    pub today: SpendTotal,
    /// Updates that wait for the next day because a spending limit is used up.
    #[serde(default)]
    pub paused: i64,
    /// Until when the first of them waits.
    #[serde(default)]
    pub paused_until: Option<Timestamp>,
    /// The newest update that asked a model.
    #[serde(default)]
    pub last_run: Option<LastRun>,
    /// How far estimates of tokens are off.
    #[serde(default)]
    pub calibrations: Vec<CalibrationFigures>,
    /// Batches at a provider.
    #[serde(default)]
    pub batches: BatchFigures,
}
