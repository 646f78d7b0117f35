//! Wakes readers that wait for a change of an agent's summary. Stores no changes: woken readers read the summary again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use tokio::sync::{Notify, futures::OwnedNotified};

use recapd_core::domain::agent::AgentId;

/// Limits how many agents are waited for. Beyond it, the readers of the least recently used agent are woken and read again.
const AGENTS_MAX: usize = 100_000;

pub(super) struct ChangeWatch(Mutex<LruCache<AgentId, Arc<Notify>>>);

impl Default for ChangeWatch {
    fn default() -> Self {
        Self::with_capacity(AGENTS_MAX)
    }
}

impl ChangeWatch {
    fn with_capacity(agents_max: usize) -> Self {
        Self(Mutex::new(LruCache::new(agents_max)))
    }

    /// Returns a future that waits for the agent's next change. Enable it *before* you read, so that no change between the read
    /// and the wait is missed.
    pub(super) fn change(&self, agent: &AgentId) -> OwnedNotified {
        let mut all = self.all();
        if let Some(bell) = all.get(agent) {
            return Arc::clone(bell).notified_owned();
        }
        // Wakes the readers of the dropped agent, because nobody would wake them later.
        if all.len() >= all.capacity()
            && let Some((_, bell)) = all.remove_lru()
        {
            bell.notify_waiters();
        }
        let bell = Arc::new(Notify::new());
        all.insert(agent.clone(), Arc::clone(&bell));
        bell.notified_owned()
    }

    pub(super) fn wake(&self, agent: &AgentId) {
        if let Some(bell) = self.all().peek(agent) {
            bell.notify_waiters();
        }
    }

    pub(super) fn wake_all(&self) {
        for (_, bell) in self.all().drain() {
            bell.notify_waiters();
        }
    }

    fn all(&self) -> MutexGuard<'_, LruCache<AgentId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn only_waiters_of_the_dropped_agent_are_woken() {
        let waiting = ChangeWatch::with_capacity(2);
        let [a, b, c]: [AgentId; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
        let (first, second) = (waiting.change(&a), waiting.change(&b));
        let again = waiting.change(&a);
        let third = waiting.change(&c);
        assert!(second.now_or_never().is_some(), "b is the least recently used");
        waiting.wake(&a);
        assert!(first.now_or_never().is_some() && again.now_or_never().is_some());
        waiting.wake_all();
        assert!(third.now_or_never().is_some());
        assert!(waiting.change(&c).now_or_never().is_none());
    }
}
