//! `[http]`: who may ask, where, and how much.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// `[http]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Address and port to listen on.
    #[serde(deserialize_with = "listen_address")]
    pub listen: SocketAddr,
    /// The largest request body.
    pub body_bytes_max: usize,
    /// How long one request may take.
    pub request_timeout_ms: u64,
    /// How long the head of a request may take, and a connection be idle.
    pub head_timeout_ms: u64,
    /// How long a client may take nothing of an answer.
    pub stall_timeout_ms: u64,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most connections of one address at once.
    pub connections_per_peer_max: usize,
    /// The most messages in one request.
    pub batch_messages_max: usize,
    /// The most bytes that summaries kept in memory for readers need together.
    pub snapshot_bytes_max: usize,
    /// Further names under which clients may ask.
    pub allowed_hosts: Vec<String>,
    /// Requests need a token even if none was ever made.
    pub require_token: bool,
}

impl HttpConfig {
    /// The names under which clients may ask, beside those of a loopback address: those configured, and the address
    /// listened on if it is one.
    pub fn hosts(&self) -> Vec<String> {
        let address = self.listen.ip();
        let own = (!address.is_unspecified()).then(|| address.to_string());
        own.into_iter()
            .chain(self.allowed_hosts.iter().cloned())
            .collect()
    }
}

fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "`{text}` is not an address and a port, such as `127.0.0.1:7411` or `[::1]:7411`"
        ))
    })
}
