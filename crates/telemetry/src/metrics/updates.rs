//! Updates of summaries, from the queue to the commit.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    Histograms, Register, float, increase,
    labels::{FailureReason, Fence, PostponeReason, Trigger, UpdateOutcome, UpdatePath},
};
use recapd_core::domain::{number::i64_or_max, work::Reason};

/// Contains 30 s, the alert's threshold for slow updates.
const DURATION_SECONDS: [f64; 13] =
    [0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0];
const BATCH_EXCHANGES: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 12.0, 20.0, 50.0];

#[derive(Debug)]
pub struct Updates {
    queued: Family<QueuedLabels, Counter>,
    coalesced: Counter,
    finished: Family<UpdateOutcome, Counter>,
    failures: Family<FailureReason, Counter>,
    in_progress: Gauge,
    duration: Histograms<DurationLabels>,
    batch: Histogram,
    exhausted: Counter,
    postponed: Family<PostponeReason, Counter>,
    fenced: Family<Fence, Counter>,
    workers: Gauge,
    busy: Gauge,
    paused: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueuedLabels {
    trigger: Trigger,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    outcome: UpdateOutcome,
    path: UpdatePath,
}

impl Updates {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            queued: to.counters(
                "updates_queued",
                "Updates requested, by reason",
                Trigger::all().map(|trigger| QueuedLabels { trigger }),
            ),
            coalesced: to.counter("updates_coalesced", "Updates merged into the agent's waiting one"),
            finished: to.counters("updates", "Updates ended", UpdateOutcome::ALL),
            failures: to.counters("update_failures", "Failed attempts, by cause", FailureReason::ALL),
            in_progress: to.gauge("updates_in_progress", "Updates running in this process"),
            duration: to.histograms(
                "update_duration_seconds",
                "From claim to commit",
                || Histogram::new(DURATION_SECONDS),
                UpdateOutcome::ALL.iter().flat_map(|&outcome| {
                    UpdatePath::ALL.iter().map(move |&path| DurationLabels { outcome, path })
                }),
            ),
            batch: to.histogram("update_batch_exchanges", "Exchanges in an update", &BATCH_EXCHANGES),
            exhausted: to.counter("retries_exhausted", "Queue rows parked after the last attempt"),
            postponed: to.counters(
                "updates_postponed",
                "Updates given back without a failure, by what they wait for",
                PostponeReason::ALL,
            ),
            fenced: to.counters(
                "updates_fenced",
                "Updates that a guard refused, because another one was first",
                Fence::ALL,
            ),
            workers: to.gauge("workers", "Updates that may run at the same time"),
            busy: to.gauge("workers_busy", "Updates that run"),
            paused: to.gauge("paused", "1 while an operator has paused claiming"),
        }
    }

    /// Counts a request for an update that created a queue row.
    pub fn queued(&self, reason: Reason) {
        let trigger = Trigger(reason);
        self.queued.get_or_create(&QueuedLabels { trigger }).inc();
    }

    /// Counts a request for an update that was merged into an existing row.
    pub fn coalesced(&self) {
        self.coalesced.inc();
    }

    /// Counts an update as running until the returned guard is dropped.
    pub fn start(&self) -> InProgress {
        self.in_progress.inc();
        self.busy.inc();
        InProgress([self.in_progress.clone(), self.busy.clone()])
    }

    /// Counts an update of `exchanges` exchanges that ended `took` after its claim.
    pub fn finished(&self, outcome: UpdateOutcome, path: UpdatePath, exchanges: i64, took: Duration) {
        self.finished.get_or_create(&outcome).inc();
        self.duration.get_or_create(&DurationLabels { outcome, path }).observe(took.as_secs_f64());
        if 0 < exchanges {
            self.batch.observe(float(exchanges));
        }
    }

    /// Counts only the cause of a failed attempt; [`Self::finished`] counts the update itself.
    pub fn failed(&self, reason: FailureReason) {
        self.failures.get_or_create(&reason).inc();
    }

    pub fn retries_exhausted(&self, rows: i64) {
        self.exhausted.inc_by(increase(rows));
    }

    /// Counts an update that was postponed without a failure.
    pub fn postponed(&self, reason: PostponeReason) {
        self.postponed.get_or_create(&reason).inc();
    }

    /// Counts an update that a fence kept from being applied twice.
    pub fn fenced(&self, fence: Fence) {
        self.fenced.get_or_create(&fence).inc();
    }

    pub fn workers(&self, concurrency: usize) {
        self.workers.set(i64_or_max(concurrency));
    }

    pub fn is_paused(&self) -> bool {
        self.paused.get() != 0
    }

    pub fn paused(&self, is_paused: bool) {
        self.paused.set(i64::from(is_paused));
    }
}

/// Counts a running update until it is dropped.
#[derive(Debug)]
#[must_use = "the update counts as running until this is dropped"]
pub struct InProgress([Gauge; 2]);

impl Drop for InProgress {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}
