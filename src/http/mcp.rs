//! `/mcp`: the Model Context Protocol over the daemon's own parts.

use axum::Router;

use super::SharedApp;

/// The route, if this daemon has it.
#[cfg(not(feature = "mcp"))]
pub(super) fn mount(_app: &SharedApp) -> Router<SharedApp> {
    Router::new()
}

/// The route, if this daemon has it.
#[cfg(feature = "mcp")]
pub(super) fn mount(app: &SharedApp) -> Router<SharedApp> {
    use std::sync::Arc;

    use axum::{extract::Request, routing::any};

    use crate::{
        history::HistoryQuery,
        mcp::{Endpoint, EndpointSettings, Local, Shared, Way},
    };

    let (parts, settings) = (&app.parts, &app.settings);
    let source = Local {
        store: Arc::clone(&parts.store),
        snapshots: Arc::clone(&parts.snapshots),
        clock: Arc::clone(&parts.clock),
        history: HistoryQuery {
            summary_tokens_max: settings.summary_tokens_max,
            convergence: settings.configured.convergence,
            ..HistoryQuery::default()
        },
        followed: Some(parts.stop.clone()),
    };
    let shared = Shared::new(Way::Fixed(Arc::new(source)), parts.stop.clone());
    let named = EndpointSettings {
        allowed_hosts: settings.allowed_hosts.clone(),
    };
    let endpoint = Arc::new(Endpoint::new(&shared, &named, &parts.stop));
    let answer = move |request: Request| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.answer(request).await }
    };
    Router::new().route("/mcp", any(answer))
}
