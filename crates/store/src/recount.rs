//! What goes into a recount and what comes out, and what is kept of calibrations.

use serde::{Deserialize, Serialize};

use super::{AppendRules, EnqueueOutcome, StoredMessage};
use recapd_core::domain::{
    agent::AgentId, calibration::Calibration, ledger::Eviction, settings::AgentSettings, time::Timestamp,
};

/// What was learned about one model's token counter, as it is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCalibration {
    pub provider: String,
    pub model: String,
    /// Orders the savings: a larger number was learned later.
    pub learned: u64,
    /// What was learned.
    pub calibration: Calibration,
}

/// What a calibration comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationFigures {
    /// The provider.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// How many samples it rests on.
    pub samples: usize,
    /// Reported per thousand estimated, on the whole.
    pub average_permille: i64,
    /// … and for nearly all samples of most agents: what guards ceilings until an agent has enough of its own.
    pub guard_permille: i64,
}

impl From<&KeptCalibration> for CalibrationFigures {
    fn from(kept: &KeptCalibration) -> Self {
        Self {
            provider: kept.provider.clone(),
            model: kept.model.clone(),
            samples: kept.calibration.samples(),
            average_permille: kept.calibration.average_permille(),
            guard_permille: kept.calibration.shared_guard_permille(),
        }
    }
}

/// Exchanges of an agent that are still counted by the counter of an earlier model: the newest ones of them.
#[derive(Clone, Debug, PartialEq)]
pub struct RecountBatch {
    /// The settings by which they are to be counted.
    pub settings: AgentSettings,
    /// The first of them.
    pub from: i64,
    /// The one behind the last of them.
    pub before: i64,
    /// Whether this is the last batch; it holds the preamble, too.
    pub is_last: bool,
    /// Their messages, each with its exchange.
    pub messages: Vec<(i64, StoredMessage)>,
}

/// A message's new count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCount {
    pub exchange: i64,
    /// Its place in the history.
    pub seq: i64,
    pub tokens: i64,
}

/// The new counts of a [`RecountBatch`].
#[derive(Clone, Debug)]
pub struct Recount {
    /// The agent whose messages were counted.
    pub agent: AgentId,
    /// As in the batch.
    pub settings: AgentSettings,
    /// As in the batch.
    pub from: i64,
    /// As in the batch.
    pub before: i64,
    /// As in the batch.
    pub is_last: bool,
    pub counts: Vec<NewCount>,
    /// How they were counted.
    pub count_method: String,
    /// The rules by which the window is held against its budget.
    pub rules: AppendRules,
    /// The current time.
    pub now: Timestamp,
}

/// What a recount did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecountOutcome {
    /// Tokens in the window now, preamble included.
    pub window_tokens: i64,
    /// What had to leave it.
    pub evictions: Vec<Eviction>,
    /// What it did to the queue, if it touched it.
    pub enqueued: Option<EnqueueOutcome>,
}
