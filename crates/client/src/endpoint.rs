//! A daemon's address.

use std::{fmt, path::PathBuf, str::FromStr};

use reqwest::Url;

/// The prefix of a socket's address.
const SOCKET: &str = "unix:";

/// The address of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonEndpoint {
    /// A URL such as `http://127.0.0.1:7411`; paths are appended to it.
    Address(Url),
    /// A Unix socket, such as `unix:/run/recapd/recapd.sock`.
    Socket(PathBuf),
}

/// An error in a daemon's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` isn't the address of a daemon: {reason}; use one such as http://127.0.0.1:7411 or \
     unix:/run/recapd/recapd.sock"
)]
pub struct EndpointError {
    text: String,
    reason: String,
}

impl FromStr for DaemonEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let invalid = |reason: &str| EndpointError { text: text.to_owned(), reason: reason.to_owned() };
        if let Some(path) = text.strip_prefix(SOCKET) {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Socket(path))
            } else {
                Err(invalid("the path of a socket begins with `/`"))
            };
        }
        let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
        match (url.scheme(), url.has_host()) {
            ("http" | "https", true) => Ok(Self::Address(url)),
            (scheme, _) => Err(invalid(&format!("`{scheme}:` is neither http nor https"))),
        }
    }
}

impl fmt::Display for DaemonEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_sockets_are_distinguished() {
        for (text, shown) in [
            ("http://127.0.0.1:7411", "http://127.0.0.1:7411"),
            ("https://recapd.example/behind/", "https://recapd.example/behind"),
            ("unix:/run/recapd/recapd.sock", "unix:/run/recapd/recapd.sock"),
            ("unix:///run/recapd.sock", "unix:/run/recapd.sock"),
        ] {
            assert_eq!(text.parse::<DaemonEndpoint>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn an_invalid_address_is_an_error_with_a_cure() {
        for text in ["127.0.0.1:7411", "localhost:7411", "unix:run.sock", "ftp://host", "", "http://"] {
            let error = text.parse::<DaemonEndpoint>().unwrap_err().to_string();
            assert!(error.contains("use one such as http://127.0.0.1:7411"), "{error}");
        }
    }
}
