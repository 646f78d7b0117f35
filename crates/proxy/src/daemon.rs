//! The proxy's connection to the daemon: over the network, or in the same process.

use async_trait::async_trait;
use bytes::Bytes;
use hyper::StatusCode;
use reqwest::{Method, header::CONTENT_TYPE};

use recapd_client::Transport;

/// Limits the answers that are read from the daemon.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonAnswer {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Answers the proxy's requests.
#[async_trait]
pub trait ProxyDaemon: Send + Sync + 'static {
    /// Posts JSON to `path`.
    ///
    /// # Errors
    /// The reason why there is no answer, as text for the log.
    async fn post(&self, path: &str, body: Bytes) -> Result<DaemonAnswer, String>;
}

/// A daemon in another process.
#[derive(Clone, Debug)]
pub struct RemoteDaemon(Transport);

impl RemoteDaemon {
    pub fn new(transport: Transport) -> Self {
        Self(transport)
    }
}

#[async_trait]
impl ProxyDaemon for RemoteDaemon {
    async fn post(&self, path: &str, body: Bytes) -> Result<DaemonAnswer, String> {
        let request = self.0.request(Method::POST, self.0.at(path));
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let reply = self.0.send(request, ANSWER_BYTES_MAX).await;
        let reply = reply.map_err(|error| error.to_string())?;
        Ok(DaemonAnswer { status: reply.status, body: reply.body.into() })
    }
}
