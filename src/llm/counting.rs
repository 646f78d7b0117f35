//! Counting a request by asking its provider: the seam for count endpoints (Anthropic's `count_tokens`, `OpenAI`'s
//! `input_tokens`, Gemini's `countTokens`), with the offline count as what is always there.
//!
//! A provider's count is remembered by the request's content; an estimate is not, so that the next time asks again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::LlmError;
use crate::tokenizer::{RequestCount, count_request};

/// Counts that are remembered; the oldest one makes room.
const COUNTS_MAX: usize = 1_024;
/// The method of a count that a provider made.
const BY_PROVIDER: &str = "provider";

/// A provider's endpoint that counts.
#[async_trait]
pub trait CountEndpoint: Send + Sync {
    /// Tokens of `body`, a request as it would be sent to `model`.
    ///
    /// # Errors
    /// What the provider answers instead; the request is counted offline then.
    async fn count(&self, model: &str, body: &[u8]) -> Result<i64, LlmError>;
}

/// A request's tokens, by its provider if that could be asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AskedCount {
    /// The count, and where the tokens come from by the offline count: its parts sum up to what that says.
    #[serde(flatten)]
    pub count: RequestCount,
    /// Why the provider's own count is missing, if it was asked.
    #[serde(skip)]
    pub refusal: Option<LlmError>,
}

/// Counts requests.
#[derive(Default)]
pub struct RequestCounter {
    endpoints: HashMap<String, Arc<dyn CountEndpoint>>,
    known: Mutex<Known>,
}

type Key = [u8; 32];

/// What providers have counted.
#[derive(Default)]
struct Known {
    tokens: HashMap<Key, i64>,
    order: VecDeque<Key>,
}

impl Known {
    fn put(&mut self, key: Key, tokens: i64) {
        if self.tokens.insert(key, tokens).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > COUNTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.tokens.remove(&oldest);
        }
    }
}

impl RequestCounter {
    /// This counter, which asks `endpoint` about requests to `provider`.
    #[must_use]
    pub fn asking(mut self, provider: &str, endpoint: Arc<dyn CountEndpoint>) -> Self {
        self.endpoints.insert(provider.to_owned(), endpoint);
        self
    }

    /// Tokens of `body`, a request to `provider` for `model`. It never fails: what nobody can be asked about is counted
    /// offline.
    pub async fn count(&self, provider: &str, model: &str, body: &[u8]) -> AskedCount {
        let offline = count_request(provider, model, body);
        let Some(endpoint) = self.endpoints.get(provider) else {
            return AskedCount {
                count: offline,
                refusal: None,
            };
        };
        let key = key(provider, model, body);
        let known = self.with_known(|known| known.tokens.get(&key).copied());
        let asked = match known {
            Some(tokens) => Ok(tokens),
            None => endpoint.count(model, body).await,
        };
        match asked {
            Ok(tokens) => {
                self.with_known(|known| known.put(key, tokens));
                let method = BY_PROVIDER.to_owned();
                AskedCount {
                    count: RequestCount {
                        tokens,
                        method,
                        ..offline
                    },
                    refusal: None,
                }
            }
            Err(refusal) => AskedCount {
                count: offline,
                refusal: Some(refusal),
            },
        }
    }

    fn with_known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn key(provider: &str, model: &str, body: &[u8]) -> Key {
    let mut hash = Sha256::new();
    for text in [provider.as_bytes(), model.as_bytes(), body] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Counts how often it is asked, and answers with that; a body of nothing it refuses.
    #[derive(Default)]
    struct Fake {
        asked: AtomicI64,
    }

    #[async_trait]
    impl CountEndpoint for Fake {
        async fn count(&self, _: &str, body: &[u8]) -> Result<i64, LlmError> {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            if body.is_empty() {
                return Err(LlmError::Permanent("nothing".to_owned()));
            }
            Ok(asked)
        }
    }

    fn asking() -> (Arc<Fake>, RequestCounter) {
        let fake = Arc::new(Fake::default());
        let endpoint: Arc<dyn CountEndpoint> = Arc::<Fake>::clone(&fake);
        (fake, RequestCounter::default().asking("anthropic", endpoint))
    }

    #[tokio::test]
    async fn a_provider_is_asked_once_about_the_same_request() {
        let (fake, counter) = asking();
        let body = br#"{"messages":[{"role":"user","content":"Hello!"}]}"#;
        for (model, expected) in [
            ("claude-opus-5", 1),
            ("claude-opus-5", 1),
            ("claude-haiku-4-5", 2),
        ] {
            let asked = counter.count("anthropic", model, body).await;
            assert_eq!(
                (asked.count.tokens, asked.count.method.as_str()),
                (expected, BY_PROVIDER)
            );
        }
        let other = counter.count("openai", "gpt-5", body).await;
        assert_eq!(other.count, count_request("openai", "gpt-5", body));
        assert_eq!(fake.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_refusal_is_counted_offline_and_asked_again() {
        let (fake, counter) = asking();
        for times in 1..=2 {
            let asked = counter.count("anthropic", "claude-opus-5", b"").await;
            assert_eq!(asked.count, count_request("anthropic", "claude-opus-5", b""));
            assert!(matches!(asked.refusal, Some(LlmError::Permanent(_))));
            assert_eq!(fake.asked.load(Ordering::SeqCst), times);
        }
    }

    #[tokio::test]
    async fn memory_is_bounded_and_the_oldest_goes() {
        let (fake, counter) = asking();
        for number in 0..=COUNTS_MAX {
            counter
                .count("anthropic", "m", number.to_string().as_bytes())
                .await;
        }
        assert_eq!(
            counter.with_known(|known| (known.tokens.len(), known.order.len())),
            (COUNTS_MAX, COUNTS_MAX)
        );
        counter.count("anthropic", "m", b"1").await;
        let asked = i64::try_from(COUNTS_MAX).unwrap() + 1;
        assert_eq!(fake.asked.load(Ordering::SeqCst), asked);
        counter.count("anthropic", "m", b"0").await;
        assert_eq!(fake.asked.load(Ordering::SeqCst), asked + 1);
    }
}
