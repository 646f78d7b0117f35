//! Batches at a provider.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::{
    Register, SecondsGauge, increase,
    labels::{BatchOutcome, BatchStage, QuestionOutcome, QuestionStage},
    unix_seconds,
};
use recapd_core::domain::time::{SECOND_MS, Timestamp};

#[derive(Debug)]
pub struct Batches {
    sent: Family<BatchOutcome, Counter>,
    questions: Family<QuestionOutcome, Counter>,
    open: Family<BatchStage, Gauge>,
    questions_open: Family<QuestionStage, Gauge>,
    oldest: SecondsGauge,
    wait_limit: Gauge,
}

impl Batches {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            sent: to.counters(
                "batches",
                "Batches submitted to a provider, and those lost",
                BatchOutcome::ALL,
            ),
            questions: to.counters(
                "batch_questions",
                "Questions deferred to a batch, by outcome",
                QuestionOutcome::ALL,
            ),
            open: to.gauges(
                "batches_open",
                "Batches that haven't ended (sampled)",
                BatchStage::ALL,
            ),
            questions_open: to.gauges(
                "batch_questions_open",
                "Questions that have no answer yet (sampled)",
                QuestionStage::ALL,
            ),
            oldest: to.seconds(
                "batches_oldest_timestamp_seconds",
                "When the oldest open batch was recorded (sampled); 0 is none",
            ),
            wait_limit: to.gauge(
                "batch_wait_limit_seconds",
                "How long exchanges may wait for the answer of a batch, as configured; 0 while batches are off",
            ),
        }
    }

    /// Sets how long exchanges may wait for a batch, in milliseconds; 0 if batches are off.
    pub fn may_wait(&self, wait_ms: i64) {
        self.wait_limit.set(wait_ms / SECOND_MS);
    }

    /// Returns how long exchanges may wait for a batch, in milliseconds; 0 if batches are off.
    pub fn wait_limit_ms(&self) -> i64 {
        self.wait_limit.get().saturating_mul(SECOND_MS)
    }

    pub fn deferred(&self) {
        self.question(QuestionOutcome::Deferred, 1);
    }

    pub fn withdrawn(&self, count: i64) {
        self.question(QuestionOutcome::Withdrawn, count);
    }

    pub fn submitted(&self) {
        self.batch(BatchOutcome::Submitted);
    }

    pub fn lost(&self) {
        self.batch(BatchOutcome::Lost);
    }

    /// Counts the questions of a closed batch.
    pub fn ended(&self, answered: i64, failed: i64, late: i64) {
        self.question(QuestionOutcome::Answered, answered);
        self.question(QuestionOutcome::Failed, failed);
        self.question(QuestionOutcome::Late, late);
    }

    /// Sets the gauges that are read from the database. `batches` are the numbers of intents and of submitted batches,
    /// `questions` those that wait for a batch and those in one.
    pub fn sampled(&self, batches: (i64, i64), questions: (i64, i64), oldest_at: Option<Timestamp>) {
        let (intents, submitted) = batches;
        let (waiting, out) = questions;
        for (state, count) in [(BatchStage::Intent, intents), (BatchStage::Submitted, submitted)] {
            self.open.get_or_create(&state).set(count);
        }
        for (state, count) in [(QuestionStage::Waiting, waiting), (QuestionStage::Out, out)] {
            self.questions_open.get_or_create(&state).set(count);
        }
        self.oldest.set(unix_seconds(oldest_at));
    }

    fn batch(&self, outcome: BatchOutcome) {
        self.sent.get_or_create(&outcome).inc();
    }

    fn question(&self, outcome: QuestionOutcome, count: i64) {
        self.questions.get_or_create(&outcome).inc_by(increase(count));
    }
}
