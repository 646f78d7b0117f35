//! A copy of a document, and how long it counts as current: one rule for agents' and projects' documents.

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

/// How long a copy is used without a check against the database, in milliseconds. A notice may be lost, and on SQLite nothing announces
/// what another program wrote.
pub(super) const TTL_MS: u64 = 60_000;
/// The longest that a reader with a copy waits for the database. An agent can't send its next request without the summary, and a slightly
/// old copy is still useful.
const LOOK_TIME_MAX: Duration = Duration::from_millis(150);
/// The longest that a reader without a copy waits. Then it gets an error and goes on without the summary.
const FIRST_TIME_MAX: Duration = Duration::from_millis(1_800);

pub(super) struct TimedCopy<S> {
    pub(super) snapshot: Arc<S>,
    read_at: Timestamp,
    pub(super) outdated: bool,
    /// `read_at` by the monotonic clock, which can't be set.
    since: Instant,
    /// Milliseconds from `since` until a reader last checked whether the copy is current.
    looked_ms: AtomicU64,
}

/// What a copy gives a reader without waiting.
pub(super) enum CachedRead<S> {
    Reading(Lookup<S>),
    /// The copy is due for a check, which this reader makes.
    Due,
    /// The copy is from before a change and has to be read again.
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

    /// Returns what the copy gives a reader without waiting. While notices of changes are lost (since `lost_since`) that is the copy,
    /// marked stale, since the database may be away, too.
    pub(super) fn cached(&self, lost_since: Option<Timestamp>) -> CachedRead<S> {
        match (lost_since, self.outdated) {
            (None, true) => CachedRead::Outdated,
            (None, false) if self.due().is_some_and(|due| self.is_first(due)) => CachedRead::Due,
            _ => CachedRead::Reading(self.reading(lost_since)),
        }
    }

    /// Returns the copy, unless this reader may have to query the database.
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

    /// The time of the last check and the copy's age, in milliseconds after `since`, if a check is due.
    fn due(&self) -> Option<(u64, u64)> {
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        (age_ms.saturating_sub(looked_ms) >= TTL_MS).then_some((looked_ms, age_ms))
    }

    /// Checks whether this reader is the first to find the copy due, and so the one to check it. The others use the copy for another
    /// period.
    fn is_first(&self, (looked_ms, age_ms): (u64, u64)) -> bool {
        self.looked_ms
            .compare_exchange(looked_ms, age_ms, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    pub(super) fn outdated(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            read_at: self.read_at,
            outdated: true,
            since: self.since,
            looked_ms: AtomicU64::new(self.looked_ms.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn dated(&self) -> (Arc<S>, Timestamp) {
        (Arc::clone(&self.snapshot), self.read_at)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It has a copy, or can do without.
    Short,
    /// It has no copy.
    Long,
}

impl Patience {
    pub(super) fn of(has_copy: bool) -> Self {
        if has_copy { Self::Short } else { Self::Long }
    }

    /// Returns the result of `read`, or an error if it takes too long.
    pub(super) async fn wait<T>(self, read: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let time_max = match self {
            Self::Short => LOOK_TIME_MAX,
            Self::Long => FIRST_TIME_MAX,
        };
        timeout(time_max, read).await.unwrap_or_else(|_| Err(late()))
    }
}

pub(super) fn late() -> StoreError {
    StoreError::Unavailable("it didn't answer in time".into())
}
