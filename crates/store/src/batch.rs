//! The interface for batches at a provider: their questions and the outcomes.
//!
//! A question is stored in the transaction that gives its lease back. While the question is at the provider, nobody holds a
//! lease, and the queue row waits for the answer. The answer is stored in the journal of answers, where the next update finds it,
//! so that it passes the same fences as any other. The states are those of [`recapd_core::domain::batch`].

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
    /// The summary's version that the question is about.
    pub version: i64,
    /// The watermark that the question is about.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    /// The exchanges that the question is about, in order.
    pub exchanges: Vec<i64>,
    /// The provisional items that the answer will replace, if nothing was pending.
    pub revisited: Vec<i64>,
    pub provider: String,
    pub model: String,
    /// The request's body, as JSON.
    pub body: String,
    /// The expected tokens, input and output.
    pub tokens: i64,
    /// The price of these tokens in a batch, in micro-dollars, if known.
    pub cost_microusd: Option<i64>,
}

/// Limits for combining waiting questions into a batch.
#[derive(Clone, Debug)]
pub struct Gather {
    pub name: String,
    pub provider: String,
    pub model: String,
    pub requests_max: i64,
    /// Limits the bytes of a batch's bodies. The first question is taken whatever its size.
    pub bytes_max: i64,
    /// Limits how many batches may be open, this one included.
    pub open_max: i64,
    /// A batch that isn't full is made only if its oldest question has waited since before this time.
    pub waiting_before: Timestamp,
    pub now: Timestamp,
    /// When to ask the provider about the batch if its submission isn't confirmed by then.
    pub next_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBatch {
    pub batch: i64,
    /// The identity under which the batch is submitted, and by which the provider's list of batches is searched for it.
    pub identity: BatchIdentity,
    pub provider: String,
    pub model: String,
    pub state: BatchState,
    /// The provider's id, once known.
    pub provider_id: Option<String>,
    /// How often the batch was polled in this state before.
    pub looks: i64,
    /// Until when the caller holds the batch. If the stored time has changed, another daemon holds it.
    pub held_until: Timestamp,
}

/// A question of a batch, as it is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// The key of its answer in the journal, and its id at the provider.
    pub key: String,
    pub exchanges: Vec<i64>,
    /// The request's body; empty once the provider has it.
    pub body: String,
}

/// A step of an open batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMove {
    /// The state that the caller read. If the batch is in another state, nothing changes.
    pub from: BatchState,
    /// Until when the caller holds the batch. If another daemon holds it, nothing changes, unless `submitted_as` is set.
    pub held_until: Timestamp,
    /// The provider's id, if this step records the submission.
    pub submitted_as: Option<String>,
    /// When to poll again.
    pub next_at: Timestamp,
}

/// The outcome of one question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReply {
    pub key: String,
    /// The checked answer, or a short name of the reason why there is no usable answer.
    pub answer: Result<String, String>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_microusd: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    pub results: Vec<BatchReply>,
    /// A short name of the reason why the other questions, those without a result, have no answer.
    pub otherwise: String,
    pub now: Timestamp,
}

/// The outcome of a batch that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchClosed {
    /// How many answers updates will use.
    pub answered: i64,
    /// How many questions must be asked directly instead.
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
    /// The provisional items that the answer will replace, if nothing was pending when the question was asked.
    pub revisited: Vec<i64>,
    pub provider: String,
    pub model: String,
    pub answer: JournalledAnswer,
    /// In micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// True if a run has accounted for the cost already.
    pub is_accounted: bool,
}

/// Figures about batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchFigures {
    /// Batches that recapd has recorded, but that a provider may not know yet.
    pub intents: i64,
    /// Batches that a provider works on.
    pub submitted: i64,
    /// Questions that wait to be put into a batch.
    pub waiting: i64,
    /// Questions in open batches.
    pub out: i64,
    /// When the oldest open batch was recorded.
    pub oldest_at: Option<Timestamp>,
}

/// The store of questions for batches. Each operation is one transaction.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Stores a question, gives the lease back without counting an attempt, and lets the queue row wait for the answer until
    /// `until`. Returns false and changes nothing if the work has become urgent, or if a batch has held a question about the same
    /// state of the summary already. The caller must then ask directly.
    ///
    /// # Errors
    /// [`super::StoreError::Fenced`] if the lease is no longer held.
    async fn defer(
        &self,
        lease: &Lease,
        question: BatchQuestion,
        until: Timestamp,
        now: Timestamp,
    ) -> StoreResult<bool>;

    /// Withdraws an agent's question that isn't in a batch yet, so that it can be asked directly. Returns whether there was one.
    async fn withdraw_question(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool>;

    /// Returns the answer from a batch that fits an agent's present summary, if there is one.
    async fn batched_answer(&self, agent: &AgentId) -> StoreResult<Option<BatchedAnswer>>;

    /// Returns true if any question waits for a batch. Only reads, because it is called often and usually finds none.
    async fn has_waiting(&self) -> StoreResult<bool>;

    /// Withdraws waiting questions whose answers would be useless by now, and makes rows due that wait for a question that no
    /// longer exists. Returns how many questions it withdrew; their expected cost no longer counts. Skips agents that others are
    /// writing.
    async fn withdraw_outdated(&self, now: Timestamp) -> StoreResult<u64>;

    /// Puts waiting questions into a new batch, oldest first. Returns `None` if too few wait or too many batches are open. Skips
    /// agents that others are writing. Takes the write lock, so check [`Self::has_waiting`] first.
    async fn gather(&self, gather: Gather) -> StoreResult<Option<OpenBatch>>;

    /// Returns up to `limit` open batches that are due to be polled, and sets their next poll to `next_at`, so that only one
    /// caller polls each.
    async fn due_batches(
        &self,
        now: Timestamp,
        next_at: Timestamp,
        limit: i64,
    ) -> StoreResult<Vec<OpenBatch>>;

    /// Returns the questions of a batch that have no outcome yet.
    async fn batch_lines(&self, batch: i64) -> StoreResult<Vec<BatchLine>>;

    /// Applies a step to a batch. Returns false and changes nothing if the batch isn't in the expected state or another daemon
    /// holds it.
    async fn move_batch(&self, batch: i64, step: BatchMove) -> StoreResult<bool>;

    /// Closes a batch: journals its answers, and wakes all rows that wait for it, with or without an answer. Drops answers that
    /// have become useless. A second call changes nothing.
    async fn close_batch(&self, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed>;

    /// Returns the provider's ids of recapd's batches, newest first, at most `limit`.
    async fn known_batches(&self, provider: &str, limit: i64) -> StoreResult<Vec<String>>;
}
