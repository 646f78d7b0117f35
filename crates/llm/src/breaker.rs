//! The circuit breaker: stops calls to a provider for a while after several failures, then makes one call as a test.
//!
//! ```text
//!            failures in a row, or the account refused
//!  closed ───────────────────────────────────────────► open ◄──────────┐
//!    ▲                                                   │ rest over    │ it failed: twice the rest
//!    └──────────── it answered ◄── half-open (one call) ◄┘──────────────┘
//! ```

mod circuit;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest, TransientFailure, Wait};
pub use circuit::{BreakerSettings, CircuitState};
use circuit::{CallPermit, CallVerdict, Circuit};
use recapd_core::domain::{number::i64_or_max, time::Timestamp};
use recapd_platform::clock::Clock;

/// A function that is called when a circuit changes, with provider, model and state.
pub type BreakerListener = Arc<dyn Fn(&str, &str, CircuitState) + Send + Sync>;

pub struct Breaker {
    inner: Arc<dyn ChatModel>,
    clock: Arc<dyn Clock>,
    circuit: Mutex<Circuit>,
    listener: Mutex<Option<BreakerListener>>,
}

impl Breaker {
    pub fn new(inner: Arc<dyn ChatModel>, settings: BreakerSettings, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, circuit: Mutex::new(Circuit::new(settings)), listener: Mutex::default() }
    }

    /// Changes the circuit, and calls the listener if its state changed.
    fn change<T>(&self, change: impl FnOnce(&mut Circuit, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let (result, before, after) = {
            let mut circuit = self.circuit();
            let before = circuit.state();
            (change(&mut circuit, now), before, circuit.state())
        };
        if before != after {
            self.notify(after);
        }
        result
    }

    fn notify(&self, state: CircuitState) {
        let (provider, model) = (self.inner.provider(), self.inner.model());
        match state {
            CircuitState::Open { until } => {
                tracing::error!(provider, model, until_ms = until.0, "circuit.opened");
            }
            CircuitState::HalfOpen => tracing::info!(provider, model, "circuit.half_open"),
            CircuitState::Closed => tracing::info!(provider, model, "circuit.closed"),
        }
        let listener = self.listener().clone();
        if let Some(listener) = listener {
            listener(provider, model, state);
        }
    }

    /// Adds to the error how long no calls will be made to the provider.
    fn with_outage(&self, error: LlmError) -> LlmError {
        let outage = match self.circuit().state() {
            CircuitState::Open { until } => span(until.since_ms(self.clock.now())),
            CircuitState::Closed | CircuitState::HalfOpen => return error,
        };
        match error {
            LlmError::Transient(fault) => {
                LlmError::Transient(TransientFailure { outage: Some(outage), ..fault })
            }
            error => error,
        }
    }

    fn listener(&self) -> MutexGuard<'_, Option<BreakerListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress. If it is dropped before its end, it doesn't count.
struct BreakerCall<'a> {
    breaker: &'a Breaker,
    permit: CallPermit,
    verdict: CallVerdict,
}

impl Drop for BreakerCall<'_> {
    fn drop(&mut self) {
        let (permit, verdict) = (self.permit, self.verdict);
        self.breaker.change(|circuit, now| circuit.end_call(permit, verdict, now));
    }
}

#[async_trait]
impl ChatModel for Breaker {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn watch(&self, listener: &BreakerListener) {
        *self.listener() = Some(Arc::clone(listener));
        let state = self.circuit().state();
        listener(self.inner.provider(), self.inner.model(), state);
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let permit = self.change(Circuit::permit_call);
        let permit =
            permit.map_err(|wait_ms| LlmError::Waiting { wait: span(wait_ms), why: Wait::Circuit })?;
        let mut call = BreakerCall { breaker: self, permit, verdict: CallVerdict::Nothing };
        let answer = self.inner.answer(request).await;
        call.verdict = verdict(&answer);
        drop(call);
        answer.map_err(|error| self.with_outage(error))
    }
}

fn span(span_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(span_ms).unwrap_or(0))
}

/// Returns what an answer shows about the provider. A provider that limits the rate or declines a question works nevertheless.
fn verdict(answer: &Result<ModelAnswer, LlmError>) -> CallVerdict {
    match answer {
        Err(LlmError::Transient(fault)) => {
            CallVerdict::Failed { rest_ms: fault.retry_after.map_or(0, |wait| i64_or_max(wait.as_millis())) }
        }
        Err(LlmError::Auth(_)) => CallVerdict::Refused,
        Err(LlmError::Waiting { .. }) => CallVerdict::Nothing,
        _ => CallVerdict::Answered,
    }
}

#[cfg(test)]
mod tests;
