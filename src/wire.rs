//! HTTP as a client: the one place where a client is built, and where an answer is read.
//!
//! Invariant: no call lasts longer than its timeout, and no answer takes more memory than its limit.

use std::{error::Error as _, path::Path, time::Duration};

use reqwest::{
    Client, ClientBuilder, Proxy, RequestBuilder, StatusCode, header::HeaderMap, redirect::Policy,
};

/// The longest body that is read, in bytes, unpacked. An answer of 10,000 tokens has some 40 KiB.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// How long a whole call may last, from the first byte sent to the last one read.
    pub timeout_ms: u64,
    /// How long making the connection may last, within `timeout_ms`.
    pub connect_timeout_ms: u64,
    /// The proxy for every call, as a URL. The environment isn't asked.
    pub proxy_url: Option<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            timeout_ms: 120_000,
            connect_timeout_ms: 10_000,
            proxy_url: None,
        }
    }
}

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// A header's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer. No text holds the address, in which a password may stand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The settings or the request can't be right: trying again won't help.
    #[error("{0}")]
    Unsendable(String),
    /// None came in time.
    #[error("{0}")]
    Late(String),
    /// The connection can't be made, or broke off.
    #[error("{0}")]
    Broken(String),
    /// The answer has more bytes than are read.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// A client with these settings. It doesn't follow redirects: a key belongs to the host it was given for.
pub fn client(settings: &HttpSettings) -> Result<Client, WireError> {
    built(builder(settings)?)
}

/// As [`client`], for addresses without TLS alone: it reads no certificates, of which a system has hundreds.
pub fn plain_client(settings: &HttpSettings) -> Result<Client, WireError> {
    built(builder(settings)?.tls_certs_only(std::iter::empty()))
}

/// As [`plain_client`], for whoever listens at a Unix socket, whatever host a request names.
#[cfg(unix)]
pub fn socket_client(settings: &HttpSettings, socket: &Path) -> Result<Client, WireError> {
    built(
        builder(settings)?
            .tls_certs_only(std::iter::empty())
            .unix_socket(socket),
    )
}

/// As [`plain_client`], for whoever listens at a Unix socket, which this system can't reach.
#[cfg(not(unix))]
pub fn socket_client(_: &HttpSettings, _: &Path) -> Result<Client, WireError> {
    Err(WireError::Unsendable(
        "this system has no Unix sockets; give an address such as http://127.0.0.1:7411".to_owned(),
    ))
}

fn built(builder: ClientBuilder) -> Result<Client, WireError> {
    builder.build().map_err(unsendable)
}

fn builder(settings: &HttpSettings) -> Result<ClientBuilder, WireError> {
    // An error says that a provider is installed already, which is what is wanted.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = Client::builder()
        .timeout(Duration::from_millis(settings.timeout_ms))
        .connect_timeout(Duration::from_millis(settings.connect_timeout_ms))
        .redirect(Policy::none())
        .user_agent(concat!("recapd/", env!("CARGO_PKG_VERSION")));
    Ok(match &settings.proxy_url {
        Some(url) => builder.proxy(Proxy::all(url).map_err(unsendable)?),
        None => builder.no_proxy(),
    })
}

/// Sends a request and reads the answer, whatever its status, if it has at most `bytes_max` bytes.
pub async fn send(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, WireError> {
    let mut response = request.send().await.map_err(unanswered)?;
    let mut reply = HttpReply {
        status: response.status(),
        headers: response.headers().clone(),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        if reply.body.len() + chunk.len() > bytes_max {
            return Err(WireError::TooLong(bytes_max));
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

fn unanswered(error: reqwest::Error) -> WireError {
    if error.is_builder() {
        return unsendable(error);
    }
    if error.is_timeout() {
        WireError::Late(causes(error))
    } else {
        WireError::Broken(causes(error))
    }
}

fn unsendable(error: reqwest::Error) -> WireError {
    WireError::Unsendable(causes(error))
}

/// An error with what lies behind it, without the address.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes = vec![error.to_string()];
    let mut behind = error.source();
    while let Some(cause) = behind {
        causes.push(cause.to_string());
        behind = cause.source();
    }
    causes.join(": ")
}
