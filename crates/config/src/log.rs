//! `[log]`: the level and format of logs.

use serde::{Deserialize, Serialize};

/// `[log]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    pub level: LogLevel,
    pub format: LogFormat,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Conditions that may lead to failures.
    Warn,
    /// Changes of state.
    Info,
    /// Reasons for decisions.
    Debug,
    Trace,
}

impl LogLevel {
    /// The level in a filter directive.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Depends on where logs go.
    Auto,
    Text,
    /// One object per line.
    Json,
    /// Directly to systemd's journal, each field as a journal field.
    Journald,
}
