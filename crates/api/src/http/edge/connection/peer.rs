//! Peers: the other ends of connections. Limits how many connections each peer has.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// This many leading bits of an IPv6 address name its network. One caller may use all addresses of a network.
const NETWORK_BITS: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// An IPv4 address, or an IPv6 network.
    Address(IpAddr),
    /// A program on this machine, through the Unix socket.
    Local,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Local => f.write_str("unix"),
        }
    }
}

impl From<IpAddr> for Peer {
    fn from(ip: IpAddr) -> Self {
        Self::Address(match ip.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                let network = ip.to_bits() >> (128 - NETWORK_BITS) << (128 - NETWORK_BITS);
                Ipv6Addr::from_bits(network).into()
            }
            ip => ip,
        })
    }
}

/// The number of connections of each peer. There are no more entries than connections.
pub(super) struct Peers {
    per_peer_max: usize,
    counts: Mutex<HashMap<Peer, usize>>,
}

impl Peers {
    pub(super) fn with_limit(per_peer_max: usize) -> Self {
        Self { per_peer_max, counts: Mutex::default() }
    }

    /// Takes a slot for one more connection of `peer`; `None` if the peer has too many.
    pub(super) fn take(peers: &Arc<Self>, peer: Peer) -> Option<PeerSlot> {
        let mut counts = peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= peers.per_peer_max {
            return None;
        }
        *count += 1;
        Some(PeerSlot { peers: Arc::clone(peers), peer })
    }
}

/// The slot of a connection. Returned when dropped.
pub(super) struct PeerSlot {
    peers: Arc<Peers>,
    peer: Peer,
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_network_is_one_peer() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::2:0:0:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(peer("::1"), Peer::Address(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn slots_are_returned() {
        let peers = Arc::new(Peers::with_limit(2));
        let (one, other) = (peer("192.0.2.1"), Peer::Local);
        let held = [Peers::take(&peers, one), Peers::take(&peers, one)];
        assert!(held.iter().all(Option::is_some));
        assert!(Peers::take(&peers, one).is_none());
        assert!(Peers::take(&peers, other).is_some());
        drop(held);
        assert!(Peers::take(&peers, one).is_some());
        assert!(peers.counts.lock().unwrap().is_empty());
    }
}
