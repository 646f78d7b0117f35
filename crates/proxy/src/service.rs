//! Handles one request: forwards it, answers it or refuses it, and stores its conversation.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, UPGRADE},
};
use secrecy::ExposeSecret as _;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::{
    answer::{CapsuleKey, Compaction, CompactionAnswer, Compactor},
    copies::{Content, Copies, Owner, RequestLink, StoredCopy},
    daemon::ProxyDaemon,
    dialect::{Dialect, EndpointKind},
    headers, protocol,
    reading::{Reading, ReadingFailure, Unread},
    relay::{self, ProxyBody, ReadBody, Relay},
    response::{OWN_HEADER, answer_error, compaction_response, forwarded, proxy_response},
    session::{RequestClass, Session},
    settings::ProxySettings,
    tally::{Tally, estimated_tokens},
    target::{Target, UnknownUpstream},
    window::{RequestWriter, WindowRequest, WindowedRequest, Windows},
};
use recapd_config::ProxyMode;
use recapd_core::domain::{agent::AgentId, number::i64_or_max};
use recapd_platform::{clock::Clock, http_client::HttpClientError};
use recapd_telemetry::metrics::{
    Metrics,
    labels::{CompactionOutcome, ProxyOutcome, Unstored},
};

/// The path at which the proxy shows that it runs.
const LIVE_PATH: &str = "/recapd/livez";
/// The path of the proxy's own metrics. If the proxy runs in the daemon, the daemon's `/metrics` has them, too.
const METRICS_PATH: &str = "/recapd/metrics";
/// A provider's refusal of a rewritten request is read up to this length.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// Longer answers aren't copied. They are stored with the next request.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The path at which the proxy describes itself.
const PROTOCOL_PATH: &str = "/protocol";

/// The proxy. Clones share everything.
#[derive(Clone)]
pub struct Proxy(Arc<ProxyParts>);

struct ProxyParts {
    settings: ProxySettings,
    relay: Relay,
    copies: Copies,
    compactor: Compactor,
    windows: Windows,
    metrics: Metrics,
    tally: Tally,
}

/// A request of a conversation, once it is read.
struct ConversationRequest {
    dialect: Dialect,
    session: Session,
    /// The body for the provider.
    body: Bytes,
    /// True if `body` differs from what the client sent. Then it isn't compressed.
    is_changed: bool,
    windowed: Option<WindowedRequest>,
    link: Arc<RequestLink>,
    is_stored: bool,
    /// The copy of a request without an id. It is stored once the provider accepts the request; otherwise each attempt
    /// would begin a new conversation.
    pending_copy: Option<StoredCopy>,
}

impl ConversationRequest {
    /// Returns a request that is forwarded and not stored.
    fn unstored(dialect: Dialect, body: Bytes) -> Self {
        let session = Session { agent: None, class: RequestClass::Auxiliary, client: "" };
        Self {
            dialect,
            session,
            body,
            is_changed: false,
            windowed: None,
            link: Arc::default(),
            is_stored: false,
            pending_copy: None,
        }
    }
}

impl ConversationRequest {
    /// Returns what the proxy did with the request: for the metrics, and as text for the client.
    fn outcome(&self) -> (ProxyOutcome, Option<String>) {
        if let Some(WindowedRequest { agent, version, .. }) = &self.windowed {
            let description = format!("windowed; agent={agent}; version={version}");
            return (ProxyOutcome::Windowed, Some(description));
        }
        if !self.is_stored {
            return (ProxyOutcome::Passed, None);
        }
        let description = match &self.session.agent {
            Some(agent) => format!("observed; agent={agent}"),
            None => "observed".to_owned(),
        };
        (ProxyOutcome::Observed, Some(description))
    }
}

/// What the proxy does after a provider has refused a rewritten request.
enum RefusalOutcome {
    /// Sends the request again, with this body.
    Unbound(Bytes),
    /// Forwards the refusal to the client.
    Passed(Response<reqwest::Body>),
    /// Answers with an error, because the provider's answer broke off.
    BrokenOff,
}

/// Reads the provider's refusal of a rewritten request, and decides what the proxy does next.
async fn refusal(answer: Response<reqwest::Body>, windowed: &WindowedRequest) -> RefusalOutcome {
    let (head, body) = answer.into_parts();
    let body = match relay::read(body, REFUSAL_BYTES_MAX).await {
        Ok(ReadBody::Whole(body)) => match windowed.unbound(&body) {
            Some(again) => return RefusalOutcome::Unbound(again),
            None => body.into(),
        },
        Ok(ReadBody::TooLong(body)) => body,
        Err(_) => return RefusalOutcome::BrokenOff,
    };
    RefusalOutcome::Passed(Response::from_parts(head, body))
}

impl Proxy {
    /// Creates a proxy that sends copies to `daemon`. `tasks` tracks the tasks that store them.
    ///
    /// # Errors
    /// If the HTTP client can't be created.
    pub fn new(
        settings: ProxySettings,
        daemon: &Arc<dyn ProxyDaemon>,
        clock: &Arc<dyn Clock>,
        metrics: Metrics,
        tasks: &TaskTracker,
    ) -> Result<Self, HttpClientError> {
        let tally = Tally::start(Arc::clone(daemon), tasks);
        let copies =
            Copies::start(daemon, settings.copies_bytes_max, clock, metrics.clone(), tally.clone(), tasks);
        Ok(Self(Arc::new(ProxyParts {
            relay: Relay::new()?,
            windows: Windows::new(Arc::clone(daemon), Arc::clone(copies.lineages()), tasks.clone()),
            copies,
            compactor: Compactor::new(Arc::clone(daemon), settings.mode, CapsuleKey(settings.token.clone())),
            metrics,
            tally,
            settings,
        })))
    }

    /// Handles a request.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        let inner = &self.0;
        match (request.method(), request.uri().path()) {
            (&Method::GET, LIVE_PATH) | (&Method::HEAD, "/") => {
                return proxy_response(StatusCode::OK, "text/plain", "ok\n");
            }
            (&Method::GET, METRICS_PATH) => {
                let (content_type, text) = inner.metrics.encode(None);
                return proxy_response(StatusCode::OK, content_type, text);
            }
            (&Method::GET, PROTOCOL_PATH) => {
                let text = protocol::describe(inner.settings.mode).to_string();
                return proxy_response(StatusCode::OK, "application/json", text);
            }
            _ => {}
        }
        let target =
            Target::of(request.method(), request.uri(), request.headers(), &inner.settings.upstreams);
        let target = match target {
            Ok(target) => target,
            Err(UnknownUpstream(name)) => {
                let cure = format!("no provider `{name}` is configured; name it in proxy.upstreams");
                return inner.refuse(None, StatusCode::NOT_FOUND, &cure);
            }
        };
        let dialect = match target.endpoint {
            EndpointKind::Conversation(dialect) => Some(dialect),
            EndpointKind::Compaction => Some(Dialect::OpenAiResponses),
            EndpointKind::Count(dialect) => (inner.settings.mode == ProxyMode::Window).then_some(dialect),
            EndpointKind::Other => None,
        };
        if let Some(problem) = inner.refusal_reason(request.headers(), &target) {
            return inner.refuse(dialect, StatusCode::FORBIDDEN, problem);
        }
        // After this refusal, Codex continues without a WebSocket at once. Java's client offers HTTP/2 with each
        // request.
        let upgrade = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
        if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket")) {
            return inner.refuse(
                dialect,
                StatusCode::UPGRADE_REQUIRED,
                "this proxy has no WebSockets; use HTTP",
            );
        }
        match dialect {
            Some(dialect) => inner.converse(dialect, request, &target).await,
            None => inner.pass(request, &target).await,
        }
    }
}

impl ProxyParts {
    /// Returns why the request is forbidden; `None` if it is allowed.
    fn refusal_reason(&self, headers: &HeaderMap, target: &Target) -> Option<&'static str> {
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        if site.is_some_and(|site| site != b"none" && site != b"same-origin") {
            return Some("web pages may not use this proxy");
        }
        let expected = self.settings.token.as_ref()?.expose_secret().as_bytes();
        let token = target.token.as_deref().unwrap_or_default().as_bytes();
        let is_known = bool::from(expected.ct_eq(token));
        (!is_known).then_some(
            "this proxy needs its token: in the header x-recapd-token, or as /t/TOKEN in front of the path",
        )
    }

    /// Forwards a request unread.
    async fn pass(&self, request: Request<Incoming>, target: &Target) -> Response<ProxyBody> {
        self.metrics.proxy.request(ProxyOutcome::Passed);
        let (method, headers) = (request.method().clone(), headers::upstream(request.headers()));
        let body = relay::unread_body(request);
        let sent = self.relay.send(method, &target.url, headers, body).await;
        self.forwarded_or_unreachable(sent, None)
    }

    fn forwarded_or_unreachable(
        &self,
        sent: Result<Response<reqwest::Body>, reqwest::Error>,
        dialect: Option<Dialect>,
    ) -> Response<ProxyBody> {
        match sent {
            Ok(answer) => forwarded(answer, relay::forwarded_body),
            Err(error) => self.refuse_unreachable(dialect, &error),
        }
    }

    /// Forwards a request of a conversation and stores both sides, or answers the request.
    async fn converse(
        &self,
        dialect: Dialect,
        request: Request<Incoming>,
        target: &Target,
    ) -> Response<ProxyBody> {
        let (head, body) = request.into_parts();
        let body = match relay::read(body, self.settings.body_bytes_max).await {
            Ok(ReadBody::Whole(body)) => body,
            Ok(ReadBody::TooLong(body)) => {
                let session = Session::by_headers(dialect, &head.headers);
                self.copies.count_unstored(&session, Unstored::TooLong);
                let sent =
                    self.relay.send(head.method, &target.url, headers::upstream(&head.headers), body).await;
                return self.forwarded_or_unreachable(sent, Some(dialect));
            }
            Err(error) => {
                tracing::debug!(%error, "proxy.request_broken");
                return self.refuse(
                    Some(dialect),
                    StatusCode::BAD_REQUEST,
                    "the connection broke off in the middle of the request",
                );
            }
        };
        let unread = Unread {
            dialect,
            endpoint: target.endpoint,
            headers: head.headers.clone(),
            body,
            key: CapsuleKey(self.settings.token.clone()),
        };
        match self.decide(unread, &head.headers).await {
            Ok(turn) => self.forward(head.method, &head.headers, target, turn).await,
            Err(answer) => {
                self.metrics.proxy.request(ProxyOutcome::Answered);
                compaction_response(answer)
            }
        }
    }

    /// Reads what a request is for. Returns the answer if the proxy can answer the request itself.
    async fn decide(
        &self,
        unread: Unread,
        headers: &HeaderMap,
    ) -> Result<ConversationRequest, CompactionAnswer> {
        let (dialect, endpoint, body) = (unread.dialect, unread.endpoint, unread.body.clone());
        let reading = match unread.read(self.settings.decide).await {
            Ok(reading) => reading,
            Err(failure) => {
                self.count_failure(failure, &Session::by_headers(dialect, headers));
                return Ok(ConversationRequest::unstored(dialect, body));
            }
        };
        let Reading { plain, session, compaction, expanded } = reading;
        if let Some(compaction) = &compaction
            && let Some(answer) = self.answer_compaction(&session, compaction, &plain).await
        {
            return Err(answer);
        }
        let is_conversation = match session.class {
            RequestClass::Turn => true,
            RequestClass::SubAgent => self.settings.subagents,
            RequestClass::Compaction | RequestClass::Auxiliary => false,
        };
        let is_count = matches!(endpoint, EndpointKind::Count(_));
        let is_stored = is_conversation && compaction.is_none() && !is_count;
        let link = Arc::<RequestLink>::default();
        let mut copy = is_stored.then(|| StoredCopy {
            owner: owner(&session),
            dialect,
            content: Content::Request(plain.clone()),
            link: Arc::clone(&link),
        });
        if session.agent.is_some()
            && let Some(copy) = copy.take()
        {
            self.copies.offer(copy);
        }
        let windowed = if is_conversation || session.class == RequestClass::Compaction {
            let request = WindowRequest {
                writer: RequestWriter { dialect, client: session.client },
                agent: session.agent.clone(),
                plain,
                expanded: expanded.clone(),
                is_count,
            };
            self.rewrite(request, headers).await
        } else {
            None
        };
        let changed = windowed.as_ref().map(|windowed| windowed.body.clone()).or(expanded);
        Ok(ConversationRequest {
            dialect,
            session,
            is_changed: changed.is_some(),
            body: changed.unwrap_or(body),
            windowed,
            link,
            is_stored,
            pending_copy: copy,
        })
    }

    async fn answer_compaction(
        &self,
        session: &Session,
        compaction: &Compaction,
        plain: &[u8],
    ) -> Option<CompactionAnswer> {
        let began_at = Instant::now();
        let answer = self.compactor.answer(session, compaction, plain).await;
        let agent = session.agent.as_ref();
        let outcome = if answer.is_some() {
            let answering_ms = i64_or_max(began_at.elapsed().as_millis());
            let saved_tokens = estimated_tokens(plain);
            self.tally.count(agent, |counts| {
                counts.compactions_answered += 1;
                counts.answering_ms += answering_ms;
                counts.saved_input_tokens += saved_tokens;
            });
            CompactionOutcome::Answered
        } else {
            self.tally.count(agent, |counts| counts.compactions_forwarded += 1);
            CompactionOutcome::Forwarded
        };
        self.metrics.proxy.compaction(outcome);
        answer
    }

    /// Replaces what has left the window, if the settings and the request allow that.
    async fn rewrite(&self, request: WindowRequest, headers: &HeaderMap) -> Option<WindowedRequest> {
        let settings = &self.settings;
        let is_allowed = settings.window_subscriptions || !headers::is_subscription(headers);
        if settings.mode != ProxyMode::Window || !is_allowed || headers::is_signed(headers) {
            return None;
        }
        let agent = request.agent.clone();
        let windowed = self.windows.rewrite(request, settings.decide).await;
        windowed.unwrap_or_else(|error| {
            self.count_failed_open(agent.as_ref());
            tracing::warn!(%error, "proxy.not_rewritten");
            None
        })
    }

    fn count_failure(&self, failure: ReadingFailure, session: &Session) {
        match failure {
            ReadingFailure::Compressed => self.copies.count_unstored(session, Unstored::Unreadable),
            ReadingFailure::Panicked => {
                self.count_failed_open(session.agent.as_ref());
                tracing::error!("proxy.failed_open");
            }
        }
    }

    fn count_failed_open(&self, agent: Option<&AgentId>) {
        self.metrics.proxy.failed_open();
        self.tally.count(agent, |counts| counts.failed_open += 1);
    }

    async fn forward(
        &self,
        method: Method,
        request_headers: &HeaderMap,
        target: &Target,
        mut turn: ConversationRequest,
    ) -> Response<ProxyBody> {
        let mut headers = headers::upstream(request_headers);
        if turn.is_stored || turn.windowed.is_some() {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if turn.is_changed {
            headers.remove(CONTENT_ENCODING);
        }
        let send = |body: Bytes| self.relay.send(method.clone(), &target.url, headers.clone(), body.into());
        let mut answer = match send(turn.body.clone()).await {
            Ok(answer) => answer,
            Err(error) => return self.refuse_unreachable(Some(turn.dialect), &error),
        };
        if let Some(windowed) = &turn.windowed
            && answer.status() == StatusCode::BAD_REQUEST
        {
            let refusal = refusal(answer, windowed).await;
            answer = match refusal {
                RefusalOutcome::Unbound(body) => match send(body).await {
                    Ok(answer) => answer,
                    Err(error) => return self.refuse_unreachable(Some(turn.dialect), &error),
                },
                RefusalOutcome::Passed(answer) => answer,
                RefusalOutcome::BrokenOff => {
                    let detail = "the connection broke off in the middle of the provider's answer";
                    return self.refuse(Some(turn.dialect), StatusCode::BAD_GATEWAY, detail);
                }
            };
        }
        let (outcome, description) = turn.outcome();
        self.metrics.proxy.request(outcome);
        if let Some(windowed) = &turn.windowed {
            self.tally.count(Some(&windowed.agent), |counts| windowed.count(counts));
        }
        if let Some(copy) = turn.pending_copy.take()
            && answer.status().is_success()
        {
            self.copies.offer(copy);
        }
        let mut answer = if turn.is_stored {
            self.forward_and_copy(answer, turn)
        } else {
            forwarded(answer, relay::forwarded_body)
        };
        if let Some(Ok(value)) = description.map(|description| HeaderValue::from_str(&description)) {
            answer.headers_mut().insert(OWN_HEADER, value);
        }
        answer
    }

    /// Forwards an answer, and stores the model's message in it.
    fn forward_and_copy(
        &self,
        answer: Response<reqwest::Body>,
        turn: ConversationRequest,
    ) -> Response<ProxyBody> {
        if answer.status() != StatusCode::OK {
            return forwarded(answer, relay::forwarded_body);
        }
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let encoding = answer.headers().get(CONTENT_ENCODING).cloned();
        let (copies, bytes_max) = (self.copies.clone(), ANSWER_BYTES_MAX);
        forwarded(answer, |body| {
            relay::copied_body(body, bytes_max, move |copy| match copy {
                Some(bytes) => copies.offer(StoredCopy {
                    owner: owner(&turn.session),
                    dialect: turn.dialect,
                    content: Content::Answer { content_type, encoding, bytes: bytes.into() },
                    link: turn.link,
                }),
                None => copies.count_unstored(&turn.session, Unstored::TooLong),
            })
        })
    }

    fn refuse_unreachable(&self, dialect: Option<Dialect>, error: &reqwest::Error) -> Response<ProxyBody> {
        tracing::warn!(%error, "proxy.provider_unreachable");
        self.metrics.proxy.request(ProxyOutcome::Failed);
        let detail = format!("recapd's proxy got no answer from the provider: {error}");
        answer_error(dialect, StatusCode::BAD_GATEWAY, &detail)
    }

    fn refuse(&self, dialect: Option<Dialect>, status: StatusCode, detail: &str) -> Response<ProxyBody> {
        self.metrics.proxy.request(ProxyOutcome::Refused);
        answer_error(dialect, status, detail)
    }
}

fn owner(session: &Session) -> Owner {
    Owner { agent: session.agent.clone(), client: session.client }
}
