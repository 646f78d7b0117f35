//! The failures of questions about exchanges.

use super::Interruption;
use recapd_core::domain::{reply::ReplyError, summary::coverage::CoverageError};
use recapd_llm::LlmError;
use recapd_store::{AttemptError, SpendPause, StoreError};

/// Why exchanges could not be condensed, grouped by what happens next.
#[derive(Debug, thiserror::Error)]
pub(super) enum CondenseError {
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// The model answered, but its answer isn't valid.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The model answered about the wrong exchanges.
    #[error(transparent)]
    Coverage(#[from] CoverageError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The wait for the model's answer ended early.
    #[error("interrupted")]
    Interrupted(Interruption),
    /// A daily limit is used up: no model may be asked before the next day.
    #[error("{} is used up", .0.limit.key())]
    Paused(SpendPause),
}

impl CondenseError {
    /// Returns the error's short, stable name for metrics and logs.
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Llm(error) => error.class(),
            Self::Reply(error) => error.class(),
            Self::Coverage(_) => "bad_output",
            Self::Store(_) => "db",
            Self::Interrupted(_) => "shutdown",
            Self::Paused(_) => "spend_limit",
        }
    }

    /// Returns the error in the form that the table of runs stores.
    pub(super) fn run_error(&self) -> AttemptError {
        AttemptError { class: self.class().to_owned(), message: self.to_string() }
    }

    /// Returns true if asking again is useless until somebody changes something.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Llm(LlmError::Auth(_) | LlmError::Permanent(_) | LlmError::Refused { .. }))
    }

    /// Returns true if the next model should be asked. `is_last` is true at the last attempt.
    pub(super) fn is_for_next_model(&self, is_last: bool) -> bool {
        match self {
            Self::Llm(error) => error.is_for_next_model(is_last),
            Self::Reply(_) | Self::Coverage(_) => is_last,
            Self::Store(_) | Self::Interrupted(_) | Self::Paused(_) => false,
        }
    }

    /// Returns true if a question about fewer exchanges may succeed.
    pub(super) fn is_too_much(&self) -> bool {
        matches!(self, Self::Llm(LlmError::ContextOverflow(_) | LlmError::Truncated { .. }))
    }

    /// Returns true if one of several exchanges may have caused the failure: a refusal, or an invalid request or answer.
    pub(super) fn may_be_due_to_one_exchange(&self) -> bool {
        matches!(
            self,
            Self::Llm(LlmError::Refused { .. } | LlmError::Permanent(_)) | Self::Reply(_) | Self::Coverage(_)
        )
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Llm(LlmError::Refused { .. }))
    }

    /// Returns true if the question exceeds the model's context window.
    pub(super) fn is_overflow(&self) -> bool {
        matches!(self, Self::Llm(LlmError::ContextOverflow(_)))
    }

    /// Returns true for a temporary failure that the question's content may have caused, such as a timeout or a server error.
    pub(super) fn may_be_due_to_question(&self) -> bool {
        matches!(self, Self::Llm(LlmError::Transient(fault)) if fault.may_be_due_to_request())
    }
}
