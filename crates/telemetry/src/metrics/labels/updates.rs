//! Updates: why they are queued, how they end, why they fail or wait, what keeps them from being applied twice.

use std::fmt::Write as _;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use recapd_core::domain::work::Reason;

/// Why an update was queued; the reasons of the queue, by their names.
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
    /// How an update ended.
    UpdateOutcome {
        /// It was committed.
        Completed = "completed",
        /// It wasn't; it is tried again, or parked.
        Failed = "failed",
        /// Somebody else had done the work.
        Superseded = "superseded",
    }
}

labels! {
    /// How far an update had to go to fit the summary's ceiling.
    UpdatePath {
        /// New items were appended.
        Append = "append",
        /// Items of the newest section were merged.
        Merge = "merge",
        /// Everything was compacted.
        Full = "full",
        /// It ended before that was known.
        None = "none",
    }
}

labels! {
    /// Why an update failed.
    FailureReason {
        ProviderRateLimited = "provider_rate_limited",
        /// The provider has too much to do.
        ProviderOverloaded = "provider_overloaded",
        /// The provider took too long.
        ProviderTimeout = "provider_timeout",
        /// The provider refuses the key or the account.
        ProviderAuth = "provider_auth",
        /// The provider refuses the request.
        ProviderInvalidRequest = "provider_invalid_request",
        /// The input was too long for the model.
        ProviderContextLength = "provider_context_length",
        /// The provider failed.
        ProviderServer = "provider_server",
        /// The provider couldn't be reached.
        ProviderNetwork = "provider_network",
        /// The model declined.
        ProviderRefusal = "provider_refusal",
        /// The answer was unusable.
        BadOutput = "bad_output",
        /// The database failed.
        Db = "db",
        /// Those who held the row vanished again and again.
        Crashed = "crashed",
        /// The lease was lost.
        LeaseLost = "lease_lost",
        /// The daemon was stopped.
        Shutdown = "shutdown",
        /// Anything else: a defect of recapd.
        Internal = "internal",
    }
}

labels! {
    /// Why an update is given back without having failed.
    PostponeReason {
        /// As many calls are under way as may be.
        Places = "places",
        /// The limits of the key are used up.
        Rate = "rate",
        /// The provider rests after its failures.
        Circuit = "circuit",
        /// A limit of spending is used up.
        Spend = "spend",
    }
}

labels! {
    /// The guard that kept an update from being applied a second time.
    Fence {
        /// The lease is somebody else's.
        Lease = "lease",
        /// The summary has another version by now.
        Version = "version",
        /// A watermark moved.
        Watermark = "watermark",
        /// Exchanges were set aside.
        Exchanges = "exchanges",
        /// A row of the inbox was taken by somebody else.
        Inbox = "inbox",
    }
}
