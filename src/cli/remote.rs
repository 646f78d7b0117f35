//! Asking a running daemon instead of reading its database.

mod refusal;

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    path::Path,
    str::FromStr,
    time::Duration,
};

use reqwest::{
    Client, RequestBuilder, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    exit::{Failed, UNAVAILABLE},
    likeness, open,
};
use crate::{
    config::{Environment, HttpConfig},
    llm::http::{HttpSettings, client},
};

/// How long the daemon may take to answer.
const TIMEOUT_MS: u64 = 10_000;
/// How long connecting to it may take.
const CONNECT_TIMEOUT_MS: u64 = 2_000;
/// How long it is looked whether a daemon runs at all.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);
/// Agents among which the one that was meant is looked for.
const AGENTS_COMPARED_MAX: usize = 200;

/// The variable that may hold a token.
const TOKEN_VARIABLE: &str = "RECAPD_TOKEN";

/// Where a daemon is, and the token that opens it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) base: String,
    token: Option<SecretString>,
}

impl FromStr for Server {
    type Err = Infallible;

    fn from_str(base: &str) -> Result<Self, Infallible> {
        Ok(Self {
            base: base.to_owned(),
            token: None,
        })
    }
}

impl Server {
    pub(super) fn with_token(self, token: Option<SecretString>) -> Self {
        Self { token, ..self }
    }
}

/// The token in `file`, else in the environment. It never stands on the command line, which others can see.
pub(super) fn token(file: Option<&Path>, environment: &Environment) -> Result<Option<SecretString>, Failed> {
    let text = match file {
        None => environment.get(TOKEN_VARIABLE).map(str::to_owned),
        Some(file) => {
            let unreadable =
                |error: std::io::Error| Failed::usage(format!("--token-file {}: {error}", file.display()));
            Some(std::fs::read_to_string(file).map_err(unreadable)?)
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
        return Err(Failed::usage(format!(
            "{from} holds no token: expected one line such as rcp_…, as `recapd token create` printed it"
        )));
    }
    Ok(Some(token.into()))
}

/// A daemon somewhere.
pub(super) struct Remote {
    base: String,
    token: Option<SecretString>,
    client: Client,
}

impl Remote {
    /// The daemon there.
    pub(super) fn new(server: &Server) -> Result<Self, Failed> {
        let settings = HttpSettings {
            timeout_ms: TIMEOUT_MS,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            proxy_url: None,
        };
        let client = client(&settings).map_err(anyhow::Error::new)?;
        Ok(Self {
            base: server.base.trim_end_matches('/').to_owned(),
            token: server.token.clone(),
            client,
        })
    }

    /// What stands at `path`, as `accept` wants it.
    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<String, Failed> {
        self.ask(self.client.get(self.url(path)).header(ACCEPT, accept))
            .await
    }

    /// Changes what stands at `path` by a merge patch.
    pub(super) async fn patch(&self, path: &str, change: &Value) -> Result<String, Failed> {
        self.ask(self.client.patch(self.url(path)).json(change)).await
    }

    /// Posts `body` to `path`.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<String, Failed> {
        self.ask(self.client.post(self.url(path)).json(body)).await
    }

    /// Posts JSON that is written already.
    pub(super) async fn post_json(&self, path: &str, json: String) -> Result<String, Failed> {
        let request = self
            .client
            .post(self.url(path))
            .header(CONTENT_TYPE, "application/json");
        self.ask(request.body(json)).await
    }

    /// What stands at `path`, read from JSON.
    pub(super) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failed> {
        let text = self.get(path, "application/json").await?;
        Ok(serde_json::from_str(&text).map_err(anyhow::Error::new)?)
    }

    /// Makes `path` be there.
    pub(super) async fn put(&self, path: &str) -> Result<String, Failed> {
        self.ask(self.client.put(self.url(path))).await
    }

    /// Takes what stands at `path` away.
    pub(super) async fn delete(&self, path: &str) -> Result<String, Failed> {
        self.ask(self.client.delete(self.url(path))).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, String), Failed> {
        let unreachable = |error: reqwest::Error| {
            let cure = "is the daemon running there? without --server the database is read";
            Failed::new(
                UNAVAILABLE,
                anyhow::Error::new(error).context(format!("{}: {cure}", self.base)),
            )
        };
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        Ok((status, response.text().await.map_err(unreachable)?))
    }

    async fn ask(&self, request: RequestBuilder) -> Result<String, Failed> {
        let (status, text) = self.send(request).await?;
        if status.is_success() {
            return Ok(text);
        }
        if let Some(agent) = refusal::unknown_agent(&text) {
            return Err(Failed::not_found(self.unknown(&agent).await));
        }
        Err(refusal::failed(status, &text))
    }

    /// What to say of an agent that the daemon doesn't know.
    async fn unknown(&self, agent: &str) -> String {
        let request = self
            .client
            .get(self.url(&format!("/v1/agents?limit={AGENTS_COMPARED_MAX}")));
        let page: Value = match self.send(request).await {
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

/// The daemon that the configuration says where to find, if one runs there and lets us in.
pub(super) fn find(config: &HttpConfig, token: Option<SecretString>) -> Option<Server> {
    let address = reachable(config.listen);
    // Mostly nobody listens, and then nothing more is set up.
    TcpStream::connect_timeout(&address, LOOK_PATIENCE).ok()?;
    let server = Server {
        base: format!("http://{address}"),
        token,
    };
    let looked = open::block_on(async {
        let daemon = Remote::new(&server)?;
        Ok(tokio::time::timeout(LOOK_PATIENCE, daemon.read::<Value>("/version")).await)
    });
    let version = looked.ok()?.ok()?.ok()?;
    (version["name"] == env!("CARGO_PKG_NAME")).then_some(server)
}

/// Why a daemon isn't ready.
pub(super) enum NotReady {
    /// Nobody answers.
    Away,
    /// It says so.
    Says(String),
}

/// Whether the daemon at `server`, else the one that listens there, is ready.
pub(super) async fn is_ready(server: Option<&Server>, listen: SocketAddr) -> Result<(), NotReady> {
    answers(server, listen, "/readyz").await
}

/// Whether a daemon answers well at `path`, which needs no token.
pub(super) async fn answers(server: Option<&Server>, listen: SocketAddr, path: &str) -> Result<(), NotReady> {
    let here = || Server {
        base: format!("http://{}", reachable(listen)),
        token: None,
    };
    let server = server.cloned().unwrap_or_else(here);
    let daemon = Remote::new(&server).map_err(|failed| NotReady::Says(failed.text()))?;
    let request = daemon.client.get(daemon.url(path));
    match daemon.send(request).await {
        Err(_) => Err(NotReady::Away),
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, text)) => Err(NotReady::Says(refusal::failed(status, &text).text())),
    }
}

/// Who listens on all addresses is asked on loopback.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}

/// A text as the value of a query parameter.
pub(super) fn escaped(text: &str) -> String {
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
