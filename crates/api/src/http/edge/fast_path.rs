//! The fast path of readers: a summary in memory is answered before the router, whose layers and timers cost more than such an answer.
//!
//! Invariant: the answer is the same as by the router. A request that must wait, is to be refused, or is traced goes to the
//! router as if it had come there at once.

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

const BEFORE: &str = "/v1/agents/";
const BEHIND: &str = "/summary";

/// Returns the answer to `request`, if it is for a summary in memory and needn't wait.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Option<Response> {
    let agent = agent_of_summary(request.method(), request.uri())?;
    // After a panic here, the router still answers.
    let answered = threads::computed_here("answering a reader", || at_once(app, request, &agent));
    answered.ok().flatten()
}

fn at_once<B>(app: &App, request: &Request<B>, agent: &AgentId) -> Option<Response> {
    if span_enabled!(target: trace::TARGET, Level::INFO) {
        return None;
    }
    let caller = access::reader_at_once(app, request, agent)?;
    let reading = app.parts.snapshots.cached(agent)?;
    // Why there is nothing, the database says.
    if reading.snapshot.markdown.is_empty() {
        return None;
    }
    access::check_rate(app, Some(&caller), request.extensions()).ok()?;
    let arrived = InFlightRequest::now(app, request);
    let response = summary::cached(app, agent, &reading, request.headers());
    Some(arrived.answered(app, summary::PATH, response))
}

/// Returns the agent whose summary is requested without parameters.
fn agent_of_summary(method: &Method, uri: &Uri) -> Option<AgentId> {
    if method != Method::GET || uri.query().is_some() {
        return None;
    }
    let agent = uri.path().strip_prefix(BEFORE)?.strip_suffix(BEHIND)?;
    agent.parse().ok()
}
