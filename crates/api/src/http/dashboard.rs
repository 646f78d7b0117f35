//! The dashboard over HTTP: reads what its pages show. [`crate::dashboard`] turns that into HTML.
//!
//! Pages aren't in the `OpenAPI` document; `access::rules` defines which token each page needs. A page reads a limited
//! number of rows from the database, however long an agent's history is.

mod actions;
mod agents;
mod overview;
pub(super) mod session;
pub(super) mod shared_look;
mod system;
mod updates;

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Body,
    extract::FromRequestParts,
    http::{
        HeaderName, HeaderValue, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
            RETRY_AFTER,
        },
        request::Parts,
    },
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};

use super::{App, SharedApp, edge::access::CallerExtension, response::problem::Problem, routes::events};
use crate::{
    access::Caller,
    dashboard::{Fault, Frame, ICON, POLICY, SCRIPT, STYLE, Viewer, fault_page, sign_in_page},
};
use recapd_store::StoreResult;

/// Lets browsers keep assets forever: an asset with other content has another name.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
/// Keeps a page of another site that opens this page in a window from controlling it.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Adds the pages to `routes`.
pub(super) fn mount(routes: Router<SharedApp>) -> Router<SharedApp> {
    let to_overview = || async { Redirect::to("/ui/") };
    routes
        .route("/", get(to_overview))
        .route("/ui", get(to_overview))
        .route("/ui/", get(overview::show))
        .route("/ui/style.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/ui/live.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/ui/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
        .route("/ui/events", get(events::of_all))
        .route("/ui/agents/{id}/events", get(events::of_agent))
        .route("/ui/login", get(session::ask).post(session::sign_in))
        .route("/ui/logout", post(session::sign_out))
        .route("/ui/agents", get(agents::list))
        .route("/ui/agents/find", get(agents::find))
        .route("/ui/agents/{id}", get(agents::now))
        .route("/ui/agents/{id}/context", get(agents::request))
        .route("/ui/agents/{id}/exchanges", get(agents::archive))
        .route("/ui/agents/{id}/exchanges/{n}", get(agents::exchange))
        .route("/ui/agents/{id}/exchanges/{n}/raw", get(agents::raw))
        .route("/ui/agents/{id}/versions", get(agents::versions))
        .route("/ui/agents/{id}/versions/{version}", get(agents::version))
        .route("/ui/agents/{id}/diff", get(agents::diff))
        .route("/ui/agents/{id}/proxy", get(agents::proxy))
        .route("/ui/agents/{id}/search", get(agents::search))
        .route("/ui/agents/{id}/refresh", post(actions::refresh))
        .route("/ui/agents/{id}/rollback", post(actions::restore))
        .route("/ui/agents/{id}/pause", post(actions::pause_agent))
        .route("/ui/agents/{id}/resume", post(actions::resume_agent))
        .route("/ui/queue", get(updates::queue))
        .route("/ui/queue/pause", post(actions::pause_all))
        .route("/ui/queue/resume", post(actions::resume_all))
        .route("/ui/queue/retry", post(actions::retry_matching))
        .route("/ui/queue/{id}/retry", post(actions::retry))
        .route("/ui/queue/{id}/cancel", post(actions::cancel))
        .route("/ui/runs", get(updates::runs))
        .route("/ui/runs/{n}", get(updates::run))
        .route("/ui/system", get(system::show))
}

fn asset(kind: &'static str, content: &'static str) -> Response {
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind)), (CACHE_CONTROL, FOREVER)];
    (headers, content).into_response()
}

/// The header with the hashes of the live parts that the page's script already has, separated by blanks.
const KNOWN_PARTS: HeaderName = HeaderName::from_static("recapd-known");

struct FramedPage(Frame);

impl FromRequestParts<SharedApp> for FramedPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let asking = CallerExtension::from_request_parts(parts, app).await;
        let Extension(caller) = asking.map_err(|_| Problem::internal())?;
        let address = parts.uri.path_and_query().map_or("/ui/", |path| path.as_str());
        let known_parts = parts.headers.get(KNOWN_PARTS).and_then(|known_parts| known_parts.to_str().ok());
        Ok(Self(Frame {
            viewer: Viewer {
                form_key: session::form_key(app, &parts.uri, &parts.headers),
                ..viewer(&caller)
            },
            address: address.to_owned(),
            events: Some(events_of(parts.uri.path())),
            known_parts: known_parts.unwrap_or_default().to_owned(),
            has_proxy: has_proxy(app, parts.uri.path()).await?,
            now: app.parts.clock.now(),
        }))
    }
}

/// Returns the caller as pages show it, without the key of its forms.
fn viewer(caller: &Caller) -> Viewer {
    Viewer {
        name: caller.token.as_ref().map(|name| name.as_str().to_owned()),
        scope: caller.scope,
        sees_all: caller.reach.names().is_none(),
        form_key: String::new(),
    }
}

/// Returns true if requests of the page's agent went through the proxy.
async fn has_proxy(app: &App, path: &str) -> StoreResult<bool> {
    let agent = agent_of(path).and_then(|agent| agent.parse().ok());
    match agent {
        Some(agent) => Ok(app.parts.operator.proxy_totals(&agent).await?.first_at.is_some()),
        None => Ok(false),
    }
}

/// Returns the agent that a page is about, as the path names it.
fn agent_of(path: &str) -> Option<&str> {
    path.strip_prefix("/ui/agents/")?.split('/').next()
}

/// Returns the URL of the events for a page: those of its agent, or those of all agents that the caller may see.
fn events_of(path: &str) -> String {
    agent_of(path).map_or_else(|| "/ui/events".to_owned(), |agent| format!("/ui/agents/{agent}/events"))
}

/// Rewrites `response` for a browser: turns problems into pages, and shows the sign-in page if a token is missing.
pub(super) fn write_out(mut response: Response, uri: &Uri, request_id: &str) -> Response {
    if let Some(problem) = Problem::take_from(&mut response) {
        let page = if response.status() == StatusCode::UNAUTHORIZED {
            sign_in_page(uri.path_and_query().map_or("/ui/", |path| path.as_str()), false)
        } else {
            let (title, detail, hint) = problem.texts();
            let caller = response.extensions().get::<Arc<Caller>>();
            let viewer = caller.map(|caller| viewer(caller));
            fault_page(&Fault { title, detail, hint, request_id, viewer: viewer.as_ref() })
        };
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        if let Some(seconds) = problem.retry_after_seconds() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        *response.body_mut() = Body::from(page);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(PERMISSIONS_POLICY, HeaderValue::from_static("camera=(), microphone=(), geolocation=()"));
    response
}

fn html_response(page: String) -> Response {
    Html(page).into_response()
}
