//! The daemons' addresses, and whether they should answer: fault code tells client code.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub(super) struct Roster {
    daemons: Vec<DaemonEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
}

#[derive(Default)]
struct DaemonEntry {
    whereabouts: Mutex<Option<Whereabouts>>,
    /// True if it is stopped, or was asked to end.
    is_halted: AtomicBool,
    changes: AtomicU64,
    lives: AtomicU64,
    /// The number of current problems with its database …
    troubles: AtomicU64,
    /// … and how often that number has changed.
    trouble_changes: AtomicU64,
}

/// A daemon's state at one moment. If two are equal, nothing happened in between that excuses a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DaemonMoment {
    pub(super) whereabouts: Whereabouts,
    pub(super) life: u64,
    changes: u64,
}

impl Roster {
    pub(super) fn of(daemons: usize) -> Self {
        Self { daemons: (0..daemons).map(|_| DaemonEntry::default()).collect() }
    }

    pub(super) fn daemons(&self) -> usize {
        self.daemons.len()
    }

    /// Sets a daemon's address; `None` if it is down.
    pub(super) fn moved(&self, daemon: usize, whereabouts: Option<Whereabouts>) {
        if let Some(member) = self.daemons.get(daemon) {
            let mut known = member.whereabouts.lock().unwrap_or_else(PoisonError::into_inner);
            *known = whereabouts;
            drop(known);
            member.lives.fetch_add(1, Ordering::SeqCst);
            member.halt(false);
        }
    }

    /// Notes that a daemon is stopped or about to end, or that it isn't any more.
    pub(super) fn halted(&self, daemon: usize, is_halted: bool) {
        if let Some(member) = self.daemons.get(daemon) {
            member.halt(is_halted);
        }
    }

    /// Adds a problem between a daemon and its database.
    pub(super) fn troubled(&self, daemon: usize) {
        if let Some(member) = self.daemons.get(daemon) {
            member.troubles.fetch_add(1, Ordering::SeqCst);
            member.trouble_changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Removes a problem.
    pub(super) fn settled(&self, daemon: usize) {
        if let Some(member) = self.daemons.get(daemon) {
            member.trouble_changes.fetch_add(1, Ordering::SeqCst);
            member.troubles.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Counts the changes of a daemon's database problems; `None` while there is one.
    pub(super) fn database(&self, daemon: usize) -> Option<u64> {
        let member = self.daemons.get(daemon)?;
        let changes = member.trouble_changes.load(Ordering::SeqCst);
        (member.troubles.load(Ordering::SeqCst) == 0).then_some(changes)
    }

    pub(super) fn address(&self, daemon: usize) -> Option<SocketAddr> {
        Some(self.daemons.get(daemon)?.whereabouts()?.address)
    }

    /// A daemon's state; `None` if it need not answer.
    pub(super) fn sight(&self, daemon: usize) -> Option<DaemonMoment> {
        let member = self.daemons.get(daemon)?;
        let changes = member.changes.load(Ordering::SeqCst);
        if member.is_halted.load(Ordering::SeqCst) {
            return None;
        }
        Some(DaemonMoment {
            whereabouts: member.whereabouts()?,
            life: member.lives.load(Ordering::SeqCst),
            changes,
        })
    }
}

impl DaemonEntry {
    fn whereabouts(&self) -> Option<Whereabouts> {
        *self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn halt(&self, is_halted: bool) {
        self.is_halted.store(is_halted, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_between_is_visible() {
        let roster = Roster::of(1);
        assert_eq!(roster.sight(0), None, "it isn't started");
        let address = ([127, 0, 0, 1], 1).into();
        roster.moved(0, Some(Whereabouts { address, pid: 1 }));
        let before = roster.sight(0).unwrap();
        assert_eq!(roster.sight(0), Some(before));
        roster.halted(0, true);
        assert_eq!(roster.sight(0), None);
        roster.halted(0, false);
        assert_ne!(roster.sight(0), Some(before));
        assert_eq!(roster.sight(0).unwrap().life, before.life);
    }

    #[test]
    fn the_database_is_well_after_its_last_problem() {
        let roster = Roster::of(2);
        let before = roster.database(0).unwrap();
        roster.troubled(0);
        roster.troubled(0);
        roster.settled(0);
        assert_eq!(roster.database(0), None);
        roster.settled(0);
        assert!(roster.database(0).unwrap() > before);
        assert_eq!(roster.database(1), Some(0), "it is another one's");
    }
}
