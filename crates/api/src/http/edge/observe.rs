//! The HTTP interface's metrics.

use std::time::Duration;

use axum::http::{Method, StatusCode};

use recapd_telemetry::metrics::{
    Metrics,
    labels::{Method as MethodLabel, ReadResult, ReadVia},
};

/// Routes whose metrics exist from the start, by their templates and methods.
const ROUTES: [(&str, MethodLabel); 13] = [
    ("/v1/agents", MethodLabel::Get),
    ("/v1/agents/{id}/messages", MethodLabel::Post),
    ("/v1/agents/{id}/summary", MethodLabel::Get),
    ("/v1/agents/{id}/history", MethodLabel::Get),
    ("/v1/agents/{id}/clear", MethodLabel::Post),
    ("/v1/agents/{id}/mark", MethodLabel::Post),
    ("/v1/agents/{id}/rewind", MethodLabel::Post),
    ("/v1/agents/{id}/fork", MethodLabel::Post),
    ("/v1/agents/{id}/sessions/end", MethodLabel::Post),
    ("/v1/status", MethodLabel::Get),
    ("/livez", MethodLabel::Get),
    ("/readyz", MethodLabel::Get),
    ("/metrics", MethodLabel::Get),
];

/// Registers the routes, so that metrics show the first request to a route as a change.
pub(crate) fn announce(metrics: &Metrics) {
    for (route, method) in ROUTES {
        metrics.service.route(route, method);
    }
}

/// Counts an answered request to `route` (its template).
pub(super) fn observe_request(
    metrics: &Metrics,
    route: &str,
    method: &Method,
    status: StatusCode,
    took: Duration,
) {
    let method = MethodLabel::from_name(method.as_str()).unwrap_or(MethodLabel::Other);
    metrics.service.answered(route, method, status.as_u16(), took);
}

pub(crate) fn observe_read(metrics: &Metrics, result: ReadResult, took: Option<Duration>) {
    metrics.documents.read(ReadVia::Http, result, took);
}
