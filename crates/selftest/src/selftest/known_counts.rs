//! A counter that counts each text once, since the same conversation is counted again for every budget.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use recapd_core::domain::{attachment::Extent, tokens::TokenCounter};

/// The most texts in the cache; then it is cleared, which costs no more than counting them again.
const TEXTS_MAX: usize = 1 << 18;
/// Counting a shorter text is as fast as looking it up, in bytes.
const TEXT_BYTES_MIN: usize = 32;

pub(super) struct KnownCounts {
    counter: Arc<dyn TokenCounter>,
    hashing: RandomState,
    known: Mutex<HashMap<(usize, u64), i64>>,
}

impl KnownCounts {
    pub(super) fn of(counter: Arc<dyn TokenCounter>) -> Arc<dyn TokenCounter> {
        Arc::new(Self { counter, hashing: RandomState::new(), known: Mutex::default() })
    }
}

impl TokenCounter for KnownCounts {
    fn count(&self, text: &str) -> i64 {
        if text.len() < TEXT_BYTES_MIN {
            return self.counter.count(text);
        }
        let key = (text.len(), self.hashing.hash_one(text));
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&tokens) = known().get(&key) {
            return tokens;
        }
        let tokens = self.counter.count(text);
        let mut known = known();
        if known.len() >= TEXTS_MAX {
            known.clear();
        }
        known.insert(key, tokens);
        tokens
    }

    fn count_attachment(&self, media: &str, extent: Extent) -> i64 {
        self.counter.count_attachment(media, extent)
    }

    fn method(&self) -> &str {
        self.counter.method()
    }
}
