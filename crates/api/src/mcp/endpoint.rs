//! Serves the protocol over HTTP, at `/mcp`.
//!
//! The protocol has two eras. The later one has no sessions: each request is independent, and a subscription is a request
//! that stays open. The earlier one needs a session for change notices. If there are too many sessions, further clients are
//! served without one; so are further clients of a token, or of an address without a token, that already has half of all
//! sessions. A client with half of all subscriptions can't add more.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode},
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
/// The first version of the protocol without sessions; versions are dates.
const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";
/// An id that no session has.
const NO_SESSION: &str = "none";
/// The names by which this machine reaches itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Host names that are accepted in addition to loopback names. A request to another name may come from a web page
    /// whose owner points that name at this machine by DNS.
    pub allowed_hosts: Vec<String>,
}

pub struct Endpoint {
    sessions: Arc<LocalSessionManager>,
    slots: Arc<Quota>,
    /// The slot of each session.
    session_slots: Mutex<HashMap<SessionId, QuotaShare>>,
    with_sessions: StreamableHttpService<Server, LocalSessionManager>,
    without_sessions: StreamableHttpService<Server, NeverSessionManager>,
}

impl Endpoint {
    /// Creates an endpoint that answers from `shared`. Sessions end with `stop`; requests without a session end by
    /// themselves.
    pub fn new(state: &Arc<ServerState>, settings: &EndpointSettings, stop: &CancellationToken) -> Self {
        let sessions = Arc::new(session_manager());
        let loopback_hosts = LOOPBACK.into_iter().map(str::to_owned);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(loopback_hosts.chain(settings.allowed_hosts.iter().cloned()))
            // Browsers name the page that sends a request; other clients don't. Requests of pages are refused.
            .enforce_origin_validation()
            .with_json_response(true)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX);
        let (session_state, single_state) = (Arc::clone(state), Arc::clone(state));
        Self {
            with_sessions: StreamableHttpService::new(
                move || Ok(Server::new(&session_state)),
                Arc::clone(&sessions),
                config.clone().with_cancellation_token(stop.child_token()),
            ),
            without_sessions: StreamableHttpService::new(
                move || Ok(Server::without_session(&single_state)),
                Arc::new(NeverSessionManager::default()),
                config.with_legacy_session_mode(false),
            ),
            sessions,
            slots: Quota::new(SESSIONS_MAX),
            session_slots: Mutex::default(),
        }
    }

    pub async fn answer(&self, holder: Holder, mut request: Request) -> Response {
        request.extensions_mut().insert(holder.clone());
        if stands_alone(request.headers()) {
            return self.without_sessions.handle(request).await.map(Body::new);
        }
        if let Some(session) = request.headers().get(SESSION) {
            let session = session.to_str().unwrap_or_default().to_owned();
            if self.is_of_another(&session, &holder) {
                // The answer is then the same as for an unknown session.
                let headers = request.headers_mut();
                headers.insert(SESSION, HeaderValue::from_static(NO_SESSION));
            }
            return self.answer_in_session(request).await;
        }
        let Some(slot) = self.take_slot(&holder).await else {
            return self.without_sessions.handle(request).await.map(Body::new);
        };
        let response = self.answer_in_session(request).await;
        let begun = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        if let Some(id) = begun {
            let mut session_slots = self.session_slots.lock().unwrap_or_else(PoisonError::into_inner);
            session_slots.insert(id.into(), slot);
        }
        response
    }

    /// True if another token began the session. That token may see more.
    fn is_of_another(&self, session: &str, holder: &Holder) -> bool {
        let session_slots = self.session_slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = session_slots.get(session);
        slot.is_some_and(|slot| !slot.is_also_of(holder))
    }

    async fn answer_in_session(&self, request: Request) -> Response {
        let ends = request.method() == Method::DELETE;
        let mut response = self.with_sessions.handle(request).await.map(Body::new);
        // The session is already gone. Some clients warn about any other status.
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// Takes a slot for one more session of `holder`; `None` if there is none. First frees the slots of sessions that
    /// have ended.
    async fn take_slot(&self, holder: &Holder) -> Option<QuotaShare> {
        let open = self.sessions.sessions.read().await;
        let mut session_slots = self.session_slots.lock().unwrap_or_else(PoisonError::into_inner);
        session_slots.retain(|id, _| open.contains_key(id));
        self.slots.take(holder, 1).ok()
    }
}

/// Checks by the protocol's version whether a request has no session.
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
