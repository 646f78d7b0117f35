//! The seam for batches: many questions at once, at half the price, answered within a day.

use async_trait::async_trait;

use super::{LlmError, ModelAnswer, ModelRequest};
use recapd_core::domain::batch::{BatchIdentity, ListedBatch};

/// The longest file of results that is read, in bytes.
pub const RESULTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest body of one batch, in bytes: what Gemini accepts in one request, less what is around the questions.
pub const BATCH_BYTES_MAX: i64 = 19_000_000;

/// A question of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCall {
    /// Its id in this batch and in all others: 1 to 64 of `[a-zA-Z0-9_-]`.
    pub key: String,
    /// The request's body, as [`BatchModel::body`] made it.
    pub body: String,
}

/// The state of a batch at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchStatus {
    /// The provider works on it.
    Running,
    Ended(FinishedBatch),
    /// There is no such batch any more.
    Gone,
}

/// A batch that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedBatch {
    /// Where its results are; empty if it has none.
    pub results: Vec<Results>,
    /// Why other questions have no result, in a word: `expired`.
    pub otherwise: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// At this path of the API, as lines of JSON.
    At(String),
    /// In the answer itself.
    Here(Vec<serde_json::Value>),
}

/// The result of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// The question's key.
    pub key: String,
    /// The answer's text, or a short name of why there is none. The provider's message about that is left out, since it
    /// may quote the question.
    pub text: Result<String, String>,
    /// The tokens that are billed, whatever the text is worth, in an answer without text.
    pub billed: ModelAnswer,
}

/// A model that answers in batches. Fails as [`super::ChatModel`] does; the errors quote no question.
#[async_trait]
pub trait BatchModel: Send + Sync {
    /// The provider's name: `openai`, `anthropic`.
    fn provider(&self) -> &str;

    /// The model's name.
    fn model(&self) -> &str;

    /// The body of one request, JSON in one line.
    fn body(&self, request: &ModelRequest) -> Result<String, LlmError>;

    /// Makes a batch called `name` and returns the provider's id of it. No provider recognises a batch that is sent
    /// twice. After [`LlmError::Transient`] and [`LlmError::RateLimited`] the batch may have been made, after other
    /// errors it wasn't.
    async fn submit(&self, name: &str, calls: &[BatchCall]) -> Result<String, LlmError>;

    /// The batches in the provider's list that may be the `wanted` one.
    async fn find(&self, wanted: &BatchIdentity) -> Result<Vec<ListedBatch>, LlmError>;

    /// The state of a batch.
    async fn look(&self, id: &str) -> Result<BatchStatus, LlmError>;

    /// The results of a batch that ended, in any order. Unreadable ones are left out.
    async fn results(&self, ended: &FinishedBatch) -> Result<Vec<BatchResult>, LlmError>;
}
