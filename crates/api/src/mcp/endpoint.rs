//! The protocol over HTTP, at `/mcp`.
//!
//! The later era has no sessions: each request stands alone, and a subscription is a request that stays open. The earlier
//! one needs a session to hear of changes; when there are too many, further clients are served without. So are those whose
//! token, or whose address without one, has half of them, and whoever has half of the subscriptions can't add one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode},
    response::Response,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{
        SessionId,
        local::{LocalSessionManager, SessionConfig},
        never::NeverSessionManager,
    },
};
use tokio_util::sync::CancellationToken;

use crate::access::quota::{Holder, Quota, QuotaShare};

use super::{MESSAGE_BYTES_MAX, SESSION_IDLE_SECONDS, SESSIONS_MAX, Server, ServerState};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first version of the protocol that has no sessions; versions are dates.
const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";
/// Names of this machine, from this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The host names that requests may be sent to, beside those of a loopback address: others may come from a web page
    /// that points its own name at this machine by DNS.
    pub allowed_hosts: Vec<String>,
}

pub struct Endpoint {
    sessions: Arc<LocalSessionManager>,
    places: Arc<Quota>,
    /// The place of each session, by its id.
    taken: Mutex<HashMap<SessionId, QuotaShare>>,
    with_sessions: StreamableHttpService<Server, LocalSessionManager>,
    without: StreamableHttpService<Server, NeverSessionManager>,
}

impl Endpoint {
    /// An endpoint that answers from `shared`. Sessions end with `stop`; requests without one end by themselves.
    pub fn new(shared: &Arc<ServerState>, settings: &EndpointSettings, stop: &CancellationToken) -> Self {
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
            places: Quota::new(SESSIONS_MAX),
            taken: Mutex::default(),
        }
    }

    pub async fn answer(&self, holder: Holder, mut request: Request) -> Response {
        request.extensions_mut().insert(holder.clone());
        if stands_alone(request.headers()) {
            return self.without.handle(request).await.map(Body::new);
        }
        if request.headers().contains_key(SESSION) {
            return self.answer_in_session(request).await;
        }
        let Some(place) = self.place(&holder).await else {
            return self.without.handle(request).await.map(Body::new);
        };
        let response = self.answer_in_session(request).await;
        let begun = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        if let Some(id) = begun {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.insert(id.into(), place);
        }
        response
    }

    async fn answer_in_session(&self, request: Request) -> Response {
        let ends = request.method() == Method::DELETE;
        let mut response = self.with_sessions.handle(request).await.map(Body::new);
        // The session is gone, not about to end; some clients warn if told otherwise.
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// A place for one more session of `holder`, if there is one. Those of sessions that have ended are free again.
    async fn place(&self, holder: &Holder) -> Option<QuotaShare> {
        let open = self.sessions.sessions.read().await;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|id, _| open.contains_key(id));
        self.places.take(holder, 1).ok()
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
