//! Caches the token counts of long texts. Most contexts have the same document as the context before, and counting a document of ten
//! thousand tokens takes as long as reading a window from the database.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use hashlink::LruCache;

use crate::domain::{attachment::Extent, tokens::TokenCounter};

/// Caches the counts of texts of at least this many bytes. Counting a shorter text is as fast as finding its count.
const TEXT_BYTES_MIN: usize = 4 << 10;
/// Keeps at most this many counts. A further one replaces the count that was used least recently.
const COUNTS_MAX: usize = 1_024;

static MEMO: LazyLock<Memo> = LazyLock::new(Memo::new);

/// Returns a counter that counts each long text once and caches the count. Use it for texts that are counted again and again, such as
/// documents.
pub fn caching(counter: &dyn TokenCounter) -> CachingCounter<'_> {
    CachingCounter { counter, memo: &MEMO }
}

/// The counter that [`caching`] returns.
pub struct CachingCounter<'c> {
    counter: &'c dyn TokenCounter,
    memo: &'c Memo,
}

impl TokenCounter for CachingCounter<'_> {
    fn count(&self, text: &str) -> i64 {
        self.memo.count(text, self.counter)
    }

    fn count_attachment(&self, media: &str, extent: Extent) -> i64 {
        self.counter.count_attachment(media, extent)
    }

    fn method(&self) -> &str {
        self.counter.method()
    }

    fn is_exact(&self) -> bool {
        self.counter.is_exact()
    }

    fn without_guard(&self, tokens: i64) -> i64 {
        self.counter.without_guard(tokens)
    }
}

/// Identifies a text and its counter by two hashes of both, each with a random key of this process, so that nobody can make two texts
/// collide.
type CacheKey = [u64; 2];

struct Memo {
    hashers: [RandomState; 2],
    counts: Mutex<LruCache<CacheKey, i64>>,
}

impl Memo {
    fn new() -> Self {
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            counts: Mutex::new(LruCache::new(COUNTS_MAX)),
        }
    }

    fn count(&self, text: &str, counter: &dyn TokenCounter) -> i64 {
        if text.len() < TEXT_BYTES_MIN {
            return counter.count(text);
        }
        let key = self.hashers.each_ref().map(|hasher| hasher.hash_one((counter.method(), text)));
        if let Some(tokens) = self.counts().get(&key).copied() {
            return tokens;
        }
        let tokens = counter.count(text);
        self.counts().insert(key, tokens);
        tokens
    }

    fn counts(&self) -> MutexGuard<'_, LruCache<CacheKey, i64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::domain::number::i64_or_max;

    #[derive(Default)]
    struct CountingCounter(AtomicUsize);

    impl TokenCounter for CountingCounter {
        fn count(&self, text: &str) -> i64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            i64_or_max(text.len())
        }

        fn method(&self) -> &'static str {
            "bytes"
        }
    }

    #[test]
    fn a_long_text_is_counted_once_while_it_is_in_use() {
        let (memo, calls) = (Memo::new(), CountingCounter::default());
        let text = "word ".repeat(TEXT_BYTES_MIN);
        for number in 0..3 * COUNTS_MAX {
            assert_eq!(memo.count(&text, &calls), i64_or_max(text.len()));
            let other = format!("{text}{number}");
            assert_eq!(memo.count(&other, &calls), i64_or_max(other.len()));
        }
        let calls = calls.0.into_inner();
        assert_eq!(calls, 3 * COUNTS_MAX + 1, "only the other texts are evicted");
        assert_eq!(memo.counts().len(), COUNTS_MAX);
    }

    #[test]
    fn each_counter_has_its_own_cached_counts() {
        let text = "word ".repeat(TEXT_BYTES_MIN);
        let (calls, bytes) = (CountingCounter::default(), super::super::BytesCounter);
        for _ in 0..2 {
            assert_eq!(caching(&calls).count(&text), i64_or_max(text.len()));
            assert_eq!(caching(&bytes).count(&text), bytes.count(&text));
        }
    }
}
