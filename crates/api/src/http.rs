//! The HTTP interface, version 1.
//!
//! ```text
//! request ─► frame: id, metrics, problems ─► panics caught ─► timeout ─► guard ─► route ─► ingestor, snapshots, store
//!        └─► fast path: a summary in memory
//! ```
//!
//! The interface calls the ingestor, the snapshots and the store, but never the worker: no request waits for a model.
//! Handlers only translate; they decide nothing. Every error is answered with a problem (RFC 9457) that contains
//! a hint.
//!
//! Invariant: an append is stored whole or not at all. It is completed even if its client disconnects.
//!
//! On a loopback address where no token was ever made, everybody may do everything. Otherwise a token decides what its
//! holder may do ([`crate::access`] and `edge::access`). Web pages can't append even on loopback: browsers send headers
//! that show where a request comes from.
//!
//! A request passes through [`edge`] to its handler, one of [`routes`]. The handler reads the [`request`] and makes
//! a [`response`]. [`dashboard`] and [`mcp`] add further routes. [`openapi`] describes all routes but these.

mod dashboard;
mod edge;
mod interface;
mod mcp;
mod openapi;
mod request;
mod response;
mod room;
mod routes;

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use async_trait::async_trait;
use axum::{body::Bytes, http::StatusCode, middleware::from_fn_with_state};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};

use crate::access::{Access, audit::Audit, quota::Quota};
use dashboard::shared_look;
use edge::{access, connection, frame, memory, observe, rate};
use recapd_config::Config;
use recapd_core::domain::{
    access::Scope, context::ContextOptions, convergence::Rules, perspective::PerspectiveStyle, preset::Basis,
    settings::AgentSettings, spend::SpendLimits, time::Timestamp,
};
use recapd_engine::{
    assembly,
    call_log::CallLog,
    conversations::Conversations,
    embedder::Embedder,
    ingest::{Ingestor, Operator},
    snapshot::{Snapshots, project::ProjectSnapshots},
};
use recapd_platform::clock::Clock;
use recapd_store::{Store, StoreResult, archive::Archive, audit::AuditStore, operate::OperatorStore};
use recapd_telemetry::metrics::Metrics;
use request::{body, idempotency};
use response::problem::Problem;
use room::Room;

pub use crate::dashboard::{DaemonFacts, Setting};
pub use edge::connection::{ConnectionLimits, Listener, Socket, TrustedProxies};
pub use interface::Interface;
pub use openapi::reference as openapi_reference;
pub use routes::agents::{AgentFigures, NewestExchange};
pub use routes::document as openapi_document;
pub use routes::messages::AppendReply;

/// Returns the method and path of each dashboard page. The other routes are in [`openapi_document`].
pub fn page_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    access::pages()
}

/// Returns the rule of each route: method (`*` for every method), path, scope, and whose data the route is about, as
/// the API reference names it.
pub fn route_rules() -> impl Iterator<Item = (&'static str, &'static str, Scope, &'static str)> {
    access::all_rules().map(|(method, path, scope, subject)| (method, path, scope, subject.name()))
}

/// Examines the daemon. Only the program that assembled the daemon knows these facts.
#[async_trait]
pub trait HealthChecker: Send + Sync {
    /// Examines the daemon. Queries nothing over the network but the database.
    async fn examine(&self) -> DaemonFacts;
}

#[derive(Clone)]
pub struct HttpState {
    /// Stores appended messages.
    pub ingestor: Ingestor,
    /// Stores conversations that arrive whole.
    pub conversations: Conversations,
    pub snapshots: Arc<Snapshots>,
    pub projects: Arc<ProjectSnapshots>,
    /// Embeds the question of a search, which then searches by meaning, too. `None` without an embedding model.
    pub embedder: Option<Arc<Embedder>>,
    /// Carries out operators' actions on the queue, and reads runs.
    pub operator: Operator,
    pub access: Arc<Access>,
    pub audit: Audit,
    /// Reads the stored events of the audit.
    pub audited: Arc<dyn AuditStore>,
    /// `None` outside of a daemon.
    pub health_checker: Option<Arc<dyn HealthChecker>>,
    pub store: Arc<dyn Store>,
    /// The last model calls of this daemon.
    pub calls: Arc<CallLog>,
    pub metrics: Metrics,
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the daemon begins to shut down. From then on it isn't ready.
    pub ending: CancellationToken,
    /// Cancelled when the daemon stops answering requests.
    pub stop: CancellationToken,
    /// Writes that continue although their clients disconnected. The daemon waits for them before it exits.
    pub writes: TaskTracker,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    pub body_bytes_max: usize,
    /// Limits the bytes of all answers made of messages that aren't sent yet.
    pub answers_bytes_max: usize,
    /// Limits the time for a request. The body must arrive in half of this time.
    pub request_timeout_ms: u64,
    /// How many connections there may be, and how slow they may be.
    pub connections: ConnectionLimits,
    pub subscribers_max: usize,
    /// Requests per second of one token, or of one address without a token; 0 for no limit.
    pub requests_per_second: u32,
    /// How many requests one token or address may send at once.
    pub requests_burst: u32,
    pub batch_messages_max: usize,
    /// Proxies whose `forwarded` headers are trusted for the client's address.
    pub trusted_proxies: TrustedProxies,
    /// Host names under which clients may reach `/mcp`, and the daemon if it needs no token. Loopback names are always
    /// allowed.
    pub allowed_hosts: Vec<String>,
    /// The ceiling of a summary, shown beside its size.
    pub summary_tokens_max: i64,
    /// What all agents together may spend in a day, shown beside what they spent.
    pub spend: SpendLimits,
    /// What an agent may spend in a day unless its settings say otherwise.
    pub spend_agent: SpendLimits,
    /// What applies unless an agent or a request overrides it.
    pub configured: WindowDefaults,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowDefaults {
    pub context: ContextOptions,
    /// Every setting that an agent can override.
    pub settings: AgentSettings,
    /// Agents' presets are expanded with this.
    pub basis: Basis,
    /// How shared conversations are shown to speakers, unless an agent's settings say otherwise.
    pub telling: PerspectiveStyle,
    pub convergence: Rules,
}

impl From<&Config> for HttpSettings {
    fn from(config: &Config) -> Self {
        Self {
            body_bytes_max: config.http.body_bytes_max,
            answers_bytes_max: config.http.answers_bytes_max,
            request_timeout_ms: config.http.request_timeout_ms,
            connections: (&config.http).into(),
            requests_per_second: config.http.requests_per_second,
            requests_burst: config.http.requests_burst,
            subscribers_max: config.http.subscribers_max,
            batch_messages_max: config.http.batch_messages_max,
            trusted_proxies: TrustedProxies::new(config.http.proxies()),
            allowed_hosts: config.http.hosts(),
            summary_tokens_max: config.summary.max_tokens,
            spend: config.spend.limits().all,
            spend_agent: config.spend.limits().agent,
            configured: WindowDefaults {
                context: config.context.options(),
                settings: config.agent_settings(),
                basis: config.basis(),
                telling: config.perspective.telling(),
                convergence: config.convergence.rules(),
            },
        }
    }
}

impl HttpSettings {
    fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

impl HttpState {
    /// Assembles the state from `parts`. Operators' actions go to `database`. The state ends with `stop`. Its audit
    /// only logs; callers can replace the audit.
    pub fn over<D: OperatorStore + AuditStore + Archive + 'static>(
        parts: &assembly::Parts,
        database: Arc<D>,
        access: Arc<Access>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            ingestor: parts.ingestor.clone(),
            projects: Arc::clone(&parts.projects),
            snapshots: Arc::clone(&parts.snapshots),
            embedder: parts.embedder.clone(),
            operator: parts.operator(Arc::clone(&database) as _),
            audit: Audit::of_log(parts.metrics.clone()),
            conversations: Conversations::new(
                parts.ingestor.clone(),
                Arc::clone(&database) as _,
                Arc::clone(&parts.clock),
            ),
            audited: database,
            access,
            health_checker: None,
            store: Arc::clone(&parts.store),
            calls: parts.calls(),
            metrics: parts.metrics.clone(),
            clock: Arc::clone(&parts.clock),
            ending: stop.clone(),
            stop,
            writes: TaskTracker::new(),
        }
    }
}

struct App {
    parts: HttpState,
    settings: HttpSettings,
    started_at: Timestamp,
    requests: AtomicU64,
    bodies: Arc<Quota>,
    /// Limits the memory of answers made of messages, until they are sent.
    answers_room: Room,
    /// Slots for clients that receive events.
    subscribers: Arc<Quota>,
    /// Slots for clients that wait for a change.
    waits: Arc<Quota>,
    rate: rate::Rate,
    /// The answers to requests with idempotency keys, for their repetitions.
    answers: idempotency::Answers,
    openapi: Bytes,
    /// The secret that signs the forms of pages.
    form_secret: String,
    /// The rate limit of attempts to sign in.
    sign_ins: rate::Rate,
    overview: shared_look::SharedLook<crate::dashboard::Overview>,
}

type SharedApp = Arc<App>;

impl App {
    /// Completes a write, even if the client disconnects or the request times out.
    async fn see_through<T: Send + 'static>(
        &self,
        write: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> Result<T, Problem> {
        Ok(self.see_through_result(write).await??)
    }

    /// Like [`Self::see_through`], but returns the store's error instead of a problem.
    async fn see_through_result<T: Send + 'static>(
        &self,
        write: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> Result<StoreResult<T>, Problem> {
        match self.parts.writes.spawn(write).await {
            Ok(written) => Ok(written),
            Err(error) => {
                tracing::error!(%error, "http.write_panicked");
                Err(Problem::internal())
            }
        }
    }
}

/// Builds the interface over `state`. The daemon's uptime counts from here.
pub fn interface(state: HttpState, settings: HttpSettings) -> Interface {
    let too_late =
        TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, settings.request_timeout());
    let (routes, api) = routes::routes().split_for_parts();
    let app = Arc::new(App {
        rate: rate::Rate::new(settings.requests_per_second, settings.requests_burst),
        answers: idempotency::Answers::default(),
        bodies: body::room(settings.body_bytes_max),
        answers_room: Room::of(settings.answers_bytes_max),
        subscribers: Quota::new(settings.subscribers_max),
        // Each wait holds a connection.
        waits: Quota::new(settings.connections.connections_max),
        started_at: state.clock.now(),
        parts: state,
        settings,
        requests: AtomicU64::new(0),
        openapi: openapi::bytes(&openapi::complete_document(&api)),
        form_secret: dashboard::session::new_secret(),
        sign_ins: dashboard::session::sign_in_rate(),
        overview: shared_look::SharedLook::default(),
    });
    observe::announce(&app.parts.metrics);
    let answering = dashboard::mount(mcp::mount(routes, &app))
        .fallback(frame::unknown_route)
        // One layer for all, the outermost first. Each separate layer would be a box that is cloned for every request.
        .layer((
            from_fn_with_state(Arc::clone(&app), frame::with_frame),
            CatchPanicLayer::custom(frame::panic_response),
            too_late,
            from_fn_with_state(Arc::clone(&app), access::guard),
            from_fn_with_state(Arc::clone(&app), memory::guard),
        ))
        .with_state(Arc::clone(&app));
    Interface::new(app, answering)
}

/// Serves requests on `listener` until `stop`, with at most as many connections as `limits` allow. Then answers the
/// requests in progress, and returns when the last connection is closed. A connection's error affects only its client.
pub async fn serve(
    listener: impl Into<Listener>,
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    connection::serve(listener.into(), interface, limits, stop).await;
}
