//! How many exchanges an agent is asked about at once, after some were too many.
//!
//! What was too much for a model would be too much in the next update, too, and an answer that was cut off is billed. So
//! the portion is halved by each question that was too much, kept, and made larger by one exchange now and then, as the
//! window of TCP is. It is kept in memory alone: after a restart it is found again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{domain::agent::AgentId, store::MaterialLimits};

/// Of so many agents it is kept.
const AGENTS_MAX: usize = 10_000;
/// After so many answers about full portions one exchange more is tried: most answers are about as much as can be.
const ANSWERS_PER_STEP: u32 = 4;

/// The agents that get smaller portions.
#[derive(Debug, Default)]
pub(super) struct Portions(Mutex<HashMap<AgentId, Portion>>);

/// What is kept of one agent.
#[derive(Clone, Copy, Debug, Default)]
struct Portion {
    /// So many exchanges at once.
    exchanges_max: i64,
    /// Answers about as many since it is so.
    answers: u32,
}

impl Portions {
    /// `limits`, with no more exchanges than the agent's portion.
    pub(super) fn within(&self, agent: &AgentId, limits: MaterialLimits) -> MaterialLimits {
        let kept = self.kept().get(agent).map(|portion| portion.exchanges_max);
        MaterialLimits {
            exchanges_max: kept.map_or(limits.exchanges_max, |kept| kept.min(limits.exchanges_max)),
            ..limits
        }
    }

    /// A question about those exchanges was too much.
    pub(super) fn was_too_much(&self, agent: &AgentId, asked: &[i64]) {
        let mut kept = self.kept();
        if kept.len() >= AGENTS_MAX {
            kept.clear();
        }
        let portion = kept.entry(agent.clone()).or_default();
        portion.exchanges_max = count(asked.len() / 2).max(1);
        portion.answers = 0;
    }

    /// A model answered a question about those exchanges.
    pub(super) fn was_answered(&self, agent: &AgentId, asked: &[i64]) {
        let mut kept = self.kept();
        let Some(portion) = kept.get_mut(agent) else {
            return;
        };
        if count(asked.len()) < portion.exchanges_max {
            return;
        }
        portion.answers += 1;
        if portion.answers >= ANSWERS_PER_STEP {
            portion.exchanges_max = portion.exchanges_max.saturating_add(1);
            portion.answers = 0;
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<AgentId, Portion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        portions.was_answered(&a, &[1, 2, 3]);
        assert_eq!(portion(&portions), 6);
        portions.was_too_much(&a, &[1, 2, 3, 4, 5]);
        assert_eq!(portion(&portions), 2);
        assert_eq!(portions.within(&agent("b"), LIMITS), LIMITS, "of nobody else");
        for _ in 0..9 {
            portions.was_answered(&a, &[1]);
        }
        assert_eq!(portion(&portions), 2, "a smaller question tells nothing");
        for expected in [2, 2, 2, 3, 3] {
            portions.was_answered(&a, &[1, 2, 3]);
            assert_eq!(portion(&portions), expected);
        }
        for exchanges in [&[1, 2, 3][..], &[1], &[1]] {
            portions.was_too_much(&a, exchanges);
            assert_eq!(portion(&portions), 1);
        }
        for _ in 0..99 {
            portions.was_answered(&a, &[1, 2, 3, 4, 5, 6, 7]);
        }
        assert_eq!(portions.within(&a, LIMITS), LIMITS, "no more than was configured");
    }
}
