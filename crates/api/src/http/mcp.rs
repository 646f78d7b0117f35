//! `/mcp`: the Model Context Protocol over the daemon's own parts.

mod refusal;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    response::Response,
    routing::any,
};

use super::{
    SharedApp,
    edge::access,
    request::body::{self, BufferedBody},
    response::problem::Problem,
};
use crate::{
    history::HistoryQuery,
    mcp::{AgentHints, DaemonParts, Endpoint, EndpointSettings, Local, ServerState, Way},
};

/// Adds `/mcp` to `routes`. It isn't in the `OpenAPI` document: the protocol describes itself.
pub(super) fn mount(routes: Router<SharedApp>, app: &SharedApp) -> Router<SharedApp> {
    let (parts, settings) = (&app.parts, &app.settings);
    let local = Local {
        store: Arc::clone(&parts.store),
        snapshots: Arc::clone(&parts.snapshots),
        embedder: parts.embedder.clone(),
        clock: Arc::clone(&parts.clock),
        history: HistoryQuery {
            summary_tokens_max: settings.summary_tokens_max,
            convergence: settings.configured.convergence,
            ..HistoryQuery::default()
        },
        followed: Some(parts.stop.clone()),
        scope: None,
    };
    let way = Way::DaemonParts(DaemonParts {
        local,
        access: Arc::clone(&parts.access),
    });
    let shared = ServerState::new(way, AgentHints::default(), parts.stop.clone());
    let named = EndpointSettings {
        allowed_hosts: settings.allowed_hosts.clone(),
    };
    let endpoint = Arc::new(Endpoint::new(&shared, &named, &parts.stop));
    let answer = move |State(app): State<SharedApp>, request: Request| {
        let endpoint = Arc::clone(&endpoint);
        async move {
            let (parts, body) = request.into_parts();
            let BufferedBody { bytes, share } = body::short(&app, &parts, body).await?;
            let holder = access::holder(&parts.extensions);
            let request = Request::from_parts(parts, bytes.into());
            let answer = endpoint.answer(holder, request).await;
            drop(share);
            Ok::<Response, Problem>(refusal::told(answer).await)
        }
    };
    routes.route("/mcp", any(answer))
}
