//! How many exchanges an agent is asked about at once, after some were too many, and whose fault a failure is.
//!
//! What was too much for a model would be too much in the next update, too, and an answer that was cut off is billed. So
//! the portion is halved by each question that was too much, kept, and made larger by one exchange now and then, as the
//! window of TCP is; where it may have been an outage that halved it, each answer doubles it. It is kept in memory alone:
//! after a restart it is found again.
//!
//! A call that isn't answered in time, with a failure of the server or to its end fails for the provider or for what it was
//! about: nobody says which.
//! So the next question is halved, too, until it is about one exchange alone. If that goes on failing, it is no outage any
//! more after some tries, for nothing else may ever be asked that shows it; and if others are answered meanwhile, it is
//! the exchange.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{domain::agent::AgentId, llm::LlmError, store::MaterialLimits};

/// Of so many agents it is kept.
const AGENTS_MAX: usize = 10_000;
/// Of so many exchanges it is kept which models can't tell of them.
const BEYOND_MAX: usize = 10_000;
/// After so many answers about full portions one exchange more is tried: most answers are about as much as can be.
const ANSWERS_PER_STEP: u32 = 4;
/// One exchange that failed alone so often is no longer taken for an outage. Between these tries the provider rests, soon
/// for ten minutes each time: that is some hours.
const OUTAGES_MAX: u32 = 24;
/// One that failed alone so often after others had been answered fails for what it is.
const FAILURES_AMONG_ANSWERS_MAX: u32 = 3;

/// What is kept of agents whose questions failed.
#[derive(Debug, Default)]
pub(super) struct Portions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    portions: HashMap<AgentId, Portion>,
    /// Questions that models answered, whoever asked.
    answers: u64,
    /// Which models did, by their places in the chain.
    answered: BTreeSet<usize>,
    /// The models that exchanges are beyond, until somebody has told of them for good.
    beyond: HashMap<(AgentId, i64), Vec<Beyond>>,
}

/// How one model failed over one exchange alone, for what it is about.
#[derive(Debug)]
struct Beyond {
    place: usize,
    /// The model had answered something else by then. Once it has, it may be the exchange, and no more the model.
    has_answered: bool,
    error: LlmError,
}

/// What is kept of one agent.
#[derive(Clone, Copy, Debug, Default)]
struct Portion {
    /// So many exchanges at once.
    exchanges_max: i64,
    /// Answers about as many since it is so.
    answers: u32,
    /// The last question failed.
    is_failing: bool,
    /// It shrank by what may have been an outage, which is no matter of how much is asked: it grows as fast.
    doubles: bool,
    /// The exchange that failed alone: one at a time, since the oldest is asked about first.
    alone: Option<Alone>,
}

/// How an exchange failed alone.
#[derive(Clone, Copy, Debug)]
struct Alone {
    exchange: i64,
    /// How often it was taken for an outage.
    outages: u32,
    /// How often others had been answered since the time before.
    among_answers: u32,
    /// [`Kept::answers`] when it failed last.
    answers: u64,
}

impl Portions {
    /// `limits`, with no more exchanges than the agent's portion.
    pub(super) fn within(&self, agent: &AgentId, limits: MaterialLimits) -> MaterialLimits {
        let kept = self.kept();
        let portion = kept.portions.get(agent);
        MaterialLimits {
            exchanges_max: portion.map_or(limits.exchanges_max, |portion| {
                portion.exchanges_max.min(limits.exchanges_max)
            }),
            ..limits
        }
    }

    /// A question about those exchanges was too much.
    pub(super) fn was_too_much(&self, agent: &AgentId, asked: &[i64]) {
        self.kept().halved(agent, asked, false);
    }

    /// A question about those exchanges failed, perhaps for what it is about. Of one that is taken for an outage, returns
    /// whether it still is.
    pub(super) fn failed(&self, agent: &AgentId, asked: &[i64], is_outage: bool) -> bool {
        let kept = &mut *self.kept();
        let answers = kept.answers;
        let portion = kept.halved(agent, asked, true);
        let &[exchange] = asked else {
            return is_outage;
        };
        let before = portion.alone.filter(|alone| alone.exchange == exchange);
        let alone = before
            .unwrap_or(Alone::new(exchange, answers))
            .again(is_outage, answers);
        portion.alone = Some(alone);
        is_outage && alone.outages < OUTAGES_MAX
    }

    /// Whether a question that has just failed, and isn't noted yet, did so for what it is about.
    pub(super) fn is_to_blame(&self, agent: &AgentId, asked: &[i64]) -> bool {
        let kept = self.kept();
        let alone = kept.portions.get(agent).and_then(|portion| portion.alone);
        alone.is_some_and(|alone| {
            let now = alone.again(false, kept.answers);
            asked == [alone.exchange] && now.among_answers >= FAILURES_AMONG_ANSWERS_MAX
        })
    }

    /// How the model at that place failed over that exchange alone: it would again, and be billed again.
    pub(super) fn beyond(&self, agent: &AgentId, asked: &[i64], place: usize) -> Option<LlmError> {
        let &[exchange] = asked else {
            return None;
        };
        let kept = self.kept();
        let has_answered = kept.answered.contains(&place);
        let all = kept.beyond.get(&(agent.clone(), exchange))?;
        let known = all
            .iter()
            .find(|one| one.place == place && one.has_answered == has_answered);
        known.map(|one| one.error.clone())
    }

    /// Exchanges are beyond the model at that place, which failed so.
    pub(super) fn was_beyond(&self, agent: &AgentId, asked: &[i64], place: usize, error: LlmError) {
        let &[exchange] = asked else {
            return;
        };
        let kept = &mut *self.kept();
        let has_answered = kept.answered.contains(&place);
        if kept.beyond.len() >= BEYOND_MAX {
            kept.beyond.clear();
        }
        let all = kept.beyond.entry((agent.clone(), exchange)).or_default();
        all.retain(|one| one.place != place);
        all.push(Beyond {
            place,
            has_answered,
            error,
        });
    }

    /// Whether the model at that place has answered anything.
    pub(super) fn has_answered(&self, place: usize) -> bool {
        self.kept().answered.contains(&place)
    }

    /// Somebody told of those exchanges for good.
    pub(super) fn was_settled(&self, agent: &AgentId, asked: &[i64]) {
        self.kept().settle(agent, asked);
    }

    /// The model at that place answered a question about those exchanges.
    pub(super) fn was_answered(&self, agent: &AgentId, asked: &[i64], place: usize) {
        self.kept().answers += 1;
        self.was_told(agent, asked, place);
    }

    /// As [`Self::was_answered`], but some time ago, as answers from batches are: that the provider works now they don't show.
    pub(super) fn was_told(&self, agent: &AgentId, asked: &[i64], place: usize) {
        let kept = &mut *self.kept();
        kept.answered.insert(place);
        kept.settle(agent, asked);
        if let Some(portion) = kept.portions.get_mut(agent) {
            portion.alone = portion.alone.filter(|alone| !asked.contains(&alone.exchange));
            portion.grow(asked);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn settle(&mut self, agent: &AgentId, asked: &[i64]) {
        if self.beyond.is_empty() {
            return;
        }
        for exchange in asked {
            self.beyond.remove(&(agent.clone(), *exchange));
        }
    }

    /// The agent's portion, after a question about those exchanges was too much, or may have met an outage.
    fn halved(&mut self, agent: &AgentId, asked: &[i64], may_be_outage: bool) -> &mut Portion {
        if self.portions.len() >= AGENTS_MAX && !self.portions.contains_key(agent) {
            self.portions.clear();
        }
        let portion = self.portions.entry(agent.clone()).or_default();
        portion.doubles = may_be_outage && !portion.has_overreached(asked);
        portion.is_failing = true;
        portion.exchanges_max = count(asked.len() / 2).max(1);
        portion.answers = 0;
        portion
    }
}

impl Portion {
    /// Whether it was doubled after an answer, and that was too much: a model that is too slow for so many fails like an
    /// outage, and would do so after every other answer.
    fn has_overreached(self, asked: &[i64]) -> bool {
        self.doubles && !self.is_failing && count(asked.len()) >= self.exchanges_max
    }

    /// A question about less than the portion tells nothing of it.
    fn grow(&mut self, asked: &[i64]) {
        self.is_failing = false;
        if count(asked.len()) < self.exchanges_max {
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

impl Alone {
    fn new(exchange: i64, answers: u64) -> Self {
        Self {
            exchange,
            outages: 0,
            among_answers: 0,
            answers,
        }
    }

    /// The same, after it failed once more.
    fn again(self, is_outage: bool, answers: u64) -> Self {
        Self {
            exchange: self.exchange,
            outages: self.outages.saturating_add(u32::from(is_outage)),
            among_answers: self
                .among_answers
                .saturating_add(u32::from(answers > self.answers)),
            answers,
        }
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MaterialLimits = MaterialLimits {
        exchanges_max: 6,
        tokens_max: 1_000,
    };

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn portion(portions: &Portions) -> i64 {
        portions.within(&agent("a"), LIMITS).exchanges_max
    }

    #[test]
    fn what_was_too_much_is_halved_and_grows_again() {
        let (portions, a) = (Portions::default(), agent("a"));
        portions.was_answered(&a, &[1, 2, 3], 0);
        assert_eq!(portion(&portions), 6);
        portions.was_too_much(&a, &[1, 2, 3, 4, 5]);
        assert_eq!(portion(&portions), 2);
        assert_eq!(portions.within(&agent("b"), LIMITS), LIMITS, "of nobody else");
        for _ in 0..9 {
            portions.was_answered(&a, &[1], 0);
        }
        assert_eq!(portion(&portions), 2, "a smaller question tells nothing");
        for expected in [2, 2, 2, 3, 3] {
            portions.was_answered(&a, &[1, 2, 3], 0);
            assert_eq!(portion(&portions), expected);
        }
        for exchanges in [&[1, 2, 3][..], &[1], &[1]] {
            portions.was_too_much(&a, exchanges);
            assert_eq!(portion(&portions), 1);
        }
        for _ in 0..99 {
            portions.was_answered(&a, &[1, 2, 3, 4, 5, 6, 7], 0);
        }
        assert_eq!(portions.within(&a, LIMITS), LIMITS, "no more than was configured");
    }

    #[test]
    fn after_an_outage_it_grows_as_fast_as_it_shrank() {
        let (portions, a) = (Portions::default(), agent("a"));
        let answered = || {
            let asked: Vec<i64> = (0..portion(&portions)).collect();
            portions.was_answered(&a, &asked, 0);
            portion(&portions)
        };
        for asked in [&[1, 2, 3, 4, 5, 6][..], &[1, 2, 3], &[1], &[1]] {
            portions.failed(&a, asked, true);
        }
        assert_eq!([answered(), answered(), answered()], [2, 4, 6]);
        // Another one, of which this agent meets but one failure.
        portions.failed(&a, &[1, 2], true);
        assert_eq!([answered(), answered()], [2, 4]);
        // Four in time, and never eight: that is no outage.
        portions.failed(&a, &[1, 2, 3, 4], false);
        assert_eq!([answered(), answered(), answered(), answered()], [2, 2, 2, 3]);
        portions.was_too_much(&a, &[1, 2, 3]);
        assert_eq!([answered(), answered()], [1, 1]);
    }

    #[test]
    fn one_exchange_alone_is_no_outage_for_ever() {
        let (portions, a) = (Portions::default(), agent("a"));
        for _ in 0..9 {
            assert!(portions.failed(&a, &[1, 2], true), "it may be either's fault");
        }
        assert_eq!(portion(&portions), 1);
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
        portions.failed(&a, &[1], false);
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
        assert!(!portions.is_to_blame(&a, &[1]));
    }

    #[test]
    fn what_is_beyond_a_model_is_known_until_it_is_told_of() {
        let (portions, a, cut_off) = (Portions::default(), agent("a"), LlmError::Truncated);
        portions.was_beyond(&a, &[1], 0, cut_off.clone());
        assert_eq!(portions.beyond(&a, &[1], 0), Some(cut_off.clone()));
        for (who, asked, place) in [
            ("b", &[1][..], 0),
            ("a", &[2][..], 0),
            ("a", &[1, 2][..], 0),
            ("a", &[1][..], 1),
        ] {
            assert_eq!(portions.beyond(&agent(who), asked, place), None);
        }
        portions.was_answered(&a, &[2], 0);
        assert!(portions.has_answered(0) && !portions.has_answered(1));
        assert_eq!(
            portions.beyond(&a, &[1], 0),
            None,
            "it may not have been the exchange"
        );
        portions.was_beyond(&a, &[1], 0, cut_off.clone());
        assert_eq!(portions.beyond(&a, &[1], 0), Some(cut_off));
        portions.was_settled(&a, &[1]);
        assert_eq!(portions.beyond(&a, &[1], 0), None);
    }
}
