//! The metrics, as `/metrics` shows them.
//!
//! Invariants: names and labels are a contract. The values of labels are closed sets, never agents. Every series of a known label
//! set exists from the start at 0, because `increase()` would otherwise miss the first failure. Prometheus reserves the word
//! `summary`, so a summary is called a document here.

mod batches;
mod catalogue;
mod documents;
mod embeddings;
mod exposition;
mod inbox;
pub mod labels;
mod process;
mod provider;
mod proxy;
mod queue;
mod service;
mod talk;
mod updates;
mod window;

use std::{borrow::Borrow, ops::Deref, sync::Arc};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

pub use batches::Batches;
pub use catalogue::{Label, MetricDescription, catalogue, example};
pub use documents::Documents;
pub use embeddings::Embeddings;
pub use inbox::{Inbox, InboxSample};
pub use provider::{Circuit, Provider, ProviderTokens};
pub use proxy::ProxyMetrics;
pub use queue::{HourDepth, Queue, QueueSample};
pub use service::{Service, SubscriberGuard};
pub use talk::Talk;
pub use updates::{InProgress, Updates};
pub use window::WindowMetrics;

use recapd_core::domain::time::Timestamp;

/// Histogram families need a function that creates histograms with their buckets.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type SecondsGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

/// All metrics of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Groups>);

#[derive(Debug)]
pub struct Groups {
    pub updates: Updates,
    pub documents: Documents,
    pub batches: Batches,
    pub queue: Queue,
    pub window: WindowMetrics,
    pub inbox: Inbox,
    pub talk: Talk,
    pub provider: Provider,
    pub embeddings: Embeddings,
    pub proxy: ProxyMetrics,
    pub service: Service,
    registry: Registry,
}

impl Metrics {
    /// Creates all metrics at 0, for a process that started at `started_at` and will call `models` (provider, model).
    pub fn new(started_at: Timestamp, models: &[(&str, &str)]) -> Self {
        let mut registry = Registry::default();
        process::register(&mut registry, started_at);
        let register = &mut Register(registry.sub_registry_with_prefix("recapd"));
        Self(Arc::new(Groups {
            updates: Updates::register(register),
            documents: Documents::register(register),
            batches: Batches::register(register),
            queue: Queue::register(register),
            window: WindowMetrics::register(register),
            inbox: Inbox::register(register),
            talk: Talk::register(register),
            provider: Provider::register(register, models),
            embeddings: Embeddings::register(register),
            proxy: ProxyMetrics::register(register),
            service: Service::register(register),
            registry,
        }))
    }

    /// Returns the content type and the text of a scrape: `OpenMetrics` if `accept`, the request's header, names it, otherwise
    /// Prometheus's text format.
    pub fn encode(&self, accept: Option<&str>) -> (&'static str, String) {
        exposition::encode(&self.registry, accept)
    }
}

impl Deref for Metrics {
    type Target = Groups;

    fn deref(&self) -> &Groups {
        &self.0
    }
}

/// Registers metrics. The series of the given label sets exist from the start.
struct Register<'a>(&'a mut Registry);

impl Register<'_> {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.add(name, help, Counter::default())
    }

    fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(name, help, Gauge::default())
    }

    fn seconds(&mut self, name: &str, help: &str) -> SecondsGauge {
        self.add(name, help, SecondsGauge::default())
    }

    fn histogram(&mut self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.add(name, help, Histogram::new(buckets.iter().copied()))
    }

    fn counters<L: LabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item: Borrow<L>>,
    ) -> Family<L, Counter> {
        let family = Family::<L, Counter>::default();
        series.into_iter().for_each(|labels| drop(family.get_or_create(Borrow::<L>::borrow(&labels))));
        self.add(name, help, family)
    }

    fn gauges<L: LabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item: Borrow<L>>,
    ) -> Family<L, Gauge> {
        let family = Family::<L, Gauge>::default();
        series.into_iter().for_each(|labels| drop(family.get_or_create(Borrow::<L>::borrow(&labels))));
        self.add(name, help, family)
    }

    fn histograms<L: LabelSet>(
        &mut self,
        name: &str,
        help: &str,
        new: fn() -> Histogram,
        series: impl IntoIterator<Item: Borrow<L>>,
    ) -> Histograms<L> {
        let family = Histograms::<L>::new_with_constructor(new);
        series.into_iter().for_each(|labels| drop(family.get_or_create(Borrow::<L>::borrow(&labels))));
        self.add(name, help, family)
    }
}

/// What a family requires of a set of labels.
trait LabelSet: EncodeLabelSet + Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static {}

impl<L: EncodeLabelSet + Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static> LabelSet
    for L
{
}

/// Converts a count to the increase of a counter, which is never negative.
fn increase(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "tokens and times are far below 2^52")]
fn float(number: i64) -> f64 {
    number as f64
}

/// Returns seconds since 1970; 0 stands for never.
fn unix_seconds(time: Option<Timestamp>) -> f64 {
    time.map_or(0.0, |time| float(time.0) / 1_000.0)
}

#[cfg(test)]
mod tests;
