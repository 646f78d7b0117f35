//! Updates of summaries by an adversarial model: checks what must hold for every document, whatever the model answers.
//!
//! A piece of work is the life of one agent: exchanges leave its window, a model is asked for items and operations, and the
//! document is composed, update after update. Everything follows from the seed and the life's number.

mod adversary;
mod findings;
mod life;

use std::sync::Arc;

pub use adversary::Adversary;
pub use findings::UpdateFindings;

use super::{known_counts::KnownCounts, work::Work};
use recapd_core::domain::{number::usize_or_max, tokens::TokenCounter};

/// Updates in an agent's life: enough to fill a document of any size.
const UPDATES_OF_LIFE: u64 = 250;

/// A number of updates, in simulated lives that follow from the seed.
pub struct Updates {
    pub updates: u64,
    pub seed: u64,
    pub counter: Arc<dyn TokenCounter>,
}

impl Work for Updates {
    type Findings = UpdateFindings;

    fn fingerprint(&self) -> String {
        format!("updates {} {} {}", self.updates, self.seed, self.counter.method())
    }

    fn beginning(&self) -> UpdateFindings {
        UpdateFindings::default()
    }

    fn pieces(&self) -> usize {
        usize_or_max(self.updates.div_ceil(UPDATES_OF_LIFE))
    }

    fn size(&self, piece: usize) -> u64 {
        let before = piece as u64 * UPDATES_OF_LIFE;
        self.updates.saturating_sub(before).min(UPDATES_OF_LIFE)
    }

    fn try_piece(&self, piece: usize) -> UpdateFindings {
        let counter = KnownCounts::of(Arc::clone(&self.counter));
        // Lives with neighbouring seeds have nothing in common.
        let seed = fastrand::Rng::with_seed(self.seed).u64(..) ^ piece as u64;
        life::live(seed, self.size(piece), counter.as_ref())
    }
}

#[cfg(test)]
mod tests;
