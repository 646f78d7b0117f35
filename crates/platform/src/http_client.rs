//! HTTP as a client: the one place where a client is built, and where an answer is read.
//!
//! Invariant: no call lasts longer than its timeout, and no answer takes more memory than its limit.

use std::{error::Error as _, path::Path, time::Duration};

use reqwest::{
    Client, ClientBuilder, Proxy, RequestBuilder, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret as _, SecretString};

/// The longest body that is read, in bytes, unpacked. An answer of 10,000 tokens has some 40 KiB.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// How long a whole call may last, from the first byte sent to the last one read.
    pub timeout_ms: u64,
    /// How long making the connection may last, within `timeout_ms`.
    pub connect_timeout_ms: u64,
    /// What every call goes through: a proxy's URL, or `unix:` and the path of a socket, whose other end passes bytes on. The
    /// environment isn't asked.
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
    pub status: StatusCode,
    pub headers: HeaderMap,
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
pub enum HttpClientError {
    /// The settings or the request can't be right: trying again won't help.
    #[error("{0}")]
    Unsendable(String),
    /// None came in time.
    #[error("{0}")]
    Late(String),
    /// Another user's program listens there: nothing is sent to it.
    #[error("{0}")]
    Untrusted(String),
    /// The connection can't be made: nobody there has heard of the request.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke off, perhaps over the request.
    #[error("{0}")]
    Broken(String),
    /// The answer has more bytes than are read.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// A client with these settings. It doesn't follow redirects: a key belongs to the host it was given for.
pub fn client(settings: &HttpSettings) -> Result<Client, HttpClientError> {
    built(builder(settings)?)
}

/// As [`client`], for addresses without TLS alone: it reads no certificates, of which a system has hundreds.
pub fn plain_client(settings: &HttpSettings) -> Result<Client, HttpClientError> {
    built(builder(settings)?.tls_certs_only(std::iter::empty()))
}

/// As [`plain_client`], for whoever listens at a Unix socket, whatever host a request names.
#[cfg(unix)]
pub fn socket_client(settings: &HttpSettings, socket: &Path) -> Result<Client, HttpClientError> {
    built(
        builder(settings)?
            .tls_certs_only(std::iter::empty())
            .unix_socket(socket),
    )
}

/// As [`plain_client`], for whoever listens at a Unix socket, which this system can't reach.
#[cfg(not(unix))]
pub fn socket_client(_: &HttpSettings, _: &Path) -> Result<Client, HttpClientError> {
    Err(HttpClientError::Unsendable(
        "this system has no Unix sockets; give an address such as http://127.0.0.1:7411".to_owned(),
    ))
}

fn built(builder: ClientBuilder) -> Result<Client, HttpClientError> {
    builder.build().map_err(unsendable)
}

fn builder(settings: &HttpSettings) -> Result<ClientBuilder, HttpClientError> {
    // An error says that a provider is installed already, which is what is wanted.
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
        None => Ok(builder.proxy(Proxy::all(proxy).map_err(unsendable)?)),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have no Unix sockets")]
fn through_socket(builder: ClientBuilder, socket: &Path) -> Result<ClientBuilder, HttpClientError> {
    Ok(builder.unix_socket(socket))
}

#[cfg(not(unix))]
fn through_socket(_: ClientBuilder, _: &Path) -> Result<ClientBuilder, HttpClientError> {
    Err(HttpClientError::Unsendable(
        "this system has no Unix sockets".to_owned(),
    ))
}

/// Sends a request and reads the answer, whatever its status, if it has at most `bytes_max` bytes.
pub async fn send(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, HttpClientError> {
    let mut response = request.send().await.map_err(unanswered)?;
    let mut reply = HttpReply {
        status: response.status(),
        headers: response.headers().clone(),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        if reply.body.len() + chunk.len() > bytes_max {
            return Err(HttpClientError::TooLong(bytes_max));
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

fn unanswered(error: reqwest::Error) -> HttpClientError {
    if error.is_builder() {
        return unsendable(error);
    }
    // First, since a connection that isn't made in time is one that can't be made, too.
    if error.is_connect() {
        HttpClientError::Unreachable(causes(error))
    } else if error.is_timeout() {
        HttpClientError::Late(causes(error))
    } else {
        HttpClientError::Broken(causes(error))
    }
}

fn unsendable(error: reqwest::Error) -> HttpClientError {
    HttpClientError::Unsendable(causes(error))
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

/// A place to which JSON is posted again and again.
#[derive(Clone, Debug)]
pub struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Endpoint {
    /// That place, with headers that may be secret.
    ///
    /// # Errors
    /// [`HttpClientError::Unsendable`] when the address or a header can't be right.
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
            client: if is_plain {
                plain_client(settings)?
            } else {
                client(settings)?
            },
            url,
            headers: all,
        })
    }

    /// Posts `body` and reads the answer, whatever its status.
    ///
    /// # Errors
    /// When there is none.
    pub async fn post(&self, body: Vec<u8>) -> Result<HttpReply, HttpClientError> {
        let call = self.client.post(self.url.clone()).headers(self.headers.clone());
        send(call.body(body), RESPONSE_BYTES_MAX).await
    }
}
