//! The model seam: the models that turn exchanges into draft items, and what can go wrong.
//!
//! Every model gets the same request, as a prompt for those that read prompts and as transcripts for the built-in
//! one, and answers with the same JSON (`domain::reply`), so that every answer passes the same checks.
//!
//! ```text
//! chain ─┬─ breaker ── limits ── a provider       left alone while it fails; within what its key allows
//!        ├─ breaker ── limits ── a second one     asked in its place
//!        └─ offline                               asked last; what it writes is condensed again later
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
    /// The facts that hold before these exchanges.
    pub facts: Vec<Fact>,
    /// The most tokens the answer may have.
    pub output_tokens_max: i64,
    /// The agent that it is about: if the request has to wait, a turn is kept for the agent until it comes back.
    pub agent: Option<AgentId>,
    /// Whether it still waits for the limits of its key.
    pub held: limits::LimitWait,
}

/// A model's answer. Tokens are counted as the provider bills them, and 0 if it doesn't say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The answer: JSON by the schema of `domain::reply`, if the model did as asked.
    pub text: String,
    /// Tokens read, those from and to the cache included; 0 for the offline model.
    pub input_tokens: i64,
    /// How many of these came from the prompt cache.
    pub cached_input_tokens: i64,
    /// How many of these were written to the prompt cache.
    pub cache_write_tokens: i64,
    /// Tokens written, thinking included; 0 for the offline model.
    pub output_tokens: i64,
    /// How many of these were thinking.
    pub reasoning_tokens: i64,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the limits of the key are used up, if the provider says so with its answer.
    pub rest: Option<Duration>,
}

impl ModelAnswer {
    /// Its tokens, by kinds that are priced differently.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input_tokens - self.cached_input_tokens - self.cache_write_tokens,
            cached_input: self.cached_input_tokens,
            cache_write: self.cache_write_tokens,
            output: self.output_tokens,
        }
    }
}

/// What can go wrong, by what the caller does next. The messages hold what a provider said, shortened, and never a
/// key or a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// Try again later, not before [`TransientFailure::retry_after`]: network, timeout, 5xx.
    #[error("the model is unreachable or failing: {0}")]
    Transient(TransientFailure),
    /// Try again, but not before `retry_after`.
    #[error("the provider limits the rate: {message}")]
    RateLimited {
        /// When the provider said to come back, if it did.
        retry_after: Option<Duration>,
        /// The provider's message.
        message: String,
    },
    /// The input is too long for the model: send less.
    #[error("the input is too long for the model: {0}")]
    ContextOverflow(String),
    /// The answer was cut off at the output limit: allow more or send less.
    #[error("the answer was cut off at the output limit")]
    Truncated {
        /// The tokens that the provider bills, if it says so.
        usage: Option<Usage>,
    },
    /// The model declined, or a filter blocked it: the same question gets the same answer.
    #[error("the model declined: {message}")]
    Refused {
        /// The provider's explanation.
        message: String,
        /// The tokens that the provider bills, if it says so.
        usage: Option<Usage>,
    },
    /// The key is wrong, or its money is spent: nothing helps but an operator.
    #[error("the provider refuses the key or the account: {0}")]
    Auth(String),
    /// The request is wrong: trying again is useless.
    #[error("the provider refuses the request: {0}")]
    Permanent(String),
    /// The model wasn't asked: give the work back until then. It doesn't count as an attempt.
    #[error("the model isn't asked for {} ms: {why}", wait.as_millis())]
    Waiting {
        /// How long to wait.
        wait: Duration,
        why: Wait,
    },
}

/// Why a model isn't asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As many calls are under way as are allowed.
    Places,
    /// The requests or tokens of a minute are used up, or the provider said to come back later.
    Rate,
    /// The provider failed too often in a row, or refuses the account.
    Circuit,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Places => "as many calls are under way as may be",
            Self::Rate => "the limits of the key are used up",
            Self::Circuit => "the provider rests after its failures",
        })
    }
}

/// A failure that may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientFailure {
    /// What the failure is due to.
    pub cause: Cause,
    /// When the provider said to come back, if it did.
    pub retry_after: Option<Duration>,
    /// How long the provider is left alone from now on, if this counts as an outage and not as a failure of the
    /// request.
    pub outage: Option<Duration>,
    /// The tokens that the provider bills for an answer of no use, if it says so.
    pub usage: Option<Usage>,
    /// What happened.
    pub message: String,
}

/// What a failure is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The provider failed, or sent something that is no answer.
    Server,
    /// The provider is overloaded.
    Overloaded,
    /// No complete answer came in time.
    Timeout,
    /// The connection couldn't be made.
    Network,
    /// The connection broke off after the provider had got the request.
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
    /// A failure for which the provider gave no time to come back.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            retry_after: None,
            outage: None,
            usage: None,
            message: message.into(),
        }
    }

    /// Whether the failure may be due to the request: the provider had got it, and failed on it. A request that never
    /// arrived shows nothing about that, and an overloaded provider says that it isn't the request.
    pub fn may_lie_in_the_request(&self) -> bool {
        match self.cause {
            Cause::Timeout | Cause::Server | Cause::Broken => true,
            Cause::Network | Cause::Overloaded => false,
        }
    }
}

impl LlmError {
    /// When the provider said to come back, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Transient(fault) => fault.retry_after,
            Self::RateLimited { retry_after, .. } => *retry_after,
            Self::Waiting { wait, .. } => Some(*wait),
            _ => None,
        }
    }

    /// How long the provider is left alone after this failure, if it is.
    pub fn outage(&self) -> Option<Duration> {
        match self {
            Self::Transient(fault) => fault.outage,
            _ => None,
        }
    }

    /// A short name of the failure for metrics and the runs table.
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

    /// Whether the provider bills a call that failed in this way, though its answer was of no use; also if the answer
    /// wasn't waited for any more, since the provider had worked on it.
    pub fn is_billed(&self) -> bool {
        match self {
            Self::Truncated { .. } | Self::Refused { .. } => true,
            Self::Transient(fault) => fault.cause == Cause::Timeout,
            _ => false,
        }
    }

    /// The tokens that the provider bills for a call that failed in this way, if it says so.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Transient(fault) => fault.usage,
            Self::Truncated { usage } | Self::Refused { usage, .. } => *usage,
            _ => None,
        }
    }

    /// The same failure, with the tokens that its answer reports.
    fn with_usage(self, usage: Option<Usage>) -> Self {
        match self {
            Self::Transient(fault) => Self::Transient(TransientFailure { usage, ..fault }),
            Self::Truncated { .. } => Self::Truncated { usage },
            Self::Refused { message, .. } => Self::Refused { message, usage },
            error => error,
        }
    }
}

/// A model that summarises.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// The provider's name: `offline`, `openai`, `anthropic`.
    fn provider(&self) -> &str;

    /// The model's name.
    fn model(&self) -> &str;

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError>;

    /// Whether the provider can be reached and accepts the key, without asking the model. A local model always can.
    ///
    /// # Errors
    /// As [`Self::answer`].
    async fn reach(&self) -> Result<(), LlmError> {
        Ok(())
    }

    /// Calls `listener` at each change of this model's circuit, and of its fallbacks' circuits. Only a
    /// [`breaker::Breaker`] has one.
    fn watch(&self, _listener: &breaker::BreakerListener) {}

    /// The models that may be asked in its place, in this order; none, unless it is a [`chain::Chain`].
    fn fallbacks(&self) -> &[Arc<dyn ChatModel>] {
        &[]
    }
}
