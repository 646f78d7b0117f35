//! Decides which requests are audited: changes, refusals and sign-ins ([`crate::access::audit`]). Never records their
//! bodies.

use std::sync::{Arc, OnceLock};

use axum::{
    http::{HeaderValue, Method, StatusCode, Uri},
    response::Response,
};

use super::{access::rules, connection::Peer};
use crate::http::{App, response::problem::Problem};
use recapd_core::domain::{
    access::{Scope, TokenName},
    agent::AgentId,
};
use recapd_store::audit::{AuditEvent, AuditKind};

/// Routes that append messages, or that clients call with appends.
const APPENDS: [&str; 7] = [
    "/v1/agents/{id}/messages",
    "/v1/agents/{id}/conversation",
    "/v1/agents/{id}/compact",
    "/v1/agents/{id}/replacement",
    "/v1/agents/{id}/proxy",
    "/v1/agents/{id}/notes",
    "/v1/agents/{id}/notes/{name}",
];
const SIGN_IN: &str = "/ui/login";
const DONE: &str = "done";
/// The outcome of a failure without a code.
const FAILED: &str = "failed";
/// Where a path can name an agent, the most specific first.
const AGENT_PLACEHOLDERS: [&str; 2] = ["{agent}", "{id}"];

/// The token of a request, once it is known. The guard or the sign-in sets it, and the frame reads it, even after the
/// request timed out.
#[derive(Clone, Default)]
pub(crate) struct Trail(Arc<OnceLock<TokenName>>);

impl Trail {
    pub(crate) fn note(&self, token: Option<&TokenName>) {
        if let Some(token) = token {
            // A sign-in has no token until it succeeds.
            self.0.get_or_init(|| token.clone());
        }
    }
}

pub(super) struct AuditContext {
    pub(super) trail: Trail,
    pub(super) peer: Option<Peer>,
    pub(super) uri: Uri,
    pub(super) method: Method,
}

impl AuditContext {
    /// Records the answer to a request for `route` (its template) if the request is audited.
    pub(super) fn note_answer(self, app: &App, route: &str, request_id: &HeaderValue, response: &Response) {
        let status = response.status();
        let Some(kind) = kind(&self.method, route, status) else {
            return;
        };
        app.parts.audit.note(AuditEvent {
            at: app.parts.clock.now(),
            kind,
            token: self.trail.0.get().map(|token| token.as_str().to_owned()),
            peer: self.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            method: method_name(&self.method).to_owned(),
            agent_id: agent(route, self.uri.path()),
            route: route.to_owned(),
            request_id: request_id.to_str().unwrap_or_default().to_owned(),
            status: status.as_u16().into(),
            outcome: outcome(response).to_owned(),
        });
    }
}

fn kind(method: &Method, route: &str, status: StatusCode) -> Option<AuditKind> {
    const REFUSALS: [StatusCode; 3] =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::MISDIRECTED_REQUEST];
    if REFUSALS.contains(&status) {
        return Some(AuditKind::Refusal);
    }
    if *method == Method::GET || *method == Method::HEAD {
        return None;
    }
    if route == SIGN_IN {
        return status.is_redirection().then_some(AuditKind::SignIn);
    }
    if matches!(*method, Method::POST | Method::PUT) && APPENDS.contains(&route) {
        return Some(AuditKind::Append);
    }
    let is_change = rules::find(method, route).is_some_and(|rule| rule.scope != Scope::Read);
    is_change.then_some(AuditKind::Change)
}

/// Returns the method's name. A client can send any word as a method, so all unknown methods share one name.
fn method_name(method: &Method) -> &str {
    match method.as_str() {
        name @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") => name,
        _ => "OTHER",
    }
}

fn outcome(response: &Response) -> &'static str {
    let code = response.extensions().get::<Problem>().map(Problem::code);
    let is_fine = !response.status().is_client_error() && !response.status().is_server_error();
    code.unwrap_or(if is_fine { DONE } else { FAILED })
}

/// Returns the agent that the path names, if the route is about agents.
fn agent(route: &str, path: &str) -> Option<AgentId> {
    let is_project = |placeholder: &str| placeholder == "{id}" && route.starts_with("/v1/projects/");
    let mut placeholders = AGENT_PLACEHOLDERS.into_iter().filter(|placeholder| !is_project(placeholder));
    placeholders.find_map(|placeholder| {
        let mut segments = route.split('/').zip(path.split('/'));
        segments.find(|(segment, _)| *segment == placeholder)?.1.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_refusals_and_sign_ins_are_audited() {
        use AuditKind::{Append, Change, Refusal, SignIn};
        for (method, route, status, expected) in [
            ("GET", "/v1/agents", 200, None),
            ("GET", "/v1/agents", 401, Some(Refusal)),
            ("GET", "/v1/agents", 421, Some(Refusal)),
            ("POST", "/mcp", 200, None),
            ("POST", "/mcp", 403, Some(Refusal)),
            ("POST", "/v1/agents/{id}/messages", 200, Some(Append)),
            ("POST", "/v1/agents/{id}/messages", 400, Some(Append)),
            ("POST", "/v1/agents/{id}/messages", 403, Some(Refusal)),
            ("POST", "/v1/agents/{id}/pause", 200, Some(Change)),
            ("DELETE", "/v1/agents/{id}", 404, Some(Change)),
            ("POST", "/ui/agents/{id}/refresh", 303, Some(Change)),
            ("POST", "/ui/login", 303, Some(SignIn)),
            ("POST", "/ui/login", 401, Some(Refusal)),
            ("POST", "/ui/login", 429, None),
            ("POST", "/ui/logout", 303, None),
            ("POST", "unknown", 404, None),
        ] {
            let found = kind(&method.parse().unwrap(), route, StatusCode::from_u16(status).unwrap());
            assert_eq!(found, expected, "{method} {route} {status}");
        }
    }

    #[test]
    fn the_agent_comes_from_the_path() {
        for (route, path, expected) in [
            ("/v1/agents/{id}/pause", "/v1/agents/coder/pause", Some("coder")),
            ("/v1/agents/{id}", "/v1/agents/a%20b", None),
            ("/v1/projects/{id}/agents/{agent}", "/v1/projects/web/agents/coder", Some("coder")),
            ("/v1/projects/{id}/summary", "/v1/projects/web/summary", None),
            ("/v1/agents", "/v1/agents", None),
            ("unknown", "/v1/agents/coder/nowhere", None),
        ] {
            let found = agent(route, path);
            assert_eq!(found.as_ref().map(AgentId::as_str), expected, "{route}");
        }
    }
}
