//! A copy of a document, and how long it is believed to be current: one rule for agents' documents and for projects'.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::Lookup;
use recapd_core::domain::time::Timestamp;
use recapd_store::{StoreError, StoreResult};

/// How long a copy is believed without a look at the database, in milliseconds: a notice may have been missed, and on
/// SQLite nothing announces what another program wrote.
pub(super) const TTL_MS: u64 = 60_000;
/// The longest that a reader with a copy waits for the database. An agent sends its next request only when it has the summary, and
/// a copy that is a little old is of use.
const LOOK_TIME_MAX: Duration = Duration::from_millis(150);
/// The longest that a reader without one waits: then it is told that there is none, and goes on.
const FIRST_TIME_MAX: Duration = Duration::from_millis(1_800);

/// A copy of a document, and when it was read.
pub(super) struct TimedCopy<S> {
    pub(super) snapshot: Arc<S>,
    read_at: Timestamp,
    pub(super) outdated: bool,
    /// `read_at` by the monotonic clock, which nobody sets.
    since: Instant,
    /// Milliseconds from `since` until a reader last checked whether the copy is still current.
    looked_ms: AtomicU64,
}

/// What a copy can give a reader without a wait.
pub(super) enum CachedRead<S> {
    /// The copy's content.
    Reading(Lookup<S>),
    /// The copy was believed for long enough: this reader is to check whether it is still current.
    Due,
    /// The copy is from before a change: it has to be read again.
    Outdated,
}

impl<S> TimedCopy<S> {
    pub(super) fn new(snapshot: Arc<S>, read_at: Timestamp, outdated: bool) -> Self {
        Self {
            snapshot,
            read_at,
            outdated,
            since: Instant::now(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// What the copy can give a reader without a wait. While changes by others aren't heard (since `lost_since`), that
    /// is the copy, marked as stale, since the database may be away, too.
    pub(super) fn cached(&self, lost_since: Option<Timestamp>) -> CachedRead<S> {
        match (lost_since, self.outdated) {
            (None, true) => CachedRead::Outdated,
            (None, false) if self.due().is_some_and(|due| self.is_first(due)) => CachedRead::Due,
            _ => CachedRead::Reading(self.reading(lost_since)),
        }
    }

    /// The copy's content, unless this reader may have to look at the database.
    pub(super) fn at_once(&self, lost_since: Option<Timestamp>) -> Option<Lookup<S>> {
        let is_believed = lost_since.is_some() || (!self.outdated && self.due().is_none());
        is_believed.then(|| self.reading(lost_since))
    }

    fn reading(&self, lost_since: Option<Timestamp>) -> Lookup<S> {
        let known_until = |at: Timestamp| {
            if self.outdated {
                self.read_at
            } else {
                at.max(self.read_at)
            }
        };
        Lookup {
            snapshot: Arc::clone(&self.snapshot),
            stale_since: lost_since.map(known_until),
        }
    }

    /// When the copy was looked at last, and its age now, if it is too old to be believed unchecked; in milliseconds.
    fn due(&self) -> Option<(u64, u64)> {
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        (age_ms.saturating_sub(looked_ms) >= TTL_MS).then_some((looked_ms, age_ms))
    }

    /// Whether this reader is the first to find the copy due, and so the one who checks: for as long again the others use
    /// the copy, so that one of them waits and not all.
    fn is_first(&self, (looked_ms, age_ms): (u64, u64)) -> bool {
        self.looked_ms
            .compare_exchange(looked_ms, age_ms, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// The same copy, marked as being from before a change.
    pub(super) fn outdated(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            read_at: self.read_at,
            outdated: true,
            since: self.since,
            looked_ms: AtomicU64::new(self.looked_ms.load(Ordering::Relaxed)),
        }
    }

    /// The copy's content, and when it was read.
    pub(super) fn dated(&self) -> (Arc<S>, Timestamp) {
        (Arc::clone(&self.snapshot), self.read_at)
    }
}

/// How long a reader waits for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It has a copy, or can do without.
    Short,
    /// It has none.
    Long,
}

impl Patience {
    /// That of a reader with a copy at hand, or without.
    pub(super) fn of(has_copy: bool) -> Self {
        if has_copy { Self::Short } else { Self::Long }
    }

    /// What `read` comes to, or an error if it takes too long.
    pub(super) async fn wait<T>(self, read: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let time_max = match self {
            Self::Short => LOOK_TIME_MAX,
            Self::Long => FIRST_TIME_MAX,
        };
        timeout(time_max, read).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Nothing came in time.
pub(super) fn late() -> StoreError {
    StoreError::Unavailable("it takes its time".into())
}
