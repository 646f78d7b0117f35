//! Requests to a daemon, whatever they ask for.

use reqwest::{Client, Method, RequestBuilder, Url};
use secrecy::ExposeSecret as _;

use super::{place::DaemonEndpoint, trust::Credentials};
use recapd_platform::http_client::{self, HttpClientError, HttpReply, HttpSettings};

/// What requests to a socket name as their host.
const SOCKET_HOST: &str = "http://localhost";

/// Connections to a daemon, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Transport {
    place: DaemonEndpoint,
    base: Url,
    client: Client,
    credentials: Credentials,
}

impl Transport {
    /// To the daemon there. Without `https:` no certificates are read, which takes longer than a call.
    ///
    /// # Errors
    /// [`HttpClientError::Unsendable`] if there can't be a connection.
    pub fn new(place: &DaemonEndpoint, settings: &HttpSettings) -> Result<Self, HttpClientError> {
        let socket_base =
            || Url::parse(SOCKET_HOST).map_err(|error| HttpClientError::Unsendable(error.to_string()));
        let (base, client) = match place {
            DaemonEndpoint::Socket(path) => (socket_base()?, http_client::socket_client(settings, path)?),
            DaemonEndpoint::Address(url) if url.scheme() == "https" => {
                (url.clone(), http_client::client(settings)?)
            }
            DaemonEndpoint::Address(url) => (url.clone(), http_client::plain_client(settings)?),
        };
        Ok(Self {
            place: place.clone(),
            base,
            client,
            credentials: Credentials::default(),
        })
    }

    /// The same, with these credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// What is shown to the daemon.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Where it leads.
    pub fn place(&self) -> &DaemonEndpoint {
        &self.place
    }

    /// The address of a path, given by its segments, with parameters; both are escaped.
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

    /// The address of a path that is escaped already, with its parameters.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base.as_str().trim_end_matches('/'))
    }

    /// A request, to be sent by [`Self::send`].
    pub fn request(&self, method: Method, url: impl reqwest::IntoUrl) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request with the token, if who listens there may have it, and reads an answer of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`HttpClientError::Untrusted`] before anything is sent, else those of [`http_client::send`].
    pub async fn send(
        &self,
        request: RequestBuilder,
        bytes_max: usize,
    ) -> Result<HttpReply, HttpClientError> {
        self.credentials.check(&self.place).await?;
        let request = match &self.credentials.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        http_client::send(request, bytes_max).await
    }
}
