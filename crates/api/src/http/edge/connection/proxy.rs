//! Finds the client of a request that came through a proxy. Trusts only proxies that the configuration names.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};

use super::Peer;
use recapd_config::Network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Limits how many addresses of a header are checked. No real chain of proxies is longer.
const HOPS_MAX: usize = 16;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerOrigin {
    /// `None` for the Unix socket.
    pub(super) ip: Option<IpAddr>,
}

impl PeerOrigin {
    pub(super) fn peer(self) -> Peer {
        self.ip.map_or(Peer::Local, Peer::from)
    }
}

/// The proxies whose `x-forwarded-for` headers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// True if `origin` is one of these proxies.
    pub(super) fn trusts(&self, origin: PeerOrigin) -> bool {
        self.0.iter().any(|network| network.has(origin.ip))
    }

    /// Returns the client of a request that came over a connection from `origin`. Each proxy appends the address of its
    /// client, so the client is the last address that isn't a trusted proxy's. Anybody can forge the addresses before
    /// it. If the header is missing or unreadable, the client is the proxy.
    pub(super) fn client(&self, origin: PeerOrigin, headers: &HeaderMap) -> Peer {
        if self.0.is_empty() || !self.trusts(origin) {
            return origin.peer();
        }
        let lines = headers.get_all(FORWARDED_FOR).into_iter();
        let texts: Vec<&str> =
            lines.map(|line| line.to_str().unwrap_or_default()).flat_map(|line| line.split(',')).collect();
        let mut client = origin;
        for text in texts.into_iter().rev().take(HOPS_MAX) {
            let Some(ip) = address(text.trim()) else {
                break;
            };
            client = PeerOrigin { ip: Some(ip) };
            if !self.trusts(client) {
                break;
            }
        }
        client.peer()
    }
}

/// Reads an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let unbracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = unbracketed.unwrap_or(text).parse().ok();
    ip.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &[&str], from: Option<&str>, lines: &[&str]) -> String {
        let networks = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let lines = lines.iter().map(|line| (FORWARDED_FOR, line.parse().unwrap()));
        let origin = PeerOrigin { ip: from.map(|ip| ip.parse().unwrap()) };
        let found = TrustedProxies::new(networks).client(origin, &lines.collect());
        found.to_string()
    }

    #[test]
    fn only_named_proxies_are_trusted_and_only_about_their_own_clients() {
        let near = Some("127.0.0.1");
        assert_eq!(client(&[], near, &["192.0.2.1"]), "127.0.0.1");
        assert_eq!(client(&["10.0.0.0/8"], near, &["192.0.2.1"]), "127.0.0.1");
        assert_eq!(client(&["127.0.0.1"], near, &["192.0.2.1"]), "192.0.2.1");
        assert_eq!(client(&["127.0.0.1"], near, &["6.6.6.6, 192.0.2.1"]), "192.0.2.1");
        assert_eq!(client(&["127.0.0.1"], near, &[]), "127.0.0.1");
        assert_eq!(client(&["127.0.0.1"], near, &["192.0.2.1, unknown"]), "127.0.0.1");
        assert_eq!(client(&["unix"], None, &["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(client(&["127.0.0.1"], None, &["192.0.2.1"]), "unix");
        let chain = ["127.0.0.1", "10.0.0.0/8"];
        assert_eq!(client(&chain, near, &["6.6.6.6, 192.0.2.1, 10.0.0.9"]), "192.0.2.1");
        assert_eq!(client(&chain, near, &["[2001:db8::1]:80, 10.0.0.9"]), "2001:db8::");
    }
}
