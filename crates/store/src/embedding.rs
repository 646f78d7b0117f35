//! The seam for embeddings: the messages that an embedding model is still to read, and what it makes of them.

use async_trait::async_trait;

use super::{StoreResult, StoredMessage};
use recapd_core::domain::{agent::AgentId, recall::Embedding, time::Timestamp};

/// Of an agent's messages only the newest are given to a model.
pub const EMBEDDED_MESSAGES_MAX: i64 = 200_000;
/// The most embeddings that a search compares with its question, newest first.
pub const COMPARED_MAX: i64 = 50_000;

/// Embeddings of one model can be compared. Another model, or other dimensions, begin anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingModel {
    pub name: String,
    pub dimensions: i64,
}

/// Asks for the next messages. Nobody else gets messages of the same agent until then.
#[derive(Clone, Debug)]
pub struct EmbeddingClaim {
    pub model: EmbeddingModel,
    pub messages_max: i64,
    pub now: Timestamp,
    pub until: Timestamp,
}

/// Messages of one agent that users and the model said, in order; none if only others came.
#[derive(Clone, Debug)]
pub struct EmbeddingBatch {
    pub agent: AgentId,
    pub messages: Vec<StoredMessage>,
    /// Everything before is done.
    pub after_seq: i64,
    /// How far these messages go.
    pub through_seq: i64,
    /// The claim's end, by which the result is known to be this claim's.
    pub claimed_until: Timestamp,
}

/// What a model made of a batch.
#[derive(Clone, Debug)]
pub struct EmbeddingOutcome {
    pub agent: AgentId,
    pub model: EmbeddingModel,
    /// By message number.
    pub embeddings: Vec<(i64, Embedding)>,
    pub after_seq: i64,
    /// The batch's, or its `after_seq` to give it back.
    pub through_seq: i64,
    pub claimed_until: Timestamp,
}

#[async_trait]
pub trait EmbeddingStore: Send + Sync {
    /// Claims the next messages of the agent with the fewest; `None` if there are none.
    async fn claim_unembedded(&self, claim: EmbeddingClaim) -> StoreResult<Option<EmbeddingBatch>>;

    /// Keeps embeddings and ends the claim. What was forgotten since gets none. Returns how many were kept: none once the claim is
    /// somebody else's.
    async fn keep_embeddings(&self, outcome: EmbeddingOutcome) -> StoreResult<u64>;

    /// Counts the messages that the model is still to look at, of all kinds.
    async fn unembedded(&self, model: &EmbeddingModel) -> StoreResult<i64>;
}
