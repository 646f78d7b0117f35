//! Notices within one process: the queue may have work, an agent's summary has changed. They only save waiting: who
//! misses one finds out at the next poll.
//!
//! Where several daemons share a database, `fleet` passes on here what the others did.

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

/// Changes kept for a slow listener; one that falls further behind is told so.
const CHANGES_KEPT: usize = 4_096;

/// What readers have to look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Agent(AgentId),
    /// All agents: nobody knows what was missed.
    All,
}

/// Whether this process hears what other daemons change; clones share it.
#[derive(Clone, Debug)]
pub struct PeerLink(Arc<AtomicI64>);

/// Stands for no time: contact isn't lost.
const NEVER: i64 = i64::MIN;

impl Default for PeerLink {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NEVER)))
    }
}

impl PeerLink {
    /// From now on others may change what this process doesn't hear of.
    pub fn lost(&self, at: Timestamp) {
        // The first time counts.
        if self.lost_since().is_none() {
            self.0.store(at.0, Ordering::SeqCst);
        }
    }

    /// It hears again.
    pub fn regained(&self) {
        self.0.store(NEVER, Ordering::SeqCst);
    }

    /// Since when it hears nothing, if it doesn't.
    pub fn lost_since(&self) -> Option<Timestamp> {
        let at = self.0.load(Ordering::SeqCst);
        (at != NEVER).then_some(Timestamp(at))
    }
}

/// Whether the worker's loop makes progress: when it last finished a look at the queue, whatever came of it, or until
/// when it rests. Clones share it.
#[derive(Clone, Debug)]
pub struct LoopProgress(Arc<Mutex<Instant>>);

impl Default for LoopProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LoopProgress {
    /// The worker finished a look at the queue.
    pub fn made(&self) {
        self.rests_for(Duration::ZERO);
    }

    /// The worker finished a look at the queue, and needn't look again for the time `rest`.
    pub fn rests_for(&self, rest: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + rest;
    }

    /// How long the worker's next look at the queue is overdue, or how long ago the last one was.
    pub fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// The bell of a process; clones ring the same one.
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
        drop(self.changed.send(Change::Agent(agent.clone())));
        self.agent_moved(agent);
    }

    /// Something about `agent` changed that readers of its summary don't see: it said something, its row of the queue
    /// went on. What [`Self::agent_changed`] tells is told here, too.
    pub fn agent_moved(&self, agent: &AgentId) {
        // Every append comes by here, and mostly nobody listens.
        if self.moved.receiver_count() > 0 {
            drop(self.moved.send(Change::Agent(agent.clone())));
        }
    }

    /// Anything may have changed.
    pub fn all_changed(&self) {
        drop(self.changed.send(Change::All));
        drop(self.moved.send(Change::All));
    }

    /// Whether the worker gets round.
    pub fn progress(&self) -> &LoopProgress {
        &self.progress
    }

    /// Whether other daemons are heard.
    pub fn contact(&self) -> &PeerLink {
        &self.contact
    }

    /// A listener for all that moves.
    pub fn moves(&self) -> broadcast::Receiver<Change> {
        self.moved.subscribe()
    }

    /// A listener for changed agents.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changed.subscribe()
    }
}
