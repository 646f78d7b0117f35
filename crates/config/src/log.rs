//! `[log]`: what is logged, and how.

use serde::{Deserialize, Serialize};

/// `[log]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// What is logged.
    pub level: LogLevel,
    /// How it is written.
    pub format: LogFormat,
}

/// The least important event that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What may fail next.
    Warn,
    /// What changed.
    Info,
    /// Why things happened.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level as a filter directive spells it.
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

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// By where they go.
    Auto,
    /// For humans.
    Text,
    /// One object a line.
    Json,
    /// To systemd's journal itself, each field as one of its own.
    Journald,
}
