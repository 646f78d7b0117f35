//! Quarantine: remembers exchanges that a model can't summarise. The model was asked about one of them alone, and failed because
//! of it. Only exchanges are quarantined. Rows are parked, not quarantined: see [`recapd_core::domain::work::RetryPolicy`].

use std::collections::BTreeSet;

use hashlink::LruCache;

use recapd_core::domain::agent::AgentId;
use recapd_llm::LlmError;

const EXCHANGES_MAX: usize = 10_000;

/// For each exchange, the models that can't summarise it. An entry stays until the exchange has its final item.
#[derive(Debug)]
pub(super) struct Quarantine {
    failures: LruCache<(AgentId, i64), Vec<Failure>>,
    /// The models that have answered any question, by their positions in the chain.
    answering_models: BTreeSet<usize>,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { failures: LruCache::new(EXCHANGES_MAX), answering_models: BTreeSet::new() }
    }
}

/// A model's failure over one exchange alone.
#[derive(Debug)]
struct Failure {
    /// The model's position in the chain.
    position: usize,
    /// True if the model had answered any other question by then. Before that, the model may be the cause and not the exchange.
    has_answered: bool,
    error: LlmError,
}

impl Quarantine {
    /// Returns the failure of the model at `position` over the exchange, if the exchange is the cause as far as is known. A failure
    /// from before the model's first answer doesn't count any more once the model has answered: the model may have been the cause.
    pub(super) fn failure(&mut self, agent: &AgentId, exchange: i64, position: usize) -> Option<LlmError> {
        let has_answered = self.has_answered(position);
        let all = self.failures.get(&(agent.clone(), exchange))?;
        let failure =
            all.iter().find(|failure| failure.position == position && failure.has_answered == has_answered);
        failure.map(|failure| failure.error.clone())
    }

    /// Puts an exchange into quarantine for the model at `position`. `error` is the failure that showed this.
    pub(super) fn note(&mut self, agent: &AgentId, exchange: i64, position: usize, error: LlmError) {
        let has_answered = self.has_answered(position);
        let all = self.failures.entry((agent.clone(), exchange));
        let all = all.or_insert_with(Vec::new);
        all.retain(|failure| failure.position != position);
        all.push(Failure { position, has_answered, error });
    }

    pub(super) fn has_answered(&self, position: usize) -> bool {
        self.answering_models.contains(&position)
    }

    pub(super) fn was_answered(&mut self, position: usize) {
        self.answering_models.insert(position);
    }

    /// Forgets the failures of exchanges that have their final items.
    pub(super) fn settle(&mut self, agent: &AgentId, exchanges: &[i64]) {
        if self.failures.is_empty() {
            return;
        }
        for exchange in exchanges {
            self.failures.remove(&(agent.clone(), *exchange));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::failure_memory::FailureMemory;

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    #[test]
    fn an_exchange_stays_in_quarantine_until_it_has_its_item() {
        let (failure_memory, a, cut_off) =
            (FailureMemory::default(), agent("a"), LlmError::Truncated { usage: None });
        failure_memory.quarantine(&a, &[1], 0, cut_off.clone());
        assert_eq!(failure_memory.quarantined(&a, &[1], 0), Some(cut_off.clone()));
        for (who, asked, position) in
            [("b", &[1][..], 0), ("a", &[2][..], 0), ("a", &[1, 2][..], 0), ("a", &[1][..], 1)]
        {
            assert_eq!(failure_memory.quarantined(&agent(who), asked, position), None);
        }
        failure_memory.was_answered(&a, &[2], 0);
        assert!(failure_memory.has_answered(0) && !failure_memory.has_answered(1));
        assert_eq!(failure_memory.quarantined(&a, &[1], 0), None, "the model may have been the cause");
        failure_memory.quarantine(&a, &[1], 0, cut_off.clone());
        assert_eq!(failure_memory.quarantined(&a, &[1], 0), Some(cut_off));
        failure_memory.was_settled(&a, &[1]);
        assert_eq!(failure_memory.quarantined(&a, &[1], 0), None);
    }
}
