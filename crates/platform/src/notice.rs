//! Notices within one process: the queue may have work, an agent's summary has changed. They only save waiting: a listener
//! that misses one finds out at the next poll.
//!
//! Where several daemons share a database, `peers` forwards the others' changes here.

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

/// Changes that are kept for a slow listener; one that falls further behind learns that it lagged.
const CHANGES_KEPT: usize = 4_096;

/// What readers have to check again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Agent(AgentId),
    /// All agents: it is unknown what was missed.
    All,
}

/// Whether this process hears of other daemons' changes. Clones share it.
#[derive(Clone, Debug)]
pub struct PeerLink(Arc<AtomicI64>);

/// No time: the link isn't lost.
const NEVER: i64 = i64::MIN;

impl Default for PeerLink {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NEVER)))
    }
}

impl PeerLink {
    /// Notes that other daemons may now make changes that this process doesn't hear of.
    pub fn lost(&self, at: Timestamp) {
        // The first time counts.
        if self.lost_since().is_none() {
            self.0.store(at.0, Ordering::SeqCst);
        }
    }

    /// Notes that the link is back.
    pub fn regained(&self) {
        self.0.store(NEVER, Ordering::SeqCst);
    }

    /// When the link was lost; `None` if it isn't.
    pub fn lost_since(&self) -> Option<Timestamp> {
        let at = self.0.load(Ordering::SeqCst);
        (at != NEVER).then_some(Timestamp(at))
    }
}

/// The progress of the worker's loop: when it last polled the queue, successfully or not, or until when it rests. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct LoopProgress(Arc<Mutex<Instant>>);

impl Default for LoopProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LoopProgress {
    /// Notes that the worker has polled the queue.
    pub fn made(&self) {
        self.rests_for(Duration::ZERO);
    }

    /// Notes that the worker has polled the queue and need not poll again for `rest`.
    pub fn rests_for(&self, rest: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + rest;
    }

    /// The time since the last poll, or since the end of the worker's rest; zero during it.
    pub fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// The notices of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Notices {
    progress: LoopProgress,
    queue: Arc<Notify>,
    changed: broadcast::Sender<Change>,
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
    /// Wakes the worker: something may be due now.
    pub fn wake_queue(&self) {
        self.queue.notify_waiters();
    }

    /// Waits for the next [`Self::wake_queue`]. Enable it *before* polling the queue, so that a wake-up between the poll
    /// and the wait isn't lost.
    pub fn queue_woken(&self) -> OwnedNotified {
        Arc::clone(&self.queue).notified_owned()
    }

    /// Notes that the window or the summary of `agent` changed.
    pub fn agent_changed(&self, agent: &AgentId) {
        // An error only means that there are no listeners.
        drop(self.changed.send(Change::Agent(agent.clone())));
        self.agent_moved(agent);
    }

    /// Notes a change of `agent` that readers of its summary don't see: it has new messages, or its queue row changed.
    /// [`Self::agent_changed`] also sends this notice.
    pub fn agent_moved(&self, agent: &AgentId) {
        // Every append calls this, and mostly without listeners.
        if self.moved.receiver_count() > 0 {
            drop(self.moved.send(Change::Agent(agent.clone())));
        }
    }

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

    /// A listener for every change.
    pub fn moves(&self) -> broadcast::Receiver<Change> {
        self.moved.subscribe()
    }

    /// A listener for changes of windows and summaries.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changed.subscribe()
    }
}
