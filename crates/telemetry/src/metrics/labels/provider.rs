//! Calls to models: outcomes, errors, billed tokens.

use super::FailureReason;

labels! {
    RequestOutcome {
        Success = "success",
        Error = "error",
    }
}

labels! {
    /// The class of a failed call to a model.
    ProviderErrorClass {
        RateLimited = "rate_limited",
        Overloaded = "overloaded",
        Timeout = "timeout",
        /// The key or the account was refused.
        Auth = "auth",
        InvalidRequest = "invalid_request",
        ContextLength = "context_length",
        Server = "server",
        Network = "network",
        /// The model declined.
        Refusal = "refusal",
        /// The answer is unusable.
        BadOutput = "bad_output",
    }
}

impl ProviderErrorClass {
    /// Returns the class of a failed update, if a provider caused the failure.
    pub fn from_reason(reason: FailureReason) -> Option<Self> {
        let name = reason.name();
        Self::from_name(name.strip_prefix("provider_").unwrap_or(name))
    }
}

labels! {
    /// What an embedding model reads.
    EmbeddingPurpose as "purpose" {
        /// Messages, in the background.
        Messages = "messages",
        /// The question of a search that waits.
        Question = "question",
    }
}

labels! {
    /// The kinds of tokens that a provider bills. They don't overlap, so their sum is the bill.
    TokenType {
        /// Input at full price.
        Input = "input",
        /// Input from the provider's cache.
        CacheRead = "cache_read",
        /// Input written to the provider's cache.
        CacheWrite = "cache_write",
        Output = "output",
    }
}
