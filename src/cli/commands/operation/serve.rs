//! `recapd serve`: the daemon.

mod demo;
mod health_checker;
mod name;
mod patience;
mod proxy;
pub(super) mod service;
mod supervisor;
mod traces;

use std::{
    convert::Infallible,
    fs,
    io::{self, IsTerminal as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::cli::{
    backend::open::{self, ApiKeys},
    exit::CommandFailure,
    terminal::output::note,
};
use health_checker::HealthChecker;
use patience::patiently;
use recapd_api::{
    access::{Access, audit::Audit},
    http::{self, HttpSettings, HttpState},
};
use recapd_config::{
    self as config, Config, ConfigEntry, Environment, HttpConfig, Listen, LoadedConfig, Loader, LocalSocket,
};
use recapd_core::domain::price::Prices;
use recapd_engine::assembly::{self, Parts};
use recapd_platform::{
    background::Background,
    clock::{Clock, OffsetClock, SystemClock},
    lifecycle::{Lifecycle, Manner, StopSignal, hangups, notify::Notify, signals},
    randomness, threads,
};
use recapd_store::{Resume, SqlStore, Store, StoreError, access::AccessStore, postgres::Member, sqlite};
use recapd_telemetry::{self as telemetry, Logging, Surroundings, trace::Exporter};
use supervisor::Supervisor;
use traces::Traces;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd serve --demo                                 a conversation to look at, without a key
  recapd serve                                        on 127.0.0.1:7411, database in ~/.local/state/recapd
  recapd serve --config /etc/recapd/config.toml       as the service does
  recapd serve --listen 127.0.0.1:8080 --db /var/lib/recapd/recapd.db

  curl --json '{\"kind\":\"user\",\"content\":\"Hello\"}' \\
    http://127.0.0.1:7411/v1/agents/me/messages
  curl -i http://127.0.0.1:7411/v1/agents/me/summary")]
pub(crate) struct Serve {
    /// Address and port to listen on, or `unix:` and a path [default: http.listen of the configuration]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Show what recapd does with a sample conversation of the agent `demo`; needs no key, and its database is deleted
    /// when the daemon stops
    #[arg(long)]
    demo: bool,
    /// For self-tests: a file with the milliseconds by which the clock is ahead
    #[arg(long, value_name = "FILE", hide = true)]
    clock_offset_file: Option<PathBuf>,
}

impl Serve {
    /// Applies this command's settings. `--set` overrides them.
    pub(crate) fn configure(&self, loader: Loader) -> Loader {
        let loader = match &self.listen {
            Some(listen) => loader.option("--listen", format!("http.listen={listen}")),
            None => loader,
        };
        let demo = if self.demo { demo::settings() } else { Vec::new() };
        demo.into_iter().fold(loader, |loader, setting| loader.option("--demo", setting))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match &self.clock_offset_file {
            Some(file) => Arc::new(OffsetClock::new(file.clone())),
            None => Arc::new(SystemClock),
        }
    }

    pub(crate) fn run(
        self,
        sources: Loader,
        loaded: &LoadedConfig,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let Traces { spans, exporter, off } = traces::of(&loaded.config.trace, environment)?;
        let surroundings = Surroundings::of_standard_error(environment);
        let logging = telemetry::init(&loaded.config.log, &surroundings, spans)
            .map_err(|error| CommandFailure::new(crate::cli::exit::CONFIGURATION, error))?;
        if let Some(reason) = off {
            warn!(reason, "trace.off");
        }
        let entries = loaded.entries();
        let overrides = entries.iter().filter(|entry| entry.origin != config::ConfigSource::Default);
        for entry in overrides {
            info!(key = %entry.key, value = %entry.value, origin = %entry.origin, "config.set");
        }
        let start = Start {
            clock: self.clock(),
            environment: environment.clone(),
            sources,
            entries,
            logging,
            notify: service::manager(environment),
            is_demo: self.demo,
        };
        if !self.demo {
            return open::block_on(serve(&loaded.config, loaded.prices.clone(), start, exporter));
        }
        let origin = loaded.origin("database.url");
        if matches!(origin, config::ConfigSource::Set | config::ConfigSource::CommandOption(_)) {
            let cure = "leave out --db or --demo";
            return Err(CommandFailure::usage(format!("a demonstration has a database of its own: {cure}")));
        }
        let folder = tempfile::Builder::new().prefix("recapd-demo-").tempdir()?;
        let mut config = loaded.config.clone();
        config.database.url = sqlite::url_of(&folder.path().join("demo.db"));
        config.database.is_in_state_folder = false;
        open::block_on(serve(&config, loaded.prices.clone(), start, exporter))
    }
}

/// What a daemon is started with, in addition to its configuration.
#[derive(Clone)]
struct Start {
    clock: Arc<dyn Clock>,
    environment: Environment,
    sources: Loader,
    entries: Vec<ConfigEntry>,
    logging: Logging,
    notify: Notify,
    is_demo: bool,
}

/// What [`prepare`] has opened and built before the daemon's tasks start.
struct Ground {
    store: Arc<SqlStore>,
    access: Arc<Access>,
    member: Option<Member>,
    listener: http::Listener,
    parts: Parts,
    keys: ApiKeys,
    /// The provider and the model, for the log.
    model: String,
    /// The number of leases that an earlier process of this name left.
    reclaimed: u64,
}

async fn serve(
    config: &Config,
    prices: Prices,
    start: Start,
    mut exporter: Option<Exporter>,
) -> Result<ExitCode, CommandFailure> {
    // From here on, no signal ends the process by default, and none is lost. The first process of a container
    // receives only signals for which it has a handler.
    let hangups = hangups()?;
    let mut signals = pin!(signals()?);
    let owner = config.owner();
    let ground = tokio::select! {
        ground = prepare(config, prices, &start, &owner) => ground?,
        Some(signal) = signals.next() => return Ok(end_early(&start.notify, signal)),
    };
    let Ground { store, access, member, listener, parts, keys, model, reclaimed } = ground;
    let (notify, is_demo) = (start.notify.clone(), start.is_demo);
    let lifecycle = Lifecycle::new();
    lifecycle.spawn_serving("access", {
        let (access, last) = (Arc::clone(&access), lifecycle.last().clone());
        async move { access.follow(last).await }
    });
    let health_checker = HealthChecker::of(config, &start, &owner, &store, &parts);
    let services = (store.clone(), access, health_checker.clone());
    spawn_tasks(&lifecycle, &parts, services, config, listener);
    let last = lifecycle.last().clone();
    proxy::start(config, &lifecycle, &parts, &store, last).await?;
    let background = Background::start(threads::BACKGROUND)?;
    let supervisor = Supervisor {
        health_checker,
        lifecycle: lifecycle.on(&background),
        parts: parts.clone(),
        store: store.clone(),
        owner: owner.clone(),
        keys,
        start,
    };
    lifecycle.spawn_vital("supervisor", supervisor.run(config.clone(), hangups));
    ingest_inbox(&lifecycle, &parts, store);
    info!(listen = %config.http.listen, database = %config.database.url, owner, model, reclaimed, "daemon.ready");
    greet(&config.http.listen, is_demo);
    notify.ready();
    let soft = lifecycle.soft().clone();
    let watch = service::watch(notify.clone(), parts.clone(), config.queue.poll(), soft.clone());
    lifecycle.spawn("service", watch);
    // The daemon keeps its name until all leases are completed or returned.
    let ending = tokio::select! {
        // In this order: the service manager learns that the daemon stops before the daemon may have stopped.
        biased;
        never = service::ending(notify, parts.clone(), soft) => match never {},
        never = follow_fleet(&parts, member) => match never {},
        never = traces::export(exporter.as_mut(), &parts.metrics) => match never {},
        ending = lifecycle.run(signals, config.worker.drain()) => ending,
    };
    // All traced work has ended.
    if let Some(exporter) = exporter {
        exporter.flush(&parts.metrics).await;
    }
    info!(manner = %ending.manner, "daemon.stopped");
    Ok(ExitCode::from(u8::from(ending.is_failure)))
}

/// Prints where people find the daemon that has started. Services write this to their log.
fn greet(listen: &Listen, is_demo: bool) {
    if is_demo {
        note(&demo::next(listen));
    } else if io::stderr().is_terminal() {
        note(&format!("recapd is ready at {}{}", listen.base(), dashboard(listen)));
    }
}

/// Formats the dashboard's address; empty for a socket, because a browser can't open one.
fn dashboard(listen: &Listen) -> String {
    match listen {
        Listen::Address(_) => format!(", and its dashboard at {}/ui/", listen.base()),
        Listen::Socket(_) => String::new(),
    }
}

/// Opens and builds what a daemon needs. All waiting of a start, such as for the database, is here.
async fn prepare(
    config: &Config,
    prices: Prices,
    start: &Start,
    owner: &str,
) -> Result<Ground, CommandFailure> {
    let (notify, clock) = (&start.notify, &start.clock);
    let keys = ApiKeys::of(config, &start.environment)?;
    let models = keys.clone().models(config, clock)?;
    let embeddings_key = config::embeddings_api_key(&config.recall, &start.environment)?;
    let database = &config.database;
    let opening = Box::pin(patiently(database, || assembly::open_store(config)));
    let opening = Box::pin(service::starting(notify, "opening the database", opening));
    let store = Arc::new(opening.await.map_err(|error| open_failure(config, error))?);
    let access = Arc::new(access(config, store.clone(), clock).await?);
    let taking = Box::pin(name::take(|| patiently(database, || store.join(owner))));
    let member = service::starting(notify, "taking its name", taking).await?;
    let listener = listen(&config.http).await?;
    let model = format!("{}/{}", models.model.provider(), models.model.model());
    let journal = assembly::live_journal(&config.journal, store.clone())
        .with_context(|| format!("making {}; see journal.dir", config.journal.dir))?;
    let parts = Parts::new(
        (config, prices),
        store.clone(),
        models.model,
        Arc::clone(clock),
        owner,
        randomness::seed()?,
    )
    .with_journal(journal)
    .with_batches(config, store.clone(), models.batch)
    .with_database(&store)
    .with_embeddings(config, store.clone(), embeddings_key)
    .map_err(anyhow::Error::new)?;
    start.logging.count_into(&parts.metrics);
    parts.metrics.service.reloaded(true, parts.clock.now());
    let reclaimed = patiently(database, || catch_up(&store, &parts, owner)).await?;
    if start.is_demo {
        demo::store_conversation(&parts).await?;
    }
    Ok(Ground { store, access, member, listener, parts, keys, model, reclaimed })
}

/// Ends a start that a signal interrupts. No task has begun yet, so there is none to wait for.
fn end_early(notify: &Notify, signal: StopSignal) -> ExitCode {
    info!(%signal, "daemon.stopping");
    notify.stopping();
    info!(manner = %Manner::Drained, "daemon.stopped");
    ExitCode::SUCCESS
}

async fn listen(config: &HttpConfig) -> anyhow::Result<http::Listener> {
    let listening: io::Result<http::Listener> = match &config.listen {
        Listen::Address(address) => TcpListener::bind(address).await.map(Into::into),
        Listen::Socket(path) => http::Socket::listen(path, config.socket_mode.0).await.map(Into::into),
    };
    let listener = listening.map_err(|error| cannot_listen(&config.listen, &error))?;
    let Some(path) = &config.sockets.daemon_path else {
        return Ok(listener);
    };
    match local_socket(path, config).await {
        Ok(socket) => Ok(listener.with_socket(socket)),
        // Nobody asked for this socket, and clients can use the address.
        Err(error) if config.socket == LocalSocket::Auto => {
            warn!(%error, path = %path.display(), "http.socket_unavailable");
            Ok(listener)
        }
        Err(error) => {
            let context = format!("listening on {}; see http.socket", path.display());
            Err(anyhow::Error::new(error).context(context))
        }
    }
}

/// Returns the error that the daemon can't listen at this address, with the reason and what to do.
fn cannot_listen(listen: &Listen, error: &io::Error) -> anyhow::Error {
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "is another recapd running? see `recapd status`, or choose another port, such as --listen 127.0.0.1:7500"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine doesn't have this address: choose one with --listen, such as 127.0.0.1:7411"
        }
        io::ErrorKind::PermissionDenied => {
            "this user may not use this address: choose a port from 1024 on with --listen, or a socket in a folder of this user"
        }
        _ => "choose another address with --listen, or http.listen",
    };
    anyhow::anyhow!("can't listen on {listen}: {error}; {cure}")
}

/// Listens at the socket beside the address. Only recapd's user may enter the socket's folder below the runtime folder.
async fn local_socket(path: &Path, config: &HttpConfig) -> io::Result<http::Socket> {
    if let (LocalSocket::Auto, Some(folder)) = (&config.socket, path.parent()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    http::Socket::listen(path, config.socket_mode.0).await
}

/// Catches up with what happened while no daemon ran. Returns the number of reclaimed leases.
async fn catch_up(store: &SqlStore, parts: &Parts, owner: &str) -> Result<u64, StoreError> {
    let now = parts.clock.now();
    let reclaimed = store.reclaim(owner, now).await?;
    // The clock may have been ahead when the daemon last ran.
    store.set_back(None, now).await?;
    // Updates may wait for a limit, or for a provider that refused them. All of that may have changed since then.
    store.resume(Resume::Refused, now).await?;
    if let Err(error) = parts.ingestor.load_calibrations().await {
        warn!(%error, "calibration.unreadable");
    }
    Ok(reclaimed)
}

/// Adds the database's name and a hint to an error if the database is unreachable. Other errors already have both.
fn open_failure(config: &Config, error: StoreError) -> CommandFailure {
    match error {
        StoreError::Unavailable(_) => open::failure(&config.database.url, error),
        error => error.into(),
    }
}

/// Reads the tokens. If other machines can reach the interface, at least one token must exist.
async fn access(
    config: &Config,
    store: Arc<dyn AccessStore>,
    clock: &Arc<dyn Clock>,
) -> Result<Access, CommandFailure> {
    let is_near = config.http.listen.is_near();
    let access = Access::new(store, Arc::clone(clock), config.http.require_token || !is_near);
    let access = match config.http.tokens_file.as_str() {
        "" => access,
        path => access.with_file(path.into()).map_err(|error| CommandFailure::tokens_file(&error))?,
    };
    patiently(&config.database, || access.refresh()).await?;
    if is_near || access.has_tokens() {
        return Ok(access);
    }
    Err(CommandFailure::new(
        crate::cli::exit::CONFIGURATION,
        anyhow::anyhow!(
            "http.listen is {}, which other machines can reach, but there are no tokens: create one with `recapd token create NAME \
             --scope admin`, or listen on a loopback address such as 127.0.0.1:7411",
            config.http.listen
        ),
    ))
}

/// Follows the notices of other daemons, if there may be other daemons.
async fn follow_fleet(parts: &Parts, member: Option<Member>) -> Infallible {
    match member {
        Some(member) => parts.follow_fleet(member).await,
        None => std::future::pending().await,
    }
}

/// Stores messages that agents insert by SQL.
fn ingest_inbox(lifecycle: &Lifecycle, parts: &Parts, store: Arc<SqlStore>) {
    let (ingestor, soft) = (parts.ingestor.clone(), lifecycle.soft().clone());
    lifecycle.spawn_vital("inbox", async move { ingestor.ingest_inbox(store, soft).await });
}

/// Starts the tasks that serve requests, and those that follow appends.
fn spawn_tasks(
    lifecycle: &Lifecycle,
    parts: &Parts,
    (database, access, health_checker): (Arc<SqlStore>, Arc<Access>, Arc<HealthChecker>),
    config: &Config,
    listener: http::Listener,
) {
    let soft = lifecycle.soft().clone();
    lifecycle.spawn_vital("recounter", {
        let (ingestor, soft) = (parts.ingestor.clone(), soft.clone());
        async move { ingestor.keep_counts(soft).await }
    });
    lifecycle.spawn_vital("indexer", {
        let (ingestor, soft) = (parts.ingestor.clone(), soft.clone());
        async move { ingestor.index(soft).await }
    });
    if let Some(embedder) = parts.embedder.clone() {
        let soft = soft.clone();
        lifecycle.spawn("embedder", async move { embedder.run(soft).await });
    }
    lifecycle.spawn("journal", {
        let (ingestor, soft) = (parts.ingestor.clone(), soft.clone());
        async move { ingestor.tend_journal(soft).await }
    });
    // Readers are served while running updates are completed, until `last`. Readiness checks already fail from the
    // beginning of the stop on: see `state.ending`.
    let last = lifecycle.last().clone();
    lifecycle.spawn_serving("snapshots", parts.clone().follow_changes(last.clone()));
    let mut state = HttpState::over(parts, Arc::clone(&database), access, last.clone());
    state.ending = soft;
    let (audit, recording) = Audit::with_writer(parts.metrics.clone(), config.http.audit_rows_max);
    state.audit = audit;
    lifecycle.spawn_serving("audit", recording.run(database, last.clone()));
    state.health_checker = Some(health_checker);
    let writes = state.writes.clone();
    let settings = HttpSettings::from(config);
    let limits = settings.connections;
    let interface = http::interface(state, settings);
    lifecycle.spawn_serving("http", async move {
        http::serve(listener, interface, limits, last).await;
        // Writes whose clients have disconnected are still completed.
        writes.close();
        writes.wait().await;
    });
}
