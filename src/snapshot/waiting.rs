//! Readers that wait until an agent's summary changes. Nobody holds anything for them: they are woken and look again.

use std::sync::Arc;

use papaya::HashMap;
use tokio::sync::{Notify, futures::OwnedNotified};

use crate::domain::agent::AgentId;

/// The most agents that somebody has waited for; beyond it all who wait are woken, and it begins anew.
const AGENTS_MAX: usize = 100_000;

/// Who waits for which agent.
#[derive(Default)]
pub(super) struct Waiting(HashMap<AgentId, Arc<Notify>>);

impl Waiting {
    /// A wait for the next change of `agent`. Enable it *before* looking, so that a change between the look and the
    /// wait isn't missed.
    pub(super) fn change(&self, agent: &AgentId) -> OwnedNotified {
        let all = self.0.pin();
        if all.len() >= AGENTS_MAX {
            self.wake_all();
        }
        let bell = all.get_or_insert_with(agent.clone(), || Arc::new(Notify::new()));
        Arc::clone(bell).notified_owned()
    }

    /// Wakes who waits for `agent`.
    pub(super) fn wake(&self, agent: &AgentId) {
        if let Some(bell) = self.0.pin().get(agent) {
            bell.notify_waiters();
        }
    }

    /// Wakes everybody.
    pub(super) fn wake_all(&self) {
        let all = self.0.pin();
        for bell in all.values() {
            bell.notify_waiters();
        }
        all.clear();
    }
}
