//! The seam for batches at a provider: the questions put into them, and what became of these.
//!
//! A question is stored in the transaction that gives its lease back: while it is out no lease is held, and the queue
//! row waits for the answer. An answer is journalled where the next update finds it, so it is applied behind the same
//! fences as any other. The states are those of [`recapd_core::domain::batch`].

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{JournalledAnswer, StoreResult};
use recapd_core::domain::{
    agent::AgentId,
    batch::{BatchIdentity, BatchState},
    time::Timestamp,
    work::Lease,
};

/// A question that may wait for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchQuestion {
    /// Its key in the journal of answers, which is its id at the provider too.
    pub key: String,
    /// The summary's version that was read.
    pub version: i64,
    /// The watermark that was read.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    /// The exchanges that it asks about, in order.
    pub exchanges: Vec<i64>,
    /// The provisional items that the answer is to replace, if nothing was pending.
    pub revisited: Vec<i64>,
    /// The provider that is asked.
    pub provider: String,
    /// Which model is asked.
    pub model: String,
    /// The request's body, as JSON.
    pub body: String,
    /// The tokens that it is expected to take, read and written.
    pub tokens: i64,
    /// What these cost in a batch, in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
}

/// How waiting questions are put together into a batch.
#[derive(Clone, Debug)]
pub struct Gather {
    pub name: String,
    /// Only questions to this provider.
    pub provider: String,
    /// Only questions to this model.
    pub model: String,
    /// The most questions of a batch.
    pub requests_max: i64,
    /// The most bytes of bodies in a batch; it holds one question even if that has more.
    pub bytes_max: i64,
    /// The most batches that may be open at a time.
    pub open_max: i64,
    /// Fewer questions than the most make a batch if the oldest has waited since before this.
    pub waiting_before: Timestamp,
    /// The current time.
    pub now: Timestamp,
    /// When the batch is looked for at the provider if its sending isn't confirmed.
    pub next_at: Timestamp,
}

/// A batch that isn't closed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBatch {
    /// Its number.
    pub batch: i64,
    /// What the provider is told of the batch, by which it is found there.
    pub wanted: BatchIdentity,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    pub state: BatchState,
    /// The provider's id, once it is known.
    pub provider_id: Option<String>,
    /// How often it was looked at in this state before.
    pub looks: i64,
    /// Until when the caller holds it. If the stored time is another one by now, another daemon holds it.
    pub held_until: Timestamp,
}

/// A question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// The key of its answer in the journal, which is its id at the provider.
    pub key: String,
    /// The exchanges that it asks about.
    pub exchanges: Vec<i64>,
    /// The request's body; empty once the provider has it.
    pub body: String,
}

/// How a batch that stays open is moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMove {
    /// The state that the caller read: if the batch isn't in it any more, nothing is changed.
    pub from: BatchState,
    /// The time until which the caller holds it: if another daemon does by now, nothing is changed, unless
    /// `submitted_as` is set.
    pub held_until: Timestamp,
    /// The provider's id, if this notes that the batch was submitted.
    pub submitted_as: Option<String>,
    /// When to look again.
    pub next_at: Timestamp,
}

/// The result of one question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReply {
    /// The question's key.
    pub key: String,
    /// The checked answer, or a short name of why there is none to use.
    pub answer: Result<String, String>,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that it wrote.
    pub output_tokens: i64,
    /// What that cost, in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// The results that the provider has.
    pub results: Vec<BatchReply>,
    /// A short name of why the other questions have no answer.
    pub otherwise: String,
    /// The current time.
    pub now: Timestamp,
}

/// What became of the questions of a batch that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchClosed {
    /// How many answers updates will use.
    pub answered: i64,
    /// How many questions are to be asked directly.
    pub failed: i64,
    /// How many answers came too late.
    pub late: i64,
}

/// An answer from a batch that fits the summary as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchedAnswer {
    /// Its key in the journal.
    pub key: String,
    /// The version it was asked about.
    pub version: i64,
    /// The watermark it was asked about.
    pub lo: i64,
    /// The watermark after the update.
    pub hi: i64,
    pub exchanges: Vec<i64>,
    /// The provisional items that it is to replace, if nothing was pending when it was asked for.
    pub revisited: Vec<i64>,
    pub provider: String,
    pub model: String,
    pub answer: JournalledAnswer,
    /// What it cost, in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// Whether a run has accounted for its cost already.
    pub is_accounted: bool,
}

/// Batches in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchFigures {
    /// Batches written down, of which the provider may not know yet.
    pub intents: i64,
    /// Batches that a provider works on.
    pub submitted: i64,
    /// Questions that wait for a batch.
    pub waiting: i64,
    /// Questions in open batches.
    pub out: i64,
    /// When the oldest open batch was written down.
    pub oldest_at: Option<Timestamp>,
}

/// The store of questions for batches. Each operation is one transaction.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Stores a question, gives the lease back without an attempt, and lets the queue row wait for the answer until
    /// `until`. Returns false and changes nothing if the work is urgent by now, or if the same state of the summary was
    /// put to a batch before: then the question is asked directly.
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

    /// Takes back an agent's question that is in no batch yet: it is asked directly. Returns whether there was one.
    async fn withdraw_question(&self, agent: &AgentId, now: Timestamp) -> StoreResult<bool>;

    /// The answer from a batch that fits an agent's summary as it stands, if there is one.
    async fn batched_answer(&self, agent: &AgentId) -> StoreResult<Option<BatchedAnswer>>;

    /// Whether any question waits. It is asked often, and mostly there is none: it only reads.
    async fn has_waiting(&self) -> StoreResult<bool>;

    /// Withdraws waiting questions whose answers are of no use any more, and makes rows due that wait for a question
    /// which is gone. Returns how many questions were withdrawn: their expected cost no longer counts. Agents that are
    /// being written are left for the next time.
    async fn withdraw_outdated(&self, now: Timestamp) -> StoreResult<u64>;

    /// Puts waiting questions into a new batch, the oldest first; `None` if too few wait, or too many batches are open.
    /// Agents that are being written are left for the next time. It takes the write lock, so ask [`Self::has_waiting`]
    /// first.
    async fn gather(&self, gather: Gather) -> StoreResult<Option<OpenBatch>>;

    /// Takes the open batches that are due to be looked at, at most `limit`, and puts their next look off to `next_at`, so
    /// that one caller looks at each.
    async fn due_batches(
        &self,
        now: Timestamp,
        next_at: Timestamp,
        limit: i64,
    ) -> StoreResult<Vec<OpenBatch>>;

    /// The questions of a batch that have no outcome yet.
    async fn batch_lines(&self, batch: i64) -> StoreResult<Vec<BatchLine>>;

    /// Moves a batch on. Returns false and changes nothing if it is in another state by now, or held by another daemon.
    async fn move_batch(&self, batch: i64, step: BatchMove) -> StoreResult<bool>;

    /// Closes a batch: journals its answers and wakes the rows that wait, also those without an answer. An answer that
    /// is of no use any more is dropped. Doing it again changes nothing.
    async fn close_batch(&self, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed>;

    /// The provider's ids of batches that are ours, the newest first, at most `limit`.
    async fn known_batches(&self, provider: &str, limit: i64) -> StoreResult<Vec<String>>;
}
