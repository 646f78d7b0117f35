//! `[batch]`

use serde::{Deserialize, Serialize};

/// `[batch]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchConfig {
    /// How long a question waits for others.
    pub gather_ms: i64,
    pub requests_max: i64,
    pub open_max: i64,
    /// How long exchanges may wait for an answer.
    pub max_wait_ms: i64,
}
