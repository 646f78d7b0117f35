//! The HTTP interface that commands use: a running daemon's, or one in this process that opens the database.

mod refusal;
mod running;

use std::sync::Arc;

use reqwest::{
    Method, RequestBuilder, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{open, target::DaemonTarget};
use crate::cli::{
    GlobalOptions,
    exit::{CommandFailure, UNAVAILABLE},
    terminal::likeness,
};
use recapd_api::{
    access::Access,
    http::{self, HttpState, Interface},
};
use recapd_client::{DaemonEndpoint, EndpointError, Transport};
use recapd_config::Config;
use recapd_engine::assembly::Parts;
use recapd_platform::{
    clock::{Clock, SystemClock},
    http_client::{HttpClientError, HttpSettings},
};
use recapd_store::{SqlStore, Store};
use tokio_util::sync::CancellationToken;

pub(crate) use running::{NotReady, answers, find};

const TIMEOUT_MS: u64 = 10_000;
const CONNECT_TIMEOUT_MS: u64 = 2_000;
/// The time limit for a request in this process: a day, because whoever started the command decides how long to wait.
const IN_PROCESS_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;
/// The base URL of the interface in this process.
const IN_PROCESS_PLACE: &str = "http://localhost";
/// Limits the answers that are read. A context is built from up to 24 MiB of payloads.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How many agents are compared with an unknown one, to suggest the most similar.
const AGENTS_COMPARED_MAX: usize = 200;

/// The HTTP interface of a daemon, or the same interface in this process.
pub(crate) struct Api {
    transport: Transport,
    in_process: Option<InProcess>,
}

/// The interface without a daemon.
struct InProcess {
    interface: Interface,
    database: Arc<SqlStore>,
}

impl Api {
    /// Opens the interface for reading: a daemon's, if one is asked, otherwise over the database. A daemon may be using
    /// the database.
    pub(crate) async fn reading(config: &Config, options: &GlobalOptions) -> Result<Self, CommandFailure> {
        match &options.server {
            Some(server) => Self::new(server),
            None => Self::over_database(config, Arc::new(open::look(config).await?)).await,
        }
    }

    /// Opens the interface for changes that a daemon on the same database notices by itself, so the daemon may be using
    /// the database.
    pub(crate) async fn changing_beside_daemon(
        config: &Config,
        options: &GlobalOptions,
    ) -> Result<Self, CommandFailure> {
        Self::reading(config, options).await
    }

    /// Opens the interface for changes: a daemon's, if one is asked, otherwise over the database. Fails if a daemon uses
    /// this SQLite database: that daemon would answer readers with data from before the change.
    pub(crate) async fn changing(config: &Config, options: &GlobalOptions) -> Result<Self, CommandFailure> {
        match &options.server {
            Some(server) => Self::new(server),
            None => Self::over_database(config, open::work(config).await?).await,
        }
    }

    /// Returns the interface over `database`. Whoever can open the database needs no token, and no rate limit or
    /// timeout applies.
    async fn over_database(config: &Config, database: Arc<SqlStore>) -> Result<Self, CommandFailure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store: Arc<dyn Store> = Arc::<SqlStore>::clone(&database);
        let parts = Parts::without_model(config, store, Arc::clone(&clock)).await?;
        let access = Access::new(Arc::<SqlStore>::clone(&database), clock, false);
        let stop = CancellationToken::new();
        let state = HttpState::over(&parts, Arc::clone(&database), Arc::new(access), stop);
        let settings = http::HttpSettings {
            requests_per_second: 0,
            request_timeout_ms: IN_PROCESS_TIMEOUT_MS,
            ..config.into()
        };
        let in_process = InProcess { interface: http::interface(state, settings), database };
        Ok(Self { in_process: Some(in_process), ..Self::new(&DaemonTarget::at(IN_PROCESS_PLACE))? })
    }

    /// Returns the opened database; `None` if a daemon is asked.
    pub(crate) fn database(&self) -> Option<&Arc<SqlStore>> {
        self.in_process.as_ref().map(|in_process| &in_process.database)
    }

    /// Returns the interface of a daemon.
    pub(crate) fn new(server: &DaemonTarget) -> Result<Self, CommandFailure> {
        let settings =
            HttpSettings { timeout_ms: TIMEOUT_MS, connect_timeout_ms: CONNECT_TIMEOUT_MS, proxy_url: None };
        let endpoint: DaemonEndpoint = server
            .base
            .parse()
            .map_err(|error: EndpointError| CommandFailure::usage(format!("--server: {error}")))?;
        let transport = Transport::new(&endpoint, &settings).map_err(anyhow::Error::new)?;
        Ok(Self { transport: transport.with_credentials(server.credentials.clone()), in_process: None })
    }

    /// Returns what is at `path`, in the media type `accept`.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::GET, path).header(ACCEPT, accept)).await
    }

    /// Applies the merge patch `change` at `path`, and parses the answer.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
    ) -> Result<T, CommandFailure> {
        parse(&self.ask(self.request(Method::PATCH, path).json(change)).await?)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, CommandFailure> {
        parse(&self.ask(self.request(Method::POST, path).json(body)).await?)
    }

    /// Posts a text that is already JSON.
    pub(crate) async fn post_json(&self, path: &str, json: String) -> Result<String, CommandFailure> {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        self.ask(request.body(json)).await
    }

    /// Gets `path` as JSON and parses it.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        parse(&self.get(path, "application/json").await?)
    }

    /// Sends PUT to `path` without a body and parses the answer.
    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        parse(&self.ask(self.request(Method::PUT, path)).await?)
    }

    /// Sends DELETE to `path` and parses the answer.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        parse(&self.ask(self.request(Method::DELETE, path)).await?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.transport.request(method, self.transport.at(path))
    }

    async fn ask(&self, request: RequestBuilder) -> Result<String, CommandFailure> {
        let (status, text) = self.send(request).await?;
        if status.is_success() {
            return Ok(text);
        }
        if let Some(agent) = refusal::unknown_agent(&text) {
            return Err(CommandFailure::not_found(self.unknown(&agent).await));
        }
        Err(refusal::command_failure(status, &text))
    }

    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, String), CommandFailure> {
        if let Some(in_process) = &self.in_process {
            return in_process.answer(request).await;
        }
        let reply = self.reply(request).await;
        reply.map_err(|error| self.unanswered_failure(error))
    }

    async fn reply(&self, request: RequestBuilder) -> Result<(StatusCode, String), HttpClientError> {
        let reply = self.transport.send(request, ANSWER_BYTES_MAX).await?;
        Ok((reply.status, String::from_utf8_lossy(&reply.body).into_owned()))
    }

    /// Returns the failure for a request that got no answer.
    #[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
    fn unanswered_failure(&self, error: HttpClientError) -> CommandFailure {
        let cure = match error {
            HttpClientError::Late(_) => "no answer in time; try again later, or name the database with --db",
            HttpClientError::Untrusted(_) => "nothing was sent; without --server the database is read",
            _ => "is the daemon running there? without --server the database is read",
        };
        let (address, reason) = (self.transport.endpoint().to_string(), error.to_string());
        let text = if reason.contains(&address) { reason } else { format!("{address}: {reason}") };
        CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{text}; {cure}"))
    }

    /// Returns the message for an agent that the daemon doesn't know, with similar names.
    async fn unknown(&self, agent: &str) -> String {
        let path = format!("/v1/agents?limit={AGENTS_COMPARED_MAX}");
        let page: Value = match self.send(self.request(Method::GET, &path)).await {
            Ok((status, text)) if status.is_success() => serde_json::from_str(&text).unwrap_or_default(),
            _ => Value::Null,
        };
        let agents = page["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids: Vec<&str> = agents.iter().filter_map(|agent| agent["agent_id"].as_str()).collect();
        likeness::unknown_agent(agent, &ids, open::AGENTS_SHOWN_MAX)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, CommandFailure> {
    Ok(serde_json::from_str(text).map_err(anyhow::Error::new)?)
}

impl InProcess {
    async fn answer(&self, request: RequestBuilder) -> Result<(StatusCode, String), CommandFailure> {
        let request = request.build().map_err(anyhow::Error::new)?;
        let request = request.try_into().map_err(anyhow::Error::new)?;
        let answer = self.interface.answer::<reqwest::Body>(request, ANSWER_BYTES_MAX).await;
        let (status, body) = answer.map_err(anyhow::Error::new)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// Percent-encodes a text as the value of a query parameter.
pub(crate) fn escape(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
