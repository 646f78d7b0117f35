//! What models cost, and work that waits without having failed.

use serde::{Deserialize, Serialize};

use super::{AttemptError, RunRecord};
use recapd_core::domain::{
    settings::AgentSettings,
    spend::{SpendLimit, SpendTotal},
    time::Timestamp,
};

/// The end of a lease whose work has to wait although nothing failed.
#[derive(Clone, Debug)]
pub struct Postponement {
    /// When it may be claimed again.
    pub until: Timestamp,
    /// The limit that pauses it; `None` if it waits for a provider.
    pub limit: Option<SpendLimit>,
    /// Why, for the runs table.
    pub why: AttemptError,
    /// Its cost so far and its times.
    pub run: RunRecord,
}

/// Which waiting updates to make due again. Each variant includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Those that a spending limit paused: the limits may have changed.
    Paused,
    /// Also those that wait for a provider: another provider or key may work now.
    Waiting,
    /// Also those parked because the key or the account was refused: there may be another one now.
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
