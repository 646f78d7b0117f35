//! The frame around every request: gives it an id, writes its problem if it fails, and records metrics and a log line.

use std::{any::Any, sync::atomic::Ordering, time::Duration};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{self, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field::Empty, info_span};

use super::{
    access,
    audit::{AuditContext, Trail},
    observe,
};
use crate::http::{
    App, SharedApp, dashboard,
    response::problem::{Problem, UNKNOWN_ROUTE, write_out},
};
use recapd_telemetry::trace::{self, TraceParent};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Limits the request ids that are accepted from clients, in characters.
const REQUEST_ID_CHARS_MAX: usize = 128;
/// The metrics' and the log's name for requests that no route matches.
const UNKNOWN: &str = "unknown";
/// Routes that machines request every few seconds. They are neither logged nor traced.
const UNLOGGED: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Answers a request with `next`. Adds everything that all routes have in common.
pub(crate) async fn with_frame(State(app): State<SharedApp>, mut request: Request, next: Next) -> Response {
    let arrived = InFlightRequest::now(&app, &request);
    let audited = AuditContext {
        trail: Trail::default(),
        peer: request.extensions().get().copied(),
        uri: request.uri().clone(),
        method: request.method().clone(),
    };
    request.extensions_mut().insert(audited.trail.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let page = access::is_page(request.uri()).then(|| request.uri().clone());
    let path = route.as_ref().map_or(UNKNOWN, MatchedPath::as_str);
    let span = request_span(path, &request, &arrived.id);
    let response = next.run(request).instrument(span.clone()).await;
    record_status(&span, response.status());
    app.parts.metrics.service.db_failed(Problem::db_error(&response));
    audited.note_answer(&app, path, &arrived.id, &response);
    let name = arrived.id.to_str().unwrap_or_default();
    let response = match page {
        Some(uri) => dashboard::write_out(response, &uri, name),
        None => write_out(response, name),
    };
    arrived.finish(&app, path, response)
}

/// A request that isn't answered yet.
pub(super) struct InFlightRequest {
    began: Instant,
    id: HeaderValue,
    method: Method,
    /// The client's trace id, if it sent a valid one.
    trace: Option<String>,
}

impl InFlightRequest {
    pub(super) fn now<B>(app: &App, request: &http::Request<B>) -> Self {
        let headers = request.headers();
        Self {
            began: Instant::now(),
            id: client_request_id(headers).unwrap_or_else(|| app.new_request_id()),
            method: request.method().clone(),
            trace: client_trace(headers).map(|parent| format!("{:032x}", parent.trace)),
        }
    }

    /// Logs and counts the answer to `route` (its template). Sets the headers that all answers have.
    pub(super) fn finish(self, app: &App, route: &str, mut response: Response) -> Response {
        let (status, took) = (response.status(), self.began.elapsed());
        self.log(route, status, took);
        observe::observe_request(&app.parts.metrics, route, &self.method, status, took);
        response.headers_mut().insert(REQUEST_ID, self.id);
        access::keep_private(response.headers_mut());
        response
    }

    fn log(&self, route: &str, status: StatusCode, took: Duration) {
        if UNLOGGED.contains(&route) {
            return;
        }
        tracing::debug!(
            http.route = route,
            http.method = %self.method,
            http.status = status.as_u16(),
            request_id = self.id.to_str().unwrap_or_default(),
            trace_id = self.trace.as_deref(),
            duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "http.answered"
        );
    }
}

/// Returns the client's trace, if it sent a valid one.
fn client_trace(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get(&TRACE_PARENT)?.to_str().ok()?)
}

/// Returns the request's span, a child of the client's span.
fn request_span(route: &str, request: &Request, id: &HeaderValue) -> Span {
    if UNLOGGED.contains(&route) {
        return Span::none();
    }
    let header = request.headers().get(&TRACE_PARENT);
    let parent = header.and_then(|header| header.to_str().ok()).unwrap_or_default();
    info_span!(
        target: trace::TARGET,
        "request",
        "otel.name" = %format_args!("{} {route}", request.method()),
        "otel.kind" = "server",
        "otel.parent" = parent,
        "http.request.method" = %request.method(),
        "http.route" = route,
        "url.path" = request.uri().path(),
        "http.response.status_code" = Empty,
        "recapd.request_id" = id.to_str().unwrap_or_default(),
        "error.type" = Empty,
    )
}

fn record_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record(trace::ERROR, status.as_str());
    }
}

/// Returns the client's request id if it is safe to repeat in logs and headers.
fn client_request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(&REQUEST_ID)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
    let is_valid = (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.as_bytes().iter().all(is_plain);
    is_valid.then(|| id.clone())
}

impl App {
    /// Returns an id that no other request of this or an earlier process has.
    fn new_request_id(&self) -> HeaderValue {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{:x}-{number:x}", self.started_at.0);
        HeaderValue::try_from(id).expect("hexadecimal digits and a hyphen are fine in a header")
    }
}

pub(crate) async fn unknown_route(uri: Uri) -> Problem {
    Problem::new(UNKNOWN_ROUTE, format!("there is no route `{}`", uri.path()))
        .hint("paths begin with /v1/agents or are one of /v1/status, /livez, /readyz, /metrics")
}

/// Answers a request whose handler panicked. The panic hook has already logged the panic.
pub(crate) fn panic_response(_panic: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("http.panicked");
    Problem::internal().into_response()
}
