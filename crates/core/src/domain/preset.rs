//! Presets: settings that make a window behave like those of recapd's predecessors (origins, resolution M).
//!
//! | preset | window | whole request | cut | legs | overflow |
//! |---|---|---|---|---|---|
//! | `request-limit` | what the request leaves | 100,000 | just enough | none | evict |
//! | `long-memory` | 90,000 | window, summary, pins, reserves | just enough | one step | evict |
//! | `dialogue` | what the request leaves | 0.9 of the provider's limit | just enough | none | end |
//! | `chat` | the newest 20 messages | as configured | just enough | none | evict |
//!
//! Three presets cut no exchange into legs: their origins keep the newest exchange whole whatever its size, or end the session if it is
//! too big. Only `chat` keeps an anchor, with the lecture's acknowledgement. Explicit settings override those of the preset, and derived
//! values follow from them.

use serde::{Deserialize, Serialize};

use super::perspective::limit_of;

/// A named set of settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Preset {
    /// No preset.
    #[default]
    None,
    /// Seeds 000 and 001 (ikigai): 100,000 tokens in total, evict just enough, no anchor.
    #[serde(alias = "ikigai")]
    RequestLimit,
    /// Seed 003's layers (structured memory): a window of 90,000 tokens and a summary of 10,000.
    #[serde(alias = "structured-memory")]
    LongMemory,
    /// Seed 002 (pidgin): the provider's limit, with a margin. The session ends when one exchange is too big.
    #[serde(alias = "pidgin")]
    Dialogue,
    /// Seed 004 (last n): the newest messages, with the first one as anchor and an acknowledgement between them.
    #[serde(alias = "last-n")]
    Chat,
}

/// Values of the configuration. A preset derives its own values from them, unless these are set explicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// Keeps this many tokens of a request free for the answer.
    pub output_reserve_tokens: i64,
    /// Keeps this many tokens of a request free for the agent's system prompt and tools.
    pub system_reserve_tokens: i64,
    /// Limits a summary to this many tokens.
    pub summary_max_tokens: i64,
    /// Limits the copies of pinned and important messages to this many tokens together.
    pub pins_max_tokens: i64,
    /// The limit of the configured provider, in tokens ([`provider_limit_tokens`]).
    pub provider_limit_tokens: i64,
}

impl Default for Basis {
    fn default() -> Self {
        Self {
            output_reserve_tokens: 8_000,
            system_reserve_tokens: 0,
            summary_max_tokens: 10_000,
            pins_max_tokens: 4_000,
            provider_limit_tokens: provider_limit_tokens("openai"),
        }
    }
}

/// Returns a provider's limit in tokens, from seed 002's table.
pub fn provider_limit_tokens(provider: &str) -> i64 {
    limit_of(match provider {
        "gemini" => "google",
        provider => provider,
    })
}

impl Preset {
    /// All presets, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::None, Self::RequestLimit, Self::LongMemory, Self::Dialogue, Self::Chat];

    /// Returns the name used in the configuration and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RequestLimit => "request-limit",
            Self::LongMemory => "long-memory",
            Self::Dialogue => "dialogue",
            Self::Chat => "chat",
        }
    }
}
