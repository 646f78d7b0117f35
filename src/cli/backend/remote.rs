//! Asking a running daemon instead of reading its database.

mod refusal;
mod running;

use std::{convert::Infallible, path::Path, str::FromStr};

use reqwest::{
    Method, RequestBuilder, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::open;
use crate::cli::{
    exit::{CommandFailure, UNAVAILABLE},
    terminal::likeness,
};
use recapd_client::{
    Credentials, DaemonEndpoint, PlaceError, TOKEN_VARIABLE, Transport, Trust, USER_VARIABLE,
};
use recapd_config::{Environment, read_private};
use recapd_core::domain::cursor::{Cursor, PagedList};
use recapd_platform::http_client::{HttpClientError, HttpSettings};

pub(in crate::cli) use running::{NotReady, answers, base, find};

/// How long the daemon may take to answer.
const TIMEOUT_MS: u64 = 10_000;
/// How long connecting to it may take.
const CONNECT_TIMEOUT_MS: u64 = 2_000;
/// The longest answer that is read, in bytes: a context is built from up to 24 MiB of payloads.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The largest file with a token that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 16_384;
/// Agents among which the one that was meant is looked for.
const AGENTS_COMPARED_MAX: usize = 200;

/// Where a daemon is, and the credentials for it.
#[derive(Clone, Debug)]
pub(in crate::cli) struct DaemonTarget {
    pub(in crate::cli) base: String,
    credentials: Credentials,
}

impl FromStr for DaemonTarget {
    type Err = Infallible;

    fn from_str(base: &str) -> Result<Self, Infallible> {
        Ok(Self {
            base: base.to_owned(),
            credentials: Credentials::default(),
        })
    }
}

impl DaemonTarget {
    pub(in crate::cli) fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }
}

/// The token in `file`, else in the environment, and whose daemon may have it.
pub(in crate::cli) fn credentials(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Credentials, CommandFailure> {
    let token = token(file, environment)?;
    let trust = Trust::of(environment.get(USER_VARIABLE))
        .map_err(|error| CommandFailure::usage(format!("{USER_VARIABLE}: {error}")))?;
    Ok(Credentials { token, trust })
}

/// The token in `file`, else in the environment. It never stands on the command line, which others can see.
fn token(file: Option<&Path>, environment: &Environment) -> Result<Option<SecretString>, CommandFailure> {
    let text = match file {
        None => environment.get(TOKEN_VARIABLE).map(str::to_owned),
        Some(file) => {
            let unreadable = |error: std::io::Error| {
                CommandFailure::usage(format!("--token-file {}: {error}", file.display()))
            };
            Some(read_private(file, TOKEN_BYTES_MAX).map_err(unreadable)?)
        }
    };
    let Some(text) = text else {
        return Ok(None);
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let from = if file.is_some() {
            "--token-file"
        } else {
            TOKEN_VARIABLE
        };
        return Err(CommandFailure::usage(format!(
            "{from} holds no token: expected one line such as rcp_…, as `recapd token create` printed it"
        )));
    }
    Ok(Some(token.into()))
}

/// A daemon somewhere.
pub(in crate::cli) struct Remote {
    transport: Transport,
}

impl Remote {
    /// The daemon there.
    pub(in crate::cli) fn new(server: &DaemonTarget) -> Result<Self, CommandFailure> {
        let settings = HttpSettings {
            timeout_ms: TIMEOUT_MS,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            proxy_url: None,
        };
        let place: DaemonEndpoint = server
            .base
            .parse()
            .map_err(|error: PlaceError| CommandFailure::usage(format!("--server: {error}")))?;
        let transport = Transport::new(&place, &settings).map_err(anyhow::Error::new)?;
        Ok(Self {
            transport: transport.with_credentials(server.credentials.clone()),
        })
    }

    /// What stands at `path`, as `accept` wants it.
    pub(in crate::cli) async fn get(&self, path: &str, accept: &str) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::GET, path).header(ACCEPT, accept))
            .await
    }

    /// Changes what stands at `path` by a merge patch.
    pub(in crate::cli) async fn patch(&self, path: &str, change: &Value) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::PATCH, path).json(change)).await
    }

    /// Posts `body` to `path`.
    pub(in crate::cli) async fn post(&self, path: &str, body: &Value) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::POST, path).json(body)).await
    }

    /// Posts JSON that is written already.
    pub(in crate::cli) async fn post_json(&self, path: &str, json: String) -> Result<String, CommandFailure> {
        let request = self
            .request(Method::POST, path)
            .header(CONTENT_TYPE, "application/json");
        self.ask(request.body(json)).await
    }

    /// What stands at `path`, read from JSON.
    pub(in crate::cli) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        let text = self.get(path, "application/json").await?;
        Ok(serde_json::from_str(&text).map_err(anyhow::Error::new)?)
    }

    /// Makes `path` be there.
    pub(in crate::cli) async fn put(&self, path: &str) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::PUT, path)).await
    }

    /// Takes what stands at `path` away.
    pub(in crate::cli) async fn delete(&self, path: &str) -> Result<String, CommandFailure> {
        self.ask(self.request(Method::DELETE, path)).await
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
        Err(refusal::failed(status, &text))
    }

    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, String), CommandFailure> {
        let answered = self.reply(request).await;
        answered.map_err(|error| self.unanswered(error))
    }

    async fn reply(&self, request: RequestBuilder) -> Result<(StatusCode, String), HttpClientError> {
        let reply = self.transport.send(request, ANSWER_BYTES_MAX).await?;
        Ok((reply.status, String::from_utf8_lossy(&reply.body).into_owned()))
    }

    /// The failure that no answer is.
    fn unanswered(&self, error: HttpClientError) -> CommandFailure {
        let cure = match error {
            HttpClientError::Late(_) => "no answer in time; ask again later, or name the database with --db",
            HttpClientError::Untrusted(_) => "nothing was sent; without --server the database is read",
            _ => "is the daemon running there? without --server the database is read",
        };
        let context = format!("{}: {cure}", self.transport.place());
        CommandFailure::new(UNAVAILABLE, anyhow::Error::new(error).context(context))
    }

    /// What to say of an agent that the daemon doesn't know.
    async fn unknown(&self, agent: &str) -> String {
        let path = format!("/v1/agents?limit={AGENTS_COMPARED_MAX}");
        let page: Value = match self.send(self.request(Method::GET, &path)).await {
            Ok((status, text)) if status.is_success() => serde_json::from_str(&text).unwrap_or_default(),
            _ => Value::Null,
        };
        let agents = page["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let known: Vec<&str> = agents
            .iter()
            .filter_map(|known| known["agent_id"].as_str())
            .collect();
        likeness::unknown_agent(agent, &known, open::AGENTS_SHOWN_MAX)
    }
}

/// Where a page of `list` begins, as a query parameter that follows others.
pub(in crate::cli) fn behind(list: PagedList<'_>, entry: Option<&impl ToString>) -> String {
    entry.map_or(String::new(), |entry| {
        format!("&cursor={}", Cursor::behind(list, entry))
    })
}

/// A text as the value of a query parameter.
pub(in crate::cli) fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if is_plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
