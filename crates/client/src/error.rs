//! Errors of calls. Each says what the caller should do next.

use std::time::Duration;

use reqwest::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};

use recapd_platform::http_client::{HttpClientError, HttpReply};

/// An error quotes at most this many characters of an answer.
const QUOTED_CHARS_MAX: usize = 200;

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Retry later: there was no answer, or none in time.
    #[error("the daemon doesn't answer: {0}")]
    Unreachable(String),
    /// Retry later: the daemon can't answer now.
    #[error("the daemon can't answer now: {0}")]
    Unavailable(Problem),
    /// Change the request: the daemon refuses it.
    #[error("the daemon refuses the request: {0}")]
    Refused(Problem),
    /// Check the address: another program answered, or another version of recapd.
    #[error("the answer isn't from a recapd daemon: {0}")]
    Unreadable(String),
    /// Change the address or the settings: no request can be sent with them.
    #[error("{0}")]
    Unusable(String),
}

/// A problem that the daemon reports (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem, for programs.
    pub code: String,
    /// A description of this occurrence.
    pub detail: String,
    /// How to solve the problem.
    #[serde(default)]
    pub hint: Option<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl ClientError {
    /// Returns the daemon's code of the problem, such as `unknown_agent`.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Unavailable(problem) | Self::Refused(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// True if a retry may succeed.
    pub(super) fn may_succeed_later(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unavailable(_))
    }

    pub(super) fn late(timeout: Duration) -> Self {
        Self::Unreachable(format!("no answer within {} ms", timeout.as_millis()))
    }

    pub(super) fn unrepeatable() -> Self {
        Self::Unusable("the request can't be sent twice".to_owned())
    }
}

impl From<HttpClientError> for ClientError {
    fn from(error: HttpClientError) -> Self {
        match error {
            HttpClientError::Unsendable(reason) | HttpClientError::Untrusted(reason) => {
                Self::Unusable(reason)
            }
            HttpClientError::Unreachable(reason)
            | HttpClientError::Late(reason)
            | HttpClientError::Broken(reason) => Self::Unreachable(reason),
            HttpClientError::TooLong(_) => Self::Unreadable(error.to_string()),
        }
    }
}

/// Parses an answer as a `T`, or as a problem.
pub(super) fn read<T: DeserializeOwned>(reply: &HttpReply) -> Result<T, ClientError> {
    if reply.status.is_success() {
        return serde_json::from_slice(&reply.body)
            .map_err(|error| ClientError::Unreadable(error.to_string()));
    }
    match serde_json::from_slice::<Problem>(&reply.body) {
        Ok(problem) if is_busy(reply.status) => Err(ClientError::Unavailable(problem)),
        Ok(problem) => Err(ClientError::Refused(problem)),
        Err(_) => {
            let text: String = String::from_utf8_lossy(&reply.body).chars().take(QUOTED_CHARS_MAX).collect();
            Err(ClientError::Unreadable(format!("{} {text}", reply.status)))
        }
    }
}

/// True if the daemon may succeed a little later.
fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
