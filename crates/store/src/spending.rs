//! The cost of models, and updates that wait although nothing failed.

use serde::{Deserialize, Serialize};

use super::{AttemptError, RunRecord};
use recapd_core::domain::{
    settings::AgentSettings,
    spend::{SpendLimit, SpendTotal},
    time::Timestamp,
};

/// Ends a lease whose update has to wait although nothing failed.
#[derive(Clone, Debug)]
pub struct Postponement {
    /// When the row may be claimed again.
    pub until: Timestamp,
    /// The spending limit that pauses the update; `None` if it waits for a provider.
    pub limit: Option<SpendLimit>,
    /// The reason, for the table of runs.
    pub why: AttemptError,
    /// The attempt's cost so far and its times.
    pub run: RunRecord,
}

/// Which waiting updates to make due. Each variant includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Updates that a spending limit paused, because the limits may have changed.
    Paused,
    /// Also updates that wait for a provider, because another provider or key may work now.
    Waiting,
    /// Also updates that were parked because the key or the account was refused, because another one may be configured now.
    Refused,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    pub settings: AgentSettings,
    pub agent: SpendTotal,
    pub all: SpendTotal,
}

/// A pause of an agent's updates until the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SpendPause {
    /// The limit that is used up.
    pub limit: SpendLimit,
    pub until: Timestamp,
}

/// The newest update that asked a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastRun {
    pub provider: String,
    pub model: String,
    /// Why it failed, if it did.
    pub error_class: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}
