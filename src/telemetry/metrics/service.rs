//! The daemon: what it was built from, its database, its HTTP interface.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    Histograms, Register,
    labels::{DbErrorClass, Method},
};

const REQUEST_SECONDS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// Metrics of the daemon.
#[derive(Debug)]
pub struct Service {
    db_errors: Family<DbErrorLabels, Counter>,
    db_schema_version: Gauge,
    requests: Family<RequestLabels, Counter>,
    request_duration: Histograms<RouteLabels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    revision: &'static str,
    rustc: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DbErrorLabels {
    class: DbErrorClass,
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

/// What this binary was built from; a build that doesn't say is `unknown`.
const BUILD: BuildLabels = BuildLabels {
    version: env!("CARGO_PKG_VERSION"),
    revision: known(option_env!("RECAPD_REVISION")),
    rustc: known(option_env!("RECAPD_RUSTC")),
};

const fn known(name: Option<&'static str>) -> &'static str {
    match name {
        Some(name) => name,
        None => "unknown",
    }
}

impl Service {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        to.gauges("build_info", "What this is; always 1", [BUILD])
            .get_or_create(&BUILD)
            .set(1);
        Self {
            db_errors: to.counters(
                "db_errors",
                "Failed database operations",
                DbErrorClass::ALL.iter().map(|&class| DbErrorLabels { class }),
            ),
            db_schema_version: to.gauge("db_schema_version", "The last migration applied"),
            requests: to.counters("http_requests", "HTTP requests answered", []),
            request_duration: to.histograms(
                "http_request_duration_seconds",
                "How long answering takes",
                || Histogram::new(REQUEST_SECONDS),
                [],
            ),
        }
    }

    /// A database operation failed.
    pub fn db_error(&self, class: DbErrorClass) {
        self.db_errors.get_or_create(&DbErrorLabels { class }).inc();
    }

    /// The number of the last migration applied.
    pub fn db_schema_version(&self, version: i64) {
        self.db_schema_version.set(version);
    }

    /// There is a route, by its template (`/v1/agents/{id}/summary`): its good answers are counted from 0.
    pub fn route(&self, route: &str, method: Method) {
        drop(self.requests.get_or_create(&request(route, method, 200)));
        drop(self.request_duration.get_or_create(&labels(route, method)));
    }

    /// A request was answered. `route` is the template, never the path: a path names an agent.
    pub fn answered(&self, route: &str, method: Method, code: u16, took: Duration) {
        self.requests.get_or_create(&request(route, method, code)).inc();
        self.request_duration
            .get_or_create(&labels(route, method))
            .observe(took.as_secs_f64());
    }
}

fn labels(route: &str, method: Method) -> RouteLabels {
    RouteLabels {
        route: route.to_owned(),
        method,
    }
}

fn request(route: &str, method: Method, code: u16) -> RequestLabels {
    RequestLabels {
        route: route.to_owned(),
        method,
        code,
    }
}
