//! Updates: reasons for them, outcomes, failures, and fences that keep an update from being applied twice.

use std::fmt::Write as _;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use recapd_core::domain::work::Reason;

/// The reason why an update was queued. Uses the queue's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trigger(pub(crate) Reason);

impl Trigger {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Reason::ALL.into_iter().map(Self)
    }
}

impl std::hash::Hash for Trigger {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.bit().hash(state);
    }
}

impl EncodeLabelValue for Trigger {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(self.0.name())
    }
}

labels! {
    UpdateOutcome as "outcome" {
        Completed = "completed",
        /// The update will be retried, or is parked.
        Failed = "failed",
        /// Another update had done the work.
        Superseded = "superseded",
    }
}

labels! {
    /// The steps that an update took to keep the summary below its ceiling.
    UpdatePath {
        /// New items were appended.
        Append = "append",
        /// Items of the newest section were merged.
        Merge = "merge",
        /// Everything was compacted.
        Full = "full",
        /// The update ended before the steps were known.
        None = "none",
    }
}

labels! {
    FailureReason as "reason" {
        ProviderRateLimited = "provider_rate_limited",
        ProviderOverloaded = "provider_overloaded",
        ProviderTimeout = "provider_timeout",
        ProviderAuth = "provider_auth",
        ProviderInvalidRequest = "provider_invalid_request",
        ProviderContextLength = "provider_context_length",
        ProviderServer = "provider_server",
        ProviderNetwork = "provider_network",
        /// The model declined.
        ProviderRefusal = "provider_refusal",
        /// The answer was unusable.
        BadOutput = "bad_output",
        Db = "db",
        /// The workers that held the row crashed repeatedly.
        Crashed = "crashed",
        LeaseLost = "lease_lost",
        Shutdown = "shutdown",
        /// Anything else, which is a bug in recapd.
        Internal = "internal",
    }
}

labels! {
    /// The reason why an update was postponed without a failure.
    PostponeReason as "reason" {
        /// As many calls as allowed run at the same time.
        Places = "places",
        /// The rate limits of the API key are used up.
        Rate = "rate",
        /// The provider's circuit is open after failures.
        Circuit = "circuit",
        /// A spending limit is used up.
        Spend = "spend",
    }
}

labels! {
    /// The fence that kept an update from being applied twice.
    Fence as "fence" {
        Lease = "lease",
        Version = "version",
        /// A watermark moved.
        Watermark = "watermark",
        /// Exchanges were set aside.
        Exchanges = "exchanges",
        /// Another daemon took a row of the inbox.
        Inbox = "inbox",
    }
}
