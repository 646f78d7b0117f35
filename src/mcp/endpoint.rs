//! The protocol over HTTP, at `/mcp`.
//!
//! The later era has no sessions: each request stands alone, and a subscription is a request that stays open. The earlier
//! one needs a session to hear of changes; when there are too many, further clients are served without.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, http::HeaderName, response::Response};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{
        local::{LocalSessionManager, SessionConfig},
        never::NeverSessionManager,
    },
};
use tokio_util::sync::CancellationToken;

use super::{MESSAGE_BYTES_MAX, SESSION_IDLE_SECONDS, SESSIONS_MAX, Server, Shared};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Names of this machine, from this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How the endpoint behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Names under which it may be asked, beside those of a loopback address: what a web page made a browser believe to be
    /// here by DNS is refused.
    pub allowed_hosts: Vec<String>,
}

/// The endpoint.
pub struct Endpoint {
    sessions: Arc<LocalSessionManager>,
    with_sessions: StreamableHttpService<Server, LocalSessionManager>,
    without: StreamableHttpService<Server, NeverSessionManager>,
}

impl Endpoint {
    /// Answers from `shared` until `stop`.
    pub fn new(shared: &Arc<Shared>, settings: &EndpointSettings, stop: &CancellationToken) -> Self {
        let mut session = SessionConfig::default();
        session.keep_alive = Some(Duration::from_secs(SESSION_IDLE_SECONDS));
        let mut manager = LocalSessionManager::default();
        manager.session_config = session;
        let sessions = Arc::new(manager);
        let named = LOOPBACK.into_iter().map(str::to_owned);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(named.chain(settings.allowed_hosts.iter().cloned()))
            // Browsers name the page that asks, other clients name nothing: no page is welcome.
            .enforce_origin_validation()
            .with_json_response(true)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
            .with_cancellation_token(stop.child_token());
        let serve = |shared: &Arc<Shared>| {
            let shared = Arc::clone(shared);
            move || Ok(Server::new(&shared))
        };
        Self {
            with_sessions: StreamableHttpService::new(serve(shared), Arc::clone(&sessions), config.clone()),
            without: StreamableHttpService::new(
                serve(shared),
                Arc::new(NeverSessionManager::default()),
                config.with_legacy_session_mode(false),
            ),
            sessions,
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        let is_full = !request.headers().contains_key(SESSION)
            && self.sessions.sessions.read().await.len() >= SESSIONS_MAX;
        if is_full {
            self.without.handle(request).await.map(Body::new)
        } else {
            self.with_sessions.handle(request).await.map(Body::new)
        }
    }
}
