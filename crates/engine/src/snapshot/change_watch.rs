//! Readers that wait until an agent's summary changes. No change is kept for them: they are woken and look again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use tokio::sync::{Notify, futures::OwnedNotified};

use recapd_core::domain::agent::AgentId;

/// The most agents that somebody has waited for; beyond it those who wait for the one not asked about the longest are
/// woken, and look again.
const AGENTS_MAX: usize = 100_000;

/// Who waits for which agent.
pub(super) struct ChangeWatch(Mutex<LruCache<AgentId, Arc<Notify>>>);

impl Default for ChangeWatch {
    fn default() -> Self {
        Self::of_most(AGENTS_MAX)
    }
}

impl ChangeWatch {
    fn of_most(agents_max: usize) -> Self {
        Self(Mutex::new(LruCache::new(agents_max)))
    }

    /// A wait for the next change of `agent`. Enable it *before* looking, so that a change between the look and the
    /// wait isn't missed.
    pub(super) fn change(&self, agent: &AgentId) -> OwnedNotified {
        let mut all = self.all();
        if let Some(bell) = all.get(agent) {
            return Arc::clone(bell).notified_owned();
        }
        // Forgotten unrung, it would never ring.
        if all.len() >= all.capacity()
            && let Some((_, bell)) = all.remove_lru()
        {
            bell.notify_waiters();
        }
        let bell = Arc::new(Notify::new());
        all.insert(agent.clone(), Arc::clone(&bell));
        bell.notified_owned()
    }

    /// Wakes the readers that wait for `agent`.
    pub(super) fn wake(&self, agent: &AgentId) {
        if let Some(bell) = self.all().peek(agent) {
            bell.notify_waiters();
        }
    }

    /// Wakes all readers.
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
    fn who_is_forgotten_is_woken_and_nobody_else() {
        let waiting = ChangeWatch::of_most(2);
        let [a, b, c]: [AgentId; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
        let (first, second) = (waiting.change(&a), waiting.change(&b));
        let again = waiting.change(&a);
        let third = waiting.change(&c);
        assert!(second.now_or_never().is_some(), "b was asked about before a");
        waiting.wake(&a);
        assert!(first.now_or_never().is_some() && again.now_or_never().is_some());
        waiting.wake_all();
        assert!(third.now_or_never().is_some());
        assert!(waiting.change(&c).now_or_never().is_none());
    }
}
