//! Decides which users' programs are trusted as daemons. On a shared machine, any user can listen at a daemon's
//! address.

use std::{
    fs,
    io::Read as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use reqwest::Url;
use secrecy::SecretString;
use tokio::net::UnixStream;

use super::{endpoint::DaemonEndpoint, listeners::listeners};
use recapd_platform::http_client::HttpClientError;

/// The environment variable that names a further trusted user, by name or number, or [`ANYBODY`].
pub const USER_VARIABLE: &str = "RECAPD_SERVER_USER";
/// The value that trusts every user.
const ANYBODY: &str = "any";
/// The user of the packaged daemon.
const SERVICE_USER: &str = "recapd";
const ROOT: u32 = 0;
/// The name by which URLs name this machine without a DNS lookup.
const LOCALHOST: &str = "localhost";
const ACCOUNTS: &str = "/etc/passwd";
/// At most this many bytes of the list of accounts are read.
const ACCOUNTS_BYTES_MAX: u64 = 1 << 20;

/// The token for a daemon, and the users who may receive the token.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The token; `None` if the daemon needs none.
    pub token: Option<SecretString>,
    /// The users whose daemons may receive the token.
    pub trust: Trust,
}

/// The users whose daemons are trusted: always the current user, root and `recapd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Only these users.
    #[default]
    Usual,
    /// Also this user.
    User(u32),
    /// Every user.
    Anybody,
}

/// The named user has no account on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no user `{0}` in {ACCOUNTS}; give a name, a number, or `{ANYBODY}` for all users")]
pub struct UnknownUser(String);

impl Trust {
    /// Trusts the usual users, and `user`: a name, a number, or `any` for every user.
    ///
    /// # Errors
    /// If no account has this name.
    pub fn of(user: Option<&str>) -> Result<Self, UnknownUser> {
        let Some(name) = user.map(str::trim).filter(|name| !name.is_empty()) else {
            return Ok(Self::Usual);
        };
        if name == ANYBODY {
            return Ok(Self::Anybody);
        }
        let user = name.parse().ok().or_else(|| user_named(name));
        user.map(Self::User).ok_or_else(|| UnknownUser(name.to_owned()))
    }

    fn includes(self, user: u32) -> bool {
        match self {
            Self::Anybody => true,
            Self::User(trusted) if trusted == user => true,
            Self::User(_) | Self::Usual => {
                user == ROOT || user == own_user() || user_named(SERVICE_USER) == Some(user)
            }
        }
    }

    /// Checks that all `users` who listen at `endpoint` are trusted.
    fn check(self, endpoint: &DaemonEndpoint, users: &[u32]) -> Result<(), HttpClientError> {
        match users.iter().find(|user| !self.includes(**user)) {
            None => Ok(()),
            Some(user) => Err(HttpClientError::Untrusted(format!(
                "a program of user {user} listens at {endpoint}. Only programs of you, root and {SERVICE_USER} are trusted, so nothing was \
                 sent; if this program is your daemon, set {USER_VARIABLE}={user}"
            ))),
        }
    }
}

impl Credentials {
    /// Checks who listens at `endpoint`, a socket or a local address, before a token or a message is sent. A daemon on another
    /// machine proves its identity by its certificate.
    ///
    /// # Errors
    /// [`HttpClientError::Untrusted`] for a user who isn't trusted, [`HttpClientError::Unreachable`] if no program listens.
    pub(super) async fn check(&self, endpoint: &DaemonEndpoint) -> Result<(), HttpClientError> {
        if self.trust == Trust::Anybody {
            return Ok(());
        }
        match endpoint {
            DaemonEndpoint::Socket(path) => self.trust.check(endpoint, &[socket_user(path).await?]),
            DaemonEndpoint::Address(url) => match loopback(url) {
                Some(addresses) => self.check_listeners(endpoint, &addresses),
                None => Ok(()),
            },
        }
    }

    fn check_listeners(
        &self,
        endpoint: &DaemonEndpoint,
        addresses: &[SocketAddr],
    ) -> Result<(), HttpClientError> {
        match listeners(addresses) {
            // The operating system doesn't say who listens, so the check isn't possible.
            None => Ok(()),
            Some(users) if users.is_empty() => {
                Err(HttpClientError::Unreachable(format!("nobody listens at {endpoint}")))
            }
            Some(users) => self.trust.check(endpoint, &users),
        }
    }
}

/// Returns the user whose program listens at a socket.
async fn socket_user(path: &Path) -> Result<u32, HttpClientError> {
    let unreachable = |error: std::io::Error| HttpClientError::Unreachable(error.to_string());
    let stream = UnixStream::connect(path).await.map_err(unreachable)?;
    Ok(stream.peer_cred().map_err(unreachable)?.uid())
}

/// Returns the loopback addresses that a URL names; `None` for any other host. Does no DNS lookup.
fn loopback(url: &Url) -> Option<Vec<SocketAddr>> {
    let ips: Vec<IpAddr> = match url.host_str()?.trim_matches(['[', ']']) {
        LOCALHOST => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        host => vec![host.parse().ok()?],
    };
    let port = url.port_or_known_default()?;
    let is_near = ips.iter().all(IpAddr::is_loopback);
    is_near.then(|| ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn user_named(name: &str) -> Option<u32> {
    let mut accounts = String::new();
    let file = fs::File::open(ACCOUNTS).ok()?;
    file.take(ACCOUNTS_BYTES_MAX).read_to_string(&mut accounts).ok()?;
    number_of(name, &accounts)
}

/// Finds an account's number in lines such as `recapd:x:998:998::/var/lib/recapd:/usr/sbin/nologin` (passwd(5)).
fn number_of(name: &str, accounts: &str) -> Option<u32> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u32 = 4_242_424;

    fn address(url: &str) -> DaemonEndpoint {
        url.parse().unwrap()
    }

    #[test]
    fn the_current_user_root_and_a_named_user_are_trusted() {
        let endpoint = address("http://127.0.0.1:7411");
        let own = own_user();
        for trust in [Trust::Usual, Trust::User(OTHER), Trust::Anybody] {
            assert_eq!(trust.check(&endpoint, &[ROOT, own]), Ok(()));
        }
        let refused = Trust::Usual.check(&endpoint, &[own, OTHER]).unwrap_err().to_string();
        assert!(refused.contains("RECAPD_SERVER_USER=4242424"), "{refused}");
        assert_eq!(Trust::User(OTHER).check(&endpoint, &[OTHER]), Ok(()));
        assert_eq!(Trust::Anybody.check(&endpoint, &[OTHER]), Ok(()));
    }

    #[test]
    fn users_are_named_by_name_or_number() {
        assert_eq!(Trust::of(None), Ok(Trust::Usual));
        assert_eq!(Trust::of(Some(" ")), Ok(Trust::Usual));
        assert_eq!(Trust::of(Some("root")), Ok(Trust::User(0)));
        assert_eq!(Trust::of(Some("1001")), Ok(Trust::User(1001)));
        assert_eq!(Trust::of(Some("any")), Ok(Trust::Anybody));
        let unknown = Trust::of(Some("no such user")).unwrap_err().to_string();
        assert!(unknown.contains("no such user") && unknown.contains("`any`"), "{unknown}");
        let accounts =
            "root:x:0:0:root:/root:/bin/sh\nrecapd:x:998:997::/var/lib/recapd:/usr/sbin/nologin\nbroken\n";
        assert_eq!(number_of("recapd", accounts), Some(998));
        assert_eq!(number_of("broken", accounts), None);
    }

    #[test]
    fn only_urls_with_loopback_addresses_are_checked() {
        for near in ["http://127.0.0.1:7411", "http://localhost:7411", "http://127.8.0.1/", "http://[::1]:80"]
        {
            assert!(loopback(&near.parse().unwrap()).is_some(), "{near}");
        }
        for far in ["http://192.0.2.1:7411", "http://[2001:db8::1]:7411", "https://recapd.example"] {
            assert_eq!(loopback(&far.parse().unwrap()), None, "{far}");
        }
    }

    #[tokio::test]
    async fn the_listening_user_is_found_for_sockets_and_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recapd.sock");
        let _listener = tokio::net::UnixListener::bind(&path).unwrap();
        assert_eq!(socket_user(&path).await, Ok(own_user()));

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = address(&format!("http://{}", listener.local_addr().unwrap()));
        let credentials = Credentials::default();
        assert_eq!(credentials.check(&there).await, Ok(()));
        drop(listener);
        let nobody = credentials.check(&there).await;
        assert!(matches!(nobody, Err(HttpClientError::Unreachable(_))), "{nobody:?}");
    }
}
