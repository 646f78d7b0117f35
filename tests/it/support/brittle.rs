//! A counter with a defect: it panics over one word.

use std::sync::Arc;

use recapd_core::{domain::tokens::TokenCounter, tokenizer};

pub(crate) const POISON: &str = "poison";

/// Counts like the counter of documents, but panics over [`POISON`].
pub(crate) struct Brittle(Arc<dyn TokenCounter>);

impl Brittle {
    pub(crate) fn counter() -> Arc<dyn TokenCounter> {
        Arc::new(Self(tokenizer::ceiling_counter()))
    }
}

impl TokenCounter for Brittle {
    fn count(&self, text: &str) -> i64 {
        assert!(!text.contains(POISON), "nobody can count that");
        self.0.count(text)
    }

    fn method(&self) -> &str {
        self.0.method()
    }
}
