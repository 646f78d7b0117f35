//! Decides how many exchanges of an agent are asked about at once: its portion.
//!
//! A question that was too much for a model once would be too much again, and an answer that is cut off is billed. So such a
//! question halves the portion, which then grows slowly by one exchange at a time, as TCP's window does. If an outage may have
//! caused the halving, each answer doubles the portion.

use recapd_core::domain::number::i64_or_max;
use recapd_store::MaterialLimits;

/// After this many answers about full portions the portion grows by one, because mostly the model can't take much more.
const ANSWERS_PER_STEP: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuestionSize {
    exchanges_max: i64,
    /// How many full portions were answered since the portion last changed.
    answers: u32,
    is_failing: bool,
    /// True if an outage may have halved the portion. That says nothing about its right size, so it grows as fast as it shrank.
    doubles: bool,
}

impl QuestionSize {
    /// Reduces `limits` to the portion.
    pub(super) fn reduce(self, limits: MaterialLimits) -> MaterialLimits {
        MaterialLimits { exchanges_max: self.exchanges_max.min(limits.exchanges_max), ..limits }
    }

    /// Halves the portion after a question about the exchanges was too much for a model, or may have met an outage.
    pub(super) fn halve(&mut self, exchanges: &[i64], may_be_outage: bool) {
        *self = Self {
            exchanges_max: i64_or_max(exchanges.len() / 2).max(1),
            answers: 0,
            is_failing: true,
            doubles: may_be_outage && !self.has_overreached(exchanges),
        };
    }

    /// Returns true if the portion was doubled after an answer and then was too much. A model that is too slow for this many
    /// exchanges fails as in an outage, and would do so after every second answer.
    fn has_overreached(self, exchanges: &[i64]) -> bool {
        self.doubles && !self.is_failing && i64_or_max(exchanges.len()) >= self.exchanges_max
    }

    /// Grows the portion after an answer about the exchanges. An answer about fewer exchanges than the portion says nothing about
    /// it.
    pub(super) fn grow(&mut self, exchanges: &[i64]) {
        self.is_failing = false;
        if i64_or_max(exchanges.len()) < self.exchanges_max {
            return;
        }
        if self.doubles {
            self.exchanges_max = self.exchanges_max.saturating_mul(2);
            return;
        }
        self.answers += 1;
        if self.answers >= ANSWERS_PER_STEP {
            self.exchanges_max = self.exchanges_max.saturating_add(1);
            self.answers = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::failure_memory::FailureMemory;
    use recapd_core::domain::agent::AgentId;

    const LIMITS: MaterialLimits = MaterialLimits { exchanges_max: 6, tokens_max: 1_000 };

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn portion(failure_memory: &FailureMemory) -> i64 {
        failure_memory.reduce(&agent("a"), LIMITS).exchanges_max
    }

    #[test]
    fn a_portion_is_halved_and_grows_again() {
        let (failure_memory, a) = (FailureMemory::default(), agent("a"));
        failure_memory.was_answered(&a, &[1, 2, 3], 0);
        assert_eq!(portion(&failure_memory), 6);
        failure_memory.was_too_much(&a, &[1, 2, 3, 4, 5]);
        assert_eq!(portion(&failure_memory), 2);
        assert_eq!(failure_memory.reduce(&agent("b"), LIMITS), LIMITS, "other agents keep their portions");
        for _ in 0..9 {
            failure_memory.was_answered(&a, &[1], 0);
        }
        assert_eq!(portion(&failure_memory), 2, "a smaller question proves nothing");
        for expected in [2, 2, 2, 3, 3] {
            failure_memory.was_answered(&a, &[1, 2, 3], 0);
            assert_eq!(portion(&failure_memory), expected);
        }
        for exchanges in [&[1, 2, 3][..], &[1], &[1]] {
            failure_memory.was_too_much(&a, exchanges);
            assert_eq!(portion(&failure_memory), 1);
        }
        for _ in 0..99 {
            failure_memory.was_answered(&a, &[1, 2, 3, 4, 5, 6, 7], 0);
        }
        assert_eq!(failure_memory.reduce(&a, LIMITS), LIMITS, "no more than was configured");
    }

    #[test]
    fn after_an_outage_a_portion_grows_as_fast_as_it_shrank() {
        let (failure_memory, a) = (FailureMemory::default(), agent("a"));
        let answered = || {
            let asked: Vec<i64> = (0..portion(&failure_memory)).collect();
            failure_memory.was_answered(&a, &asked, 0);
            portion(&failure_memory)
        };
        for asked in [&[1, 2, 3, 4, 5, 6][..], &[1, 2, 3], &[1], &[1]] {
            failure_memory.failed(&a, asked, true);
        }
        assert_eq!([answered(), answered(), answered()], [2, 4, 6]);
        // Another outage, of which this agent meets only one failure.
        failure_memory.failed(&a, &[1, 2], true);
        assert_eq!([answered(), answered()], [2, 4]);
        // Four exchanges are answered in time and eight never: that is no outage.
        failure_memory.failed(&a, &[1, 2, 3, 4], false);
        assert_eq!([answered(), answered(), answered(), answered()], [2, 2, 2, 3]);
        failure_memory.was_too_much(&a, &[1, 2, 3]);
        assert_eq!([answered(), answered()], [1, 1]);
    }
}
