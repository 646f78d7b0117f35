//! Requests to a daemon, whatever they ask for; [`crate::wire::send`] sends them.

use reqwest::{Client, Method, RequestBuilder, Url};
use secrecy::{ExposeSecret as _, SecretString};

use super::place::Place;
use crate::wire::{self, HttpSettings, WireError};

/// What requests to a socket name as their host.
const SOCKET_HOST: &str = "http://localhost";

/// Connections to a daemon, and the token that opens it.
#[derive(Clone, Debug)]
pub struct Transport {
    place: Place,
    base: Url,
    client: Client,
    token: Option<SecretString>,
}

impl Transport {
    /// To the daemon there. Without `https:` no certificates are read, which takes longer than a call.
    ///
    /// # Errors
    /// [`WireError::Unsendable`] if there can't be a connection.
    pub fn new(place: &Place, settings: &HttpSettings) -> Result<Self, WireError> {
        let socket_base =
            || Url::parse(SOCKET_HOST).map_err(|error| WireError::Unsendable(error.to_string()));
        let (base, client) = match place {
            Place::Socket(path) => (socket_base()?, wire::socket_client(settings, path)?),
            Place::Address(url) if url.scheme() == "https" => (url.clone(), wire::client(settings)?),
            Place::Address(url) => (url.clone(), wire::plain_client(settings)?),
        };
        Ok(Self {
            place: place.clone(),
            base,
            client,
            token: None,
        })
    }

    /// The same, with this token in every request.
    #[must_use]
    pub fn with_token(self, token: Option<SecretString>) -> Self {
        Self { token, ..self }
    }

    /// Where it leads.
    pub fn place(&self) -> &Place {
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

    /// A request, with the token.
    pub fn request(&self, method: Method, url: impl reqwest::IntoUrl) -> RequestBuilder {
        let request = self.client.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }
}
