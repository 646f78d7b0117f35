//! Whose fault a failure is: the provider's, or that of what was asked about.
//!
//! A call that isn't answered in time, with a failure of the server or to its end fails for the provider or for what it was
//! about: nobody says which.
//! So the next question is halved, too, until it is about one exchange alone. If that goes on failing, it is no outage any
//! more after some tries, for nothing else may ever be asked that shows it; and if others are answered meanwhile, it is
//! the exchange.

/// One exchange that failed alone so often is no longer taken for an outage. Between these tries the provider rests, soon
/// for ten minutes each time: that is some hours.
const OUTAGES_MAX: u32 = 24;
/// One that failed alone so often after others had been answered fails for what it is.
const FAILURES_AMONG_ANSWERS_MAX: u32 = 3;

/// How an exchange failed alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    exchange: i64,
    /// How often it was taken for an outage.
    outages: u32,
    /// How often others had been answered since the time before.
    among_answers: u32,
    /// How many questions models had answered when it failed last.
    answers: u64,
}

impl Alone {
    /// What is known of that exchange: nothing, if it was another one that failed `before`.
    pub(super) fn of(exchange: i64, before: Option<Self>, answers: u64) -> Self {
        before.filter(|alone| alone.exchange == exchange).unwrap_or(Self {
            exchange,
            outages: 0,
            among_answers: 0,
            answers,
        })
    }

    /// The same, after it failed once more.
    pub(super) fn again(self, is_outage: bool, answers: u64) -> Self {
        Self {
            exchange: self.exchange,
            outages: self.outages.saturating_add(u32::from(is_outage)),
            among_answers: self
                .among_answers
                .saturating_add(u32::from(answers > self.answers)),
            answers,
        }
    }

    /// Whether it may still be taken for an outage.
    pub(super) fn may_be_outage(self) -> bool {
        self.outages < OUTAGES_MAX
    }

    /// Whether one more failure of a question about those exchanges would be this one's fault.
    pub(super) fn is_to_blame(self, asked: &[i64], answers: u64) -> bool {
        let now = self.again(false, answers);
        asked == [self.exchange] && now.among_answers >= FAILURES_AMONG_ANSWERS_MAX
    }

    /// Whether it is one of those exchanges.
    pub(super) fn is_among(self, asked: &[i64]) -> bool {
        asked.contains(&self.exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::agent::AgentId, store::MaterialLimits, worker::portion::Portions};

    const LIMITS: MaterialLimits = MaterialLimits {
        exchanges_max: 6,
        tokens_max: 1_000,
    };

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    #[test]
    fn one_exchange_alone_is_no_outage_for_ever() {
        let (portions, a) = (Portions::default(), agent("a"));
        for _ in 0..9 {
            assert!(portions.failed(&a, &[1, 2], true), "it may be either's fault");
        }
        assert_eq!(portions.within(&a, LIMITS).exchanges_max, 1);
        for exchange in [1, 2] {
            let taken: Vec<bool> = (0..=OUTAGES_MAX)
                .map(|_| portions.failed(&a, &[exchange], true))
                .collect();
            let expected: Vec<bool> = (0..=OUTAGES_MAX).map(|before| before + 1 < OUTAGES_MAX).collect();
            assert_eq!(taken, expected, "each for itself");
        }
        portions.was_answered(&a, &[2], 0);
        assert!(portions.failed(&a, &[2], true), "it was answered meanwhile");
        assert!(!portions.failed(&a, &[2], false), "an ordinary failure is none");
        assert!(!portions.is_to_blame(&a, &[2]), "nobody else was answered");
    }

    #[test]
    fn an_exchange_is_to_blame_that_fails_while_others_are_answered() {
        let (portions, a) = (Portions::default(), agent("a"));
        assert!(!portions.has_failed_alone(&a, &[1]));
        portions.failed(&a, &[1], false);
        assert!(portions.has_failed_alone(&a, &[1, 2]) && !portions.has_failed_alone(&a, &[2]));
        for others in 0..2 {
            for _ in 0..5 {
                portions.was_answered(&agent("b"), &[7], 0);
            }
            assert!(!portions.is_to_blame(&a, &[1]), "{others}");
            portions.failed(&a, &[1], others == 0);
            portions.failed(&a, &[1], false);
        }
        assert!(!portions.is_to_blame(&a, &[1]));
        portions.was_told(&a, &[9], 0);
        assert!(!portions.is_to_blame(&a, &[1]), "that was written long ago");
        portions.was_answered(&a, &[8], 0);
        assert!(portions.is_to_blame(&a, &[1]));
        assert!(!portions.is_to_blame(&a, &[1, 2]) && !portions.is_to_blame(&agent("b"), &[7]));
        portions.was_answered(&a, &[1], 0);
        assert!(!portions.is_to_blame(&a, &[1]) && !portions.has_failed_alone(&a, &[1]));
    }
}
