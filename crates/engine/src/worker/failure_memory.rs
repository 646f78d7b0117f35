//! Remembers how questions ended, to decide how many exchanges of an agent to ask about at once, and what causes failures.
//!
//! It learns four things: how many exchanges to ask about at once ([`question_size`]), whether an exchange or an outage caused a
//! failure ([`failure_count`]), which exchanges which models can't summarise ([`quarantine`]), and which exchanges answers leave
//! out ([`left_out`]). All are kept in memory only and learned again after a restart.

mod failure_count;
mod left_out;
mod quarantine;
mod question_size;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;

use super::ask::FIRST;
use failure_count::FailureCount;
use left_out::LeftOut;
use quarantine::Quarantine;
use question_size::QuestionSize;
use recapd_core::domain::agent::AgentId;
use recapd_llm::LlmError;
use recapd_store::MaterialLimits;

const AGENTS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct FailureMemory(Mutex<MemoryState>);

/// The whole state, behind one lock, because the end of a question changes several parts at once.
#[derive(Debug)]
struct MemoryState {
    agents: LruCache<AgentId, OfAgent>,
    /// How many questions models have answered, about any agent.
    answers: u64,
    /// True if questions were divided without success since the first model last answered: no single exchange was the cause.
    in_vain: bool,
    /// Agents whose questions were divided in vain, each with the oldest exchange of the last such question and the value of
    /// `answers` at that time.
    vain_searches: LruCache<AgentId, (i64, u64)>,
    quarantine: Quarantine,
    left_out: LeftOut,
}

impl Default for MemoryState {
    fn default() -> Self {
        Self {
            agents: LruCache::new(AGENTS_MAX),
            answers: 0,
            in_vain: false,
            vain_searches: LruCache::new(AGENTS_MAX),
            quarantine: Quarantine::default(),
            left_out: LeftOut::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OfAgent {
    size: QuestionSize,
    /// The exchange that failed alone. There is only one at a time, because the oldest exchange is asked about first.
    alone: Option<FailureCount>,
}

impl FailureMemory {
    /// Reduces `limits` to the agent's portion: how many exchanges to ask about at once.
    pub(super) fn within(&self, agent: &AgentId, limits: MaterialLimits) -> MaterialLimits {
        let mut state = self.lock();
        let of_agent = state.agents.get(agent);
        of_agent.map_or(limits, |of_agent| of_agent.size.within(limits))
    }

    /// Records that a question about the exchanges was too much for the model.
    pub(super) fn was_too_much(&self, agent: &AgentId, asked: &[i64]) {
        self.lock().halve(agent, asked, false);
    }

    /// Records that a question about the exchanges failed, perhaps because of them. `is_outage` says that the failure looks like
    /// an outage. Returns whether it still counts as one.
    pub(super) fn failed(&self, agent: &AgentId, asked: &[i64], is_outage: bool) -> bool {
        let state = &mut *self.lock();
        let answers = state.answers;
        let of_agent = state.halve(agent, asked, true);
        let &[exchange] = asked else {
            return is_outage;
        };
        let alone = FailureCount::of(exchange, of_agent.alone, answers).again(is_outage, answers);
        of_agent.alone = Some(alone);
        is_outage && alone.may_be_outage()
    }

    /// Returns true if the exchange of a question that just failed, and whose failure isn't recorded yet, is the cause.
    pub(super) fn is_to_blame(&self, agent: &AgentId, asked: &[i64]) -> bool {
        let state = self.lock();
        let alone = state.agents.peek(agent).and_then(|of_agent| of_agent.alone);
        alone.is_some_and(|alone| alone.is_to_blame(asked, state.answers))
    }

    /// Returns true if one of the exchanges is the one that failed alone.
    pub(super) fn has_failed_alone(&self, agent: &AgentId, asked: &[i64]) -> bool {
        let alone = self.lock().agents.peek(agent).and_then(|of_agent| of_agent.alone);
        alone.is_some_and(|alone| alone.is_among(asked))
    }

    /// Returns the failure that put the exchange into quarantine for the model at `place` in the chain. Asking this model again
    /// would fail, and be billed.
    pub(super) fn quarantined(&self, agent: &AgentId, asked: &[i64], place: usize) -> Option<LlmError> {
        let &[exchange] = asked else {
            return None;
        };
        self.lock().quarantine.failure(agent, exchange, place)
    }

    /// Puts an exchange into quarantine for the model at `place`: this model can't summarise it. `error` is the failure that
    /// showed this.
    pub(super) fn quarantine(&self, agent: &AgentId, asked: &[i64], place: usize, error: LlmError) {
        let &[exchange] = asked else {
            return;
        };
        self.lock().quarantine.note(agent, exchange, place, error);
    }

    /// Returns true if the model at `place` has answered any question since the start.
    pub(super) fn has_answered(&self, place: usize) -> bool {
        self.lock().quarantine.has_answered(place)
    }

    /// Returns true if a question may be divided to find the exchange that makes it fail.
    pub(super) fn may_divide(&self) -> bool {
        !self.lock().in_vain
    }

    /// Records that dividing was useless, because the first model answered no part. The exchanges aren't the cause, so the
    /// agent's next question has as many exchanges as before. With a smaller portion each exchange would be asked about alone,
    /// with its own attempts. But if models have answered other questions between two searches among the same exchanges, these
    /// exchanges are the cause, and the portion stays small.
    pub(super) fn was_divided_in_vain(&self, agent: &AgentId, exchanges: &[i64]) {
        let state = &mut *self.lock();
        state.in_vain = true;
        let Some(&oldest) = exchanges.first() else {
            return;
        };
        let before = state.vain_searches.insert(agent.clone(), (oldest, state.answers));
        let are_the_cause = |(oldest, answers)| exchanges.contains(&oldest) && answers < state.answers;
        if !before.is_some_and(are_the_cause) {
            state.agents.remove(agent);
        }
    }

    /// Records that an answer left out the exchanges. A model that is asked directly was then asked about only these, and left
    /// them out again; a batch asks only once.
    pub(super) fn were_left_out(&self, agent: &AgentId, exchanges: &[i64]) {
        self.lock().left_out.note(agent, exchanges);
    }

    /// Returns true if all exchanges were left out before.
    pub(super) fn has_left_out(&self, agent: &AgentId, exchanges: &[i64]) -> bool {
        self.lock().left_out.has_all(agent, exchanges)
    }

    /// Records that the exchanges have their final items.
    pub(super) fn was_settled(&self, agent: &AgentId, asked: &[i64]) {
        self.lock().quarantine.settle(agent, asked);
    }

    /// Records that the model at `place` just answered a question about the exchanges.
    pub(super) fn was_answered(&self, agent: &AgentId, asked: &[i64], place: usize) {
        let mut state = self.lock();
        state.answers += 1;
        state.in_vain &= place != FIRST;
        drop(state);
        self.was_answered_in_batch(agent, asked, place);
    }

    /// Records an answer from a batch, like [`Self::was_answered`]. Such an answer is older and doesn't prove that the provider
    /// works now.
    pub(super) fn was_answered_in_batch(&self, agent: &AgentId, asked: &[i64], place: usize) {
        let state = &mut *self.lock();
        state.quarantine.was_answered(place);
        state.quarantine.settle(agent, asked);
        if let Some(of_agent) = state.agents.get_mut(agent) {
            of_agent.alone = of_agent.alone.filter(|alone| !alone.is_among(asked));
            of_agent.size.grow(asked);
        }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    /// Halves the agent's portion after a question about the exchanges was too much for a model, or may have met an outage.
    fn halve(&mut self, agent: &AgentId, asked: &[i64], may_be_outage: bool) -> &mut OfAgent {
        let of_agent = self.agents.entry(agent.clone());
        let of_agent = of_agent.or_insert_with(OfAgent::default);
        of_agent.size.halve(asked, may_be_outage);
        of_agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_search_blames_the_model_unless_it_answers_others() {
        let (failure_memory, agent) = (FailureMemory::default(), "coder".parse().unwrap());
        let all = MaterialLimits {
            exchanges_max: 200,
            tokens_max: 50_000,
        };
        let search = |asked: &[i64]| {
            failure_memory.failed(&agent, asked, false);
            for one in asked {
                failure_memory.failed(&agent, &[*one], false);
            }
            failure_memory.was_divided_in_vain(&agent, asked);
            failure_memory.within(&agent, all).exchanges_max
        };
        assert_eq!(search(&[4, 5]), 200);
        assert_eq!(search(&[4, 5]), 200, "no question was answered");
        failure_memory.was_answered(&agent, &[6, 7], FIRST);
        assert_eq!(search(&[4, 5]), 1, "others were answered");
        failure_memory.was_answered(&agent, &[8], FIRST);
        assert_eq!(search(&[90, 91]), 200, "these weren't searched before");
    }
}
