//! Metrics of incoming messages, windows, evictions, the journal, and estimates of tokens.

use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

use super::{
    Histograms, Register, float, increase,
    labels::{CountProvider, Role},
};
use recapd_core::domain::{calibration::CalibrationSample, window::Budget};

/// Histogram buckets for the tokens of a window.
const TOKEN_BUCKETS: [f64; 12] = [
    1_000.0,
    5_000.0,
    10_000.0,
    25_000.0,
    50_000.0,
    75_000.0,
    90_000.0,
    100_000.0,
    150_000.0,
    200_000.0,
    500_000.0,
    1_000_000.0,
];
/// Histogram buckets for fill ratios. Above 1, the newest leg alone exceeds the budget.
const FILL_RATIOS: [f64; 9] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0, 1.25, 2.0];

/// Histogram buckets for estimated tokens divided by reported ones. Below 1, the estimate was too low.
const ERROR_RATIOS: [f64; 11] = [0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0];

#[derive(Debug)]
pub struct WindowMetrics {
    messages: Family<Role, Counter>,
    message_tokens: Family<Role, Counter>,
    evicted: Counter,
    evicted_tokens: Counter,
    journalled: Counter,
    journal_failures: Counter,
    tokens: Histogram,
    fill: Histogram,
    count_errors: Histograms<CountProvider>,
}

impl WindowMetrics {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            messages: to.counters("messages_ingested", "Messages stored", Role::ALL),
            message_tokens: to.counters("ingested_tokens", "Tokens of messages stored", Role::ALL),
            evicted: to.counter("exchanges_evicted", "Exchanges that left a window"),
            evicted_tokens: to.counter("evicted_tokens", "Tokens that left a window"),
            journalled: to.counter("journal_messages", "Messages written to the journal"),
            journal_failures: to.counter(
                "journal_failed_messages",
                "Messages stored, but not written to the journal when they arrived",
            ),
            tokens: to.histogram("window_tokens", "Tokens of a window, after each append", &TOKEN_BUCKETS),
            fill: to.histogram(
                "window_fill_ratio",
                "Tokens of a window divided by its budget, after each append",
                &FILL_RATIOS,
            ),
            count_errors: to.histograms(
                "token_count_error_ratio",
                "Estimated tokens divided by those that a provider reported",
                || Histogram::new(ERROR_RATIOS),
                CountProvider::ALL,
            ),
        }
    }

    pub fn ingested(&self, role: Role, tokens: i64) {
        self.messages.get_or_create(&role).inc();
        self.message_tokens.get_or_create(&role).inc_by(increase(tokens));
    }

    pub fn evicted(&self, exchanges: i64, tokens: i64) {
        self.evicted.inc_by(increase(exchanges));
        self.evicted_tokens.inc_by(increase(tokens));
    }

    /// Compares an estimate with the provider's report.
    pub fn token_count_compared(&self, provider: &str, sample: CalibrationSample) {
        let provider = CountProvider::of(provider);
        self.count_errors
            .get_or_create(&provider)
            .observe(float(sample.estimated_tokens) / float(sample.reported_tokens.max(1)));
    }

    pub fn journalled(&self, messages: usize) {
        self.journalled.inc_by(messages as u64);
    }

    pub fn journal_failed(&self, messages: usize) {
        self.journal_failures.inc_by(messages as u64);
    }

    /// Records the tokens of a window relative to its budget, after any eviction.
    pub fn record_fill(&self, tokens: i64, budget: Budget) {
        self.tokens.observe(float(tokens));
        if 0 < budget.budget_tokens() {
            self.fill.observe(float(tokens) / float(budget.budget_tokens()));
        }
    }
}
