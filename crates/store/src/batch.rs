//! The seam for batches at a provider: their questions, and the outcomes.
//!
//! The transaction that gives a lease back stores its question. While the question is out, no lease is held; the queue row waits for the
//! answer. The answer is journalled where the next update finds it, so that it passes the same fences as any other. The states are those
//! of [`recapd_core::domain::batch`].

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{JournalledAnswer, StoreResult};
use recapd_core::domain::{
    agent::AgentId,
    batch::{BatchIdentity, BatchState},
    time::Timestamp,
    work::Lease,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchQuestion {
    /// Its key in the journal of answers, and its id at the provider.
    pub key: String,
    /// The summary's version that was read.
    pub version: i64,
    /// The watermark that was read.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    /// The exchanges that it is about, in order.
    pub exchanges: Vec<i64>,
    /// The provisional items that the answer is to replace, if nothing was pending.
    pub revisited: Vec<i64>,
    pub provider: String,
    pub model: String,
    /// The request's body, as JSON.
    pub body: String,
    /// The expected tokens, input and output.
    pub tokens: i64,
    /// Their price in a batch, in micro-dollars, if known.
    pub cost_microusd: Option<i64>,
}

/// How to combine waiting questions into a batch.
#[derive(Clone, Debug)]
pub struct Gather {
    pub name: String,
    pub provider: String,
    pub model: String,
    pub requests_max: i64,
    /// The most bytes of bodies in a batch. A single question may exceed it.
    pub bytes_max: i64,
    pub open_max: i64,
    /// A smaller batch is made only if its oldest question has waited since before this.
    pub waiting_before: Timestamp,
    pub now: Timestamp,
    /// When to look for the batch at the provider if its submission isn't confirmed.
    pub next_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBatch {
    pub batch: i64,
    /// The identity under which the provider gets the batch, and by which it is found there.
    pub wanted: BatchIdentity,
    pub provider: String,
    pub model: String,
    pub state: BatchState,
    /// The provider's id, once known.
    pub provider_id: Option<String>,
    /// How many looks it had in this state before this one.
    pub looks: i64,
    /// Until when the caller holds it. If the stored time differs later, another daemon holds it.
    pub held_until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// The key of its answer in the journal, and its id at the provider.
    pub key: String,
    pub exchanges: Vec<i64>,
    /// The request's body; empty once the provider has it.
    pub body: String,
}

/// A step of a batch that stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMove {
    /// The state that the caller read. If the batch has left it, nothing is changed.
    pub from: BatchState,
    /// Until when the caller holds the batch. If another daemon holds it by now, nothing is changed, unless `submitted_as` is set.
    pub held_until: Timestamp,
    /// The provider's id, if this step records the submission.
    pub submitted_as: Option<String>,
    /// When to look again.
    pub next_at: Timestamp,
}

/// The outcome of one question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReply {
    pub key: String,
    /// The checked answer, or a short name of the reason why there is none to use.
    pub answer: Result<String, String>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_microusd: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    pub results: Vec<BatchReply>,
    /// A short name of the reason why the other questions have no answer.
    pub otherwise: String,
    pub now: Timestamp,
}

/// The outcome of a batch that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchClosed {
    /// How many answers updates will use.
    pub answered: i64,
    /// How many questions have to be asked directly.
    pub failed: i64,
    /// How many answers came too late.
    pub late: i64,
}

/// An answer from a batch that fits the present summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchedAnswer {
    /// Its key in the journal.
    pub key: String,
    /// The summary's version that the question was about.
    pub version: i64,
    /// The watermark that the question was about.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    pub exchanges: Vec<i64>,
    /// The provisional items that it is to replace, if nothing was pending when it was asked for.
    pub revisited: Vec<i64>,
    pub provider: String,
    pub model: String,
    pub answer: JournalledAnswer,
    /// In micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// True if a run has accounted for its cost already.
    pub is_accounted: bool,
}

/// Figures about batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchFigures {
    /// Batches that recapd has recorded, but that a provider may not know yet.
    pub intents: i64,
    /// Batches that a provider works on.
    pub submitted: i64,
    /// Questions that wait for a batch.
    pub waiting: i64,
    /// Questions in open batches.
    pub out: i64,
    /// When the oldest open batch was recorded.
    pub oldest_at: Option<Timestamp>,
}

/// The store of questions for batches. Each operation is one transaction.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Stores a question, gives the lease back without counting an attempt, and lets the queue row wait for the answer until `until`.
    /// Returns false and changes nothing if the work is urgent by now, or if a batch has already held a question about the same state of
    /// the summary: ask directly then.
    ///
    /// # Errors
    /// [`super::StoreError::Fenced`] when the lease is no longer held.
    async fn defer(
        &self,
        lease: &Lease,
        question: BatchQuestion,
        until: Timestamp,
        now: Timestamp,
    ) -> StoreResult<bool>;

    /// Withdraws an agent's question that is in no batch yet, so that it is asked directly. Returns whether there was one.
    async fn withdraw_question(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool>;

    /// Returns the answer from a batch that fits an agent's present summary, if there is one.
    async fn batched_answer(&self, agent: &AgentId) -> StoreResult<Option<BatchedAnswer>>;

    /// True if any question waits. It only reads, because it is called often and usually finds none.
    async fn has_waiting(&self) -> StoreResult<bool>;

    /// Withdraws waiting questions whose answers would be useless by now, and makes rows due whose question is gone. Returns how many
    /// questions it withdrew: their expected cost no longer counts. Skips agents that others are writing.
    async fn withdraw_outdated(&self, now: Timestamp) -> StoreResult<u64>;

    /// Moves waiting questions into a new batch, oldest first; `None` if too few wait or too many batches are open. Skips agents that
    /// others are writing. It takes the write lock, so check [`Self::has_waiting`] first.
    async fn gather(&self, gather: Gather) -> StoreResult<Option<OpenBatch>>;

    /// Takes at most `limit` open batches that are due for a look, and moves their next look to `next_at`, so that only one caller looks
    /// at each.
    async fn due_batches(
        &self,
        now: Timestamp,
        next_at: Timestamp,
        limit: i64,
    ) -> StoreResult<Vec<OpenBatch>>;

    /// Returns the questions of a batch that have no outcome yet.
    async fn batch_lines(&self, batch: i64) -> StoreResult<Vec<BatchLine>>;

    /// Applies a step to a batch. Returns false and changes nothing if it has left the expected state, or if another daemon holds it.
    async fn move_batch(&self, batch: i64, step: BatchMove) -> StoreResult<bool>;

    /// Closes a batch: journals its answers and wakes all rows that wait for it, with or without an answer. Drops answers that are
    /// useless by now. A second call changes nothing.
    async fn close_batch(&self, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed>;

    /// Returns the provider's ids of our batches, newest first, at most `limit`.
    async fn known_batches(&self, provider: &str, limit: i64) -> StoreResult<Vec<String>>;
}
