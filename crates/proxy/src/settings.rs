//! The settings of a proxy.

use std::time::Duration;

use recapd_config::{ProxyConfig, ProxyMode};
use secrecy::SecretString;

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    pub mode: ProxyMode,
    pub(crate) upstreams: Upstreams,
    /// True if conversations of sub-agents are stored, each as an agent of its own.
    pub(crate) subagents: bool,
    /// True if requests that a subscription pays for are rewritten, too.
    pub(crate) window_subscriptions: bool,
    /// Longer bodies are forwarded unread.
    pub(crate) body_bytes_max: usize,
    /// Limits the bytes of all copies that wait for the daemon.
    pub(crate) copies_bytes_max: usize,
    /// Limits the time for deciding what to do with a request.
    pub(crate) decide: Duration,
    /// The token that every request must carry; `None` for no token.
    pub(crate) token: Option<SecretString>,
}

/// The providers' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstreams {
    pub(crate) anthropic: String,
    pub(crate) openai: String,
    pub(crate) gemini: String,
    /// Further providers by name.
    pub(crate) additional: Vec<(String, String)>,
}

impl Upstreams {
    pub(crate) fn by_name(&self, name: &str) -> Option<&str> {
        let mut upstreams = self.additional.iter();
        upstreams.find(|(key, _)| key == name).map(|(_, url)| url.as_str())
    }
}

impl From<&ProxyConfig> for ProxySettings {
    fn from(config: &ProxyConfig) -> Self {
        Self {
            mode: config.mode,
            upstreams: Upstreams {
                anthropic: config.anthropic_url.clone(),
                openai: config.openai_url.clone(),
                gemini: config.gemini_url.clone(),
                additional: config.named_upstreams(),
            },
            subagents: config.subagents,
            window_subscriptions: config.window_subscriptions,
            body_bytes_max: config.body_bytes_max,
            copies_bytes_max: config.copies_bytes_max,
            decide: Duration::from_millis(config.decide_ms),
            token: None,
        }
    }
}

impl ProxySettings {
    /// Returns the same settings with a token that every request must carry.
    #[must_use]
    pub fn with_token(self, token: Option<SecretString>) -> Self {
        Self { token, ..self }
    }
}
