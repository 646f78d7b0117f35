//! What happens around every request: its id, the problem it ends in, its place in the metrics and the log.

use std::{any::Any, sync::atomic::Ordering, time::Duration};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;

use super::{
    App, SharedApp, access, dashboard, observe,
    problem::{Problem, UNKNOWN_ROUTE, written},
};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Hexadecimal digits of its parts: version, trace, span, flags (W3C Trace Context, 3.2).
const TRACE_PARENT_DIGITS: [usize; 4] = [2, 32, 16, 2];
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a request that is taken from a client, in characters.
const REQUEST_ID_CHARS_MAX: usize = 128;
/// The route of requests for something that doesn't exist.
const UNKNOWN: &str = "unknown";
/// Asked every few seconds by machines, so not in the log.
const UNLOGGED: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Runs a request.
pub(super) async fn around(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = taken_id(request.headers()).unwrap_or_else(|| app.made_id());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let trace = trace_id(request.headers());
    let page = access::is_page(request.uri()).then(|| request.uri().clone());
    let response = next.run(request).await;
    let name = id.to_str().unwrap_or_default();
    let mut response = match page {
        Some(uri) => dashboard::written(response, &uri, name),
        None => written(response, name),
    };
    let route = route.as_ref().map_or(UNKNOWN, MatchedPath::as_str);
    log(
        route,
        &method,
        &response,
        (&id, trace.as_deref()),
        began.elapsed(),
    );
    observe::observe_request(
        &app.parts.metrics,
        route,
        &method,
        response.status(),
        began.elapsed(),
    );
    response.headers_mut().insert(REQUEST_ID, id);
    access::keep_private(response.headers_mut());
    response
}

fn log(
    route: &str,
    method: &Method,
    response: &Response,
    (id, trace): (&HeaderValue, Option<&str>),
    took: Duration,
) {
    if UNLOGGED.contains(&route) {
        return;
    }
    tracing::debug!(
        http.route = route,
        http.method = %method,
        http.status = response.status().as_u16(),
        request_id = id.to_str().unwrap_or_default(),
        trace_id = trace,
        duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "http.answered"
    );
}

/// The trace that the request belongs to, if the client says so in a way that can be believed.
fn trace_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(&TRACE_PARENT)?.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let is_hexadecimal = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_fine = parts.iter().map(|part| part.len()).eq(TRACE_PARENT_DIGITS)
        && parts.iter().all(|part| is_hexadecimal(part))
        && parts.first() != Some(&"ff");
    let trace = parts
        .get(1)
        .filter(|trace| trace.bytes().any(|digit| digit != b'0'));
    trace.filter(|_| is_fine).map(|trace| (*trace).to_owned())
}

/// The id that the client gave, if it is one to repeat in logs and headers.
fn taken_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let given = headers.get(&REQUEST_ID)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
    let is_fine = (1..=REQUEST_ID_CHARS_MAX).contains(&given.len()) && given.as_bytes().iter().all(is_plain);
    is_fine.then(|| given.clone())
}

impl App {
    /// An id that no other request of this or an earlier run has.
    fn made_id(&self) -> HeaderValue {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{:x}-{number:x}", self.started_at.0);
        HeaderValue::try_from(id).expect("hexadecimal digits and a hyphen are fine in a header")
    }
}

/// Answers a request for a path that nothing is at.
pub(super) async fn unknown_route(uri: Uri) -> Problem {
    Problem::new(UNKNOWN_ROUTE, format!("there is nothing at `{}`", uri.path()))
        .hint("paths begin with /v1/agents or are one of /v1/status, /livez, /readyz, /metrics")
}

/// Answers a request whose handler panicked; the panic's text has gone through the panic hook already.
pub(super) fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("http.panicked");
    Problem::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_believed_if_it_is_one() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let cases = [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(trace)),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{trace}-00f067aa0ba902b7"), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            ("hello".to_owned(), None),
        ];
        for (given, expected) in cases {
            let headers = HeaderMap::from_iter([(TRACE_PARENT, given.parse().unwrap())]);
            assert_eq!(trace_id(&headers).as_deref(), expected, "{given}");
        }
    }
}
