//! How many exchanges an agent is asked about at once, after some were too many, and whose fault a failure is.
//!
//! Three things are learned from how questions end: how much to ask at once ([`size`]), whether an exchange or an outage
//! is to blame for a failure ([`blame`]), and which exchanges are beyond which models ([`beyond`]). They are kept in memory
//! alone: after a restart they are found again.

mod beyond;
mod blame;
mod size;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;

use crate::{domain::agent::AgentId, llm::LlmError, store::MaterialLimits};
use beyond::Beyond;
use blame::Alone;
use size::Size;

/// Of so many agents it is kept.
const AGENTS_MAX: usize = 10_000;

/// What is kept of agents whose questions failed.
#[derive(Debug, Default)]
pub(super) struct Portions(Mutex<Kept>);

/// All of it behind one lock: how a question ended is told to each of the three at once.
#[derive(Debug)]
struct Kept {
    agents: LruCache<AgentId, OfAgent>,
    /// Questions that models answered, whoever asked.
    answers: u64,
    /// Questions were divided since the last one of them, and that was of no use: it wasn't one exchange.
    in_vain: bool,
    beyond: Beyond,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            agents: LruCache::new(AGENTS_MAX),
            answers: 0,
            beyond: Beyond::default(),
        }
    }
}

/// What is kept of one agent.
#[derive(Clone, Copy, Debug, Default)]
struct OfAgent {
    size: Size,
    /// The exchange that failed alone: one at a time, since the oldest is asked about first.
    alone: Option<Alone>,
}

impl Portions {
    /// `limits`, with no more exchanges than the agent's portion.
    pub(super) fn within(&self, agent: &AgentId, limits: MaterialLimits) -> MaterialLimits {
        let mut kept = self.kept();
        let of_agent = kept.agents.get(agent);
        of_agent.map_or(limits, |of_agent| of_agent.size.within(limits))
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
        let of_agent = kept.halved(agent, asked, true);
        let &[exchange] = asked else {
            return is_outage;
        };
        let alone = Alone::of(exchange, of_agent.alone, answers).again(is_outage, answers);
        of_agent.alone = Some(alone);
        is_outage && alone.may_be_outage()
    }

    /// Whether a question that has just failed, and isn't noted yet, did so for what it is about.
    pub(super) fn is_to_blame(&self, agent: &AgentId, asked: &[i64]) -> bool {
        let kept = self.kept();
        let alone = kept.agents.peek(agent).and_then(|of_agent| of_agent.alone);
        alone.is_some_and(|alone| alone.is_to_blame(asked, kept.answers))
    }

    /// Whether one of those exchanges is the one that failed alone.
    pub(super) fn has_failed_alone(&self, agent: &AgentId, asked: &[i64]) -> bool {
        let alone = self.kept().agents.peek(agent).and_then(|of_agent| of_agent.alone);
        alone.is_some_and(|alone| alone.is_among(asked))
    }

    /// How the model at that place failed over that exchange alone: it would again, and be billed again.
    pub(super) fn beyond(&self, agent: &AgentId, asked: &[i64], place: usize) -> Option<LlmError> {
        let &[exchange] = asked else {
            return None;
        };
        self.kept().beyond.failure(agent, exchange, place)
    }

    /// Exchanges are beyond the model at that place, which failed so.
    pub(super) fn was_beyond(&self, agent: &AgentId, asked: &[i64], place: usize, error: LlmError) {
        let &[exchange] = asked else {
            return;
        };
        self.kept().beyond.note(agent, exchange, place, error);
    }

    /// Whether the model at that place has answered anything.
    pub(super) fn has_answered(&self, place: usize) -> bool {
        self.kept().beyond.has_answered(place)
    }

    /// Whether a question may be divided to find the exchange that it fails for.
    pub(super) fn may_divide(&self) -> bool {
        !self.kept().in_vain
    }

    /// That was of no use: no model answered about any part.
    pub(super) fn was_divided_in_vain(&self) {
        self.kept().in_vain = true;
    }

    /// Somebody told of those exchanges for good.
    pub(super) fn was_settled(&self, agent: &AgentId, asked: &[i64]) {
        self.kept().beyond.settle(agent, asked);
    }

    /// The model at that place answered a question about those exchanges.
    pub(super) fn was_answered(&self, agent: &AgentId, asked: &[i64], place: usize) {
        let mut kept = self.kept();
        kept.answers += 1;
        kept.in_vain = false;
        drop(kept);
        self.was_told(agent, asked, place);
    }

    /// As [`Self::was_answered`], but some time ago, as answers from batches are: that the provider works now they don't show.
    pub(super) fn was_told(&self, agent: &AgentId, asked: &[i64], place: usize) {
        let kept = &mut *self.kept();
        kept.beyond.was_answered(place);
        kept.beyond.settle(agent, asked);
        if let Some(of_agent) = kept.agents.get_mut(agent) {
            of_agent.alone = of_agent.alone.filter(|alone| !alone.is_among(asked));
            of_agent.size.grow(asked);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// What is kept of the agent, after a question about those exchanges was too much, or may have met an outage.
    fn halved(&mut self, agent: &AgentId, asked: &[i64], may_be_outage: bool) -> &mut OfAgent {
        let of_agent = self.agents.entry(agent.clone());
        let of_agent = of_agent.or_insert_with(OfAgent::default);
        of_agent.size.halve(asked, may_be_outage);
        of_agent
    }
}
