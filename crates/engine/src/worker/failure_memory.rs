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
    agents: LruCache<AgentId, AgentMemory>,
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
struct AgentMemory {
    size: QuestionSize,
    /// The exchange that failed alone. There is only one at a time, because the oldest exchange is asked about first.
    single_failure: Option<FailureCount>,
}

impl FailureMemory {
    /// Reduces `limits` to the agent's portion: how many exchanges to ask about at once.
    pub(super) fn reduce(&self, agent: &AgentId, limits: MaterialLimits) -> MaterialLimits {
        let mut state = self.lock();
        let agent_memory = state.agents.get(agent);
        agent_memory.map_or(limits, |agent_memory| agent_memory.size.reduce(limits))
    }

    /// Records that a question about the exchanges was too much for the model.
    pub(super) fn was_too_much(&self, agent: &AgentId, exchanges: &[i64]) {
        self.lock().halve(agent, exchanges, false);
    }

    /// Records that a question about the exchanges failed, perhaps because of them. `is_outage` says that the failure looks like
    /// an outage. Returns whether it still counts as one.
    pub(super) fn failed(&self, agent: &AgentId, exchanges: &[i64], is_outage: bool) -> bool {
        let state = &mut *self.lock();
        let answers = state.answers;
        let agent_memory = state.halve(agent, exchanges, true);
        let &[exchange] = exchanges else {
            return is_outage;
        };
        let single_failure =
            FailureCount::of(exchange, agent_memory.single_failure, answers).again(is_outage, answers);
        agent_memory.single_failure = Some(single_failure);
        is_outage && single_failure.may_be_outage()
    }

    /// Returns true if the exchange of a question that just failed, and whose failure isn't recorded yet, is the cause.
    pub(super) fn is_to_blame(&self, agent: &AgentId, exchanges: &[i64]) -> bool {
        let state = self.lock();
        let single_failure = state.agents.peek(agent).and_then(|agent_memory| agent_memory.single_failure);
        single_failure.is_some_and(|single_failure| single_failure.is_to_blame(exchanges, state.answers))
    }

    /// Returns true if one of the exchanges is the one that failed alone.
    pub(super) fn has_failed_alone(&self, agent: &AgentId, exchanges: &[i64]) -> bool {
        let single_failure =
            self.lock().agents.peek(agent).and_then(|agent_memory| agent_memory.single_failure);
        single_failure.is_some_and(|single_failure| single_failure.is_among(exchanges))
    }

    /// Returns the failure that put the exchange into quarantine for the model at `position` in the chain. Asking this model again
    /// would fail, and be billed.
    pub(super) fn quarantined(
        &self,
        agent: &AgentId,
        exchanges: &[i64],
        position: usize,
    ) -> Option<LlmError> {
        let &[exchange] = exchanges else {
            return None;
        };
        self.lock().quarantine.failure(agent, exchange, position)
    }

    /// Puts an exchange into quarantine for the model at `position`: this model can't summarise it. `error` is the failure that
    /// showed this.
    pub(super) fn quarantine(&self, agent: &AgentId, exchanges: &[i64], position: usize, error: LlmError) {
        let &[exchange] = exchanges else {
            return;
        };
        self.lock().quarantine.note(agent, exchange, position, error);
    }

    /// Returns true if the model at `position` has answered any question since the start.
    pub(super) fn has_answered(&self, position: usize) -> bool {
        self.lock().quarantine.has_answered(position)
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
    pub(super) fn was_settled(&self, agent: &AgentId, exchanges: &[i64]) {
        self.lock().quarantine.settle(agent, exchanges);
    }

    /// Records that the model at `position` just answered a question about the exchanges.
    pub(super) fn was_answered(&self, agent: &AgentId, exchanges: &[i64], position: usize) {
        let mut state = self.lock();
        state.answers += 1;
        state.in_vain &= position != FIRST;
        drop(state);
        self.was_answered_in_batch(agent, exchanges, position);
    }

    /// Records an answer from a batch, like [`Self::was_answered`]. Such an answer is older and doesn't prove that the provider
    /// works now.
    pub(super) fn was_answered_in_batch(&self, agent: &AgentId, exchanges: &[i64], position: usize) {
        let state = &mut *self.lock();
        state.quarantine.was_answered(position);
        state.quarantine.settle(agent, exchanges);
        if let Some(agent_memory) = state.agents.get_mut(agent) {
            agent_memory.single_failure =
                agent_memory.single_failure.filter(|single_failure| !single_failure.is_among(exchanges));
            agent_memory.size.grow(exchanges);
        }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    /// Halves the agent's portion after a question about the exchanges was too much for a model, or may have met an outage.
    fn halve(&mut self, agent: &AgentId, exchanges: &[i64], may_be_outage: bool) -> &mut AgentMemory {
        let agent_memory = self.agents.entry(agent.clone());
        let agent_memory = agent_memory.or_insert_with(AgentMemory::default);
        agent_memory.size.halve(exchanges, may_be_outage);
        agent_memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_search_blames_the_model_unless_it_answers_others() {
        let (failure_memory, agent) = (FailureMemory::default(), "coder".parse().unwrap());
        let all = MaterialLimits { exchanges_max: 200, tokens_max: 50_000 };
        let search = |asked: &[i64]| {
            failure_memory.failed(&agent, asked, false);
            for one in asked {
                failure_memory.failed(&agent, &[*one], false);
            }
            failure_memory.was_divided_in_vain(&agent, asked);
            failure_memory.reduce(&agent, all).exchanges_max
        };
        assert_eq!(search(&[4, 5]), 200);
        assert_eq!(search(&[4, 5]), 200, "no question was answered");
        failure_memory.was_answered(&agent, &[6, 7], FIRST);
        assert_eq!(search(&[4, 5]), 1, "others were answered");
        failure_memory.was_answered(&agent, &[8], FIRST);
        assert_eq!(search(&[90, 91]), 200, "these weren't searched before");
    }
}
