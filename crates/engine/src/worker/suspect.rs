//! Finds out which rows crash their workers.
//!
//! A daemon that dies leaves all its leases behind, and each of their rows counts a crash. So before a row is parked as a poison
//! row (a row whose update keeps crashing), its last attempt is made alone: the daemon holds no other lease meanwhile. A row that
//! succeeds is innocent, and its count starts again. A lease that only expired while its holder lived (the database was
//! unavailable, the machine slept) is no crash; the holder reports that.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{debug, warn};

use super::Worker;
use recapd_core::domain::work::{Lease, RetryPolicy};

/// Limits how many lost leases are remembered until they are reported to the database. Further ones count as crashes.
const LOST_LEASES_MAX: usize = 1_000;

/// Which leases of a claim to work on now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimTurn {
    /// All of these at the same time.
    Together(Vec<Lease>),
    /// Only this one, until it is done.
    Alone(Lease),
    /// These now; then nothing is claimed until all work is done, because a claimed row must run alone.
    ThenIdle(Vec<Lease>),
}

/// Divides claimed leases into those to work on and those to give back. `is_idle` says that no other lease is held.
fn turn_of(leases: Vec<Lease>, retry: &RetryPolicy, is_idle: bool) -> (ClaimTurn, Vec<Lease>) {
    let (mut suspects, rest): (Vec<Lease>, Vec<Lease>) =
        leases.into_iter().partition(|lease| retry.is_suspect(lease));
    if suspects.is_empty() {
        return (ClaimTurn::Together(rest), Vec::new());
    }
    if !is_idle {
        return (ClaimTurn::ThenIdle(rest), suspects);
    }
    let alone = suspects.remove(0);
    (ClaimTurn::Alone(alone), [suspects, rest].concat())
}

/// Leases whose end isn't in the database, or that others took over although this daemon, their holder, lives.
#[derive(Debug, Default)]
pub(super) struct LostLeases(Mutex<Vec<Lease>>);

impl LostLeases {
    pub(super) fn add(&self, lease: &Lease) {
        let mut leases = self.lock();
        if leases.len() < LOST_LEASES_MAX {
            leases.push(lease.clone());
        }
    }

    fn take(&self) -> Vec<Lease> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Decides which claimed leases to work on. Gives the others back; their rows stay due.
    pub(super) async fn turn(&self, leases: Vec<Lease>, is_idle: bool) -> ClaimTurn {
        let (turn, given_back) = turn_of(leases, &self.settings.retry, is_idle);
        if given_back.is_empty() {
            return turn;
        }
        debug!(leases = given_back.len(), is_idle, "queue.suspect_has_to_be_alone");
        if let Err(error) = self.parts.store.release(&given_back, self.parts.clock.now()).await {
            self.parts.metrics.service.db_failed(error.class());
            warn!(%error, leases = given_back.len(), "lease.release_failed");
            for lease in &given_back {
                self.lost_leases.add(lease);
            }
        }
        turn
    }

    /// Reports the lost leases to the database, so that they don't count as crashes: leases that ended while the database was
    /// unavailable, or that others took over although their holder lives.
    pub(super) async fn disclaim(&self) {
        let leases = self.lost_leases.take();
        if leases.is_empty() {
            return;
        }
        let reported = self.parts.store.disclaim(&leases).await;
        if let Err(error) = reported {
            self.parts.metrics.service.db_failed(error.class());
            debug!(%error, leases = leases.len(), "lease.disclaim_failed");
            for lease in &leases {
                self.lost_leases.add(lease);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::Timestamp;

    fn leases(crashes: &[i64]) -> Vec<Lease> {
        let lease = |(token, crashes): (i64, &i64)| Lease {
            agent: format!("a{token}").parse().unwrap(),
            token,
            claimed_wake: 1,
            attempt: 1,
            crashes: *crashes,
            taken_over: false,
            reasons: 1,
            ready_at: Timestamp(0),
        };
        (0..).zip(crashes).map(lease).collect()
    }

    fn tokens(leases: &[Lease]) -> Vec<i64> {
        leases.iter().map(|lease| lease.token).collect()
    }

    #[test]
    fn a_suspect_row_is_worked_on_alone() {
        let retry = RetryPolicy::default();
        let named_turn = |crashes: &[i64], is_idle| {
            let (turn, given_back) = turn_of(leases(crashes), &retry, is_idle);
            let turn = match turn {
                ClaimTurn::Together(leases) => ("together", tokens(&leases)),
                ClaimTurn::Alone(lease) => ("alone", vec![lease.token]),
                ClaimTurn::ThenIdle(leases) => ("then idle", tokens(&leases)),
            };
            (turn, tokens(&given_back))
        };
        assert_eq!(named_turn(&[0, 1, 3], false), (("together", vec![0, 1, 2]), vec![]));
        assert_eq!(named_turn(&[], true), (("together", vec![]), vec![]));
        assert_eq!(named_turn(&[0, 2, 1, 2], false), (("then idle", vec![0, 2]), vec![1, 3]));
        assert_eq!(named_turn(&[0, 2, 1, 2], true), (("alone", vec![1]), vec![3, 0, 2]));
        assert_eq!(named_turn(&[2], true), (("alone", vec![0]), vec![]));
    }
}
