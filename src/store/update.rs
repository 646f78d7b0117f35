//! What updates read and write, and what is counted of them.

use serde::{Deserialize, Serialize};

use super::{CalibrationFigures, LastRun, StoredExchange, batch::BatchFigures};
use crate::domain::{
    spend::Spent,
    summary::{calendar::AgentTime, compaction::Path, item::Item},
    time::{MINUTE_MS, Timestamp},
    work::{Lease, Reason},
};

/// A claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims: the same name over restarts of one daemon.
    pub owner: String,
    /// At most so many.
    pub limit: i64,
    /// For how long.
    pub lease_ms: i64,
    /// When.
    pub now: Timestamp,
}

/// How much one update takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaterialLimits {
    /// At most so many exchanges.
    pub exchanges_max: i64,
    /// Exchanges of so many tokens, but at least one exchange.
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
    /// Provisional items to be condensed again, when nothing is pending.
    pub revisited: Vec<i64>,
    /// Shown items that no compaction may replace: what a forked agent took over has no exchanges in it from which it
    /// could be written again.
    pub fixed: Vec<i64>,
    /// Items are aged by this time, or by the clock.
    pub as_of: Option<Timestamp>,
    /// Its calendar.
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
    /// What it cost to ask.
    pub input_tokens: i64,
    /// What it cost to answer.
    pub output_tokens: i64,
}

/// What an attempt tells the runs table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The model's provider, if one was asked.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How often it was asked.
    pub model_calls: i64,
    /// Tokens it read.
    pub input_tokens: i64,
    /// Tokens it wrote.
    pub output_tokens: i64,
    /// What it cost, in micro-dollars; `None` if the price of one of the calls isn't known.
    pub cost_microusd: Option<i64>,
    /// The new document had to lose decisions or constraints for its size.
    pub truncated: bool,
    /// The journal key of the answer that came from a batch, if this attempt tells what that cost: its tokens are among
    /// the ones above, at the price of a batch.
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
    /// How many live exchanges lie between.
    pub exchanges: i64,
    /// New items; those with `true` are covered by it but not shown.
    pub added: Vec<(Item, bool)>,
    /// Shown items that leave the document; they go on covering their exchanges.
    pub dropped: Vec<i64>,
    /// Items replaced by new ones over the same exchanges.
    pub removed: Vec<i64>,
    /// The document.
    pub content: String,
    /// Its tokens.
    pub token_count: i64,
    /// How it came to its size.
    pub path: Path,
    /// The time its items were aged by.
    pub as_of: Timestamp,
    /// When an item changes its section next.
    pub next_ageing_at: Option<Timestamp>,
    /// There is more to do at once: provisional items wait to be condensed again.
    pub has_more: bool,
    /// Park the row: digests stand in for a model that failed to the last attempt.
    pub park: Option<AttemptError>,
    /// When a re-armed row may be claimed, if no batch is pending.
    pub rearm_wait_ms: i64,
    /// So many pending exchanges are worth an update at once.
    pub batch_exchanges: i64,
    /// For the runs table.
    pub run: RunRecord,
}

/// A lease that had nothing to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The watermark that was read.
    pub lo: i64,
    /// The watermark after: over set-aside exchanges only.
    pub hi: i64,
    /// When.
    pub now: Timestamp,
}

/// What a completion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The document's version now.
    pub version: i64,
    /// The row waits for more: something is pending, or was asked for meanwhile.
    pub rearmed: bool,
    /// The row is parked.
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

/// A failed attempt.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why.
    pub error: AttemptError,
    /// The row may be claimed again after so long.
    pub backoff_ms: i64,
    /// Nothing helps but a hand or the next eviction. One that came during the attempt counts, too.
    pub park: bool,
    /// For the runs table.
    pub run: RunRecord,
}

/// A firing of a schedule that isn't done after so long is lost: whoever took it was killed, or failed. It is taken again.
/// One that does take longer is made twice at the same time, by two who skip each other's rows.
pub const FIRING_MS_MAX: i64 = 15 * MINUTE_MS;

/// What came of taking a schedule's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It is the caller's to fire.
    Ours,
    /// Somebody has it, or failed with it within [`FIRING_MS_MAX`].
    Busy,
    /// It was fired.
    Done,
}

/// What to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Runs that ended before, slots that fired, and keys of requests that were last used.
    pub runs_before: Timestamp,
    /// Answers journalled before.
    pub answers_before: Timestamp,
    /// The newest versions of each agent that stay.
    pub versions_keep: i64,
    /// At most so many rows in a transaction.
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
    pub today: Spent,
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

impl Lease {
    /// The label of this lease's trigger.
    pub fn trigger(&self) -> &'static str {
        Reason::first_of(self.reasons).name()
    }
}
