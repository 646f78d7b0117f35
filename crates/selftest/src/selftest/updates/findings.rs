//! The results of update trials.

use serde::{Deserialize, Serialize};

use crate::selftest::work::WorkFindings;

/// The most breaches that are described; further ones are only counted.
const TOLD_MAX: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateFindings {
    pub updates: u64,
    pub exchanges: u64,
    /// Refused answers for items, replaced by digests.
    pub answers_refused: u64,
    #[serde(default)]
    pub facts: u64,
    #[serde(default)]
    pub facts_refused: u64,
    /// Answers for operations that were applied.
    pub compactions: u64,
    /// Answers for operations that were refused entirely.
    pub compactions_refused: u64,
    /// Operations refused within other answers.
    pub operations_refused: u64,
    pub merged: u64,
    pub condensed: u64,
    /// Items that left a document for its size, or because a model proposed it.
    pub dropped: u64,
    /// Documents that couldn't hold all decisions and constraints.
    pub truncated: u64,
    pub tokens_max: i64,
    pub over_ceiling: u64,
    /// Exchanges not covered exactly once after an update.
    pub uncovered: u64,
    /// Decisions and constraints that a document lost while less important items remained.
    pub decisions_lost: u64,
    /// Documents with an invalid line.
    pub malformed: u64,
    pub told: Vec<String>,
}

impl UpdateFindings {
    /// Returns true if no promise was broken.
    pub fn is_clean(&self) -> bool {
        (self.over_ceiling, self.uncovered, self.decisions_lost, self.malformed) == (0, 0, 0, 0)
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
