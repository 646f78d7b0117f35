//! Updates that wait without having failed, and the cost of attempts that had no effect.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::{Worker, ask::wait_label, condense::CondenseError, update::Outcome};
use recapd_core::domain::{time::Timestamp, work::Lease};
use recapd_llm::Wait;
use recapd_store::{AttemptError, Postponement, RunRecord, SpendPause, StoreError};
use recapd_telemetry::metrics::labels::PostponeReason;

/// The shortest wait, in milliseconds, for which a lease is given back.
const WAIT_MS_MIN: i64 = 500;

pub(super) enum WaitReason {
    /// A provider, for that long, after that failure.
    Provider(Duration, Wait, AttemptError),
    /// The next day, since a daily limit is used up.
    Paused(SpendPause),
}

impl Worker {
    /// Gives a lease back until the wait is over. This isn't an attempt.
    pub(super) async fn postpone(&self, lease: &Lease, waiting: WaitReason, mut run: RunRecord) -> Outcome {
        let now = self.parts.clock.now();
        run.finished_at = now;
        let (until, limit, reason, why) = match waiting {
            WaitReason::Provider(wait, why, failed) => (self.after(now, wait), None, wait_label(why), failed),
            WaitReason::Paused(paused) => {
                let SpendPause { limit, until } = paused;
                let why = CondenseError::Paused(paused).told();
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
        let postponement = Postponement {
            until,
            limit,
            why,
            run,
        };
        match self.parts.store.postpone(lease, postponement).await {
            Ok(()) => Outcome::Postponed,
            Err(StoreError::Fenced(_)) => {
                self.disclaimed.add(lease);
                Outcome::Superseded
            }
            Err(error) => {
                // The lease runs out by itself, and the work is offered again.
                self.disclaimed.add(lease);
                self.parts.metrics.service.db_failed(error.class());
                error!(agent_id = %lease.agent, %error, "update.postpone_not_recorded");
                Outcome::Postponed
            }
        }
    }

    /// The end of a wait, with jitter, so that updates that wait for the same thing don't all come back at once.
    fn after(&self, now: Timestamp, wait: Duration) -> Timestamp {
        let wait_ms = i64::try_from(wait.as_millis())
            .unwrap_or(i64::MAX)
            .max(WAIT_MS_MIN);
        now.plus_ms(wait_ms)
            .plus_ms(self.draw(|random| random.i64(0..=wait_ms / 4)))
    }

    /// Ends an update that another one overtook: only its cost is recorded.
    pub(super) async fn superseded(&self, lease: &Lease, run: RunRecord) -> Outcome {
        self.note_cost(lease, run).await;
        Outcome::Superseded
    }

    /// Records the cost of an attempt without effect, since that counts against the limits, too.
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
