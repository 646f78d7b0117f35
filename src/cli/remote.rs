//! Asking a running daemon instead of reading its database.

use reqwest::{Client, RequestBuilder, StatusCode, header::ACCEPT};

use super::exit::{Failed, UNAVAILABLE};
use crate::llm::http::{HttpSettings, client};

/// How long the daemon may take to answer.
const TIMEOUT_MS: u64 = 10_000;
/// How long connecting to it may take.
const CONNECT_TIMEOUT_MS: u64 = 2_000;

/// A daemon somewhere.
pub(super) struct Remote {
    base: String,
    client: Client,
}

impl Remote {
    /// The daemon at `base`, such as `http://127.0.0.1:7411`.
    pub(super) fn new(base: &str) -> Result<Self, Failed> {
        let settings = HttpSettings {
            timeout_ms: TIMEOUT_MS,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            proxy_url: None,
        };
        let client = client(&settings).map_err(anyhow::Error::new)?;
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            client,
        })
    }

    /// What stands at `path`, as `accept` wants it.
    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<String, Failed> {
        self.ask(self.client.get(self.url(path)).header(ACCEPT, accept))
            .await
    }

    /// Changes what stands at `path` by a merge patch.
    pub(super) async fn patch(&self, path: &str, change: &serde_json::Value) -> Result<String, Failed> {
        self.ask(self.client.patch(self.url(path)).json(change)).await
    }

    /// Posts `body` to `path`.
    pub(super) async fn post(&self, path: &str, body: &serde_json::Value) -> Result<String, Failed> {
        self.ask(self.client.post(self.url(path)).json(body)).await
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

    async fn ask(&self, request: RequestBuilder) -> Result<String, Failed> {
        let unreachable = |error: reqwest::Error| {
            let cure = "is the daemon running there? without --server the database is read";
            Failed::new(
                UNAVAILABLE,
                anyhow::Error::new(error).context(format!("{}: {cure}", self.base)),
            )
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        match status {
            StatusCode::NOT_FOUND => Err(Failed::not_found(detail(&text))),
            status if status.is_success() => Ok(text),
            // What was asked for can't be, there or here.
            StatusCode::CONFLICT => Err(anyhow::anyhow!("{}", detail(&text)).into()),
            status => Err(Failed::new(
                UNAVAILABLE,
                anyhow::anyhow!("{status}: {}", detail(&text)),
            )),
        }
    }
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

/// What a problem (RFC 9457) says, or the text as it is.
fn detail(text: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    problem
        .get("detail")
        .and_then(serde_json::Value::as_str)
        .unwrap_or(text)
        .to_owned()
}
