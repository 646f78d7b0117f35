//! The HTTP interface, version 1.
//!
//! ```text
//! request ─► frame: id, metrics, problems ─► panics caught ─► time limit ─► guard ─► route ─► ingestor, snapshots, store
//!        └─► shortcut: a summary in memory
//! ```
//!
//! The interface calls the ingestor, the snapshots and the store, but never the worker: no request waits for a model.
//! Handlers translate and decide nothing. Every error is answered with a problem (RFC 9457) that says what to do.
//!
//! Invariant: an append is stored whole or not at all, and is completed even if its client disconnects.
//!
//! On a loopback address where no token was ever made, everybody may do everything. Elsewhere a token says what its holder
//! may do ([`crate::access`]). Web pages can't append even on loopback: the headers that browsers send give them away.
//!
//! A request comes in through [`edge`] to its handler, one of [`routes`]. The handler takes what it needs from the [`request`] and makes
//! a [`response`]. [`dashboard`] and [`mcp`] are separate ways in, and [`openapi`] describes the rest.

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
pub use openapi::{document as openapi_document, reference as openapi_reference};
pub use routes::agents::{AgentFigures, NewestExchange};
pub use routes::messages::AppendReply;

/// Returns method and path of each page of the dashboard. The other routes are in [`openapi_document`].
pub fn page_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    access::pages()
}

/// Returns what each route demands: method (`*` for every one), path, scope, and whose data it is about, as the reference names it.
pub fn route_rules() -> impl Iterator<Item = (&'static str, &'static str, Scope, &'static str)> {
    access::all_rules().map(|(method, path, scope, whose)| (method, path, scope, whose.name()))
}

/// A source of facts that only the program that assembled the daemon knows.
#[async_trait]
pub trait HealthChecker: Send + Sync {
    /// Examines the daemon. Asks nothing over the network but the database.
    async fn examine(&self) -> DaemonFacts;
}

#[derive(Clone)]
pub struct HttpState {
    pub ingestor: Ingestor,
    /// Stores conversations that come whole.
    pub conversations: Conversations,
    pub snapshots: Arc<Snapshots>,
    pub projects: Arc<ProjectSnapshots>,
    /// For the second list of a search; `None` without an embedding model.
    pub embedder: Option<Arc<Embedder>>,
    /// Carries out operators' actions on the queue, and reads runs.
    pub operator: Operator,
    pub access: Arc<Access>,
    pub audit: Audit,
    pub audited: Arc<dyn AuditStore>,
    /// `None` outside of a daemon.
    pub health_checker: Option<Arc<dyn HealthChecker>>,
    pub store: Arc<dyn Store>,
    /// The last calls of models in this daemon.
    pub calls: Arc<CallLog>,
    pub metrics: Metrics,
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the daemon begins to end. It isn't ready from then on.
    pub ending: CancellationToken,
    /// Cancelled when requests are no longer answered.
    pub stop: CancellationToken,
    /// Writes that go on although their clients disconnected. The daemon waits for them before it ends.
    pub writes: TaskTracker,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    pub body_bytes_max: usize,
    /// The most bytes of all answers made of messages, until they are sent.
    pub answers_bytes_max: usize,
    /// The longest time for a request. Its body must arrive in half of it.
    pub request_timeout_ms: u64,
    /// How many connections there may be, and how slow.
    pub connections: ConnectionLimits,
    pub subscribers_max: usize,
    /// Requests a second of one token, or of one address without one; 0 for no limit.
    pub requests_per_second: u32,
    /// The most of them at once.
    pub requests_burst: u32,
    pub batch_messages_max: usize,
    /// Proxies that are believed about the address of their client.
    pub trusted_proxies: TrustedProxies,
    /// Names under which `/mcp`, and the daemon without a token, may be reached, in addition to those of a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The ceiling of a summary, shown with its size.
    pub summary_tokens_max: i64,
    /// What all agents together may spend in a day, shown with what they spent.
    pub spend: SpendLimits,
    /// What an agent may spend in a day unless its settings say otherwise.
    pub spend_agent: SpendLimits,
    /// What is in force unless an agent or a request says otherwise.
    pub configured: WindowDefaults,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowDefaults {
    pub context: ContextOptions,
    /// Every setting that an agent can override.
    pub settings: AgentSettings,
    /// What agents' presets are expanded with.
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
    /// Assembles the state from `parts`; operators' actions go to `database`. It ends with `stop`. Its audit only logs,
    /// unless that is replaced.
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
    /// Room for the answers made of messages, until they are sent.
    answers_room: Room,
    /// Places for clients that receive events.
    subscribers: Arc<Quota>,
    /// Places for clients that wait for a change.
    waits: Arc<Quota>,
    rate: rate::Rate,
    /// The answers given to idempotency keys.
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
    /// Completes a write, even if its client disconnects or runs out of time.
    async fn see_through<T: Send + 'static>(
        &self,
        write: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> Result<T, Problem> {
        Ok(self.seen_through(write).await??)
    }

    /// Like [`Self::see_through`], but returns the store's error as such.
    async fn seen_through<T: Send + 'static>(
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

/// Makes the interface over `state`. The daemon's uptime counts from here.
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
        openapi: openapi::bytes(&openapi::completed(&api)),
        form_secret: dashboard::session::made_secret(),
        sign_ins: dashboard::session::sign_in_rate(),
        overview: shared_look::SharedLook::default(),
    });
    observe::announce(&app.parts.metrics);
    let answering = dashboard::mount(mcp::mount(routes, &app))
        .fallback(frame::unknown_route)
        // One layer, with the outermost first. Separate layers would each be a box that is cloned for every request.
        .layer((
            from_fn_with_state(Arc::clone(&app), frame::around),
            CatchPanicLayer::custom(frame::panicked),
            too_late,
            from_fn_with_state(Arc::clone(&app), access::guard),
            from_fn_with_state(Arc::clone(&app), memory::guard),
        ))
        .with_state(Arc::clone(&app));
    Interface::new(app, answering)
}

/// Serves requests on `listener`, on at most as many connections as `limits` allow, until `stop`. Then it answers the
/// requests under way, and returns when the last connection is closed. Errors of a connection affect only its client.
pub async fn serve(
    listener: impl Into<Listener>,
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    connection::serve(listener.into(), interface, limits, stop).await;
}
