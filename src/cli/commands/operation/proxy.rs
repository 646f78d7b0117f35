//! `recapd proxy`: the proxy between agents and their providers, in a process of its own.

use std::{pin::pin, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use secrecy::SecretString;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::info;

use crate::cli::{
    GlobalOptions,
    backend::{open, target},
    commands::operation::serve::service::manager,
    exit::{CONFIGURATION, CommandFailure},
};
use recapd_client::{DaemonEndpoint, EndpointError, Transport};
use recapd_config::{Config, Environment, Loader, ProxyConfig, read_private};
use recapd_platform::{
    clock::{Clock, SystemClock},
    http_client::HttpSettings,
    lifecycle::signals,
};
use recapd_proxy::{
    InheritedListener, Proxy, ProxyDaemon, ProxyListener, ProxySettings, RemoteDaemon, serve,
};
use recapd_telemetry::{self as telemetry, Surroundings, metrics::Metrics};

/// Longer token files aren't read.
const TOKEN_BYTES_MAX: u64 = 16_384;
/// A call to the daemon takes at most this long.
const CALL_TIMEOUT_MS: u64 = 30_000;
const CONNECT_TIMEOUT_MS: u64 = 2_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Agents send their requests here instead of to their provider; `recapd run` configures them. Every byte is forwarded, and the daemon
at http.listen, or at --server, gets a copy of the conversation. If no daemon answers, requests are forwarded nevertheless.
Examples:
  recapd proxy                                        on 127.0.0.1:7412
  recapd proxy --listen 127.0.0.1:8412 --set proxy.mode=answer
  recapd run claude                                   Claude Code through the proxy")]
pub(crate) struct ProxyCommand {
    /// Address and port to listen on, or `unix:` and a path [default: proxy.listen, otherwise 127.0.0.1:7412]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

impl ProxyCommand {
    /// Applies this command's settings. `--set` overrides them.
    pub(crate) fn configure(&self, loader: Loader) -> Loader {
        match &self.listen {
            Some(listen) => loader.option("--listen", format!("proxy.listen={listen}")),
            None => loader,
        }
    }

    #[expect(clippy::unused_self, reason = "commands run themselves")]
    pub(crate) fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let _logging = telemetry::init(&config.log, &Surroundings::of_standard_error(environment), None)
            .map_err(|error| CommandFailure::new(CONFIGURATION, error))?;
        let inherited = InheritedListener::take().context("taking the listener of LISTEN_FDS")?;
        open::block_on(async {
            let notify = manager(environment);
            let daemon: Arc<dyn ProxyDaemon> = Arc::new(RemoteDaemon::new(transport(config, options)?));
            let tasks = TaskTracker::new();
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let metrics = Metrics::new(clock.now(), &[]);
            let (listener, address) = listen(&config.proxy, inherited).await?;
            let proxy = proxy(&config.proxy, &daemon, &clock, metrics, &tasks)?;
            let stop = CancellationToken::new();
            let mut signals = pin!(signals()?);
            info!(listen = address, "proxy.ready");
            notify.ready();
            let mut serving = pin!(serve(listener, proxy, stop.clone()));
            tokio::select! {
                () = serving.as_mut() => {}
                _ = signals.next() => {
                    info!("proxy.stopping");
                    notify.stopping();
                    stop.cancel();
                    let finished = async {
                        serving.await;
                        tasks.close();
                        tasks.wait().await;
                    };
                    // After the drain time, only streams that don't end, and copies for a daemon that doesn't answer, are
                    // left.
                    if timeout(Duration::from_millis(config.worker.drain_ms), finished).await.is_err() {
                        tracing::warn!("proxy.hurried");
                    }
                }
            }
            info!("proxy.stopped");
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Takes the service manager's listener, if it passed one; otherwise listens at the configured address. Also returns the
/// address, for the log.
async fn listen(
    config: &ProxyConfig,
    inherited: Option<InheritedListener>,
) -> Result<(ProxyListener, String), CommandFailure> {
    if let Some(inherited) = inherited {
        if !inherited.is_near() && config.token_file.is_empty() {
            let problem = "other machines can reach the service manager's socket: name a file with a token in proxy.token_file, or \
            set ListenStream= to a loopback address";
            return Err(CommandFailure::new(CONFIGURATION, anyhow::anyhow!(problem)));
        }
        let listener = ProxyListener::inherited(inherited).context("using the listener of LISTEN_FDS")?;
        return Ok((listener, "the service manager's socket".to_owned()));
    }
    let listen = config
        .standalone_address()
        .context("proxy.listen doesn't name an address")
        .map_err(CommandFailure::from)?;
    let listener = ProxyListener::listen(&listen).await;
    let listener = listener
        .with_context(|| format!("listening on {listen}; is another recapd running? see proxy.listen"))?;
    Ok((listener, listen.to_string()))
}

/// Returns the configured proxy with its token.
pub(super) fn proxy(
    config: &ProxyConfig,
    daemon: &Arc<dyn ProxyDaemon>,
    clock: &Arc<dyn Clock>,
    metrics: Metrics,
    tasks: &TaskTracker,
) -> Result<Proxy, CommandFailure> {
    let settings = ProxySettings::from(config).with_token(token(config)?);
    Ok(Proxy::new(settings, daemon, clock, metrics, tasks).map_err(anyhow::Error::new)?)
}

fn token(config: &ProxyConfig) -> Result<Option<SecretString>, CommandFailure> {
    let file = &config.token_file;
    if file.is_empty() {
        return Ok(None);
    }
    let text = read_private(file.as_ref(), TOKEN_BYTES_MAX)
        .with_context(|| format!("reading {file}; see proxy.token_file"))
        .map_err(|error| CommandFailure::new(CONFIGURATION, error))?;
    Ok(Some(text.trim().into()))
}

fn transport(config: &Config, options: &GlobalOptions) -> Result<Transport, CommandFailure> {
    let base = match &options.server {
        Some(server) => server.base.clone(),
        None => target::base(&config.http),
    };
    let endpoint: DaemonEndpoint =
        base.parse().map_err(|error: EndpointError| CommandFailure::usage(format!("--server: {error}")))?;
    let settings =
        HttpSettings { timeout_ms: CALL_TIMEOUT_MS, connect_timeout_ms: CONNECT_TIMEOUT_MS, proxy_url: None };
    let transport = Transport::new(&endpoint, &settings).map_err(anyhow::Error::new)?;
    Ok(transport.with_credentials(options.credentials.clone()))
}
