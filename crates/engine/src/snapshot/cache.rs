//! Keeps the copies in memory, where readers find them without a lock. Beyond the limits the least recently used copies are
//! dropped.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use papaya::HashMap;

use super::{Snapshot, ttl::TimedCopy};
use recapd_core::domain::agent::AgentId;

/// Limits the number of copies, however short they are.
const COPIES_MAX: usize = 100_000;
/// How many bytes a copy is assumed to need besides its text: its entry in the map, its figures, headers.
const COPY_BYTES: usize = 1_024;

pub(super) struct CachedSnapshot {
    pub(super) copy: TimedCopy<Snapshot>,
    /// The time of the copy's last use, by [`SnapshotCache::stored`].
    used_at: AtomicU64,
}

impl CachedSnapshot {
    pub(super) fn new(copy: TimedCopy<Snapshot>) -> Self {
        Self { copy, used_at: AtomicU64::new(0) }
    }

    fn outdated(&self) -> Self {
        Self { copy: self.copy.outdated(), used_at: AtomicU64::new(self.used_at.load(Ordering::Relaxed)) }
    }

    /// Records a use of the copy. Writes only a changed value, so that readers on many cores don't contend for the cache line.
    fn record_use(&self, at: u64) {
        if self.used_at.load(Ordering::Relaxed) != at {
            self.used_at.store(at, Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> usize {
        let snapshot = &self.copy.snapshot;
        snapshot.markdown.len() + snapshot.derived.bytes() + COPY_BYTES
    }
}

/// The copies of all agents that a reader asked for.
pub(super) struct SnapshotCache {
    all: HashMap<AgentId, Arc<CachedSnapshot>>,
    /// About how many bytes the copies need together. Counted again whenever some are dropped.
    bytes: AtomicUsize,
    bytes_max: usize,
    /// How many copies were stored so far. This count is the clock by which uses are ordered.
    stored: AtomicU64,
    /// How many notices of changes came so far.
    changes: AtomicU64,
    is_clearing: AtomicBool,
}

impl SnapshotCache {
    pub(super) fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            all: HashMap::new(),
            bytes: AtomicUsize::new(0),
            bytes_max,
            stored: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            is_clearing: AtomicBool::new(false),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns what `look` gets from the agent's copy, and counts this as a use.
    pub(super) fn use_copy<T>(&self, agent: &AgentId, look: impl FnOnce(&CachedSnapshot) -> T) -> Option<T> {
        let all = self.all.pin();
        let entry = all.get(agent)?;
        entry.record_use(self.stored.load(Ordering::Relaxed));
        Some(look(entry))
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.all.pin().contains_key(agent)
    }

    /// Counts a notice of a change. Must be called before the search for the changed agent's copy.
    pub(super) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of notices of changes. Must be read before the database is read for a copy that [`Self::hold`] will
    /// store.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns true if a notice came after the count `since`. Adds 0 instead of only reading, because the order of two additions
    /// is certain: either this call sees the notice, or whoever handles the notice sees the copy stored before this call.
    pub(super) fn has_changed(&self, since: u64) -> bool {
        self.changes.fetch_add(0, Ordering::AcqRel) != since
    }

    /// Stores a copy. `since` is the count of notices before the copy was read. If more have come, marks the copy as outdated:
    /// one of them may concern this agent and found no copy to mark. `is_asked` is false if no reader asked; then the new copy
    /// keeps the last use of the copy that it replaces.
    pub(super) fn hold(&self, agent: &AgentId, new: CachedSnapshot, since: u64, is_asked: bool) {
        let all = self.all.pin();
        let had = all.get(agent);
        let bytes = new.bytes();
        let grown = bytes.saturating_sub(had.map_or(0, |had| had.bytes()));
        if self.bytes.load(Ordering::Relaxed) + grown > self.bytes_max || self.all.len() >= COPIES_MAX {
            self.make_room(bytes);
        }
        let used_at = match had {
            Some(had) if !is_asked => had.used_at.load(Ordering::Relaxed),
            _ => self.stored.fetch_add(1, Ordering::Relaxed) + 1,
        };
        new.record_use(used_at);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(had) = all.insert(agent.clone(), Arc::new(new)) {
            self.note_shrinking(had.bytes());
        }
        if self.has_changed(since) {
            self.outdate(agent);
        }
    }

    pub(super) fn forget(&self, agent: &AgentId) {
        if let Some(had) = self.all.pin().remove(agent) {
            self.note_shrinking(had.bytes());
        }
    }

    /// Marks the copy as outdated. It stays for readers in case the database becomes unavailable.
    pub(super) fn outdate(&self, agent: &AgentId) {
        let all = self.all.pin();
        all.update(agent.clone(), |entry| Arc::new(entry.outdated()));
    }

    /// Marks every copy as outdated.
    pub(super) fn outdate_all(&self) {
        let all = self.all.pin();
        for (agent, entry) in &all {
            all.insert(agent.clone(), Arc::new(entry.outdated()));
        }
    }

    /// Records that `bytes` more bytes are kept with `snapshot`.
    pub(super) fn note_growth(&self, snapshot: &Snapshot, bytes: usize) {
        snapshot.derived.grow(bytes);
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.make_room(0);
        }
    }

    fn note_shrinking(&self, bytes: usize) {
        let less = |sum: usize| Some(sum.saturating_sub(bytes));
        let shrunk = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        debug_assert!(shrunk.is_ok());
    }

    /// Evicts the least recently used copies until a quarter of the space is free, so that not every new copy evicts some.
    /// Returns at once if another thread is evicting.
    fn make_room(&self, bytes_more: usize) {
        if self.is_clearing.swap(true, Ordering::Acquire) {
            return;
        }
        let all = self.all.pin();
        let mut oldest: Vec<(u64, usize, &AgentId)> = all
            .iter()
            .map(|(agent, entry)| (entry.used_at.load(Ordering::Relaxed), entry.bytes(), agent))
            .collect();
        oldest.sort_unstable();
        let bytes_wanted = (self.bytes_max / 4 * 3).saturating_sub(bytes_more);
        let (mut bytes, mut copies_left) = (oldest.iter().map(|copy| copy.1).sum(), oldest.len());
        for (_, copy_bytes, agent) in oldest {
            if bytes <= bytes_wanted && copies_left <= COPIES_MAX / 4 * 3 {
                break;
            }
            all.remove(agent);
            bytes -= copy_bytes;
            copies_left -= 1;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.is_clearing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::time::advance;

    use super::{
        super::{
            Lookup,
            ttl::{CachedRead, TTL_MS},
        },
        *,
    };
    use recapd_core::domain::time::Timestamp;

    fn entry(bytes: usize) -> CachedSnapshot {
        let snapshot = Snapshot { markdown: "x".repeat(bytes), ..Snapshot::default() };
        CachedSnapshot::new(TimedCopy::new(Arc::new(snapshot), Timestamp(0), false))
    }

    fn agent(number: usize) -> AgentId {
        format!("agent-{number}").parse().unwrap()
    }

    fn hold(cache: &SnapshotCache, number: usize, bytes: usize) {
        cache.hold(&agent(number), entry(bytes), cache.changes(), true);
    }

    fn is_at_hand(cache: &SnapshotCache, number: usize) -> bool {
        let look = |entry: &CachedSnapshot| matches!(entry.copy.cached(None), CachedRead::Hit(_));
        cache.use_copy(&agent(number), look).unwrap_or(false)
    }

    fn at_once(cache: &SnapshotCache, number: usize, lost_since: Option<i64>) -> Option<Lookup> {
        let look = |entry: &CachedSnapshot| entry.copy.at_once(lost_since.map(Timestamp));
        cache.use_copy(&agent(number), look)?
    }

    /// Since when the copy is stale if contact was lost at 7.
    fn stale_since(cache: &SnapshotCache, number: usize) -> Option<Timestamp> {
        at_once(cache, number, Some(7)).unwrap().stale_since
    }

    #[test]
    fn a_change_during_a_load_outdates_its_copy() {
        let cache = SnapshotCache::with_bytes_max(1 << 20);
        let (since, read) = (cache.changes(), entry(10));
        cache.count_change();
        assert!(!cache.has(&agent(1)), "there is nothing to refresh");
        cache.hold(&agent(1), read, since, true);
        assert!(!is_at_hand(&cache, 1));
        assert!(at_once(&cache, 1, None).is_none());
        assert_eq!(stale_since(&cache, 1), Some(Timestamp(0)), "as it was read");
        hold(&cache, 1, 10);
        assert!(is_at_hand(&cache, 1));
        assert_eq!(at_once(&cache, 1, None).unwrap().stale_since, None);
        assert_eq!(stale_since(&cache, 1), Some(Timestamp(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_reader_checks_an_old_copy() {
        let cache = SnapshotCache::with_bytes_max(1 << 20);
        hold(&cache, 1, 10);
        let ttl = Duration::from_millis(TTL_MS);
        advance(Duration::from_millis(TTL_MS - 1)).await;
        assert!(is_at_hand(&cache, 1));
        for _ in 0..2 {
            advance(ttl).await;
            assert!(
                at_once(&cache, 1, None).is_none(),
                "a reader that can't wait gets no copy that is due for a check"
            );
            assert!(!is_at_hand(&cache, 1), "this reader checks the copy");
            assert!(at_once(&cache, 1, None).is_some());
            assert!(is_at_hand(&cache, 1), "another reader has checked it");
        }
    }

    #[test]
    fn the_least_recently_used_copies_are_evicted() {
        let cache = SnapshotCache::with_bytes_max(8 * (COPY_BYTES + 1_000));
        for number in 0..8 {
            hold(&cache, number, 1_000);
        }
        cache.use_copy(&agent(0), |_| ()).unwrap();
        // Replacing a copy doesn't count as a use.
        cache.hold(&agent(1), entry(1_000), cache.changes(), false);
        assert_eq!(cache.len(), 8);
        hold(&cache, 8, 1_000);
        let left: Vec<usize> = (0..9).filter(|&number| cache.has(&agent(number))).collect();
        assert_eq!(left, [0, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn values_kept_with_a_copy_count_towards_the_limit() {
        let cache = SnapshotCache::with_bytes_max(10 * COPY_BYTES);
        for number in 0..3 {
            hold(&cache, number, COPY_BYTES);
        }
        let last = cache.use_copy(&agent(2), |entry| Arc::clone(&entry.copy.snapshot)).unwrap();
        cache.note_growth(&last, 4 * COPY_BYTES);
        assert_eq!(cache.len(), 3);
        cache.note_growth(&last, COPY_BYTES);
        assert!(cache.len() < 3 && cache.has(&agent(2)));
    }

    proptest! {
        #[test]
        fn copies_stay_within_their_bytes(steps in prop::collection::vec((0..20_usize, 0..5_000_usize), 1..200)) {
            let cache = SnapshotCache::with_bytes_max(20_000);
            for (number, bytes) in steps {
                hold(&cache, number, bytes);
                prop_assert!(cache.has(&agent(number)));
                let bytes: usize = cache.all.pin().values().map(|entry| entry.bytes()).sum();
                prop_assert!(bytes <= 20_000, "{bytes}");
                prop_assert_eq!(cache.bytes.load(Ordering::Relaxed), bytes);
            }
        }
    }
}
