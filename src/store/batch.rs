//! The seam for batches at a provider: questions that may wait, and what became of them.
//!
//! A question is written down in the transaction that gives its lease back: while it is out nobody holds anything, and
//! the queue row waits for its answer. An answer is journalled where the next update finds it, so it is applied behind
//! the same fences as any other; the states are those of [`crate::domain::batch`].

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{JournalledAnswer, StoreResult};
use crate::domain::{
    agent::AgentId,
    batch::{BatchState, Wanted},
    time::Timestamp,
    work::Lease,
};

/// A question that may wait.
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
    /// Who is asked.
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

/// How questions are put together.
#[derive(Clone, Debug)]
pub struct Gather {
    /// What the batch is to be called.
    pub name: String,
    /// Questions to this provider.
    pub provider: String,
    /// Questions to this model.
    pub model: String,
    /// At most so many questions in a batch.
    pub requests_max: i64,
    /// At most so many bytes of bodies in a batch, but at least one question.
    pub bytes_max: i64,
    /// At most so many batches are open at a time.
    pub open_max: i64,
    /// Fewer questions than that make a batch when the oldest waits since before.
    pub waiting_before: Timestamp,
    /// When.
    pub now: Timestamp,
    /// When the batch is looked for if nobody hears what became of it.
    pub next_at: Timestamp,
}

/// A batch that isn't closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBatch {
    /// Its number.
    pub batch: i64,
    /// What the provider was told.
    pub wanted: Wanted,
    /// Who is asked.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// How far it has come.
    pub state: BatchState,
    /// The provider's id, once it is known.
    pub provider_id: Option<String>,
    /// How often it was looked at in this state, this time not counted.
    pub looks: i64,
    /// Until when it is left to whoever has this: somebody else holds it until another time.
    pub held_until: Timestamp,
}

/// A question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// Its id at the provider.
    pub key: String,
    /// The exchanges that it asks about.
    pub exchanges: Vec<i64>,
    /// The request's body; empty once the provider has it.
    pub body: String,
}

/// What becomes of a batch that stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMove {
    /// The state that it was in: one that it isn't in any more changes nothing.
    pub from: BatchState,
    /// Until when it was held: if somebody else holds it by now, nothing is changed, unless the provider is known to have it.
    pub held_until: Timestamp,
    /// The provider's id, if it is submitted by this.
    pub submitted_as: Option<String>,
    /// When to look again.
    pub next_at: Timestamp,
}

/// What came back for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReply {
    /// The question's key.
    pub key: String,
    /// What is believed of the answer, or a short name of why there is none to use.
    pub answer: Result<String, String>,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that it wrote.
    pub output_tokens: i64,
    /// What that cost, in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
}

/// The end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// What came back.
    pub results: Vec<BatchReply>,
    /// Why there is no answer to those of which nothing came back.
    pub otherwise: String,
    /// When.
    pub now: Timestamp,
}

/// What became of the questions of a batch that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchClosed {
    /// Answers that updates will use.
    pub answered: i64,
    /// Questions to be asked directly.
    pub failed: i64,
    /// Answers that came too late.
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
    /// The exchanges that it tells of.
    pub exchanges: Vec<i64>,
    /// The provisional items that it is to replace, if nothing was pending when it was asked for.
    pub revisited: Vec<i64>,
    /// Who answered.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// The answer.
    pub answer: JournalledAnswer,
    /// What it cost, in micro-dollars, if the price is known.
    pub cost_microusd: Option<i64>,
    /// A run has told already what it cost.
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

/// Questions in batches. Each operation is one transaction.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Writes a question down, gives the lease back untouched, and lets the queue row wait until `until` for the answer.
    /// False, and nothing is changed, if the work is urgent by now, or the same state of the summary was put to a batch
    /// before: then it is asked about directly.
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

    /// Whether any question waits. Asked often, and mostly in vain: it is a mere read.
    async fn has_waiting(&self) -> StoreResult<bool>;

    /// Withdraws waiting questions to which nobody waits for an answer any more, and has rows wait no longer whose question
    /// is gone. Returns how many are withdrawn: what they would have cost is free again. Agents that somebody is writing are left
    /// for the next time.
    async fn withdraw_outdated(&self, now: Timestamp) -> StoreResult<u64>;

    /// Puts waiting questions into a new batch, the oldest first; none if too few wait, or too many batches are open.
    /// Agents that somebody is writing are left for the next time. It locks to write: who isn't sure that anything waits asks
    /// [`Self::has_waiting`] first.
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

    /// Moves a batch on. Returns whether it was in the state it was thought to be in, and held by the caller.
    async fn move_batch(&self, batch: i64, step: BatchMove) -> StoreResult<bool>;

    /// Closes a batch: journals its answers and wakes the rows that wait for them, also of those that have none. An
    /// answer to which nobody waits any more is dropped. Doing it again changes nothing.
    async fn close_batch(&self, batch: i64, end: BatchEnd) -> StoreResult<BatchClosed>;

    /// The provider's ids of batches that are ours, the newest first, at most `limit`.
    async fn known_batches(&self, provider: &str, limit: i64) -> StoreResult<Vec<String>>;
}
