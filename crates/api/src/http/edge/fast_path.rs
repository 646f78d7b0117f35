//! The fast path of readers: answers with a summary in memory, before the router. The router's layers and timers cost
//! more than such an answer.
//!
//! Invariant: the answer is the same as the router's. A request that must wait, must be refused, or is traced goes to
//! the router as if it had gone there at once.

use axum::{
    http::{Method, Request, Uri},
    response::Response,
};
use tracing::{Level, span_enabled};

use super::{access, frame::InFlightRequest};
use crate::http::{App, routes::summary};
use recapd_core::domain::agent::AgentId;
use recapd_platform::threads;
use recapd_telemetry::trace;

const PATH_PREFIX: &str = "/v1/agents/";
const PATH_SUFFIX: &str = "/summary";

/// Answers `request` if it asks for a summary in memory and need not wait.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Option<Response> {
    let agent = agent_of_summary(request.method(), request.uri())?;
    // After a panic here, the router still answers.
    let response = threads::computed_here("answering a reader", || answer_from_memory(app, request, &agent));
    response.ok().flatten()
}

fn answer_from_memory<B>(app: &App, request: &Request<B>, agent: &AgentId) -> Option<Response> {
    if span_enabled!(target: trace::TARGET, Level::INFO) {
        return None;
    }
    let caller = access::reader_at_once(app, request, summary::PATH, agent)?;
    let reading = app.parts.snapshots.cached(agent)?;
    // An empty document: the router asks the database why.
    if reading.snapshot.markdown.is_empty() {
        return None;
    }
    access::check_rate(app, Some(&caller), request.extensions()).ok()?;
    let arrived = InFlightRequest::now(app, request);
    let response = summary::answer_cached(app, agent, &reading, request.headers());
    Some(arrived.finish(app, summary::PATH, response))
}

/// Returns the agent whose summary a request without parameters asks for.
fn agent_of_summary(method: &Method, uri: &Uri) -> Option<AgentId> {
    if method != Method::GET || uri.query().is_some() {
        return None;
    }
    let agent = uri.path().strip_prefix(PATH_PREFIX)?.strip_suffix(PATH_SUFFIX)?;
    agent.parse().ok()
}
