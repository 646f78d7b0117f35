//! Requests and results of recounts, and stored calibrations.

use serde::{Deserialize, Serialize};

use super::{AppendRules, EnqueueOutcome, StoredMessage};
use recapd_core::domain::{
    agent::AgentId, calibration::Calibration, ledger::Eviction, settings::AgentSettings, time::Timestamp,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCalibration {
    pub provider: String,
    pub model: String,
    /// Orders the calibrations: a larger number was learned later.
    pub learned: u64,
    pub calibration: Calibration,
}

/// Figures of a calibration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationFigures {
    pub provider: String,
    pub model: String,
    /// The number of samples.
    pub samples: usize,
    /// The average of reported tokens per thousand estimated ones.
    pub average_permille: i64,
    /// The same ratio as an upper bound for nearly all samples of most agents. It guards ceilings until an agent has enough samples of
    /// its own.
    pub guard_permille: i64,
}

impl From<&KeptCalibration> for CalibrationFigures {
    fn from(entry: &KeptCalibration) -> Self {
        Self {
            provider: entry.provider.clone(),
            model: entry.model.clone(),
            samples: entry.calibration.sample_count(),
            average_permille: entry.calibration.average_permille(),
            guard_permille: entry.calibration.shared_guard_permille(),
        }
    }
}

/// An agent's newest exchanges with counts from an earlier model's counter.
#[derive(Clone, Debug, PartialEq)]
pub struct RecountBatch {
    /// The settings that say how to count them.
    pub settings: AgentSettings,
    /// The first exchange of the batch.
    pub from: i64,
    /// The exchange after the last one of the batch.
    pub before: i64,
    /// True if this is the last batch, which also contains the preamble.
    pub is_last: bool,
    /// The messages, each with its exchange.
    pub messages: Vec<(i64, StoredMessage)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCount {
    pub exchange: i64,
    /// The message's number in the history.
    pub seq: i64,
    pub tokens: i64,
}

#[derive(Clone, Debug)]
pub struct Recount {
    pub agent: AgentId,
    /// As in the [`RecountBatch`].
    pub settings: AgentSettings,
    /// As in the [`RecountBatch`].
    pub from: i64,
    /// As in the [`RecountBatch`].
    pub before: i64,
    /// As in the [`RecountBatch`].
    pub is_last: bool,
    pub counts: Vec<NewCount>,
    pub count_method: String,
    pub rules: AppendRules,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecountOutcome {
    /// Tokens in the window now, including the preamble.
    pub window_tokens: i64,
    pub evictions: Vec<Eviction>,
    pub enqueued: Option<EnqueueOutcome>,
}
