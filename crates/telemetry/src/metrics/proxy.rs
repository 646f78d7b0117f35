//! The proxy between agents and their providers.

use prometheus_client::metrics::{counter::Counter, family::Family};

use super::{
    Register, SecondsGauge,
    labels::{CompactionOutcome, ProxyOutcome, Unstored},
    unix_seconds,
};
use recapd_core::domain::time::Timestamp;

#[derive(Debug)]
pub struct ProxyMetrics {
    requests: Family<ProxyOutcome, Counter>,
    stored: Counter,
    stored_at: SecondsGauge,
    unstored: Family<Unstored, Counter>,
    compactions: Family<CompactionOutcome, Counter>,
    failed_open: Counter,
}

impl ProxyMetrics {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            requests: to.counters(
                "proxy_requests",
                "Requests of agents to their providers that reached the proxy",
                ProxyOutcome::ALL,
            ),
            stored: to.counter("proxy_stored", "Copies of requests and answers that were stored"),
            stored_at: to.seconds(
                "proxy_stored_timestamp_seconds",
                "When a copy was last stored",
            ),
            unstored: to.counters(
                "proxy_unstored",
                "Copies of requests and answers that weren't stored; the next request carries the conversation again",
                Unstored::ALL,
            ),
            compactions: to.counters(
                "proxy_compactions",
                "Compactions that hosts asked for",
                CompactionOutcome::ALL,
            ),
            failed_open: to.counter(
                "proxy_failed_open",
                "Requests that were forwarded as they were because the proxy failed to read or to rewrite them",
            ),
        }
    }

    pub fn request(&self, outcome: ProxyOutcome) {
        self.requests.get_or_create(&outcome).inc();
    }

    pub fn stored(&self, at: Timestamp) {
        self.stored.inc();
        self.stored_at.set(unix_seconds(Some(at)));
    }

    pub fn unstored(&self, reason: Unstored) {
        self.unstored.get_or_create(&reason).inc();
    }

    pub fn compaction(&self, outcome: CompactionOutcome) {
        self.compactions.get_or_create(&outcome).inc();
    }

    pub fn failed_open(&self) {
        self.failed_open.inc();
    }
}
