//! Pidgin's limits (seed 002, "Context Truncation").

/// A limit for requests to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderLimit {
    /// The provider's name.
    pub provider: &'static str,
    /// The context length of its models, in tokens.
    pub context_tokens: i64,
    /// A request may have this many tokens.
    pub limit_tokens: i64,
}

/// Limits by provider. The rest of the context length is a margin for wrong estimates and for the answer.
#[rustfmt::skip]
pub const PIDGIN_LIMITS: [ProviderLimit; 5] = [
    ProviderLimit { provider: "anthropic", context_tokens: 200_000, limit_tokens: 160_000 },
    ProviderLimit { provider: "openai", context_tokens: 128_000, limit_tokens: 100_000 },
    ProviderLimit { provider: "google", context_tokens: 1_000_000, limit_tokens: 800_000 },
    ProviderLimit { provider: "xai", context_tokens: 128_000, limit_tokens: 100_000 },
    ProviderLimit { provider: "local", context_tokens: 4_096, limit_tokens: 4_000 },
];
const UNKNOWN_LIMIT_TOKENS: i64 = 8_000;

impl ProviderLimit {
    /// Returns the part of the context length that a request may use.
    #[expect(clippy::cast_precision_loss, reason = "contexts are far below 2^52 tokens")]
    pub fn safety_factor(&self) -> f64 {
        self.limit_tokens as f64 / self.context_tokens as f64
    }
}

/// Returns a provider's limit in tokens.
pub fn limit_of(provider: &str) -> i64 {
    let limit = PIDGIN_LIMITS.iter().find(|limit| limit.provider == provider);
    limit.map_or(UNKNOWN_LIMIT_TOKENS, |limit| limit.limit_tokens)
}
