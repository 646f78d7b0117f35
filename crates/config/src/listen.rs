//! The address on which the daemon listens.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The prefix of a socket's path, in configurations and for clients.
const SOCKET_PREFIX: &str = "unix:";
/// Limits the path of a socket, in bytes (`sockaddr_un`, without the terminator).
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Address(SocketAddr),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an address and a port, such as `127.0.0.1:7411` or `[::1]:7411`, nor `unix:` and the path of a socket, from \
     the root and of at most {SOCKET_PATH_BYTES_MAX} bytes, such as `unix:/run/recapd/recapd.sock`"
)]
pub struct InvalidListen(String);

impl Listen {
    /// Returns true if only programs on this machine can connect.
    pub fn is_near(&self) -> bool {
        match self {
            Self::Address(address) => address.ip().is_loopback(),
            Self::Socket(_) => true,
        }
    }

    /// Returns the IP address on which the daemon listens; `None` if it is unspecified or a socket.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip()).filter(|ip| !ip.is_unspecified()),
            Self::Socket(_) => None,
        }
    }

    /// Returns the address for clients on this machine, such as `http://127.0.0.1:7411` or `unix:/run/recapd/recapd.sock`. If the
    /// daemon listens on all addresses, this is a loopback address.
    pub fn base(&self) -> String {
        match self.reachable() {
            Some(address) => format!("http://{address}"),
            None => self.to_string(),
        }
    }

    /// Returns the address to which clients on this machine connect; `None` for a socket.
    pub fn reachable(&self) -> Option<SocketAddr> {
        let Self::Address(mut address) = *self else {
            return None;
        };
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Some(address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => write!(f, "{SOCKET_PREFIX}{}", path.display()),
        }
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, InvalidListen> {
        let invalid = || InvalidListen(text.to_owned());
        let Some(path) = text.strip_prefix(SOCKET_PREFIX) else {
            return text.parse().map(Self::Address).map_err(|_| invalid());
        };
        let is_fine = path.starts_with('/') && path.len() <= SOCKET_PATH_BYTES_MAX && !path.ends_with('/');
        is_fine.then(|| Self::Socket(PathBuf::from(path))).ok_or_else(invalid)
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_listen_at() {
        for (text, base, is_near) in [
            ("127.0.0.1:7411", "http://127.0.0.1:7411", true),
            ("0.0.0.0:80", "http://127.0.0.1:80", false),
            ("[::]:80", "http://[::1]:80", false),
            ("192.0.2.1:80", "http://192.0.2.1:80", false),
            ("unix:/run/recapd/recapd.sock", "unix:/run/recapd/recapd.sock", true),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!((listen.base().as_str(), listen.is_near()), (base, is_near));
        }
    }

    #[test]
    fn an_invalid_listen_address_is_an_error_with_examples() {
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["", "localhost:80", "127.0.0.1", "unix:", "unix:run/recapd.sock", "unix:/run/", &long] {
            let error = text.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:7411") && error.contains("unix:/run/recapd"), "{error}");
        }
    }
}
