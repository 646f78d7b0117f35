//! The heartbeat: renews all held leases in one operation, and tells the holders of lost leases to stop.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::WorkerParts;
use recapd_core::domain::{agent::AgentId, spend::SpendTotal, work::Lease};
use recapd_telemetry::metrics::labels::RenewalResult;

/// How many renewals happen in the length of a lease. Three may fail before the lease is lost.
const BEATS_PER_LEASE: i64 = 4;

struct LeaseInFlight {
    lease: Lease,
    /// Cancelled when the lease is lost.
    lost_token: CancellationToken,
    /// What the lease's update has spent and not recorded yet.
    spent: SpendTotal,
}

pub(super) struct Heartbeat {
    lease_ms: i64,
    /// The held leases by their fencing tokens, so that leases are renewed in the order in which they were given out.
    leases: Mutex<BTreeMap<i64, LeaseInFlight>>,
    added: Notify,
}

impl Heartbeat {
    pub(super) fn new(lease_ms: i64) -> Self {
        Self { lease_ms, leases: Mutex::default(), added: Notify::new() }
    }

    /// Keeps a lease alive. The returned token is cancelled when the lease is lost.
    pub(super) fn add(&self, lease: &Lease) -> CancellationToken {
        let lost_token = CancellationToken::new();
        let in_flight = LeaseInFlight {
            lease: lease.clone(),
            lost_token: lost_token.clone(),
            spent: SpendTotal::default(),
        };
        self.lock().insert(lease.token, in_flight);
        self.added.notify_one();
        lost_token
    }

    pub(super) fn remove(&self, lease: &Lease) {
        self.lock().remove(&lease.token);
    }

    /// Records what a call of the lease's update has cost.
    pub(super) fn note_spent(&self, lease: &Lease, spent: SpendTotal) {
        if let Some(in_flight) = self.lock().get_mut(&lease.token) {
            in_flight.spent = in_flight.spent.plus(spent);
        }
    }

    /// Returns what other agents' updates have spent and not recorded yet. An update's lease leaves the heartbeat before the
    /// update records its cost, so no cost counts twice.
    pub(super) fn spent_by_others(&self, agent: &AgentId) -> SpendTotal {
        let leases = self.lock();
        let others = leases.values().filter(|in_flight| in_flight.lease.agent != *agent);
        others.fold(SpendTotal::default(), |sum, in_flight| sum.plus(in_flight.spent))
    }

    /// Renews the leases until `stop`, whenever any is held.
    pub(super) async fn run(&self, parts: &WorkerParts, stop: CancellationToken) {
        let beat = Duration::from_millis(u64::try_from(self.lease_ms / BEATS_PER_LEASE).unwrap_or(1).max(1));
        loop {
            tokio::select! {
                () = self.pause(beat) => self.beat(parts).await,
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits until a lease is held, and then for the next beat.
    async fn pause(&self, beat: Duration) {
        if self.lock().is_empty() {
            self.added.notified().await;
        }
        tokio::time::sleep(beat).await;
    }

    pub(super) async fn beat(&self, parts: &WorkerParts) {
        let leases: Vec<Lease> = self.lock().values().map(|in_flight| in_flight.lease.clone()).collect();
        if leases.is_empty() {
            return;
        }
        // A database that can't be reached proves nothing about the leases. When an update completes, the fences decide.
        match parts.store.renew(&leases, parts.clock.now(), self.lease_ms).await {
            Ok(renewed) => self.stop_lost(parts, &leases, &renewed),
            Err(error) => {
                parts.metrics.queue.renewed(RenewalResult::Failed);
                parts.metrics.service.db_failed(error.class());
                warn!(%error, leases = leases.len(), "lease.renew_failed");
            }
        }
    }

    fn stop_lost(&self, parts: &WorkerParts, leases: &[Lease], renewed: &[i64]) {
        let mut in_flight = self.lock();
        let lost_leases = leases
            .iter()
            .filter(|lease| !renewed.contains(&lease.token))
            .filter_map(|lease| in_flight.remove(&lease.token));
        for LeaseInFlight { lease, lost_token, .. } in lost_leases {
            warn!(agent_id = %lease.agent, lease_token = lease.token, "lease.lost");
            lost_token.cancel();
            parts.metrics.queue.renewed(RenewalResult::Lost);
        }
        for _ in renewed {
            parts.metrics.queue.renewed(RenewalResult::Renewed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, LeaseInFlight>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
