//! Networks in CIDR notation.

use std::{net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// The name for all clients of the Unix socket.
const SOCKET: &str = "unix";

/// A group of clients, by their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Addresses(IpNet),
    Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address such as `127.0.0.1`, a network such as `10.0.0.0/8`, or `unix` for the socket")]
pub struct InvalidNetwork;

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        if text == SOCKET {
            return Ok(Self::Socket);
        }
        let network = text.parse::<IpNet>();
        let network = network.or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        // A network of all addresses would be a mistake: any client could state any address as its own.
        let network = network.ok().filter(|network| network.prefix_len() > 0);
        network.map(Self::Addresses).ok_or(InvalidNetwork)
    }
}

impl Network {
    /// Returns true if the network contains this address. `None` stands for a client of the socket.
    pub fn has(&self, ip: Option<IpAddr>) -> bool {
        match (self, ip) {
            (Self::Socket, None) => true,
            (Self::Addresses(network), Some(ip)) => network.contains(&ip.to_canonical()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses() {
        let has = |network: &str, ip: &str| network.parse::<Network>().unwrap().has(ip.parse().ok());
        for (network, ip, is_in) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "::1", false),
            ("unix", "", true),
            ("127.0.0.1", "", false),
            ("unix", "127.0.0.1", false),
        ] {
            assert_eq!(has(network, ip), is_in, "{network} {ip}");
        }
        for wrong in ["", "localhost", "10.0.0.0/33", "::/0", "0.0.0.0/0", "10.0.0.0/x", "10.0.0.1:80"] {
            assert_eq!(wrong.parse::<Network>(), Err(InvalidNetwork), "{wrong}");
        }
    }
}
