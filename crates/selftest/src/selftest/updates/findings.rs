//! What was tried with updates, and what came of it.

use serde::{Deserialize, Serialize};

use crate::selftest::work::WorkFindings;

/// Breaches kept word for word; more are counted.
const TOLD_MAX: usize = 20;

/// What was tried with updates, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateFindings {
    /// Updates made.
    pub updates: u64,
    /// Exchanges that left the window.
    pub exchanges: u64,
    /// Answers for items that were refused: digests stood in.
    pub answers_refused: u64,
    /// Facts added.
    #[serde(default)]
    pub facts: u64,
    /// Changes of facts that were refused.
    #[serde(default)]
    pub facts_refused: u64,
    /// Answers for operations that were carried out.
    pub compactions: u64,
    /// Answers for operations that were refused as a whole.
    pub compactions_refused: u64,
    /// Operations left out of the others.
    pub operations_refused: u64,
    /// Items joined with others.
    pub merged: u64,
    /// Items that say the same in fewer words.
    pub condensed: u64,
    /// Items that left a document for its size, or because a model proposed it.
    pub dropped: u64,
    /// Documents that not even all decisions and constraints fitted in.
    pub truncated: u64,
    /// The largest document, in tokens.
    pub tokens_max: i64,
    /// Documents over their ceiling.
    pub over_ceiling: u64,
    /// Exchanges not covered exactly once after an update.
    pub uncovered: u64,
    /// Decisions and constraints that a document lost while anything lower remained.
    pub decisions_lost: u64,
    /// Documents with a line that is none.
    pub malformed: u64,
    /// The first breaches, word for word.
    pub told: Vec<String>,
}

impl UpdateFindings {
    /// Nothing was broken.
    pub fn is_clean(&self) -> bool {
        (
            self.over_ceiling,
            self.uncovered,
            self.decisions_lost,
            self.malformed,
        ) == (0, 0, 0, 0)
    }

    pub(super) fn tell(&mut self, breach: impl FnOnce() -> String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(breach());
        }
    }
}

impl WorkFindings for UpdateFindings {
    fn add(&mut self, other: Self) {
        self.updates += other.updates;
        self.exchanges += other.exchanges;
        self.answers_refused += other.answers_refused;
        self.facts += other.facts;
        self.facts_refused += other.facts_refused;
        self.compactions += other.compactions;
        self.compactions_refused += other.compactions_refused;
        self.operations_refused += other.operations_refused;
        self.merged += other.merged;
        self.condensed += other.condensed;
        self.dropped += other.dropped;
        self.truncated += other.truncated;
        self.tokens_max = self.tokens_max.max(other.tokens_max);
        self.over_ceiling += other.over_ceiling;
        self.uncovered += other.uncovered;
        self.decisions_lost += other.decisions_lost;
        self.malformed += other.malformed;
        self.told.extend(other.told);
        self.told.sort();
        self.told.truncate(TOLD_MAX);
    }

    fn of_piece(mut self, piece: usize) -> Self {
        for told in &mut self.told {
            *told = format!("life {piece}, {told}");
        }
        self
    }
}
