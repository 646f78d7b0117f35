//! Recognises daemons by their answers.

use reqwest::StatusCode;
use serde_json::Value;

/// The `type` of every problem begins with this; the problem's code follows.
pub const PROBLEM_TYPES: &str = "urn:recapd:problem:";

/// The kind of program that answers at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// A daemon that accepts the request.
    Daemon,
    /// A daemon that reports a problem: it refuses the client, or can't answer now.
    Refusing,
    /// Another program, which may send the same status codes.
    Other,
}

/// Classifies an answer to `/version`.
pub fn answerer(status: StatusCode, body: &[u8]) -> Answerer {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let kind = body["type"].as_str().unwrap_or_default();
    if status.is_success() && body["name"] == recapd_platform::PROGRAM {
        Answerer::Daemon
    } else if kind.starts_with(PROBLEM_TYPES) {
        Answerer::Refusing
    } else {
        Answerer::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_distinguished_from_other_programs() {
        for (status, body, who) in [
            (200, r#"{"name":"recapd","version":"0.1.0"}"#, Answerer::Daemon),
            (200, r#"{"name":"another","version":"0.1.0"}"#, Answerer::Other),
            (200, "It works!", Answerer::Other),
            (401, r#"{"type":"urn:recapd:problem:unauthorized"}"#, Answerer::Refusing),
            (503, r#"{"type":"urn:recapd:problem:overloaded"}"#, Answerer::Refusing),
            (401, r#"{"type":"about:blank"}"#, Answerer::Other),
            (503, "{}", Answerer::Other),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(answerer(status, body.as_bytes()), who, "{status} {body}");
        }
    }
}
