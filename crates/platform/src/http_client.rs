//! The HTTP client: the only place that builds clients and reads answers.
//!
//! Invariant: no call takes longer than its timeout, and no answer takes more memory than its limit.

use std::{error::Error as _, path::Path, time::Duration};

use reqwest::{
    Client, ClientBuilder, Proxy, RequestBuilder, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret as _, SecretString};

/// Limits the bytes of a body, after decompression. An answer of 10,000 tokens has about 40 KiB.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Limits the time of a whole call, from the first byte sent to the last byte read.
    pub timeout_ms: u64,
    /// Limits the time to connect. It is part of `timeout_ms`.
    pub connect_timeout_ms: u64,
    /// The proxy for every call: a URL, or `unix:` and the path of a socket that forwards bytes. Variables of the environment are
    /// ignored.
    pub proxy_url: Option<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { timeout_ms: 120_000, connect_timeout_ms: 10_000, proxy_url: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl HttpReply {
    /// Returns a header's value; `None` if it isn't text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// An error of a call. Its text never contains the address, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpClientError {
    /// The settings or the request are invalid, so a retry doesn't help.
    #[error("{0}")]
    Unsendable(String),
    /// The answer wasn't complete within the timeout.
    #[error("{0}")]
    Late(String),
    /// A program of another user listens at the address. Nothing was sent to it.
    #[error("{0}")]
    Untrusted(String),
    /// The connection could not be made. The server hasn't received the request.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke. The server may have received the request.
    #[error("{0}")]
    Broken(String),
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// Builds a client. It doesn't follow redirects, because a key is meant for one host only.
pub fn client(settings: &HttpSettings) -> Result<Client, HttpClientError> {
    build(builder(settings)?)
}

/// Builds a client like [`client`] for addresses without TLS. Doesn't load the system's hundreds of certificates.
pub fn plain_client(settings: &HttpSettings) -> Result<Client, HttpClientError> {
    build(builder(settings)?.tls_certs_only(std::iter::empty()))
}

/// Builds a client like [`plain_client`] for a Unix socket, whatever host a request names.
#[cfg(unix)]
pub fn socket_client(settings: &HttpSettings, socket: &Path) -> Result<Client, HttpClientError> {
    build(builder(settings)?.tls_certs_only(std::iter::empty()).unix_socket(socket))
}

/// Fails, because this operating system has no Unix sockets.
#[cfg(not(unix))]
pub fn socket_client(_: &HttpSettings, _: &Path) -> Result<Client, HttpClientError> {
    Err(HttpClientError::Unsendable(
        "this system has no Unix sockets; give an address such as http://127.0.0.1:7411".to_owned(),
    ))
}

/// Builds a client that passes requests and answers on unchanged: it adds no header, decompresses nothing, and waits for an
/// answer without a time limit.
pub fn relay_client(connect_timeout_ms: u64) -> Result<Client, HttpClientError> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = Client::builder()
        .connect_timeout(Duration::from_millis(connect_timeout_ms))
        .redirect(Policy::none())
        .no_gzip()
        .no_proxy()
        .tcp_nodelay(true);
    build(builder)
}

fn build(builder: ClientBuilder) -> Result<Client, HttpClientError> {
    builder.build().map_err(build_error)
}

fn builder(settings: &HttpSettings) -> Result<ClientBuilder, HttpClientError> {
    // An error means that a provider is installed already, which is fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = Client::builder()
        .timeout(Duration::from_millis(settings.timeout_ms))
        .connect_timeout(Duration::from_millis(settings.connect_timeout_ms))
        .redirect(Policy::none())
        .user_agent(concat!("recapd/", env!("CARGO_PKG_VERSION")));
    let Some(proxy) = &settings.proxy_url else {
        return Ok(builder.no_proxy());
    };
    match proxy.strip_prefix("unix:") {
        Some(path) => through_socket(builder.no_proxy(), Path::new(path)),
        None => Ok(builder.proxy(Proxy::all(proxy).map_err(build_error)?)),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have no Unix sockets")]
fn through_socket(builder: ClientBuilder, socket: &Path) -> Result<ClientBuilder, HttpClientError> {
    Ok(builder.unix_socket(socket))
}

#[cfg(not(unix))]
fn through_socket(_: ClientBuilder, _: &Path) -> Result<ClientBuilder, HttpClientError> {
    Err(HttpClientError::Unsendable("this system has no Unix sockets".to_owned()))
}

/// Sends a request and reads the answer, whatever its status. Fails if the answer has more than `bytes_max` bytes.
pub async fn send(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, HttpClientError> {
    let mut response = request.send().await.map_err(send_error)?;
    let mut reply =
        HttpReply { status: response.status(), headers: response.headers().clone(), body: Vec::new() };
    while let Some(chunk) = response.chunk().await.map_err(send_error)? {
        if reply.body.len() + chunk.len() > bytes_max {
            return Err(HttpClientError::TooLong(bytes_max));
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

fn send_error(error: reqwest::Error) -> HttpClientError {
    if error.is_builder() {
        return build_error(error);
    }
    // A timeout while connecting also counts as a failed connection, so this check comes first.
    if error.is_connect() {
        HttpClientError::Unreachable(causes(error))
    } else if error.is_timeout() {
        HttpClientError::Late(causes(error))
    } else {
        HttpClientError::Broken(causes(error))
    }
}

fn build_error(error: reqwest::Error) -> HttpClientError {
    HttpClientError::Unsendable(causes(error))
}

/// Returns an error's text with its causes, without the address.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.join(": ")
}

/// A URL to which JSON is posted repeatedly.
#[derive(Clone, Debug)]
pub struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Endpoint {
    /// Prepares posts to `url` with these headers, which may be secret.
    ///
    /// # Errors
    /// [`HttpClientError::Unsendable`] if the address or a header is invalid.
    pub fn new(
        settings: &HttpSettings,
        url: &str,
        headers: &[(String, SecretString)],
    ) -> Result<Self, HttpClientError> {
        let url = Url::parse(url).map_err(|error| HttpClientError::Unsendable(error.to_string()))?;
        let is_plain = url.scheme() == "http";
        let mut all = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for (name, value) in headers {
            let unusable = || HttpClientError::Unsendable(format!("the header `{name}` can't be sent"));
            let header = HeaderName::try_from(name).map_err(|_| unusable())?;
            let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| unusable())?;
            value.set_sensitive(true);
            all.insert(header, value);
        }
        Ok(Self {
            client: if is_plain { plain_client(settings)? } else { client(settings)? },
            url,
            headers: all,
        })
    }

    /// Posts `body` and reads the answer, whatever its status.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post(&self, body: Vec<u8>) -> Result<HttpReply, HttpClientError> {
        let call = self.client.post(self.url.clone()).headers(self.headers.clone());
        send(call.body(body), RESPONSE_BYTES_MAX).await
    }
}
