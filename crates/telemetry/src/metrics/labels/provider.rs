//! Calls to models: how they end, what goes wrong in them, what is billed.

use super::FailureReason;

labels! {
    /// How a call to a model ended.
    RequestOutcome {
        /// With an answer.
        Success = "success",
        /// Without.
        Error = "error",
    }
}

labels! {
    /// What went wrong in a call to a model.
    ProviderErrorClass {
        /// Too many calls.
        RateLimited = "rate_limited",
        /// Too much to do.
        Overloaded = "overloaded",
        /// Took too long.
        Timeout = "timeout",
        /// Key or account refused.
        Auth = "auth",
        /// Request refused.
        InvalidRequest = "invalid_request",
        /// Input too long.
        ContextLength = "context_length",
        /// The provider failed.
        Server = "server",
        /// Not reached.
        Network = "network",
        /// Declined.
        Refusal = "refusal",
        /// An answer that is of no use.
        BadOutput = "bad_output",
    }
}

impl ProviderErrorClass {
    /// The class of a failure of an update, if a provider caused it.
    pub fn from_reason(reason: FailureReason) -> Option<Self> {
        let name = reason.name();
        Self::from_name(name.strip_prefix("provider_").unwrap_or(name))
    }
}

labels! {
    /// Which tokens a provider bills. The sets are disjoint, so that their sum is the bill.
    TokenType {
        /// Read, at the full price.
        Input = "input",
        /// Read from the provider's cache.
        CacheRead = "cache_read",
        /// Written to the provider's cache.
        CacheWrite = "cache_write",
        /// Written by the model.
        Output = "output",
    }
}
