//! Whether an answer comes from a daemon, for whoever found somebody at its address.

use serde_json::Value;

/// What the type of each problem of a daemon begins with.
const PROBLEM_TYPES: &str = "urn:recapd:problem:";

/// Whether a body is a daemon's word on what is wrong, and not that of somebody else who refuses the same way.
pub(crate) fn is_problem(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["type"]
        .as_str()
        .is_some_and(|kind| kind.starts_with(PROBLEM_TYPES))
}

/// Whether a body is a daemon's answer to `/version`.
pub(crate) fn is_version(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["name"] == env!("CARGO_PKG_NAME")
}
