//! A client of the daemon, for agents written in Rust.
//!
//! ```no_run
//! # async fn turn() -> Result<(), Box<dyn std::error::Error>> {
//! use recapd_client::Client;
//! use serde_json::json;
//!
//! let recapd = Client::from_environment(|name| std::env::var(name).ok())?;
//! let coder = "coder".parse()?;
//! recapd.append(&coder, &[json!({"role": "user", "content": "Add JWT auth"})]).await?;
//! let system = format!("You are a coder.\n\n{}", recapd.summary_or_placeholder(&coder).await);
//! # Ok(()) }
//! ```
//!
//! A call takes at most one second, including retries. Calls that can be repeated safely are retried if the connection
//! breaks or the daemon is busy: all reads, and [`Client::append`] if the daemon accepts the id of each message.
//! Messages without an id get one.

#![warn(missing_docs)]

mod answer;
mod endpoint;
mod error;
mod ids;
mod listeners;
mod origin;
mod transport;
mod trust;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, header::ACCEPT};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::origin::{Answerer, PROBLEM_TYPES, answerer};
pub use self::{
    answer::{AppendReply, Context, MovedExchanges, Summary, SummaryFigures, WindowFigures},
    endpoint::{DaemonEndpoint, EndpointError},
    error::{ClientError, Problem},
    transport::Transport,
    trust::{Credentials, Trust, USER_VARIABLE, UnknownUser},
};
use recapd_core::{
    domain::{agent::AgentId, neutralize::neutralize_document},
    formats::outgoing::RequestFormat,
};
use recapd_platform::http_client::{HttpReply, HttpSettings};

/// The default address of a daemon.
pub const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7411";
/// The environment variable with the daemon's address.
pub const ENDPOINT_VARIABLE: &str = "RECAPD_SERVER";
/// The environment variable with the token.
pub const TOKEN_VARIABLE: &str = "RECAPD_TOKEN";
/// The text that replaces a summary if the daemon can't deliver it.
pub const PLACEHOLDER: &str = "[Summary temporarily unavailable]";

/// Limits the time of a call, including its retries.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Limits the attempts of a repeatable call.
const ATTEMPTS_MAX: u32 = 3;
/// The backoff before a retry.
const PAUSE: Duration = Duration::from_millis(50);
/// Limits the answers that are read. A context is built from up to 24 MiB of payloads, plus the summary and pinned
/// messages, and may grow when it is written in another provider's format.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const JSON: &str = "application/json";

/// A client of one daemon. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    timeout: Duration,
}

impl Client {
    /// Connects to the daemon at `endpoint`.
    ///
    /// # Errors
    /// [`ClientError::Unusable`] if no connection to `endpoint` is possible.
    pub fn new(endpoint: &DaemonEndpoint) -> Result<Self, ClientError> {
        // The default timeout doesn't matter, because a call's own timeout is shorter.
        let transport = Transport::new(endpoint, &HttpSettings::default())?;
        Ok(Self { transport, timeout: TIMEOUT })
    }

    /// Connects to the daemon at `RECAPD_SERVER` with the token in `RECAPD_TOKEN`. By default, connects to [`DEFAULT_ENDPOINT`]
    /// without a token. On this machine, trusts only daemons of the current user, root, `recapd`, and the user in
    /// `RECAPD_SERVER_USER`. `lookup` returns the value of an environment variable: `|name| std::env::var(name).ok()`.
    ///
    /// # Errors
    /// [`ClientError::Unusable`] if a variable holds an invalid address or an unknown user.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ClientError> {
        let value = |name| lookup(name).filter(|value: &String| !value.trim().is_empty());
        let endpoint = value(ENDPOINT_VARIABLE).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let endpoint: DaemonEndpoint = endpoint
            .trim()
            .parse()
            .map_err(|error: EndpointError| ClientError::Unusable(format!("{ENDPOINT_VARIABLE}: {error}")))?;
        let trust = Trust::of(value(USER_VARIABLE).as_deref())
            .map_err(|error| ClientError::Unusable(format!("{USER_VARIABLE}: {error}")))?;
        let token = value(TOKEN_VARIABLE).map(|token| SecretString::from(token.trim()));
        let client = Self::new(&endpoint)?;
        Ok(client.with_credentials(Credentials { token, trust }))
    }

    fn with_credentials(self, credentials: Credentials) -> Self {
        Self { transport: self.transport.with_credentials(credentials), ..self }
    }

    /// Returns the same client with this token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        let trust = self.transport.credentials().trust;
        let token = Some(SecretString::from(token));
        self.with_credentials(Credentials { token, trust })
    }

    /// Returns the same client with another timeout for each call, including retries.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Stores messages in order, in recapd's own format or a provider's: all of them, or none if one is invalid. A
    /// message without an id gets a `client_id`, so that retries store it once. If a message has an invalid `client_id`
    /// (longer than 256 bytes, or neither text nor number), the call isn't retried.
    ///
    /// # Errors
    /// [`ClientError::Refused`] names the invalid message. After [`ClientError::Unreachable`], it is unknown whether the messages
    /// are stored.
    pub async fn append(&self, agent: &AgentId, messages: &[Value]) -> Result<AppendReply, ClientError> {
        let (messages, repeatable): (Vec<Value>, Vec<bool>) = messages.iter().map(ids::with_id).unzip();
        let url = self.transport.url(&["v1", "agents", agent.as_str(), "messages"], &[]);
        let request = self.transport.request(Method::POST, url).json(&messages);
        if repeatable.into_iter().all(|is_repeatable| is_repeatable) {
            self.json(request).await
        } else {
            self.once(request).await
        }
    }

    /// Returns the agent's summary. If there is none yet, the content is empty and the version is 0.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `unknown_agent` before the agent's first message.
    pub async fn summary(&self, agent: &AgentId) -> Result<Summary, ClientError> {
        self.get(&["v1", "agents", agent.as_str(), "summary"], &[]).await
    }

    /// Returns the agent's summary as text for a prompt, and neutralizes it once more. Returns an empty text if there
    /// is no summary, and [`PLACEHOLDER`] after an error. Never fails, because an agent can work without a summary.
    pub async fn summary_or_placeholder(&self, agent: &AgentId) -> String {
        match self.summary(agent).await {
            Ok(summary) => neutralize_document(&summary.content),
            Err(error) if error.code() == Some("unknown_agent") => String::new(),
            Err(error) => {
                tracing::warn!(%error, %agent, "client.summary_unavailable");
                PLACEHOLDER.to_owned()
            }
        }
    }

    /// Returns the context to send to a model: fields of the provider's request.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `unknown_agent` before the agent's first message.
    pub async fn context(&self, agent: &AgentId, format: RequestFormat) -> Result<Context, ClientError> {
        let query = [("format", format.name())];
        self.get(&["v1", "agents", agent.as_str(), "context"], &query).await
    }

    /// Gets any path of the OpenAPI document. `path` holds its segments.
    ///
    /// # Errors
    /// [`ClientError::Unreadable`] if the answer isn't a `T`.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let url = self.transport.url(path, query);
        self.json(self.transport.request(Method::GET, url).header(ACCEPT, JSON)).await
    }

    /// Posts to any path, without retries: ends a session, clears, marks, rewinds, forks, forgets.
    ///
    /// # Errors
    /// After [`ClientError::Unreachable`], it is unknown whether the daemon carried out the request.
    pub async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &Value) -> Result<T, ClientError> {
        let request = self.transport.request(Method::POST, self.transport.url(path, &[]));
        self.once(request.json(body)).await
    }

    /// Sends a request that must not be repeated.
    async fn once<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let deadline = Instant::now() + self.timeout;
        error::read(&self.attempt(request, deadline).await?)
    }

    /// Sends a request that may be repeated.
    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let deadline = Instant::now() + self.timeout;
        let mut attempts = 1;
        loop {
            let copy = request.try_clone().ok_or_else(ClientError::unrepeatable)?;
            let result = match self.attempt(copy, deadline).await {
                Ok(reply) => error::read(&reply),
                Err(error) => Err(error),
            };
            let may_succeed = result.as_ref().is_err_and(ClientError::may_succeed_later);
            if !may_succeed || attempts == ATTEMPTS_MAX || Instant::now() + PAUSE >= deadline {
                return result;
            }
            attempts += 1;
            sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, request: RequestBuilder, deadline: Instant) -> Result<HttpReply, ClientError> {
        let sending = self.transport.send(request, ANSWER_BYTES_MAX);
        match timeout_at(deadline, sending).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(ClientError::late(self.timeout)),
        }
    }
}
