//! `[http]`: where the daemon listens, and its limits.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    listen::Listen,
    network::Network,
    socket::{LocalSocket, RuntimeFolders, Sockets},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    pub listen: Listen,
    pub socket: LocalSocket,
    #[serde(skip)]
    pub sockets: Sockets,
    #[serde(deserialize_with = "mode")]
    pub socket_mode: SocketMode,
    /// A file with tokens in addition to those in the database; empty if there is none.
    pub tokens_file: String,
    pub body_bytes_max: usize,
    pub answers_bytes_max: usize,
    pub request_timeout_ms: u64,
    pub head_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub connections_max: usize,
    pub connections_per_peer_max: usize,
    pub subscribers_max: usize,
    /// Limits the requests per second of one token, or of an address without a token; 0 means no limit.
    pub requests_per_second: u32,
    pub requests_burst: u32,
    pub batch_messages_max: usize,
    pub snapshot_bytes_max: usize,
    /// Proxies that may state the client's address.
    pub trusted_proxies: Vec<String>,
    /// Other host names that clients may use.
    pub allowed_hosts: Vec<String>,
    /// Limits the events of each kind that the audit stores; with 0 they are only logged.
    pub audit_rows_max: i64,
    /// True if requests need a token even if none exists yet.
    pub require_token: bool,
}

impl HttpConfig {
    /// Returns the host names that clients may use in addition to loopback addresses: the configured ones, and the address on
    /// which the daemon listens, unless it is unspecified.
    pub fn hosts(&self) -> Vec<String> {
        let listen_ip = self.listen.ip().map(|ip| ip.to_string());
        listen_ip.into_iter().chain(self.allowed_hosts.iter().cloned()).collect()
    }

    /// Sets the paths of the additional socket.
    pub(super) fn settle(&mut self, folders: &RuntimeFolders) {
        self.sockets = self.socket.paths(&self.listen, folders);
    }

    pub fn proxies(&self) -> Vec<Network> {
        let texts = self.trusted_proxies.iter();
        texts.filter_map(|text| text.parse().ok()).collect()
    }
}

/// Reads nine permission bits in octal digits, as `chmod` does.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketMode, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_fine = (3..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = u32::from_str_radix(&text, 8).ok().filter(|bits| is_fine && *bits <= 0o777);
    bits.map(SocketMode)
        .ok_or_else(|| D::Error::custom(format!("`{text}` is no mode of a file, such as `0660`")))
}

/// The mode of the Unix socket's file, which decides who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}
