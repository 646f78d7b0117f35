//! Notices within one process: the queue may have work, an agent's summary has changed. They only save waiting: who
//! misses one finds out at the next poll.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast, futures::OwnedNotified};

use crate::domain::agent::AgentId;

/// Changes kept for a slow listener; one that falls further behind is told so.
const CHANGES_KEPT: usize = 4_096;

/// The bell of a process; clones ring the same one.
#[derive(Clone, Debug)]
pub struct Notices {
    queue: Arc<Notify>,
    changed: broadcast::Sender<AgentId>,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            queue: Arc::new(Notify::new()),
            changed: broadcast::channel(CHANGES_KEPT).0,
        }
    }
}

impl Notices {
    /// Something may be due now.
    pub fn wake_queue(&self) {
        self.queue.notify_waiters();
    }

    /// A wait for the next [`Self::wake_queue`]. Enable it *before* looking at the queue, so that a wake-up between
    /// the look and the wait isn't lost.
    pub fn queue_woken(&self) -> OwnedNotified {
        Arc::clone(&self.queue).notified_owned()
    }

    /// The window or the summary of `agent` changed.
    pub fn agent_changed(&self, agent: &AgentId) {
        // An error says that nobody listens, and then nobody needs to know.
        drop(self.changed.send(agent.clone()));
    }

    /// A listener for changed agents.
    pub fn changes(&self) -> broadcast::Receiver<AgentId> {
        self.changed.subscribe()
    }
}
