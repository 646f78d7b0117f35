//! The HTTP interface, version 1.
//!
//! ```text
//! request ─► frame: id, metrics, problems ─► panics caught ─► time limit ─► guard ─► route ─► ingestor, snapshots, store
//!        └─► shortcut: a summary in memory
//! ```
//!
//! It asks the ingestor, the snapshots and the store, and never the worker: no request waits for a model. Handlers
//! translate and decide nothing. Whatever goes wrong is answered with a problem (RFC 9457) that says what to do.
//!
//! Invariant: an append is stored whole or not at all, and goes on to its end when its client goes away.
//!
//! On a loopback address where no token was ever made, everybody may do everything; else a token says what
//! ([`crate::access`]). Web pages can't append even there: they are refused by what browsers say of them.
//!
//! A request comes in through [`edge`] to its handler, one of [`routes`]: that takes what it needs out of the
//! [`request`] and makes a [`response`]. [`dashboard`] and [`mcp`] are ways in of their own, and [`openapi`] describes
//! the rest.

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
    ingest::{Ingestor, Operator},
    snapshot::{Snapshots, project::ProjectSnapshots},
};
use recapd_platform::clock::Clock;
use recapd_store::{Store, StoreResult, audit::AuditStore, operate::OperatorStore};
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

/// Method and path of each page of the dashboard, as they are registered; the other routes are in [`openapi_document`].
pub fn page_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    access::pages()
}

/// What each route demands: method (`*` for every one), path, scope, and whose it is about, as the reference names it.
pub fn route_rules() -> impl Iterator<Item = (&'static str, &'static str, Scope, &'static str)> {
    access::all_rules().map(|(method, path, scope, whose)| (method, path, scope, whose.name()))
}

/// Whoever put the daemon together, and can tell about it what no part of it knows.
#[async_trait]
pub trait HealthChecker: Send + Sync {
    /// Looks at the daemon, without asking anybody over the network but its database.
    async fn examine(&self) -> DaemonFacts;
}

/// What the interface is made of.
#[derive(Clone)]
pub struct HttpState {
    /// Takes messages in.
    pub ingestor: Ingestor,
    /// Answers readers of summaries.
    pub snapshots: Arc<Snapshots>,
    /// Answers readers of projects' summaries.
    pub projects: Arc<ProjectSnapshots>,
    /// Works on the queue by hand, and tells what came of updates.
    pub operator: Operator,
    /// Knows who asks, and what they may do.
    pub access: Arc<Access>,
    /// Takes what is to be audited.
    pub audit: Audit,
    /// Tells what was audited.
    pub audited: Arc<dyn AuditStore>,
    /// Looks at the daemon from inside, if it is one.
    pub health_checker: Option<Arc<dyn HealthChecker>>,
    /// Answers everybody else.
    pub store: Arc<dyn Store>,
    /// Counts requests, and shows what others count.
    pub metrics: Metrics,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the daemon begins to end: from then on it isn't ready.
    pub ending: CancellationToken,
    /// Cancelled when nobody is to be answered any more.
    pub stop: CancellationToken,
    /// Writes that go on although their clients went away; to be waited for before the daemon ends.
    pub writes: TaskTracker,
}

/// How the interface behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    /// The longest body of a request.
    pub body_bytes_max: usize,
    /// The most bytes that answers made of what was said need together, until they are sent.
    pub answers_bytes_max: usize,
    /// How long a request may take; a body must have arrived in half of it.
    pub request_timeout_ms: u64,
    /// How many connections there may be, and how slow.
    pub connections: ConnectionLimits,
    /// The most clients that are told of events at once.
    pub subscribers_max: usize,
    /// Requests a second of one token, or of one address without one; 0: no limit.
    pub requests_per_second: u32,
    /// So many of them at once.
    pub requests_burst: u32,
    /// The most messages in one request.
    pub batch_messages_max: usize,
    /// Proxies that are believed about whom they ask for.
    pub trusted_proxies: TrustedProxies,
    /// Names under which the daemon may be asked without a token, and `/mcp`, beside those of a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The ceiling of a summary, to be shown beside its size.
    pub summary_tokens_max: i64,
    /// What all agents together may spend in a day, to be shown beside what they did.
    pub spend: SpendLimits,
    /// What each agent may that doesn't say otherwise.
    pub spend_agent: SpendLimits,
    /// What is in force unless an agent or a request says otherwise.
    pub configured: WindowDefaults,
}

/// What the configuration says of windows and contexts.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowDefaults {
    /// How contexts are built.
    pub context: ContextOptions,
    /// Every setting that an agent can override.
    pub settings: AgentSettings,
    /// What agents' presets are expanded with.
    pub basis: Basis,
    /// How shared conversations are told unless an agent's settings say otherwise.
    pub telling: PerspectiveStyle,
    /// How speakers are compared.
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
    /// The interface over `parts`, whose `database` is worked on by hand, too. It ends with `stop`. Its audit goes to the
    /// log alone, unless that is replaced.
    pub fn over<D: OperatorStore + AuditStore + 'static>(
        parts: &assembly::Parts,
        database: Arc<D>,
        access: Arc<Access>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            ingestor: parts.ingestor.clone(),
            projects: Arc::clone(&parts.projects),
            snapshots: Arc::clone(&parts.snapshots),
            operator: parts.operator(Arc::clone(&database) as _),
            audit: Audit::of_log(parts.metrics.clone()),
            audited: database,
            access,
            health_checker: None,
            store: Arc::clone(&parts.store),
            metrics: parts.metrics.clone(),
            clock: Arc::clone(&parts.clock),
            ending: stop.clone(),
            stop,
            writes: TaskTracker::new(),
        }
    }
}

/// What every handler can reach.
struct App {
    parts: HttpState,
    settings: HttpSettings,
    started_at: Timestamp,
    requests: AtomicU64,
    /// Room for the bodies that are held at once.
    bodies: Arc<Quota>,
    /// Room for the answers that are made of what was said, until they are sent.
    answers_room: Room,
    /// Places for those who are told of events.
    subscribers: Arc<Quota>,
    /// Places for those who wait for a change.
    waits: Arc<Quota>,
    /// How often who may ask.
    rate: rate::Rate,
    /// What was answered to idempotency keys.
    answers: idempotency::Answers,
    /// The description of the interface, as it is served.
    openapi: Bytes,
    /// What the forms of pages are signed with.
    form_secret: String,
    /// How often who may try to sign in.
    sign_ins: rate::Rate,
    /// How it all is, for the pages that show it.
    overview: shared_look::SharedLook<crate::dashboard::Overview>,
}

type SharedApp = Arc<App>;

impl App {
    /// Sees a write through to its end, even if the client that asked for it goes away or runs out of time.
    async fn see_through<T: Send + 'static>(
        &self,
        write: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> Result<T, Problem> {
        Ok(self.seen_through(write).await??)
    }

    /// As [`Self::see_through`], with what the store fails with told apart.
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

/// The interface over `state`. The daemon's uptime is counted from here.
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
        // Each holds a connection.
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
        // As one layer, the first outermost: each by itself would be a box to be copied at every request.
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

/// Answers requests on `listener`, as many connections at once as `limits` say, until `stop`; then requests under way are
/// answered, and it returns when the last connection is closed. A connection that fails is its client's affair.
pub async fn serve(
    listener: impl Into<Listener>,
    interface: Interface,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    connection::serve(listener.into(), interface, limits, stop).await;
}
