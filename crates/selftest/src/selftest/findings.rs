//! The results of window trials.

use serde::{Deserialize, Serialize};

use super::work::WorkFindings;

/// The most breaches that are described; further ones are only counted.
const TOLD_MAX: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialFindings {
    /// Completely tested conversations.
    pub conversations: u64,
    pub windows: u64,
    pub evicted: u64,
    /// Requests that were built and judged.
    pub requests: u64,
    /// Requests that a provider would refuse.
    pub refused: u64,
    /// Exchanges that lost a part, in a window or a request.
    pub split: u64,
    /// Windows and requests over budget with more than the newest exchange.
    pub over_budget: u64,
    /// Windows and requests without their newest exchange.
    pub newest_lost: u64,
    /// Windows and requests over budget because of the newest exchange alone, which is reported and allowed.
    pub too_big_alone: u64,
    pub told: Vec<BreachReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BreachReport {
    /// The number of the piece of work in which it was found.
    pub piece: usize,
    /// Its place among the breaches of the piece.
    pub place: usize,
    /// What was broken, and where.
    pub breach: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WindowPromise {
    /// Providers accept every request.
    Accepted,
    /// Exchanges are atomic.
    Whole,
    /// Nothing is over budget, except for a newest exchange that is too big alone.
    Fits,
    /// The newest exchange is always there.
    Newest,
}

impl TrialFindings {
    /// Returns true if no promise was broken.
    pub fn is_clean(&self) -> bool {
        (self.refused, self.split, self.over_budget, self.newest_lost) == (0, 0, 0, 0)
    }

    pub(super) fn break_promise(&mut self, promise: WindowPromise, breach: impl FnOnce() -> String) {
        *match promise {
            WindowPromise::Accepted => &mut self.refused,
            WindowPromise::Whole => &mut self.split,
            WindowPromise::Fits => &mut self.over_budget,
            WindowPromise::Newest => &mut self.newest_lost,
        } += 1;
        let place = self.told.len();
        if place < TOLD_MAX {
            let breach = breach();
            self.told.push(BreachReport { piece: 0, place, breach });
        }
    }
}

impl WorkFindings for TrialFindings {
    fn add(&mut self, other: Self) {
        self.conversations += other.conversations;
        self.windows += other.windows;
        self.evicted += other.evicted;
        self.requests += other.requests;
        self.refused += other.refused;
        self.split += other.split;
        self.over_budget += other.over_budget;
        self.newest_lost += other.newest_lost;
        self.too_big_alone += other.too_big_alone;
        self.told.extend(other.told);
        self.told.sort();
        self.told.truncate(TOLD_MAX);
    }

    fn of_piece(mut self, piece: usize) -> Self {
        for told in &mut self.told {
            told.piece = piece;
        }
        self
    }
}
