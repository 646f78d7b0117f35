//! Updates that wait without having failed, and what was paid for nothing.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::{Worker, ask::wait_label, update::Outcome};
use crate::{
    domain::{time::Timestamp, work::Lease},
    llm::Wait,
    store::{Paused, Postponement, RunRecord, StoreError},
    telemetry::metrics::labels::PostponeReason,
};

/// No work is given back for less.
const WAIT_MS_MIN: i64 = 500;

/// What an update waits for.
pub(super) enum Waiting {
    /// A provider, for so long.
    Provider(Duration, Wait),
    /// The next day.
    Paused(Paused),
}

impl Worker {
    /// Gives a lease back until nobody needs to wait any more. No attempt is burnt.
    pub(super) async fn postpone(&self, lease: &Lease, waiting: Waiting, mut run: RunRecord) -> Outcome {
        let now = self.parts.clock.now();
        run.finished_at = now;
        let (until, limit, reason) = match waiting {
            Waiting::Provider(wait, why) => (self.after(now, wait), None, wait_label(why)),
            Waiting::Paused(Paused { limit, until }) => (until, Some(limit), PostponeReason::Spend),
        };
        if let Some(limit) = limit {
            info!(agent_id = %lease.agent, limit = limit.key(), %until, "update.paused");
        } else {
            debug!(agent_id = %lease.agent, reason = reason.name(), %until, "update.postponed");
        }
        self.parts.metrics.updates.postponed(reason);
        self.heartbeat.remove(lease);
        let postponement = Postponement { until, limit, run };
        match self.parts.store.postpone(lease, postponement).await {
            Ok(()) => Outcome::Postponed,
            Err(StoreError::Fenced(_)) => Outcome::Superseded,
            Err(error) => {
                // The lease runs out by itself, and the work is offered again.
                error!(agent_id = %lease.agent, %error, "update.postpone_not_recorded");
                Outcome::Postponed
            }
        }
    }

    /// Those who wait for the same thing come back over some time, and not all at once.
    fn after(&self, now: Timestamp, wait: Duration) -> Timestamp {
        let wait_ms = i64::try_from(wait.as_millis())
            .unwrap_or(i64::MAX)
            .max(WAIT_MS_MIN);
        now.plus_ms(wait_ms)
            .plus_ms(self.draw(|random| random.i64(0..=wait_ms / 4)))
    }

    /// Somebody else went first.
    pub(super) async fn superseded(&self, lease: &Lease, run: RunRecord) -> Outcome {
        self.note_cost(lease, run).await;
        Outcome::Superseded
    }

    /// What an attempt paid without effect counts against the limits all the same.
    pub(super) async fn note_cost(&self, lease: &Lease, mut run: RunRecord) {
        if run.model_calls == 0 {
            return;
        }
        run.finished_at = self.parts.clock.now();
        if let Err(error) = self.parts.store.record_run(lease, run).await {
            warn!(agent_id = %lease.agent, %error, "spend.not_recorded");
        }
    }
}
