//! Decides which model is asked if one can't answer: first a second model, then the built-in summariser. After some failures the
//! next model is asked; after others the call is retried or waits.
//!
//! | failure | what happens |
//! |---|---|
//! | refused content | ask in halves; the next model at once if one exchange alone is refused |
//! | account, request | the next model at once; for a request about several exchanges, if another one was answered, halves first |
//! | the circuit breaker is open, perhaps because of this failure | the next model at once; without one, wait |
//! | rate limit, overload | wait; the next model if the wait is long |
//! | network, timeout, 5xx | try again; the next model after the last attempt |
//! | useless answer | ask in halves, if another question was answered; try again; the next model after the last attempt |
//! | too long, cut off | ask about less; the next model at once if one exchange alone is too much |
//! | timeout, 5xx or broken connection over one exchange alone, repeatedly, while others are answered | the next model at once |

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest, Wait, breaker::BreakerListener};

/// A model that requires a longer wait than this is skipped.
const WAIT_MAX: Duration = Duration::from_mins(5);

pub struct Chain {
    first: Arc<dyn ChatModel>,
    fallbacks: Vec<Arc<dyn ChatModel>>,
}

impl Chain {
    pub fn new(first: Arc<dyn ChatModel>, fallbacks: Vec<Arc<dyn ChatModel>>) -> Self {
        Self { first, fallbacks }
    }
}

#[async_trait]
impl ChatModel for Chain {
    fn provider(&self) -> &str {
        self.first.provider()
    }

    fn model(&self) -> &str {
        self.first.model()
    }

    /// Asks only the first model. The caller chooses the next one, because that depends on the number of attempts.
    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        self.first.answer(request).await
    }

    fn watch(&self, listener: &BreakerListener) {
        self.first.watch(listener);
        self.fallbacks.iter().for_each(|model| model.watch(listener));
    }

    fn fallbacks(&self) -> &[Arc<dyn ChatModel>] {
        &self.fallbacks
    }
}

impl LlmError {
    /// Returns true if the next model of the chain should be asked now. `is_last` is true at the last attempt.
    pub fn is_for_next_model(&self, is_last: bool) -> bool {
        match self {
            Self::Refused { .. }
            | Self::Auth(_)
            | Self::Permanent(_)
            | Self::Waiting { why: Wait::Circuit, .. } => true,
            Self::Waiting { wait, .. } => *wait > WAIT_MAX,
            Self::Transient(_) | Self::RateLimited { .. } => {
                is_last || self.outage().is_some() || self.retry_after().is_some_and(|wait| wait > WAIT_MAX)
            }
            Self::ContextOverflow(_) | Self::Truncated { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, TransientFailure};

    #[test]
    fn the_next_model_depends_on_the_failure() {
        let waiting = |minutes, why| LlmError::Waiting { wait: Duration::from_mins(minutes), why };
        let limited = |minutes| LlmError::RateLimited {
            retry_after: Some(Duration::from_mins(minutes)),
            message: String::new(),
        };
        let words = String::new;
        let outage = TransientFailure {
            outage: Some(Duration::from_secs(30)),
            ..TransientFailure::new(Cause::Network, "")
        };
        let declined = LlmError::Refused { message: words(), usage: None };
        for (error, at_once, at_last) in [
            (declined, true, true),
            (LlmError::Auth(words()), true, true),
            (LlmError::Permanent(words()), true, true),
            (waiting(1, Wait::Circuit), true, true),
            (waiting(1, Wait::Rate), false, false),
            (waiting(1, Wait::Places), false, false),
            (waiting(6, Wait::Rate), true, true),
            (limited(5), false, true),
            (limited(60), true, true),
            (LlmError::Transient(TransientFailure::new(Cause::Network, "")), false, true),
            (LlmError::Transient(outage), true, true),
            (LlmError::ContextOverflow(words()), false, false),
            (LlmError::Truncated { usage: None }, false, false),
        ] {
            assert_eq!(
                (error.is_for_next_model(false), error.is_for_next_model(true)),
                (at_once, at_last),
                "{error}"
            );
        }
    }
}
