//! Distinguishes failures of the provider from failures over an exchange.
//!
//! Either may cause a timeout, a server error (5xx) or a broken connection, and the failure doesn't say which. So the next
//! question is halved until it is about one exchange alone. If that exchange keeps failing, its failures stop counting as an
//! outage after some tries, since perhaps nothing else is asked that would show the difference. If other questions are answered
//! meanwhile, the exchange is the cause.

/// After this many failures of one exchange alone, its failures no longer count as an outage. Between the tries the provider
/// rests, soon for ten minutes each time, so this takes some hours.
const OUTAGES_MAX: u32 = 24;
/// After this many failures alone, with other questions answered between any two of them, the exchange is the cause.
const FAILURES_AMONG_ANSWERS_MAX: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct FailureCount {
    exchange: i64,
    /// How many failures counted as an outage.
    outages: u32,
    /// How many failures came after other questions had been answered since the previous failure.
    among_answers: u32,
    /// How many questions models had answered at the last failure.
    answers: u64,
}

impl FailureCount {
    /// Returns the failures of the exchange so far. There are none if `previous` is about another exchange.
    pub(super) fn of(exchange: i64, previous: Option<Self>, answers: u64) -> Self {
        previous.filter(|failures| failures.exchange == exchange).unwrap_or(Self {
            exchange,
            outages: 0,
            among_answers: 0,
            answers,
        })
    }

    /// Returns the count after one more failure. `answers` is how many questions models have answered by now.
    pub(super) fn again(self, is_outage: bool, answers: u64) -> Self {
        Self {
            exchange: self.exchange,
            outages: self.outages.saturating_add(u32::from(is_outage)),
            among_answers: self.among_answers.saturating_add(u32::from(answers > self.answers)),
            answers,
        }
    }

    pub(super) fn may_be_outage(self) -> bool {
        self.outages < OUTAGES_MAX
    }

    /// Returns true if one more failure of a question about exactly this exchange would make it the cause.
    pub(super) fn is_to_blame(self, exchanges: &[i64], answers: u64) -> bool {
        let now = self.again(false, answers);
        exchanges == [self.exchange] && now.among_answers >= FAILURES_AMONG_ANSWERS_MAX
    }

    pub(super) fn is_among(self, exchanges: &[i64]) -> bool {
        exchanges.contains(&self.exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::failure_memory::FailureMemory;
    use recapd_core::domain::agent::AgentId;
    use recapd_store::MaterialLimits;

    const LIMITS: MaterialLimits = MaterialLimits { exchanges_max: 6, tokens_max: 1_000 };

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    #[test]
    fn failures_of_one_exchange_stop_counting_as_an_outage() {
        let (failure_memory, a) = (FailureMemory::default(), agent("a"));
        for _ in 0..9 {
            assert!(
                failure_memory.failed(&a, &[1, 2], true),
                "either exchange may be the cause, or an outage"
            );
        }
        assert_eq!(failure_memory.reduce(&a, LIMITS).exchanges_max, 1);
        for exchange in [1, 2] {
            let taken: Vec<bool> =
                (0..=OUTAGES_MAX).map(|_| failure_memory.failed(&a, &[exchange], true)).collect();
            let expected: Vec<bool> = (0..=OUTAGES_MAX).map(|before| before + 1 < OUTAGES_MAX).collect();
            assert_eq!(taken, expected, "each exchange has its own count");
        }
        failure_memory.was_answered(&a, &[2], 0);
        assert!(failure_memory.failed(&a, &[2], true), "it was answered meanwhile");
        assert!(!failure_memory.failed(&a, &[2], false), "an ordinary failure is no outage");
        assert!(!failure_memory.is_to_blame(&a, &[2]), "no other question was answered");
    }

    #[test]
    fn an_exchange_that_fails_while_others_are_answered_is_to_blame() {
        let (failure_memory, a) = (FailureMemory::default(), agent("a"));
        assert!(!failure_memory.has_failed_alone(&a, &[1]));
        failure_memory.failed(&a, &[1], false);
        assert!(failure_memory.has_failed_alone(&a, &[1, 2]) && !failure_memory.has_failed_alone(&a, &[2]));
        for others in 0..2 {
            for _ in 0..5 {
                failure_memory.was_answered(&agent("b"), &[7], 0);
            }
            assert!(!failure_memory.is_to_blame(&a, &[1]), "{others}");
            failure_memory.failed(&a, &[1], others == 0);
            failure_memory.failed(&a, &[1], false);
        }
        assert!(!failure_memory.is_to_blame(&a, &[1]));
        failure_memory.was_answered_in_batch(&a, &[9], 0);
        assert!(!failure_memory.is_to_blame(&a, &[1]), "a batch's answer may be old, so it proves nothing");
        failure_memory.was_answered(&a, &[8], 0);
        assert!(failure_memory.is_to_blame(&a, &[1]));
        assert!(!failure_memory.is_to_blame(&a, &[1, 2]) && !failure_memory.is_to_blame(&agent("b"), &[7]));
        failure_memory.was_answered(&a, &[1], 0);
        assert!(!failure_memory.is_to_blame(&a, &[1]) && !failure_memory.has_failed_alone(&a, &[1]));
    }
}
