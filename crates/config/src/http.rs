//! `[http]`: who may ask, where, and how much.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    listen::Listen,
    network::Network,
    socket::{LocalSocket, RuntimeFolders, Sockets},
};

/// `[http]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    pub listen: Listen,
    /// The socket beside the address.
    pub socket: LocalSocket,
    /// Its paths, by the environment.
    #[serde(skip)]
    pub sockets: Sockets,
    /// The mode of the socket's file.
    #[serde(deserialize_with = "mode")]
    pub socket_mode: SocketMode,
    /// A file with tokens beside those in the database; empty for none.
    pub tokens_file: String,
    /// The largest request body.
    pub body_bytes_max: usize,
    /// The most bytes that answers made of what was said need together.
    pub answers_bytes_max: usize,
    /// How long one request may take.
    pub request_timeout_ms: u64,
    /// How long the head of a request may take.
    pub head_timeout_ms: u64,
    /// How long a connection may be idle.
    pub idle_timeout_ms: u64,
    /// How long a client may take nothing of an answer.
    pub stall_timeout_ms: u64,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most connections of one address at once.
    pub connections_per_peer_max: usize,
    /// The most clients that are told of events at once.
    pub subscribers_max: usize,
    /// Requests a second of one token, or of one address without one; 0: no limit.
    pub requests_per_second: u32,
    /// So many of them at once.
    pub requests_burst: u32,
    /// The most messages in one request.
    pub batch_messages_max: usize,
    /// The most bytes that summaries kept in memory for readers need together.
    pub snapshot_bytes_max: usize,
    /// Proxies that are believed about whom they ask for.
    pub trusted_proxies: Vec<String>,
    /// Further names under which clients may ask.
    pub allowed_hosts: Vec<String>,
    /// The most events of each kind that the audit keeps; 0: they are only logged.
    pub audit_rows_max: i64,
    /// Requests need a token even if none was ever made.
    pub require_token: bool,
}

impl HttpConfig {
    /// The names under which clients may ask, beside those of a loopback address: those configured, and the address
    /// listened on if it is one.
    pub fn hosts(&self) -> Vec<String> {
        let own = self.listen.ip().map(|ip| ip.to_string());
        own.into_iter()
            .chain(self.allowed_hosts.iter().cloned())
            .collect()
    }

    /// Finds the paths of the socket beside the address.
    pub(super) fn settle(&mut self, folders: &RuntimeFolders) {
        self.sockets = self.socket.beside(&self.listen, folders);
    }

    /// The proxies that are believed.
    pub fn proxies(&self) -> Vec<Network> {
        let texts = self.trusted_proxies.iter();
        texts.filter_map(|text| text.parse().ok()).collect()
    }
}

/// Nine bits of permissions, in octal digits as of `chmod`.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketMode, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_fine = (3..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = u32::from_str_radix(&text, 8)
        .ok()
        .filter(|bits| is_fine && *bits <= 0o777);
    bits.map(SocketMode)
        .ok_or_else(|| D::Error::custom(format!("`{text}` is no mode of a file, such as `0660`")))
}

/// Who may ask by the Unix socket: the mode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}
