//! Keeps the limits of a key, which all callers share: concurrent calls, requests and tokens per minute, and the waits that the
//! provider asks for.
//!
//! A caller waits here only for a short time. A longer wait is returned as [`LlmError::Waiting`], so that no lease is held for
//! it.

mod minute;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest, Wait};
use minute::Minute;
pub use minute::MinuteLimits;
use recapd_core::domain::{number::i64_or_max, time::SECOND_MS};
use recapd_platform::clock::Clock;

/// A caller waits here for at most this long.
const WAIT_MS_MAX: i64 = 5 * SECOND_MS;
/// How long a caller waits while the allowed number of calls is in progress. Then its work is given back for as long again.
const PERMIT_WAIT: Duration = Duration::from_secs(5);
/// The first backoff after a refusal that doesn't say when to retry. Each refusal in a row doubles it (exponential backoff).
const REFUSAL_BACKOFF_MS_MIN: i64 = 5 * SECOND_MS;
const REFUSAL_BACKOFF_MS_MAX: i64 = 300 * SECOND_MS;
/// How many bytes of a prompt make one token, for a reservation. The provider's own count replaces it.
const PROMPT_BYTES_PER_TOKEN: usize = 4;

/// Whether a request still waits for the limits. A request that is abandoned meanwhile costs nothing, because it wasn't sent.
#[derive(Clone, Debug, Default)]
pub struct LimitWait(Arc<AtomicBool>);

impl LimitWait {
    pub fn is_waiting(&self) -> bool {
        self.0.load(SeqCst)
    }

    fn set(&self, is_waiting: bool) {
        self.0.store(is_waiting, SeqCst);
    }
}

pub struct LimitedModel {
    inner: Arc<dyn ChatModel>,
    clock: Arc<dyn Clock>,
    permits: Semaphore,
    shared: Mutex<LimiterState>,
}

struct LimiterState {
    minute: Minute,
    /// How many calls the provider has refused because of the rate since its last answer.
    refusals: u32,
}

impl LimitedModel {
    /// Limits `inner` to `concurrency` calls at a time, and to `limits`.
    pub fn new(
        inner: Arc<dyn ChatModel>,
        concurrency: usize,
        limits: MinuteLimits,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            inner,
            clock,
            permits: Semaphore::new(concurrency),
            shared: Mutex::new(LimiterState { minute: Minute::new(limits), refusals: 0 }),
        }
    }

    /// Reserves a call and waits until it may be made. Fails as [`LlmError::Waiting`] if the wait is longer than [`WAIT_MS_MAX`].
    async fn reserve(&self, request: &ModelRequest) -> Result<u64, LlmError> {
        let (now, tokens) = (self.clock.now(), estimate(request));
        let reserved = self.lock_state().minute.reserve(now, tokens, request.agent.as_ref(), WAIT_MS_MAX);
        let reserved =
            reserved.map_err(|wait_ms| LlmError::Waiting { wait: span(wait_ms), why: Wait::Rate })?;
        if reserved.wait_ms > 0 {
            let mut unsent = ReservedCall { limited: self, id: reserved.id, is_given_up: true };
            tokio::time::sleep(span(reserved.wait_ms)).await;
            unsent.is_given_up = false;
        }
        Ok(reserved.id)
    }

    /// Corrects the reservation by the answer, and records when the provider allows the next call. A refusal that doesn't say
    /// when to retry gets a backoff.
    fn learn(&self, id: u64, answer: Result<ModelAnswer, LlmError>) -> Result<ModelAnswer, LlmError> {
        let now = self.clock.now();
        let shared = &mut *self.lock_state();
        match answer {
            Ok(answer) => {
                shared.refusals = 0;
                let took = answer.input_tokens.saturating_add(answer.output_tokens);
                if took > 0 {
                    shared.minute.correct(id, took);
                }
                if let Some(rest) = answer.rest {
                    shared.minute.rest(now, millis(rest));
                }
                Ok(answer)
            }
            Err(LlmError::RateLimited { retry_after, message }) => {
                let wait = retry_after.unwrap_or_else(|| refusal_backoff(shared.refusals));
                shared.refusals = shared.refusals.saturating_add(1);
                shared.minute.correct(id, 0);
                shared.minute.rest(now, millis(wait));
                Err(LlmError::RateLimited { retry_after: Some(wait), message })
            }
            Err(error) => {
                if let Some(wait) = error.retry_after() {
                    shared.minute.rest(now, millis(wait));
                }
                Err(error)
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LimiterState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reserved call that waits for its time. If it is dropped before that, its reservation ends.
struct ReservedCall<'a> {
    limited: &'a LimitedModel,
    id: u64,
    /// True until the call may be made.
    is_given_up: bool,
}

impl Drop for ReservedCall<'_> {
    fn drop(&mut self) {
        if self.is_given_up {
            self.limited.lock_state().minute.give_back(self.id);
        }
    }
}

#[async_trait]
impl ChatModel for LimitedModel {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        request.limit_wait.set(true);
        let permit = tokio::time::timeout(PERMIT_WAIT, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(LlmError::Waiting { wait: PERMIT_WAIT, why: Wait::Places });
        };
        let id = self.reserve(request).await?;
        request.limit_wait.set(false);
        self.learn(id, self.inner.answer(request).await)
    }
}

/// Estimates the highest number of tokens of a call, because providers count the longest allowed answer, too.
fn estimate(request: &ModelRequest) -> i64 {
    let bytes = request.prompt.system.len() + request.prompt.user.len();
    let read = i64_or_max(bytes / PROMPT_BYTES_PER_TOKEN);
    read.saturating_add(request.output_tokens_max)
}

fn refusal_backoff(refusals_before: u32) -> Duration {
    let backoff_ms = REFUSAL_BACKOFF_MS_MIN.saturating_mul(1 << refusals_before.min(10));
    span(backoff_ms.min(REFUSAL_BACKOFF_MS_MAX))
}

fn span(span_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(span_ms).unwrap_or(0))
}

fn millis(span: Duration) -> i64 {
    i64_or_max(span.as_millis())
}

#[cfg(test)]
mod tests;
