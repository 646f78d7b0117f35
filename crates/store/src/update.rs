//! What updates read and write, and what is counted of them.

use serde::{Deserialize, Serialize};

use super::{CalibrationFigures, LastRun, StoredExchange, batch::BatchFigures};
use recapd_core::domain::{
    spend::SpendTotal,
    summary::{calendar::AgentTime, compaction::Path, fact::Fact, item::Item, state::FactUpdate},
    time::{MINUTE_MS, Timestamp},
};

#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker's name, which stays the same over restarts of a daemon.
    pub owner: String,
    /// The most rows to claim.
    pub limit: i64,
    /// How long the leases last.
    pub lease_ms: i64,
    /// The current time.
    pub now: Timestamp,
}

/// How much one update takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaterialLimits {
    pub exchanges_max: i64,
    /// The most tokens of exchanges together; one exchange is taken even if it has more.
    pub tokens_max: i64,
}

/// What an update works on.
#[derive(Clone, Debug)]
pub struct Material {
    /// The document's version.
    pub version: i64,
    /// The last covered exchange.
    pub lo: i64,
    /// The last exchange of this batch; [`Self::lo`] when nothing is pending.
    pub hi: i64,
    /// The pending exchanges of the batch, live ones, with their messages; or, when nothing is pending, those of the
    /// provisional items that are revisited.
    pub exchanges: Vec<StoredExchange>,
    /// Whether these are all that was pending: else the limits left some for the next update.
    pub takes_all: bool,
    /// The items shown in the document.
    pub items: Vec<Item>,
    /// The facts that hold.
    pub facts: Vec<Fact>,
    /// Provisional items to be condensed again, when nothing is pending.
    pub revisited: Vec<i64>,
    /// Shown items that no compaction may replace: the exchanges of items that a fork took over belong to its parent,
    /// so such an item couldn't be written again.
    pub fixed: Vec<i64>,
    /// The time that items are aged by; `None` for the clock.
    pub as_of: Option<Timestamp>,
    /// The agent's calendar.
    pub time: AgentTime,
    /// When the oldest pending exchange left the window.
    pub pending_since: Option<Timestamp>,
    /// When an item changes its section next.
    pub next_ageing_at: Option<Timestamp>,
}

/// A model's answer in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalledAnswer {
    /// Its text.
    pub answer: String,
    /// Tokens of the question.
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// What the runs table keeps of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The model's provider, if one was asked.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// How many calls were made.
    pub model_calls: i64,
    /// Tokens it read.
    pub input_tokens: i64,
    /// Tokens it wrote.
    pub output_tokens: i64,
    /// What it cost, in micro-dollars; `None` if the price of one of the calls isn't known.
    pub cost_microusd: Option<i64>,
    /// Whether the new document lost decisions or constraints for its size.
    pub truncated: bool,
    /// The journal key of a batch's answer whose cost this attempt accounts for: its tokens are among those above, at
    /// the price of a batch.
    pub batched: Option<String>,
}

/// An update, to be applied whole or not at all.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The version that was read.
    pub version: i64,
    /// The watermark that was read.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    /// How many live exchanges lie between these.
    pub exchanges: i64,
    /// New items; one with `true` covers its exchanges but isn't shown.
    pub added: Vec<(Item, bool)>,
    /// Shown items that leave the document; they go on covering their exchanges.
    pub dropped: Vec<i64>,
    /// Items replaced by new ones over the same exchanges.
    pub removed: Vec<i64>,
    /// What changes of the facts.
    pub facts: FactUpdate,
    /// The document.
    pub content: String,
    pub token_count: i64,
    /// How it came to its size.
    pub path: Path,
    /// The time its items were aged by.
    pub as_of: Timestamp,
    /// When an item changes its section next.
    pub next_ageing_at: Option<Timestamp>,
    /// Whether the row stays due, since provisional items wait to be condensed again.
    pub has_more: bool,
    /// Parks the row with this error: digests stand in for a model that failed up to the last attempt.
    pub park: Option<AttemptError>,
    /// When a re-armed row may be claimed, if no batch is pending.
    pub rearm_wait_ms: i64,
    /// The number of pending exchanges that makes an update due at once.
    pub batch_exchanges: i64,
    /// The tokens that these must have, too; 0 asks for none.
    pub batch_tokens_min: i64,
    /// The record of the attempt for the runs table.
    pub run: RunRecord,
}

/// The end of a lease that had nothing to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The watermark that was read.
    pub lo: i64,
    /// The watermark after: over set-aside exchanges only.
    pub hi: i64,
    /// The current time.
    pub now: Timestamp,
}

/// What a completion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The document's version now.
    pub version: i64,
    /// Whether the row stays in the queue: something is pending, or was asked for meanwhile.
    pub rearmed: bool,
    /// Whether the row is parked.
    pub parked: bool,
}

/// An error as the queue and the runs table keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// A short, stable name.
    pub class: String,
    /// What happened, at most [`ERROR_CHARS_MAX`] characters.
    pub message: String,
}

/// The longest error kept, in characters.
pub const ERROR_CHARS_MAX: usize = 2_000;

/// The class of the error for which a row is parked whose holders vanished again and again.
pub const CRASHED: &str = "crashed";

/// A failed attempt.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: AttemptError,
    /// In how many milliseconds the row may be claimed again.
    pub backoff_ms: i64,
    /// Whether to park the row until an operator or an eviction revives it; an eviction during the attempt counts, too.
    pub park: bool,
    /// The record of the attempt for the runs table.
    pub run: RunRecord,
}

/// After so long a firing that isn't done counts as lost: the daemon that took it was killed, or failed, so it is taken
/// again. If it does take longer, two daemons make it at the same time, and skip each other's rows.
pub const FIRING_MS_MAX: i64 = 15 * MINUTE_MS;

/// The result of taking a schedule's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The caller has it, and is to fire.
    Ours,
    /// Another caller has it, or failed with it less than [`FIRING_MS_MAX`] ago.
    Busy,
    /// It was fired already.
    Done,
}

/// What old rows to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Runs that ended before this, slots that fired before, and request keys that were last used before.
    pub runs_before: Timestamp,
    /// Answers journalled before this.
    pub answers_before: Timestamp,
    /// The newest versions of each agent that stay.
    pub versions_keep: i64,
    /// The most rows that are deleted in a transaction.
    pub limit: i64,
}

/// Figures of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Sample {
    /// Agents known.
    pub agents: i64,
    /// Rows that may be claimed.
    pub ready: i64,
    /// Rows waiting for their time.
    pub scheduled: i64,
    /// Rows leased.
    pub running: i64,
    /// Rows parked.
    pub parked: i64,
    /// Since when the oldest ready row could have been claimed.
    pub oldest_ready_at: Option<Timestamp>,
    /// Since when the oldest pending exchange waits.
    pub oldest_pending_at: Option<Timestamp>,
    /// Summaries stored.
    pub documents: i64,
    /// Their tokens.
    pub documents_tokens: i64,
    /// Agents, summaries and their tokens are too many to be counted at each look: on PostgreSQL these are estimates, some
    /// percent off; on SQLite there are at least so many.
    #[serde(default)]
    pub stock_is_estimated: bool,
    /// Updates completed in the window of time asked for.
    pub completed: i64,
    /// Attempts failed in it.
    pub failed: i64,
    /// Mean duration of completed updates in it.
    pub mean_duration_ms: i64,
    /// Mean tokens of the documents written in it.
    pub mean_document_tokens: i64,
    /// Updates in it whose document lost decisions or constraints for its size.
    pub truncated: i64,
    /// Model tokens read in it.
    pub input_tokens: i64,
    /// Model tokens written in it.
    pub output_tokens: i64,
    /// Model calls in it.
    pub model_calls: i64,
    /// What was spent since the day began, which is one of UTC.
    #[serde(default)]
    pub today: SpendTotal,
    /// Updates that wait for the next day because a limit of spending is used up.
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
