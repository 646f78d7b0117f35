//! The daemon: its build, database and HTTP interface.

use std::{sync::atomic::Ordering, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    Histograms, Register, SecondsGauge,
    labels::{ConnectionState, DbErrorClass, LogLevel, Method, SpanOutcome},
    unix_seconds,
};
use recapd_core::domain::time::Timestamp;

const REQUEST_SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug)]
pub struct Service {
    db_errors: Family<DbErrorClass, Counter>,
    db_schema_version: Gauge,
    connections: Family<ConnectionState, Gauge>,
    connections_max: Gauge,
    pool_timeouts: Counter,
    log_events: Family<LogLevel, Counter>,
    is_reloaded: Gauge,
    reloaded_at: SecondsGauge,
    requests: Family<RequestLabels, Counter>,
    request_duration: Histograms<RouteLabels>,
    spans: Family<SpanOutcome, Counter>,
    sse_clients: Gauge,
    audit_dropped: Counter,
}

/// Counts a subscribed client until it is dropped.
#[derive(Debug)]
pub struct SubscriberGuard(Gauge);

impl Drop for SubscriberGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    revision: &'static str,
    rustc: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
    method: Method,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: Method,
    code: u16,
}

/// The build of this binary. Parts that the build doesn't know are `unknown`.
const BUILD: BuildLabels = BuildLabels {
    version: env!("CARGO_PKG_VERSION"),
    revision: or_unknown(option_env!("RECAPD_REVISION")),
    rustc: or_unknown(option_env!("RECAPD_RUSTC")),
};

const fn or_unknown(name: Option<&'static str>) -> &'static str {
    match name {
        Some(name) => name,
        None => "unknown",
    }
}

impl Service {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        to.gauges("build_info", "The build of this program; always 1", [BUILD]).get_or_create(&BUILD).set(1);
        Self {
            db_errors: to.counters(
                "db_errors",
                "Failed database operations",
                DbErrorClass::ALL,
            ),
            db_schema_version: to.gauge("db_schema_version", "The last migration applied"),
            connections: to.gauges(
                "db_pool_connections",
                "Connections to the database that are open: to PostgreSQL all, to SQLite those that read (sampled)",
                ConnectionState::ALL,
            ),
            connections_max: to.gauge(
                "db_pool_max_connections",
                "The most connections to the database (sampled)",
            ),
            pool_timeouts: to.counter(
                "db_pool_acquire_timeouts",
                "Waits for a database connection that timed out: all were in use, or the server was down (sampled)",
            ),
            log_events: to.counters(
                "log_events",
                "Logged warnings, errors and alerts",
                LogLevel::ALL,
            ),
            is_reloaded: to.gauge(
                "config_last_reload_successful",
                "1 if the configuration was good when it was last read, else 0",
            ),
            reloaded_at: to.seconds(
                "config_last_reload_success_timestamp_seconds",
                "When a good configuration was last read",
            ),
            requests: to.add("http_requests", "HTTP requests answered", Family::default()),
            request_duration: to.add(
                "http_request_duration_seconds",
                "How long answering takes",
                Histograms::new_with_constructor(|| Histogram::new(REQUEST_SECONDS)),
            ),
            sse_clients: to.gauge("sse_clients", "Clients subscribed to events"),
            audit_dropped: to.counter(
                "audit_dropped",
                "Audit events that the database lacks: too many came at once, or it was down too long",
            ),
            spans: to.counters(
                "trace_spans",
                "Spans of traces, by outcome",
                SpanOutcome::ALL,
            ),
        }
    }

    /// Counts a failed database operation by class; `None` means that the database worked and refused the operation.
    pub fn db_failed(&self, class: Option<&str>) {
        let Some(class) = class else { return };
        let class = DbErrorClass::from_name(class).unwrap_or(DbErrorClass::Other);
        self.db_errors.get_or_create(&class).inc();
    }

    pub fn connections(&self, idle: i64, in_use: i64, max: i64) {
        for (state, count) in [(ConnectionState::Idle, idle), (ConnectionState::InUse, in_use)] {
            self.connections.get_or_create(&state).set(count);
        }
        self.connections_max.set(max);
    }

    /// Sets how often a caller waited in vain for a database connection. Several samplers may report the same total.
    pub fn pool_timeouts(&self, total: u64) {
        self.pool_timeouts.inner().fetch_max(total, Ordering::Relaxed);
    }

    pub fn logged(&self, level: LogLevel) {
        self.log_events.get_or_create(&level).inc();
    }

    /// Records that the configuration was read at `at`, and whether it was valid.
    pub fn reloaded(&self, is_good: bool, at: Timestamp) {
        self.is_reloaded.set(i64::from(is_good));
        if is_good {
            self.reloaded_at.set(unix_seconds(Some(at)));
        }
    }

    /// Returns true if the configuration was valid when it was last read.
    pub fn is_reloaded(&self) -> bool {
        self.is_reloaded.get() != 0
    }

    /// Counts a client as subscribed to events until the returned guard is dropped.
    pub fn subscribed(&self) -> SubscriberGuard {
        self.sse_clients.inc();
        SubscriberGuard(self.sse_clients.clone())
    }

    pub fn audit_dropped(&self, count: usize) {
        self.audit_dropped.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub fn spans(&self, outcome: SpanOutcome, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.spans.get_or_create(&outcome).inc_by(count);
    }

    pub fn db_schema_version(&self, version: i64) {
        self.db_schema_version.set(version);
    }

    /// Creates the series of a route (its template, `/v1/agents/{id}/summary`), so that successes count from 0.
    pub fn route(&self, route: &str, method: Method) {
        drop(self.requests.get_or_create(&request(route, method, 200)));
        drop(self.request_duration.get_or_create(&labels(route, method)));
    }

    /// Counts an answered request. `route` is the template, because a path names an agent.
    pub fn answered(&self, route: &str, method: Method, code: u16, took: Duration) {
        self.requests.get_or_create(&request(route, method, code)).inc();
        self.request_duration.get_or_create(&labels(route, method)).observe(took.as_secs_f64());
    }
}

fn labels(route: &str, method: Method) -> RouteLabels {
    RouteLabels { route: route.to_owned(), method }
}

fn request(route: &str, method: Method, code: u16) -> RequestLabels {
    RequestLabels { route: route.to_owned(), method, code }
}
