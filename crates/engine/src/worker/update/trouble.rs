//! Why an attempt at an update stopped.

use super::super::{Interruption, error::CondenseError, postpone::WaitReason};
use recapd_core::domain::number::i64_or_max;
use recapd_llm::{LlmError, TransientFailure, Wait};
use recapd_store::{AttemptError, StoreError};

/// Why an attempt stopped, grouped by what happens next.
pub(super) enum Trouble {
    /// A temporary failure. The retry waits at least this many milliseconds.
    Passing(AttemptError, i64),
    /// A failure that doesn't go away by itself.
    Final(AttemptError),
    Store(StoreError),
    Interrupted(Interruption),
    /// Nothing failed, but no model can be asked yet.
    Waiting(WaitReason),
}

impl Trouble {
    /// Returns true if the exchanges wait for a later attempt. Otherwise digests replace them, or another worker continues.
    pub(super) fn puts_off(&self, is_last: bool) -> bool {
        match self {
            Self::Waiting(_) => true,
            Self::Passing(..) => !is_last,
            Self::Final(_) | Self::Store(_) | Self::Interrupted(_) => false,
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Interruption> for Trouble {
    fn from(why: Interruption) -> Self {
        Self::Interrupted(why)
    }
}

impl From<CondenseError> for Trouble {
    fn from(error: CondenseError) -> Self {
        let fault = error.run_error();
        let error = match error {
            CondenseError::Store(error) => return Self::Store(error),
            CondenseError::Interrupted(why) => return Self::Interrupted(why),
            CondenseError::Paused(paused) => return Self::Waiting(WaitReason::Paused(paused)),
            CondenseError::Llm(LlmError::Waiting { wait, why }) => {
                return Self::Waiting(WaitReason::Provider(wait, why, fault));
            }
            CondenseError::Llm(LlmError::Transient(TransientFailure { outage: Some(wait), .. })) => {
                return Self::Waiting(WaitReason::Provider(wait, Wait::Circuit, fault));
            }
            error => error,
        };
        if error.is_final() {
            return Self::Final(fault);
        }
        let wait = if let CondenseError::Llm(error) = &error { error.retry_after() } else { None };
        Self::Passing(fault, wait.map_or(0, |wait| i64_or_max(wait.as_millis())))
    }
}
