//! The copies at hand: found without a lock. Where they are too many, those not asked for the longest go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use papaya::HashMap;

use super::{Reading, Snapshot};
use crate::domain::{agent::AgentId, time::Timestamp};

/// The most copies, however short they are.
const COPIES_MAX: usize = 100_000;
/// What a copy is taken to need beside its text: its place in the map, its figures, headers.
const COPY_BYTES: usize = 1_024;

/// A snapshot at hand.
pub(super) struct Held {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) read_at: Timestamp,
    pub(super) outdated: bool,
    /// When it was asked for last, in copies taken in until then.
    used_at: AtomicU64,
}

impl Held {
    pub(super) fn new(snapshot: Arc<Snapshot>, read_at: Timestamp, outdated: bool) -> Self {
        Self {
            snapshot,
            read_at,
            outdated,
            used_at: AtomicU64::new(0),
        }
    }

    /// What a reader gets without a wait, if there is that: the copy, or the stale one while others' changes aren't heard,
    /// since the database may be away, too.
    pub(super) fn at_hand(&self, lost_since: Option<Timestamp>) -> Option<Reading> {
        let stale_since = match (lost_since, self.outdated) {
            (None, true) => return None,
            (None, false) => None,
            (Some(_), true) => Some(self.read_at),
            (Some(at), false) => Some(at.max(self.read_at)),
        };
        Some(Reading {
            snapshot: Arc::clone(&self.snapshot),
            stale_since,
        })
    }

    fn outdated(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            read_at: self.read_at,
            outdated: true,
            used_at: AtomicU64::new(self.used_at.load(Ordering::Relaxed)),
        }
    }

    /// Takes down that it was asked for; written only where that says something new, so that readers on many cores
    /// don't take the place in memory away from one another.
    fn used(&self, at: u64) {
        if self.used_at.load(Ordering::Relaxed) != at {
            self.used_at.store(at, Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> usize {
        self.snapshot.markdown.len() + self.snapshot.kept.bytes() + COPY_BYTES
    }
}

/// The copies of all agents that somebody asked for.
pub(super) struct Copies {
    all: HashMap<AgentId, Arc<Held>>,
    /// What they need together, about: counted anew whenever some are forgotten.
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Copies taken in so far: the time by which uses are told apart.
    taken: AtomicU64,
    is_clearing: AtomicBool,
}

impl Copies {
    pub(super) fn within(bytes_max: usize) -> Self {
        Self {
            all: HashMap::new(),
            bytes: AtomicUsize::new(0),
            bytes_max,
            taken: AtomicU64::new(0),
            is_clearing: AtomicBool::new(false),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// What `look` sees in the copy of `agent`, for somebody who asked for it.
    pub(super) fn used<T>(&self, agent: &AgentId, look: impl FnOnce(&Held) -> T) -> Option<T> {
        let all = self.all.pin();
        let held = all.get(agent)?;
        held.used(self.taken.load(Ordering::Relaxed));
        Some(look(held))
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.all.pin().contains_key(agent)
    }

    /// Takes in a copy that was `asked` for, or else is the next one of one that is here.
    pub(super) fn hold(&self, agent: &AgentId, new: Held, is_asked: bool) {
        let all = self.all.pin();
        let had = all.get(agent);
        let bytes = new.bytes();
        let grown = bytes.saturating_sub(had.map_or(0, |had| had.bytes()));
        if self.bytes.load(Ordering::Relaxed) + grown > self.bytes_max || self.all.len() >= COPIES_MAX {
            self.make_room(bytes);
        }
        let used_at = match had {
            Some(had) if !is_asked => had.used_at.load(Ordering::Relaxed),
            _ => self.taken.fetch_add(1, Ordering::Relaxed) + 1,
        };
        new.used(used_at);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(had) = all.insert(agent.clone(), Arc::new(new)) {
            self.shrunk(had.bytes());
        }
    }

    pub(super) fn forget(&self, agent: &AgentId) {
        if let Some(had) = self.all.pin().remove(agent) {
            self.shrunk(had.bytes());
        }
    }

    /// The copy stays for the time that the database may be away.
    pub(super) fn outdate(&self, agent: &AgentId) {
        let all = self.all.pin();
        if let Some(held) = all.get(agent) {
            all.insert(agent.clone(), Arc::new(held.outdated()));
        }
    }

    /// As [`Self::outdate`], for every copy.
    pub(super) fn outdate_all(&self) {
        let all = self.all.pin();
        for (agent, held) in &all {
            all.insert(agent.clone(), Arc::new(held.outdated()));
        }
    }

    /// So many bytes more are kept with `snapshot`.
    pub(super) fn grew(&self, snapshot: &Snapshot, bytes: usize) {
        snapshot.kept.grow(bytes);
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.make_room(0);
        }
    }

    fn shrunk(&self, bytes: usize) {
        let less = |sum: usize| Some(sum.saturating_sub(bytes));
        let shrunk = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        debug_assert!(shrunk.is_ok());
    }

    /// Forgets the copies not asked for the longest, until a quarter is free, so that this isn't done for each new one.
    /// Where somebody is at it already, it is left to them.
    fn make_room(&self, bytes_more: usize) {
        if self.is_clearing.swap(true, Ordering::Acquire) {
            return;
        }
        let all = self.all.pin();
        let mut copies: Vec<(u64, usize, &AgentId)> = all
            .iter()
            .map(|(agent, held)| (held.used_at.load(Ordering::Relaxed), held.bytes(), agent))
            .collect();
        copies.sort_unstable();
        let bytes_wanted = (self.bytes_max / 4 * 3).saturating_sub(bytes_more);
        let (mut bytes, mut left) = (copies.iter().map(|copy| copy.1).sum(), copies.len());
        for (_, of_copy, agent) in copies {
            if bytes <= bytes_wanted && left <= COPIES_MAX / 4 * 3 {
                break;
            }
            all.remove(agent);
            bytes -= of_copy;
            left -= 1;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.is_clearing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(bytes: usize) -> Held {
        let snapshot = Snapshot {
            markdown: "x".repeat(bytes),
            ..Snapshot::default()
        };
        Held::new(Arc::new(snapshot), Timestamp(0), false)
    }

    fn agent(number: usize) -> AgentId {
        format!("agent-{number}").parse().unwrap()
    }

    fn take(copies: &Copies, number: usize, bytes: usize) {
        copies.hold(&agent(number), held(bytes), true);
    }

    #[test]
    fn those_not_asked_for_the_longest_go() {
        let copies = Copies::within(8 * (COPY_BYTES + 1_000));
        for number in 0..8 {
            take(&copies, number, 1_000);
        }
        copies.used(&agent(0), |_| ()).unwrap();
        // The next copy of one that is here is no use of it.
        copies.hold(&agent(1), held(1_000), false);
        assert_eq!(copies.len(), 8);
        take(&copies, 8, 1_000);
        let left: Vec<usize> = (0..9).filter(|&number| copies.has(&agent(number))).collect();
        assert_eq!(left, [0, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_is_kept_with_a_copy_counts() {
        let copies = Copies::within(10 * COPY_BYTES);
        for number in 0..3 {
            take(&copies, number, COPY_BYTES);
        }
        let last = copies.used(&agent(2), |held| Arc::clone(&held.snapshot)).unwrap();
        copies.grew(&last, 4 * COPY_BYTES);
        assert_eq!(copies.len(), 3);
        copies.grew(&last, COPY_BYTES);
        assert!(copies.len() < 3 && copies.has(&agent(2)));
    }

    proptest! {
        #[test]
        fn they_stay_within_their_bytes(steps in prop::collection::vec((0..20_usize, 0..5_000_usize), 1..200)) {
            let copies = Copies::within(20_000);
            for (number, bytes) in steps {
                take(&copies, number, bytes);
                prop_assert!(copies.has(&agent(number)));
                let bytes: usize = copies.all.pin().values().map(|held| held.bytes()).sum();
                prop_assert!(bytes <= 20_000, "{bytes}");
                prop_assert_eq!(copies.bytes.load(Ordering::Relaxed), bytes);
            }
        }
    }
}
