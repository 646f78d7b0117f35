//! Decides how long a copy of a document counts as current. Agents' and projects' documents share this rule.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::Lookup;
use recapd_core::domain::time::Timestamp;

/// How long a copy is used without a check against the database, in milliseconds. A notice may be lost, and on SQLite nothing
/// announces what another program wrote.
pub(super) const TTL_MS: u64 = 60_000;

pub(super) struct TimedCopy<S> {
    pub(super) snapshot: Arc<S>,
    read_at: Timestamp,
    pub(super) outdated: bool,
    /// `read_at` by the monotonic clock, which nobody can set.
    since: Instant,
    /// When a reader last checked whether the copy is current, in milliseconds after `since`.
    checked_ms: AtomicU64,
}

/// What a reader gets from the copy without waiting.
pub(super) enum CachedRead<S> {
    /// The copy, which counts as current or is marked stale.
    Hit(Lookup<S>),
    /// The copy is due for a check, and this reader makes the check.
    Due,
    /// The copy is older than a change and must be read again.
    Outdated,
}

impl<S> TimedCopy<S> {
    pub(super) fn new(snapshot: Arc<S>, read_at: Timestamp, outdated: bool) -> Self {
        Self { snapshot, read_at, outdated, since: Instant::now(), checked_ms: AtomicU64::new(0) }
    }

    /// Returns what a reader gets from the copy without waiting. While notices of changes are lost (since `lost_since`), this is
    /// the copy marked as stale, because the database may be unavailable, too.
    pub(super) fn cached(&self, lost_since: Option<Timestamp>) -> CachedRead<S> {
        match (lost_since, self.outdated) {
            (None, true) => CachedRead::Outdated,
            (None, false) if self.due().is_some_and(|due| self.is_first(due)) => CachedRead::Due,
            _ => CachedRead::Hit(self.lookup(lost_since)),
        }
    }

    /// Returns the copy, unless this reader may have to query the database.
    pub(super) fn at_once(&self, lost_since: Option<Timestamp>) -> Option<Lookup<S>> {
        let needs_no_query = lost_since.is_some() || (!self.outdated && self.due().is_none());
        needs_no_query.then(|| self.lookup(lost_since))
    }

    fn lookup(&self, lost_since: Option<Timestamp>) -> Lookup<S> {
        let known_until = |at: Timestamp| {
            if self.outdated { self.read_at } else { at.max(self.read_at) }
        };
        Lookup { snapshot: Arc::clone(&self.snapshot), stale_since: lost_since.map(known_until) }
    }

    /// If a check is due, returns the time of the last check and the copy's age, in milliseconds after `since`.
    fn due(&self) -> Option<(u64, u64)> {
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let checked_ms = self.checked_ms.load(Ordering::Relaxed);
        (age_ms.saturating_sub(checked_ms) >= TTL_MS).then_some((checked_ms, age_ms))
    }

    /// Returns true for the first reader that finds a check due; this reader makes the check. Other readers use the copy for
    /// another period.
    fn is_first(&self, (checked_ms, age_ms): (u64, u64)) -> bool {
        self.checked_ms.compare_exchange(checked_ms, age_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn outdated(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            read_at: self.read_at,
            outdated: true,
            since: self.since,
            checked_ms: AtomicU64::new(self.checked_ms.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn snapshot_and_time(&self) -> (Arc<S>, Timestamp) {
        (Arc::clone(&self.snapshot), self.read_at)
    }
}
