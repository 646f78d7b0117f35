//! Embeddings for recall.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    Histograms, Register,
    labels::{EmbeddingPurpose, ProviderErrorClass},
};

const REQUEST_SECONDS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0];

#[derive(Debug)]
pub struct Embeddings {
    stored: Counter,
    waiting: Gauge,
    errors: Family<EmbeddingErrorLabels, Counter>,
    duration: Histograms<EmbeddingPurpose>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EmbeddingErrorLabels {
    purpose: EmbeddingPurpose,
    class: ProviderErrorClass,
}

impl Embeddings {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        let errors = EmbeddingPurpose::ALL.iter().flat_map(|&purpose| {
            let classes = ProviderErrorClass::ALL.iter();
            classes.map(move |&class| EmbeddingErrorLabels { purpose, class })
        });
        Self {
            stored: to.counter("embeddings_stored", "Messages that got an embedding"),
            waiting: to.gauge(
                "embeddings_waiting_messages",
                "Messages of all kinds that the embedding model hasn't read yet",
            ),
            errors: to.counters(
                "embeddings_errors",
                "Failed calls to the embedding model; recall answers without it",
                errors,
            ),
            duration: to.histograms(
                "embeddings_request_duration_seconds",
                "How long calls to the embedding model take, failed ones included",
                || Histogram::new(REQUEST_SECONDS),
                EmbeddingPurpose::ALL,
            ),
        }
    }

    pub fn stored(&self, messages: u64) {
        self.stored.inc_by(messages);
    }

    pub fn waiting(&self, messages: i64) {
        self.waiting.set(messages);
    }

    pub fn answered(&self, purpose: EmbeddingPurpose, took: Duration) {
        self.duration.get_or_create(&purpose).observe(took.as_secs_f64());
    }

    /// Counts a failure by the error's class, which may begin with `provider_`.
    pub fn failed(&self, purpose: EmbeddingPurpose, class: &str) {
        let class = class.strip_prefix("provider_").unwrap_or(class);
        let class = ProviderErrorClass::from_name(class).unwrap_or(ProviderErrorClass::BadOutput);
        self.errors.get_or_create(&EmbeddingErrorLabels { purpose, class }).inc();
    }
}
