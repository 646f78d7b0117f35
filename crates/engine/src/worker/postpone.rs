//! Postpones updates that have to wait although nothing failed, and records the cost of attempts that had no effect.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::{Outcome, Worker, ask::wait_label, error::CondenseError};
use recapd_core::domain::{time::Timestamp, work::Lease};
use recapd_llm::Wait;
use recapd_store::{AttemptError, Postponement, RunRecord, SpendPause, StoreError};
use recapd_telemetry::metrics::labels::PostponeReason;

/// A lease is given back for at least this many milliseconds, even if the wait is shorter.
const WAIT_MS_MIN: i64 = 500;

pub(super) enum WaitReason {
    /// Waits for a provider: for this long, for this reason, after this failure.
    Provider(Duration, Wait, AttemptError),
    /// Waits for the next day, because a daily limit is used up.
    Paused(SpendPause),
}

impl Worker {
    /// Gives a lease back until the wait is over. This doesn't count as an attempt.
    pub(super) async fn postpone(&self, lease: &Lease, waiting: WaitReason, mut run: RunRecord) -> Outcome {
        let now = self.parts.clock.now();
        run.finished_at = now;
        let (until, limit, reason, why) = match waiting {
            WaitReason::Provider(wait, why, failed) => {
                (self.wait_end(now, wait), None, wait_label(why), failed)
            }
            WaitReason::Paused(paused) => {
                let SpendPause { limit, until } = paused;
                let why = CondenseError::Paused(paused).run_error();
                (until, Some(limit), PostponeReason::Spend, why)
            }
        };
        if let Some(limit) = limit {
            info!(agent_id = %lease.agent, limit = limit.key(), %until, "update.paused");
        } else {
            debug!(agent_id = %lease.agent, reason = reason.name(), %until, "update.postponed");
        }
        self.parts.metrics.updates.postponed(reason);
        self.heartbeat.remove(lease);
        let postponement = Postponement { until, limit, why, run };
        match self.parts.store.postpone(lease, postponement).await {
            Ok(()) => Outcome::Postponed,
            Err(StoreError::Fenced(_)) => {
                self.lost_leases.add(lease);
                Outcome::Superseded
            }
            Err(error) => {
                // The lease expires by itself, and the work is offered again.
                self.lost_leases.add(lease);
                self.parts.metrics.service.db_failed(error.class());
                error!(agent_id = %lease.agent, %error, "update.postpone_not_recorded");
                Outcome::Postponed
            }
        }
    }

    /// Returns the end of a wait, with jitter, so that updates that wait for the same thing don't all continue at once.
    fn wait_end(&self, now: Timestamp, wait: Duration) -> Timestamp {
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).max(WAIT_MS_MIN);
        now.plus_ms(wait_ms).plus_ms(self.draw(|random| random.i64(0..=wait_ms / 4)))
    }

    /// Ends an update that another one overtook. Records only its cost.
    pub(super) async fn end_superseded(&self, lease: &Lease, run: RunRecord) -> Outcome {
        self.note_cost(lease, run).await;
        Outcome::Superseded
    }

    /// Records the cost of an attempt without effect, because it counts against the limits, too.
    pub(super) async fn note_cost(&self, lease: &Lease, mut run: RunRecord) {
        if run.model_calls == 0 {
            return;
        }
        run.finished_at = self.parts.clock.now();
        self.heartbeat.remove(lease);
        if let Err(error) = self.parts.store.record_run(lease, run).await {
            self.parts.metrics.service.db_failed(error.class());
            warn!(agent_id = %lease.agent, %error, "spend.not_recorded");
        }
    }
}
