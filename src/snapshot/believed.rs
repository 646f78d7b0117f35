//! A copy, and how long it is believed: one rule for agents' documents and for projects'.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::Reading;
use crate::{
    domain::time::Timestamp,
    store::{StoreError, StoreResult},
};

/// A copy is believed for so long, in milliseconds: a notice may have been missed, and on SQLite nobody tells what another
/// program wrote.
pub(super) const BELIEVED_MS: u64 = 60_000;
/// A reader that has a copy, and only looks whether it still holds, waits for the database at most so long.
const LOOK_TIME_MAX: Duration = Duration::from_millis(250);

/// A copy.
pub(super) struct Believed<S> {
    pub(super) snapshot: Arc<S>,
    read_at: Timestamp,
    pub(super) outdated: bool,
    /// The same moment by a clock that nobody sets.
    since: Instant,
    /// Milliseconds from then on until a reader last looked whether it still holds.
    looked_ms: AtomicU64,
}

/// What a reader finds.
pub(super) enum AtHand<S> {
    /// What it gets without a wait.
    Reading(Reading<S>),
    /// A copy that was believed for long: this reader is to look whether it still holds.
    Due,
    /// A copy from before a change.
    Outdated,
}

impl<S> Believed<S> {
    pub(super) fn new(snapshot: Arc<S>, read_at: Timestamp, outdated: bool) -> Self {
        Self {
            snapshot,
            read_at,
            outdated,
            since: Instant::now(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// What a reader gets without a wait, if there is that: the copy, or the stale one while others' changes aren't heard,
    /// since the database may be away, too.
    pub(super) fn at_hand(&self, lost_since: Option<Timestamp>) -> AtHand<S> {
        let stale_since = match (lost_since, self.outdated) {
            (None, true) => return AtHand::Outdated,
            (None, false) if self.is_due() => return AtHand::Due,
            (None, false) => None,
            (Some(_), true) => Some(self.read_at),
            (Some(at), false) => Some(at.max(self.read_at)),
        };
        AtHand::Reading(Reading {
            snapshot: Arc::clone(&self.snapshot),
            stale_since,
        })
    }

    /// Whether it was believed for as long as it may be. Who is told so looks, and nobody else does for as long again: one
    /// reader waits, not all of them.
    fn is_due(&self) -> bool {
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        age_ms.saturating_sub(looked_ms) >= BELIEVED_MS
            && self
                .looked_ms
                .compare_exchange(looked_ms, age_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The same copy, from before a change.
    pub(super) fn outdated(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            read_at: self.read_at,
            outdated: true,
            since: self.since,
            looked_ms: AtomicU64::new(self.looked_ms.load(Ordering::Relaxed)),
        }
    }

    /// The copy, and when it was right.
    pub(super) fn dated(&self) -> (Arc<S>, Timestamp) {
        (Arc::clone(&self.snapshot), self.read_at)
    }
}

/// What `look` comes to, where there is a copy that nobody has called outdated: that will do if the database takes its time.
pub(super) async fn in_time<T>(look: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let looked = timeout(LOOK_TIME_MAX, look).await;
    looked.unwrap_or_else(|_| Err(StoreError::Unavailable("it takes its time".into())))
}
