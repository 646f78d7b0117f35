//! What models cost, work that waits without having failed, and items to be condensed again.

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
    /// What it cost so far, and when it is given back.
    pub run: RunRecord,
}

/// Which updates are made due again, each kind with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Those that a spending limit paused: other limits may hold now.
    Paused,
    /// Those that wait for a provider, too: another one may be asked now, or with another key.
    Waiting,
    /// Those, too, that are parked because the key or the account was refused: there may be another one now.
    Refused,
}

/// What was spent since some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spending {
    /// What the agent overrides in the configuration.
    pub settings: AgentSettings,
    /// What the agent spent.
    pub agent: SpendTotal,
    /// What all agents spent.
    pub all: SpendTotal,
}

/// Updates of an agent wait for the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SpendPause {
    /// For which limit.
    pub limit: SpendLimit,
    /// Until when.
    pub until: Timestamp,
}

/// The newest update that asked a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastRun {
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Why it failed, if it did.
    pub error_class: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}
