//! Messages that agents insert by SQL.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::{Register, SecondsGauge, labels::InboxRefusal, unix_seconds};
use recapd_core::domain::time::Timestamp;

#[derive(Debug)]
pub struct Inbox {
    waiting: Gauge,
    oldest_at: SecondsGauge,
    refused_kept: Gauge,
    taken: Counter,
    refused: Family<InboxRefusal, Counter>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxSample {
    pub waiting: i64,
    pub oldest_at: Option<Timestamp>,
    /// Refused rows that are kept.
    pub refused: i64,
}

impl Inbox {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            waiting: to.gauge("inbox_waiting", "Messages inserted by SQL that wait to be taken in"),
            oldest_at: to.seconds(
                "inbox_oldest_timestamp_seconds",
                "When the oldest waiting message was inserted by SQL; 0 if none waits",
            ),
            refused_kept: to
                .gauge("inbox_refused_rows", "Messages inserted by SQL that were refused and are kept"),
            taken: to.counter("inbox_taken", "Messages inserted by SQL that were taken in"),
            refused: to.counters(
                "inbox_refused",
                "Messages inserted by SQL that were refused",
                InboxRefusal::ALL,
            ),
        }
    }

    /// Counts rows that became messages.
    pub fn taken(&self, rows: usize) {
        self.taken.inc_by(rows as u64);
    }

    pub fn refused(&self, reason: InboxRefusal, rows: u64) {
        self.refused.get_or_create(&reason).inc_by(rows);
    }

    pub fn sampled(&self, sample: &InboxSample) {
        self.waiting.set(sample.waiting);
        self.refused_kept.set(sample.refused);
        self.oldest_at.set(unix_seconds(sample.oldest_at));
    }
}
