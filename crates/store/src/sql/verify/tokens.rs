//! Counts the tokens of messages again, with the tokenizers that their rows name.

use std::sync::Arc;

use super::super::{
    super::verify::{Depth, Invariant, Unseen, VerifyFindings},
    seal::StoredRow,
};
use recapd_core::{
    domain::{
        message::{Format, Part, is_tombstone},
        tokens::{TokenCounter, count_message},
    },
    formats, tokenizer,
};

/// Counts messages again, or counts how many it skips.
pub(super) struct Recount {
    /// `None` if it skips all messages.
    counters: Option<[Arc<dyn TokenCounter>; 2]>,
    skipped: i64,
}

impl Recount {
    pub(super) fn new(depth: Depth) -> Self {
        let counters =
            || [tokenizer::counter_for("openai", "gpt-4o"), tokenizer::counter_for("openai", "gpt-4")];
        Self { counters: (depth == Depth::Deep).then(counters), skipped: 0 }
    }

    /// Counts a message again if an exact tokenizer counted it. Estimates, and the costs of images and documents, depend on what
    /// recapd knew of a model at the time, so they can't be checked.
    pub(super) fn check(&mut self, stored: &StoredRow, findings: &mut VerifyFindings) {
        if stored.is_forgotten || is_tombstone(&stored.payload) {
            return;
        }
        let mut counters = self.counters.iter().flatten();
        let counter = counters.find(|counter| counter.method() == stored.count_method);
        let message = Format::from_name(&stored.format).map(|format| formats::parse(format, &stored.payload));
        let (Some(counter), Some(Ok(message))) = (counter, message) else {
            self.skipped += 1;
            return;
        };
        if message.parts.iter().any(is_estimated) {
            self.skipped += 1;
            return;
        }
        let tokens = count_message(counter.as_ref(), &message);
        if tokens != stored.tokens {
            let found = format!(
                "message {} has {tokens} tokens by {}, {} are stored",
                stored.seq, stored.count_method, stored.tokens
            );
            findings.add(Invariant::WindowFits, found);
        }
    }

    /// Reports how many messages it skipped.
    pub(super) fn report_skipped(&self, findings: &mut VerifyFindings) {
        let what = if self.counters.is_some() {
            "messages' tokens that no exact tokenizer counted"
        } else {
            "messages' tokens (--deep counts them again)"
        };
        findings.add_unseen(Unseen { invariant: Invariant::WindowFits, what, count: self.skipped });
    }
}

/// Returns true if a part's cost doesn't follow from its text.
fn is_estimated(part: &Part) -> bool {
    matches!(part, Part::Attachment { .. } | Part::Thinking(_) | Part::Opaque { .. })
}
