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
//! A call takes one second at most, retries included. What can be asked twice without harm is asked again if the
//! connection breaks or the daemon is busy: that is every reading, and [`Client::append`], whose messages get ids of
//! their own if they have none, unless one that they have is none to the daemon.

#![warn(missing_docs)]

mod answer;
mod error;
mod ids;
mod listeners;
mod origin;
mod place;
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
    error::{ClientError, Problem},
    place::{DaemonEndpoint, PlaceError},
    transport::Transport,
    trust::{Credentials, Trust, USER_VARIABLE, UnknownUser},
};
use recapd_core::{
    domain::{agent::AgentId, neutralize::neutralize_document},
    formats::outgoing::RequestFormat,
};
use recapd_platform::http_client::{HttpReply, HttpSettings};

/// Where a daemon listens if nothing else is said.
pub const PLACE: &str = "http://127.0.0.1:7411";
/// The variable that says where the daemon is.
pub const PLACE_VARIABLE: &str = "RECAPD_SERVER";
/// The variable that holds a token.
pub const TOKEN_VARIABLE: &str = "RECAPD_TOKEN";
/// What to show in place of a summary that can't be had.
pub const PLACEHOLDER: &str = "[Summary temporarily unavailable]";

/// How long a call takes at most, with all its retries.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often something is asked that can be asked twice.
const ATTEMPTS_MAX: u32 = 3;
/// How long it is waited before something is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest answer that is read, in bytes: a context is built from up to 24 MiB of payloads, with summary and pinned
/// messages besides, and written for another provider it may be longer than these.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const JSON: &str = "application/json";

/// A daemon, asked. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    timeout: Duration,
}

impl Client {
    /// The daemon at `place`.
    ///
    /// # Errors
    /// [`ClientError::Unusable`] if no connection could ever be made to it.
    pub fn new(place: &DaemonEndpoint) -> Result<Self, ClientError> {
        // A call's own time is less than that.
        let transport = Transport::new(place, &HttpSettings::default())?;
        Ok(Self {
            transport,
            timeout: TIMEOUT,
        })
    }

    /// The daemon that `RECAPD_SERVER` names, with the token in `RECAPD_TOKEN`; without them the one on this machine,
    /// without a token. A daemon of another user than one's own, root and `recapd` is believed if `RECAPD_SERVER_USER` names
    /// that user. `lookup` tells the values of variables: `|name| std::env::var(name).ok()`.
    ///
    /// # Errors
    /// [`ClientError::Unusable`] if a variable names no place, or nobody.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ClientError> {
        let given = |name| lookup(name).filter(|value: &String| !value.trim().is_empty());
        let place = given(PLACE_VARIABLE).unwrap_or_else(|| PLACE.to_owned());
        let place: DaemonEndpoint = place
            .trim()
            .parse()
            .map_err(|error: PlaceError| ClientError::Unusable(format!("{PLACE_VARIABLE}: {error}")))?;
        let trust = Trust::of(given(USER_VARIABLE).as_deref())
            .map_err(|error| ClientError::Unusable(format!("{USER_VARIABLE}: {error}")))?;
        let token = given(TOKEN_VARIABLE).map(|token| SecretString::from(token.trim()));
        let client = Self::new(&place)?;
        Ok(client.with_credentials(Credentials { token, trust }))
    }

    fn with_credentials(self, credentials: Credentials) -> Self {
        Self {
            transport: self.transport.with_credentials(credentials),
            ..self
        }
    }

    /// The same, asked with this token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        let trust = self.transport.credentials().trust;
        let token = Some(SecretString::from(token));
        self.with_credentials(Credentials { token, trust })
    }

    /// The same, with so much time for each call, retries included.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Stores messages, in recapd's own format or a provider's, in order: all or none. One without an id gets a `client_id`,
    /// so that it is stored once however often this is tried. A `client_id` that the daemon doesn't take, since it is longer
    /// than 256 bytes or no text and no number, stays, and then this is tried once.
    ///
    /// # Errors
    /// [`ClientError::Refused`] says which message isn't one. After [`ClientError::Unreachable`] it isn't known whether they
    /// are stored.
    pub async fn append(&self, agent: &AgentId, messages: &[Value]) -> Result<AppendReply, ClientError> {
        let (named, known): (Vec<Value>, Vec<bool>) = messages.iter().map(ids::named).unzip();
        let url = self
            .transport
            .url(&["v1", "agents", agent.as_str(), "messages"], &[]);
        let request = self.transport.request(Method::POST, url).json(&named);
        if known.into_iter().all(|is_known| is_known) {
            self.json(request).await
        } else {
            self.once(request).await
        }
    }

    /// The agent's summary. Without one yet its content is empty and its version 0.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `unknown_agent` before the agent's first message.
    pub async fn summary(&self, agent: &AgentId) -> Result<Summary, ClientError> {
        self.get(&["v1", "agents", agent.as_str(), "summary"], &[]).await
    }

    /// The agent's summary as text for a prompt, made inert once more: empty if there is none, and [`PLACEHOLDER`] if it can't
    /// be had. Never fails, because an agent can work without it.
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

    /// What to send to a model: the conversation as fields of that provider's request.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `unknown_agent` before the agent's first message.
    pub async fn context(&self, agent: &AgentId, format: RequestFormat) -> Result<Context, ClientError> {
        let query = [("format", format.name())];
        self.get(&["v1", "agents", agent.as_str(), "context"], &query)
            .await
    }

    /// What stands at a path, given by its segments, as the OpenAPI document describes it.
    ///
    /// # Errors
    /// [`ClientError::Unreadable`] if it is no `T`.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let url = self.transport.url(path, query);
        self.json(self.transport.request(Method::GET, url).header(ACCEPT, JSON))
            .await
    }

    /// Posts to a path, once: to end a session, to clear, mark, rewind, fork, forget.
    ///
    /// # Errors
    /// After [`ClientError::Unreachable`] it isn't known whether it was done.
    pub async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &Value) -> Result<T, ClientError> {
        let request = self
            .transport
            .request(Method::POST, self.transport.url(path, &[]));
        self.once(request.json(body)).await
    }

    /// Asks what may not be asked twice.
    async fn once<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let deadline = Instant::now() + self.timeout;
        error::read(&self.attempt(request, deadline).await?)
    }

    /// Asks what can be asked twice.
    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let deadline = Instant::now() + self.timeout;
        let mut attempts = 1;
        loop {
            let asked = request.try_clone().ok_or_else(ClientError::unrepeatable)?;
            let result = match self.attempt(asked, deadline).await {
                Ok(reply) => error::read(&reply),
                Err(error) => Err(error),
            };
            let may_pass = result.as_ref().is_err_and(ClientError::may_pass);
            if !may_pass || attempts == ATTEMPTS_MAX || Instant::now() + PAUSE >= deadline {
                return result;
            }
            attempts += 1;
            sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, request: RequestBuilder, deadline: Instant) -> Result<HttpReply, ClientError> {
        let asked = self.transport.send(request, ANSWER_BYTES_MAX);
        match timeout_at(deadline, asked).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(ClientError::late(self.timeout)),
        }
    }
}
