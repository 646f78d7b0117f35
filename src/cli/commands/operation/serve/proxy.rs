//! The proxy inside the daemon. It uses the HTTP interface in the same process.

use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Method, Request,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::cli::{commands::operation::proxy::proxy, exit::CommandFailure};
use recapd_api::{
    access::Access,
    http::{self, HttpSettings, HttpState, Interface},
};
use recapd_config::Config;
use recapd_engine::assembly::Parts;
use recapd_platform::lifecycle::Lifecycle;
use recapd_proxy::{DaemonAnswer, ProxyDaemon, ProxyListener, serve};
use recapd_store::SqlStore;

/// Limits the answers that are read from the interface.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The base URL of the interface in this process.
const PLACE: &str = "http://localhost";

/// The interface in this process.
struct LocalDaemon(Interface);

#[async_trait]
impl ProxyDaemon for LocalDaemon {
    async fn post(&self, path: &str, body: Bytes) -> Result<DaemonAnswer, String> {
        let url = format!("{PLACE}{path}").parse().map_err(|_| format!("`{path}` isn't a path"))?;
        let mut request = Request::new(Method::POST, url);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(body.into());
        let request = request.try_into().map_err(|error: reqwest::Error| error.to_string())?;
        let answer = self.0.answer::<reqwest::Body>(request, ANSWER_BYTES_MAX).await;
        let (status, body) = answer.map_err(|error| error.to_string())?;
        Ok(DaemonAnswer { status, body })
    }
}

/// Starts the proxy, if one is configured.
pub(super) async fn start(
    config: &Config,
    lifecycle: &Lifecycle,
    parts: &Parts,
    database: &Arc<SqlStore>,
    stop: CancellationToken,
) -> Result<(), CommandFailure> {
    let Some(listen) = config.proxy.address() else {
        return Ok(());
    };
    let listener = ProxyListener::listen(&listen).await;
    let listener = listener.with_context(|| format!("listening on {listen}; see proxy.listen"))?;
    let daemon: Arc<dyn ProxyDaemon> = Arc::new(LocalDaemon(interface(config, parts, database, &stop)));
    let tasks = TaskTracker::new();
    let proxy = proxy(&config.proxy, &daemon, &parts.clock, parts.metrics.clone(), &tasks)?;
    tracing::info!(listen = %listen, "proxy.ready");
    lifecycle.spawn_serving("proxy", async move {
        serve(listener, proxy, stop).await;
        tasks.close();
        tasks.wait().await;
    });
    Ok(())
}

/// Returns an interface for the proxy alone. It checks no tokens or rates, because only network clients need these
/// checks.
fn interface(
    config: &Config,
    parts: &Parts,
    database: &Arc<SqlStore>,
    stop: &CancellationToken,
) -> Interface {
    let access = Access::new(Arc::<SqlStore>::clone(database), Arc::clone(&parts.clock), false);
    let state = HttpState::over(parts, Arc::clone(database), Arc::new(access), stop.clone());
    let settings = HttpSettings { requests_per_second: 0, ..config.into() };
    http::interface(state, settings)
}
