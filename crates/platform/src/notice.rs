//! Notices within one process: the queue may have work, or an agent's summary has changed. Notices only save time: a listener
//! that misses one finds the change at its next poll.
//!
//! If several daemons share a database, `peers` forwards the changes of other daemons here.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast, futures::OwnedNotified},
    time::Instant,
};

use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// How many changes are kept for a slow listener. A listener that is further behind gets an error, and must check all
/// agents.
const CHANGES_KEPT: usize = 4_096;

/// What readers must check again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Agent(AgentId),
    /// All agents, because it is unknown what was missed.
    All,
}

/// Says whether this process receives other daemons' changes. Clones share the state.
#[derive(Clone, Debug)]
pub struct PeerLink(Arc<AtomicI64>);

/// The stored time of a link that isn't lost.
const NEVER: i64 = i64::MIN;

impl Default for PeerLink {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NEVER)))
    }
}

impl PeerLink {
    /// Records that other daemons may make changes that this process doesn't receive.
    pub fn lost(&self, at: Timestamp) {
        // If the link is lost already, the earlier time stays.
        if self.lost_since().is_none() {
            self.0.store(at.0, Ordering::SeqCst);
        }
    }

    /// Records that the link works again.
    pub fn regained(&self) {
        self.0.store(NEVER, Ordering::SeqCst);
    }

    /// Returns when the link was lost; `None` if it isn't lost.
    pub fn lost_since(&self) -> Option<Timestamp> {
        let at = self.0.load(Ordering::SeqCst);
        (at != NEVER).then_some(Timestamp(at))
    }
}

/// The progress of the worker's loop: when it last polled the queue, even if the poll failed, or until when it rests. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct LoopProgress(Arc<Mutex<Instant>>);

impl Default for LoopProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LoopProgress {
    /// Records that the worker has polled the queue.
    pub fn record_poll(&self) {
        self.rests_for(Duration::ZERO);
    }

    /// Records that the worker has polled the queue and needs no poll for the time of `rest`.
    pub fn rests_for(&self, rest: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + rest;
    }

    /// Returns the time since the last poll, or since the end of the worker's rest. Returns zero during the rest.
    pub fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// The notices of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Notices {
    progress: LoopProgress,
    queue: Arc<Notify>,
    /// Sends changes of windows and summaries.
    changed: broadcast::Sender<Change>,
    /// Sends every change.
    moved: broadcast::Sender<Change>,
    contact: PeerLink,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            progress: LoopProgress::default(),
            queue: Arc::new(Notify::new()),
            changed: broadcast::channel(CHANGES_KEPT).0,
            moved: broadcast::channel(CHANGES_KEPT).0,
            contact: PeerLink::default(),
        }
    }
}

impl Notices {
    /// Wakes the worker, because a row may be due now.
    pub fn wake_queue(&self) {
        self.queue.notify_waiters();
    }

    /// Returns a future that waits for the next [`Self::wake_queue`]. Enable it *before* you poll the queue, so that no wake-up
    /// between the poll and the wait is lost.
    pub fn queue_woken(&self) -> OwnedNotified {
        Arc::clone(&self.queue).notified_owned()
    }

    /// Announces that the window or the summary of `agent` has changed.
    pub fn agent_changed(&self, agent: &AgentId) {
        // An error only means that there are no listeners.
        drop(self.changed.send(Change::Agent(agent.clone())));
        self.agent_moved(agent);
    }

    /// Announces a change of `agent` that doesn't change its summary: it has new messages, or its queue row has changed.
    /// [`Self::agent_changed`] also sends this notice.
    pub fn agent_moved(&self, agent: &AgentId) {
        // Every append calls this, mostly without listeners.
        if self.moved.receiver_count() > 0 {
            drop(self.moved.send(Change::Agent(agent.clone())));
        }
    }

    /// Announces that any agent may have changed.
    pub fn all_changed(&self) {
        drop(self.changed.send(Change::All));
        drop(self.moved.send(Change::All));
    }

    pub fn progress(&self) -> &LoopProgress {
        &self.progress
    }

    pub fn contact(&self) -> &PeerLink {
        &self.contact
    }

    /// Returns a listener for every change.
    pub fn moves(&self) -> broadcast::Receiver<Change> {
        self.moved.subscribe()
    }

    /// Returns a listener for changes of windows and summaries.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changed.subscribe()
    }
}
