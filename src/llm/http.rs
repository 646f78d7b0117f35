//! The one place where an HTTP client is built, and where a provider's answer is read.
//!
//! Invariant: no call lasts longer than its timeout, and no answer takes more memory than [`RESPONSE_BYTES_MAX`].

use std::{error::Error as _, path::Path, time::Duration};

use reqwest::{
    Client, ClientBuilder, Proxy, RequestBuilder, StatusCode, header::HeaderMap, redirect::Policy,
};

use super::{Cause, Fault, LlmError};

/// The longest body that is read, in bytes, unpacked. An answer of 10,000 tokens has some 40 KiB.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a provider is reached.
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

/// A provider's answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// A client with these settings. It doesn't follow redirects: a key belongs to the host it was given for.
pub fn client(settings: &HttpSettings) -> Result<Client, LlmError> {
    builder(settings)?.build().map_err(unsendable)
}

/// As [`client`], for addresses without TLS alone: it reads no certificates, of which a system has hundreds.
pub fn plain_client(settings: &HttpSettings) -> Result<Client, LlmError> {
    let builder = builder(settings)?.tls_certs_only(std::iter::empty());
    builder.build().map_err(unsendable)
}

/// What the address of a daemon begins with that listens on a socket.
const SOCKET_PREFIX: &str = "unix:";
/// What a daemon is called that is asked by its socket.
const SOCKET_HOST: &str = "http://localhost";

/// A client for the daemon at `base`, an address or `unix:` and the path of a socket, and what its paths stand behind.
///
/// # Errors
/// [`LlmError::Permanent`] when it can't be built.
pub fn daemon_client(base: &str, settings: &HttpSettings) -> Result<(Client, String), LlmError> {
    let base = base.trim_end_matches('/');
    if let Some(path) = base.strip_prefix(SOCKET_PREFIX) {
        let builder = builder(settings)?.tls_certs_only(std::iter::empty());
        let client = builder.unix_socket(Path::new(path)).build().map_err(unsendable)?;
        return Ok((client, SOCKET_HOST.to_owned()));
    }
    let is_encrypted = base.starts_with("https:");
    let client = if is_encrypted {
        client(settings)
    } else {
        plain_client(settings)
    };
    Ok((client?, base.to_owned()))
}

fn builder(settings: &HttpSettings) -> Result<ClientBuilder, LlmError> {
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

/// Sends a request and reads the answer, whatever its status. Fails as [`LlmError::Transient`] when none comes, comes
/// too late, breaks off or is too long.
pub async fn send(request: RequestBuilder) -> Result<HttpReply, LlmError> {
    send_for(request, RESPONSE_BYTES_MAX).await
}

/// As [`send`], for answers of at most `bytes_max` bytes.
pub async fn send_for(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, LlmError> {
    let mut response = request.send().await.map_err(unanswered)?;
    let mut reply = HttpReply {
        status: response.status(),
        headers: response.headers().clone(),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        if reply.body.len() + chunk.len() > bytes_max {
            let message = format!("the answer is longer than {bytes_max} bytes");
            return Err(LlmError::Transient(message.into()));
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

fn unanswered(error: reqwest::Error) -> LlmError {
    if error.is_builder() {
        return unsendable(error);
    }
    let cause = if error.is_timeout() {
        Cause::Timeout
    } else {
        Cause::Network
    };
    LlmError::Transient(Fault::new(cause, causes(error)))
}

fn unsendable(error: reqwest::Error) -> LlmError {
    LlmError::Permanent(causes(error))
}

/// An error with what lies behind it, without the address: it may hold a password.
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
