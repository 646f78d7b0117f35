//! Batches: many questions in one request at half the price, answered within a day.

use async_trait::async_trait;

use super::{LlmError, ModelAnswer, ModelRequest};
use recapd_core::domain::batch::{BatchIdentity, ListedBatch};

/// Limits the bytes of a file of results.
pub const RESULTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Limits the bytes of a batch's body: Gemini's limit for a request, minus what surrounds the questions.
pub const BATCH_BYTES_MAX: i64 = 19_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCall {
    /// An id that is unique among the questions of all batches: 1 to 64 characters of `[a-zA-Z0-9_-]`.
    pub key: String,
    /// The request's body, as [`BatchModel::body`] returned it.
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchStatus {
    Running,
    Ended(FinishedBatch),
    /// The provider no longer has the batch.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedBatch {
    /// Where the results are; empty if there are none.
    pub results: Vec<Results>,
    /// Why questions without a result have none, in a word such as `expired`.
    pub otherwise: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// At this path of the API, as JSON lines.
    At(String),
    /// In the answer itself.
    Here(Vec<serde_json::Value>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    pub key: String,
    /// The answer's text, or a short name of the reason why there is none. Leaves out the provider's message, which may quote the
    /// question.
    pub text: Result<String, String>,
    /// The billed tokens, even if the text is unusable. This answer has no text.
    pub billed: ModelAnswer,
}

/// A model that answers in batches. It has the errors of [`super::ChatModel`], and no error quotes a question.
#[async_trait]
pub trait BatchModel: Send + Sync {
    /// The provider's name: `openai`, `anthropic`.
    fn provider(&self) -> &str;

    fn model(&self) -> &str;

    /// Returns the body of one request, as JSON in one line.
    fn body(&self, request: &ModelRequest) -> Result<String, LlmError>;

    /// Creates a batch called `name`. Returns the provider's id of the batch. Providers don't recognise a batch that is sent
    /// twice. After [`LlmError::Transient`] and [`LlmError::RateLimited`] the batch may exist; after other errors it doesn't.
    async fn submit(&self, name: &str, calls: &[BatchCall]) -> Result<String, LlmError>;

    /// Returns the batches in the provider's list that may be the `wanted` one.
    async fn find(&self, wanted: &BatchIdentity) -> Result<Vec<ListedBatch>, LlmError>;

    /// Returns the state of the batch with the provider's id `id`.
    async fn look(&self, id: &str) -> Result<BatchStatus, LlmError>;

    /// Returns the results of a batch that has ended, in any order. Leaves out unreadable ones.
    async fn results(&self, ended: &FinishedBatch) -> Result<Vec<BatchResult>, LlmError>;
}
