//! The end of an update.

use recapd_telemetry::metrics::labels::UpdateOutcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It wrote a new version.
    Completed,
    /// Nothing was pending, and no version was written.
    Settled,
    /// It failed and will be retried.
    Retried,
    /// It failed for the last time: digests replace the exchanges, and the row is parked.
    Parked,
    /// It failed for the last time and digests replace the exchanges, but a wake came meanwhile: it will be retried.
    StoodIn,
    /// It failed for the last time, and there was nothing to write or writing failed, too: the row is parked unchanged.
    GivenUp,
    /// Another writer came first.
    Superseded,
    /// The daemon stops, so the lease was given back.
    Released,
    /// It waits for a provider, or for the next day's limits.
    Postponed,
    /// Its question waits for a batch, and its row for the answer.
    Deferred,
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Settled => "settled",
            Self::Retried => "retried",
            Self::Parked => "parked",
            Self::StoodIn => "stood_in",
            Self::GivenUp => "given_up",
            Self::Superseded => "superseded",
            Self::Released => "released",
            Self::Postponed => "postponed",
            Self::Deferred => "deferred",
        }
    }

    /// Returns the outcome's label in metrics; `None` if the update continues later.
    pub(super) fn label(self) -> Option<UpdateOutcome> {
        match self {
            Self::Completed | Self::Settled => Some(UpdateOutcome::Completed),
            Self::Retried | Self::Parked | Self::StoodIn | Self::GivenUp => Some(UpdateOutcome::Failed),
            Self::Superseded | Self::Released => Some(UpdateOutcome::Superseded),
            Self::Postponed | Self::Deferred => None,
        }
    }

    /// Returns true if a version was written; then the update's metrics are recorded already.
    pub(super) fn has_written(self) -> bool {
        matches!(self, Self::Completed | Self::Parked | Self::StoodIn)
    }
}
