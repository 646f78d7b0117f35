//! The interface for embeddings: which messages an embedding model hasn't read yet, and the embeddings that it made.

use async_trait::async_trait;

use super::{StoreResult, StoredMessage};
use recapd_core::domain::{agent::AgentId, recall::Embedding, time::Timestamp};

/// Limits how many of an agent's newest messages are embedded.
pub const EMBEDDED_MESSAGES_MAX: i64 = 200_000;
/// Limits how many embeddings a search compares with its question. The newest come first.
pub const COMPARED_MAX: i64 = 50_000;

/// Identifies a model. Embeddings of one model can be compared; for another model, or other dimensions, all are made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingModel {
    pub name: String,
    pub dimensions: i64,
}

/// A request for the next messages. Until it ends, nobody else gets messages of the same agent.
#[derive(Clone, Debug)]
pub struct EmbeddingClaim {
    pub model: EmbeddingModel,
    pub messages_max: i64,
    pub now: Timestamp,
    /// When the claim ends, if no result comes before.
    pub until: Timestamp,
}

/// One agent's next messages from users and the model, in order. Has no messages if the next ones are all of other kinds.
#[derive(Clone, Debug)]
pub struct EmbeddingBatch {
    pub agent: AgentId,
    pub messages: Vec<StoredMessage>,
    /// Messages up to this one are embedded already.
    pub after_seq: i64,
    /// The last message of the batch.
    pub through_seq: i64,
    /// When the claim ends. The time identifies the claim when its result comes.
    pub claimed_until: Timestamp,
}

/// The embeddings that a model made of a batch.
#[derive(Clone, Debug)]
pub struct EmbeddingOutcome {
    pub agent: AgentId,
    pub model: EmbeddingModel,
    /// Each embedding with its message's number.
    pub embeddings: Vec<(i64, Embedding)>,
    pub after_seq: i64,
    /// The batch's `through_seq`, or its `after_seq` to give the batch back.
    pub through_seq: i64,
    pub claimed_until: Timestamp,
}

#[async_trait]
pub trait EmbeddingStore: Send + Sync {
    /// Claims the next messages of the agent with the fewest messages to embed; `None` if there are none.
    async fn claim_unembedded(&self, claim: EmbeddingClaim) -> StoreResult<Option<EmbeddingBatch>>;

    /// Stores embeddings and ends the claim. Leaves out messages that were forgotten since. Returns how many it stored; 0 if
    /// another daemon has the claim by now.
    async fn keep_embeddings(&self, outcome: EmbeddingOutcome) -> StoreResult<u64>;

    /// Counts the messages of all kinds that aren't embedded yet.
    async fn unembedded(&self, model: &EmbeddingModel) -> StoreResult<i64>;
}
