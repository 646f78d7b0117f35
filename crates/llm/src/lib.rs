//! The models that turn exchanges into draft items, and their errors.
//!
//! Every model gets the same request: as a prompt or, for the built-in summariser, as transcripts. Every model answers with the
//! same JSON (`domain::reply`), so every answer passes the same checks.
//!
//! ```text
//! chain ─┬─ breaker ── limits ── a provider       not called while it fails; within the limits of its key
//!        ├─ breaker ── limits ── a second one     asked when the first one can't answer
//!        └─ offline                               asked last; a model condenses its items again later
//! ```

pub mod anthropic;
pub mod batch;
pub mod breaker;
pub mod chain;
mod discreet;
mod envelope;
mod fault;
#[cfg(test)]
mod fixtures;
pub mod gemini;
pub mod http;
pub mod limits;
pub mod offline;
pub mod ollama;
pub mod openai;
pub mod remote;
pub mod responses;
mod retry;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use recapd_core::domain::{
    agent::AgentId, price::Usage, prompt::Prompt, summary::fact::Fact, transcript::Transcript,
};

#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The exchanges, rendered as a prompt.
    pub prompt: Prompt,
    /// The same exchanges as data, for the built-in summariser.
    pub transcripts: Vec<Transcript>,
    pub facts: Vec<Fact>,
    pub output_tokens_max: i64,
    /// The agent of the question. If the request has to wait, the limits reserve a turn for this agent.
    pub agent: Option<AgentId>,
    /// Whether the request still waits for the limits of its key.
    pub limit_wait: limits::LimitWait,
}

/// A model's answer. Tokens are counted as the provider bills them; 0 if the provider doesn't report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The answer: JSON in the schema of `domain::reply`, if the model followed the instructions.
    pub text: String,
    /// Tokens read, including those from and to the cache.
    pub input_tokens: i64,
    /// The input tokens that came from the prompt cache.
    pub cached_input_tokens: i64,
    /// The input tokens that were written to the prompt cache.
    pub cache_write_tokens: i64,
    /// Tokens written, including thinking.
    pub output_tokens: i64,
    /// The output tokens that were thinking.
    pub reasoning_tokens: i64,
    pub request_id: Option<String>,
    /// How long the limits of the key are used up, if the provider reports it.
    pub rest: Option<Duration>,
}

impl ModelAnswer {
    /// Returns the answer's tokens, by price class.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input_tokens - self.cached_input_tokens - self.cache_write_tokens,
            cached_input: self.cached_input_tokens,
            cache_write: self.cache_write_tokens,
            output: self.output_tokens,
        }
    }
}

/// Errors of a call, grouped by what the caller does next. Messages contain what a provider said, shortened, but never a key or a
/// prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// A network error, a timeout or a server error (5xx): retry later, after [`TransientFailure::retry_after`] at the earliest.
    #[error("the model is unreachable or failing: {0}")]
    Transient(TransientFailure),
    /// The rate limit is reached: retry after `retry_after` at the earliest.
    #[error("the provider limits the rate: {message}")]
    RateLimited {
        /// After which time to retry, if the provider said so.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The input is too long for the model: send less.
    #[error("the input is too long for the model: {0}")]
    ContextOverflow(String),
    /// The answer was cut off at the output limit: allow more or send less.
    #[error("the answer was cut off at the output limit")]
    Truncated {
        /// The tokens that the provider bills, if it reports them.
        usage: Option<Usage>,
    },
    /// The model declined, or a filter blocked the question: it would get the same answer again.
    #[error("the model declined: {message}")]
    Refused {
        message: String,
        /// The tokens that the provider bills, if it reports them.
        usage: Option<Usage>,
    },
    /// The key is wrong, or its money is spent. Only an operator can help.
    #[error("{0}")]
    Auth(String),
    /// The request is wrong, so a retry is useless.
    #[error("the provider refuses the request: {0}")]
    Permanent(String),
    /// The model wasn't asked. Give the work back for this long; this doesn't count as an attempt.
    #[error("the model isn't asked for {} ms: {why}", wait.as_millis())]
    Waiting {
        /// How long to wait, from now on.
        wait: Duration,
        why: Wait,
    },
}

/// Why the model isn't asked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The allowed number of calls is in progress.
    Places,
    /// The requests or tokens of a minute are used up, or the provider asked for a wait.
    Rate,
    /// The provider failed too often in a row, or refuses the account.
    Circuit,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Places => "all allowed calls are under way",
            Self::Rate => "the limits of the key are used up",
            Self::Circuit => "the provider rests after its failures",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientFailure {
    pub cause: Cause,
    /// After which time to retry, if the provider said so.
    pub retry_after: Option<Duration>,
    /// How long no calls will be made to the provider, if the failure counts as an outage and not as a failure of the request.
    pub outage: Option<Duration>,
    /// The tokens that the provider bills for a useless answer, if it reports them.
    pub usage: Option<Usage>,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The provider failed, or its reply isn't an answer.
    Server,
    /// The provider says that it has too many requests.
    Overloaded,
    /// No complete answer came in time.
    Timeout,
    /// The provider couldn't be reached.
    Network,
    /// The connection broke off after the provider had the request.
    Broken,
}

impl From<String> for TransientFailure {
    fn from(message: String) -> Self {
        Self::new(Cause::Server, message)
    }
}

impl From<&str> for TransientFailure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl fmt::Display for TransientFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl TransientFailure {
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, retry_after: None, outage: None, usage: None, message: message.into() }
    }

    /// Returns true if the request may have caused the failure: the provider received it and then failed. A request that never
    /// arrived isn't the cause, and neither is one to an overloaded provider.
    pub fn may_be_due_to_request(&self) -> bool {
        match self.cause {
            Cause::Timeout | Cause::Server | Cause::Broken => true,
            Cause::Network | Cause::Overloaded => false,
        }
    }
}

impl LlmError {
    /// Returns after which time to retry, if the provider said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Transient(fault) => fault.retry_after,
            Self::RateLimited { retry_after, .. } => *retry_after,
            Self::Waiting { wait, .. } => Some(*wait),
            _ => None,
        }
    }

    /// Returns how long no calls will be made to the provider after this failure; `None` if it doesn't count as an outage.
    pub fn outage(&self) -> Option<Duration> {
        match self {
            Self::Transient(fault) => fault.outage,
            _ => None,
        }
    }

    /// Returns the error's short, stable name for metrics and the table of runs.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Transient(fault) => match fault.cause {
                Cause::Server => "provider_server",
                Cause::Overloaded => "provider_overloaded",
                Cause::Timeout => "provider_timeout",
                Cause::Network | Cause::Broken => "provider_network",
            },
            Self::RateLimited { .. } => "provider_rate_limited",
            Self::ContextOverflow(_) => "provider_context_length",
            Self::Truncated { .. } => "bad_output",
            Self::Refused { .. } => "provider_refusal",
            Self::Auth(_) => "provider_auth",
            Self::Permanent(_) => "provider_invalid_request",
            Self::Waiting { .. } => "provider_waiting",
        }
    }

    /// Returns true if the provider bills a call that failed this way, although the answer is useless or came too late.
    pub fn is_billed(&self) -> bool {
        match self {
            Self::Truncated { .. } | Self::Refused { .. } => true,
            Self::Transient(fault) => fault.cause == Cause::Timeout,
            _ => false,
        }
    }

    /// Returns the tokens that the provider bills for the failed call, if it reports them.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Transient(fault) => fault.usage,
            Self::Truncated { usage } | Self::Refused { usage, .. } => *usage,
            _ => None,
        }
    }

    fn with_usage(self, usage: Option<Usage>) -> Self {
        match self {
            Self::Transient(fault) => Self::Transient(TransientFailure { usage, ..fault }),
            Self::Truncated { .. } => Self::Truncated { usage },
            Self::Refused { message, .. } => Self::Refused { message, usage },
            error => error,
        }
    }
}

#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns the provider's name, such as `offline`, `openai` or `anthropic`.
    fn provider(&self) -> &str;

    fn model(&self) -> &str;

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError>;

    /// Checks that the provider can be reached and accepts the key, without asking the model. The built-in summariser, which has
    /// no provider, always passes.
    ///
    /// # Errors
    /// As [`Self::answer`].
    async fn reach(&self) -> Result<(), LlmError> {
        Ok(())
    }

    /// Calls `listener` at each change of this model's circuit and of its fallbacks' circuits. Only a [`breaker::Breaker`] has a
    /// circuit.
    fn watch(&self, _listener: &breaker::BreakerListener) {}

    /// Returns the fallbacks in the order in which they are asked. Only a [`chain::Chain`] has any.
    fn fallbacks(&self) -> &[Arc<dyn ChatModel>] {
        &[]
    }
}
