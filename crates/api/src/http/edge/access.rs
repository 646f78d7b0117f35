//! Authorization: which token may call which route. Decides before the handler runs and before the body is read.
//!
//! ```text
//! rule of the route ─► foreign page? ─► whose token? ─► may it see the agent or project? 404 ─► may it do this? 403 ─► handler
//! ```
//!
//! Invariant: the answer about something that a token may not see is the same as about something that doesn't exist.
//! The same code gives both answers, without a look-up. For tokens of projects there is one look-up, the same in both
//! cases.

mod origin;
pub(super) mod rules;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State},
    http::{
        self, Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, WWW_AUTHENTICATE,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
        request::Parts,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use futures::FutureExt as _;
use tokio::time::Instant;

use self::rules::RouteRule;
pub(crate) use self::rules::{RouteSubject, all_rules, api_rules, pages};
use super::{
    audit::Trail,
    connection::Peer,
    rate::{Asker, whole_seconds},
};
use crate::{
    access::{Caller, quota::Holder, session::SessionKey},
    http::{
        App, SharedApp,
        request::{
            credentials::{bearer, session_cookie},
            extract::{agent_id, project_id},
        },
        response::problem::{
            FORBIDDEN, INVALID_AGENT_ID, INVALID_PROJECT_ID, Problem, ProblemKind, TOO_MANY_REQUESTS,
            UNAUTHORIZED,
        },
    },
};
use recapd_core::domain::{access::Scope, agent::AgentId};

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The policy of answers that aren't pages. A browser that shows such an answer loads and runs nothing.
const NOTHING_LOADED: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

pub(crate) type CallerExtension = Extension<Arc<Caller>>;

/// Passes an allowed request to its handler. Answers a refused request.
pub(crate) async fn guard(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = admit(&app, &mut parts).await;
    let caller = parts.extensions.get::<Arc<Caller>>().cloned();
    let mut response = match admitted {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    };
    if response.status() == StatusCode::UNAUTHORIZED && caller.is_none() {
        let scheme = HeaderValue::from_static("Bearer realm=\"recapd\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    if let Some(caller) = caller {
        // The page about a problem needs the caller.
        response.extensions_mut().insert(caller);
    }
    response
}

/// Authorizes a request. Records the caller as soon as it is identified.
async fn admit(app: &App, parts: &mut Parts) -> Result<(), Problem> {
    let path = parts.extensions.get::<MatchedPath>().cloned();
    let rule = rules::of(&parts.method, path.as_ref().map(MatchedPath::as_str));
    origin::check_site(&parts.method, &parts.uri, &parts.headers)?;
    if rule.subject == RouteSubject::Open {
        if parts.method == Method::POST {
            origin::check_origin(&parts.uri, &parts.headers)?;
            check_rate(app, None, &parts.extensions)?;
        }
        parts.extensions.insert(Arc::new(Caller::anybody()));
        return Ok(());
    }
    origin::check_origin(&parts.uri, &parts.headers)?;
    let session = session_of(&parts.uri, &parts.headers);
    let identified = match &session {
        Some(key) => app.parts.access.identify_session(key).await,
        None => app.parts.access.identify(bearer(&parts.headers)).await,
    };
    check_rate(app, identified.as_ref().ok(), &parts.extensions)?;
    let caller = identified.map_err(|_| no_valid_token())?;
    parts.extensions.insert(Arc::clone(&caller));
    if let Some(trail) = parts.extensions.get::<Trail>() {
        trail.note(caller.token.as_ref());
    }
    if caller.token.is_none() {
        origin::check_host(&parts.uri, &parts.headers, &app.settings.allowed_hosts)?;
    }
    check_reach(app, &caller, rule, parts).await?;
    check_scope(&caller, rule.scope)?;
    if let Some(key) = session {
        parts.extensions.insert(key);
    }
    Ok(())
}

/// Authorizes a read of `agent` at `route` without waiting. Returns the caller; `None` if the request isn't allowed, or if
/// deciding it takes a query.
pub(super) fn reader_at_once<B>(
    app: &App,
    request: &http::Request<B>,
    route: &str,
    agent: &AgentId,
) -> Option<Arc<Caller>> {
    let (uri, headers) = (request.uri(), request.headers());
    origin::check_site(request.method(), uri, headers).ok()?;
    origin::check_origin(uri, headers).ok()?;
    let caller = app.parts.access.identify(bearer(headers)).now_or_never()?.ok()?;
    if caller.token.is_none() {
        origin::check_host(uri, headers, &app.settings.allowed_hosts).ok()?;
    }
    let rule = rules::of(request.method(), Some(route));
    check_scope(&caller, rule.scope).ok()?;
    let reach = caller.reach.names();
    let sees = reach.is_none_or(|reach| reach.agents.contains(agent));
    sees.then_some(caller)
}

/// Returns the holder whose share of the common pools the request uses.
pub(crate) fn holder(extensions: &Extensions) -> Holder {
    let caller = extensions.get::<Arc<Caller>>();
    let token = caller.and_then(|caller| caller.token.as_ref());
    let peer = extensions.get::<Peer>().map(Peer::to_string);
    Holder::of(token, peer.unwrap_or_default())
}

/// Refuses requests that exceed the rate limit. The requests of callers without a valid token are counted by address.
pub(super) fn check_rate(
    app: &App,
    caller: Option<&Arc<Caller>>,
    extensions: &Extensions,
) -> Result<(), Problem> {
    if !app.rate.is_limited() {
        return Ok(());
    }
    let token = caller.and_then(|caller| caller.token.clone());
    let asker = token.map_or_else(|| Asker::Peer(extensions.get().copied()), Asker::Token);
    app.rate.take(asker, Instant::now()).map_err(|wait| {
        let per_second = app.settings.requests_per_second;
        let detail = format!("you have sent more than {per_second} requests per second; nothing was changed");
        Problem::new(TOO_MANY_REQUESTS, detail)
            .hint("retry after `retry-after`, or raise http.requests_per_second")
            .retry_after(whole_seconds(wait))
    })
}

/// Returns the session of a request for a page. A token in the request takes precedence over a session.
fn session_of(uri: &Uri, headers: &HeaderMap) -> Option<SessionKey> {
    (is_page(uri) && bearer(headers).is_none())
        .then(|| session_cookie(uri, headers).map(|cookie| cookie.key()))
        .flatten()
}

/// True if a request is for the dashboard.
pub(crate) fn is_page(uri: &Uri) -> bool {
    uri.path() == "/ui" || uri.path().starts_with("/ui/")
}

/// Checks that the caller may see the agent or the project that the route is about.
async fn check_reach(app: &App, caller: &Caller, rule: RouteRule, parts: &mut Parts) -> Result<(), Problem> {
    let Some(reach) = caller.reach.names() else {
        return Ok(());
    };
    match rule.subject {
        RouteSubject::Open | RouteSubject::Caller => Ok(()),
        RouteSubject::All => Err(Problem::new(
            FORBIDDEN,
            "this token is for some agents, and this request concerns all agents",
        )
        .hint("use a token for all agents: `recapd token create` without --agent and --project")),
        RouteSubject::Agent => {
            let agent = agent_id(&path_id(parts, INVALID_AGENT_ID).await?)?;
            see(app, caller, &agent).await
        }
        RouteSubject::Project => {
            let project = project_id(&path_id(parts, INVALID_PROJECT_ID).await?)?;
            if reach.projects.contains(&project) { Ok(()) } else { Err(Problem::unknown_project(&project)) }
        }
    }
}

/// Refuses an agent that `caller` may not see, with the answer for an unknown agent.
pub(crate) async fn see(app: &App, caller: &Caller, agent: &AgentId) -> Result<(), Problem> {
    if app.parts.access.may_see(caller, agent).await? { Ok(()) } else { Err(Problem::unknown_agent(agent)) }
}

/// Refuses to create an agent that `caller` couldn't see. The answer doesn't reveal whether the agent already exists.
pub(crate) fn check_may_make(caller: &Caller, agent: &AgentId) -> Result<(), Problem> {
    if caller.reach.includes_new(agent) {
        return Ok(());
    }
    Err(Problem::new(FORBIDDEN, format!("this token doesn't allow an agent `{agent}`"))
        .hint("name an agent that the token allows, or use a token for all agents"))
}

/// Returns the `{id}` of the path, or the last segment if the path has no `{id}`. A path that can't be decoded is an
/// `unreadable` problem with the text that handlers use.
async fn path_id(parts: &mut Parts, unreadable: ProblemKind) -> Result<String, Problem> {
    let parameters = RawPathParams::from_request_parts(parts, &()).await;
    let parameters =
        parameters.map_err(|rejection| Problem::new(unreadable, format!("Invalid URL: {rejection}")))?;
    let id = parameters.iter().find(|(name, _)| *name == "id");
    let end = || Some(parts.uri.path().rsplit_once('/')?.1.to_owned());
    id.map(|(_, id)| id.to_owned()).or_else(end).ok_or_else(Problem::internal)
}

fn check_scope(caller: &Caller, required_scope: Scope) -> Result<(), Problem> {
    if required_scope <= caller.scope {
        return Ok(());
    }
    let (required_scope, scope) = (required_scope.name(), caller.scope.name());
    Err(Problem::new(
        FORBIDDEN,
        format!("this request needs a token of scope `{required_scope}`; this token has scope `{scope}`; nothing was changed"),
    )
    .hint("`recapd token create NAME --scope SCOPE` creates such a token"))
}

/// Returns the answer to every request without a valid token.
fn no_valid_token() -> Problem {
    Problem::new(
        UNAUTHORIZED,
        "this request needs a token: it has none, or its token is unknown, expired or revoked",
    )
    .hint("send header `authorization: Bearer rcp_…`; `recapd token create` makes a token")
}

/// Sets headers that keep answers private. No cache may share an answer, no page may embed it, and its links don't
/// reveal its address. Browsers may not guess its type or load anything for it. Pages override these headers with what
/// they need.
pub(super) fn keep_private(headers: &mut HeaderMap) {
    for (name, value) in [
        (CACHE_CONTROL, "private, no-store"),
        (CONTENT_SECURITY_POLICY, NOTHING_LOADED),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}
