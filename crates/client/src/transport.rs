//! Sends requests to a daemon.

use reqwest::{Client, Method, RequestBuilder, Url};
use secrecy::ExposeSecret as _;

use super::{endpoint::DaemonEndpoint, trust::Credentials};
use recapd_platform::http_client::{self, HttpClientError, HttpReply, HttpSettings};

/// The host name in requests through a socket.
const SOCKET_HOST: &str = "http://localhost";

/// Connections to a daemon, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Transport {
    endpoint: DaemonEndpoint,
    base: Url,
    client: Client,
    credentials: Credentials,
}

impl Transport {
    /// Prepares connections to the daemon at `endpoint`. Reads certificates only for `https:`, because that takes longer
    /// than a call.
    ///
    /// # Errors
    /// [`HttpClientError::Unsendable`] if no connection is possible.
    pub fn new(endpoint: &DaemonEndpoint, settings: &HttpSettings) -> Result<Self, HttpClientError> {
        let socket_base =
            || Url::parse(SOCKET_HOST).map_err(|error| HttpClientError::Unsendable(error.to_string()));
        let (base, client) = match endpoint {
            DaemonEndpoint::Socket(path) => (socket_base()?, http_client::socket_client(settings, path)?),
            DaemonEndpoint::Address(url) if url.scheme() == "https" => {
                (url.clone(), http_client::client(settings)?)
            }
            DaemonEndpoint::Address(url) => (url.clone(), http_client::plain_client(settings)?),
        };
        Ok(Self { endpoint: endpoint.clone(), base, client, credentials: Credentials::default() })
    }

    /// Returns the same transport with these credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Returns the credentials for the daemon.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns the daemon's address.
    pub fn endpoint(&self) -> &DaemonEndpoint {
        &self.endpoint
    }

    /// Returns the URL of a path with parameters. `path` holds the path's segments. Escapes both.
    pub fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Returns the URL of a path whose parameters are already escaped.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base.as_str().trim_end_matches('/'))
    }

    /// Prepares a request for [`Self::send`].
    pub fn request(&self, method: Method, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request with the token if the listening program is trusted. Reads an answer of at most `bytes_max`
    /// bytes.
    ///
    /// # Errors
    /// [`HttpClientError::Untrusted`] before anything is sent; otherwise the errors of [`http_client::send`].
    pub async fn send(
        &self,
        request: RequestBuilder,
        bytes_max: usize,
    ) -> Result<HttpReply, HttpClientError> {
        self.credentials.check(&self.endpoint).await?;
        let request = match &self.credentials.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        http_client::send(request, bytes_max).await
    }
}
