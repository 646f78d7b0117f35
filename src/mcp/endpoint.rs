//! The protocol over HTTP, at `/mcp`.
//!
//! The later era has no sessions: each request stands alone, and a subscription is a request that stays open. The earlier
//! one needs a session to hear of changes; when there are too many, further clients are served without.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode},
    response::Response,
};
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
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first version of the protocol that has no sessions; versions are dates.
const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";
/// Names of this machine, from this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The settings of the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The host names that requests may be sent to, beside those of a loopback address: others may come from a web page
    /// that points its own name at this machine by DNS.
    pub allowed_hosts: Vec<String>,
}

/// The endpoint.
pub struct Endpoint {
    sessions: Arc<LocalSessionManager>,
    with_sessions: StreamableHttpService<Server, LocalSessionManager>,
    without: StreamableHttpService<Server, NeverSessionManager>,
}

impl Endpoint {
    /// An endpoint that answers from `shared`. Sessions end with `stop`; requests without one end by themselves.
    pub fn new(shared: &Arc<Shared>, settings: &EndpointSettings, stop: &CancellationToken) -> Self {
        let sessions = Arc::new(session_manager());
        let named = LOOPBACK.into_iter().map(str::to_owned);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(named.chain(settings.allowed_hosts.iter().cloned()))
            // Browsers name the page that sends a request, other clients don't: no page may.
            .enforce_origin_validation()
            .with_json_response(true)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX);
        let (of_session, alone) = (Arc::clone(shared), Arc::clone(shared));
        Self {
            with_sessions: StreamableHttpService::new(
                move || Ok(Server::new(&of_session)),
                Arc::clone(&sessions),
                config.clone().with_cancellation_token(stop.child_token()),
            ),
            without: StreamableHttpService::new(
                move || Ok(Server::without_session(&alone)),
                Arc::new(NeverSessionManager::default()),
                config.with_legacy_session_mode(false),
            ),
            sessions,
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        if stands_alone(request.headers()) || !self.has_session_for(request.headers()).await {
            return self.without.handle(request).await.map(Body::new);
        }
        let ends = request.method() == Method::DELETE;
        let mut response = self.with_sessions.handle(request).await.map(Body::new);
        // The session is gone, not about to end; some clients warn if told otherwise.
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// Whether a request belongs to a session, or could get one.
    async fn has_session_for(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(SESSION) || self.sessions.sessions.read().await.len() < SESSIONS_MAX
    }
}

/// Whether a request is without a session, by its version of the protocol.
fn stands_alone(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= FIRST_WITHOUT_SESSIONS)
}

fn session_manager() -> LocalSessionManager {
    let mut config = SessionConfig::default();
    config.keep_alive = Some(Duration::from_secs(SESSION_IDLE_SECONDS));
    let mut manager = LocalSessionManager::default();
    manager.session_config = config;
    manager
}
