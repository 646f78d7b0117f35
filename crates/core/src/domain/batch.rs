//! Batches: questions that may wait go to a provider together, for half the price. The provider answers some hours later.
//!
//! ```text
//!   questions   waiting ──gathered──► out ──► answered | failed | late (no longer needed)
//!                  └──────────────► withdrawn (asked directly meanwhile)
//!
//!   batches     intent ──accepted──► submitted ──ended, results read──► closed
//!                │  ▲                    │
//!                │  └── not listed: send again (a few times)
//!                └── refused ────────────┴── gone, or too old ────────► closed
//! ```
//!
//! recapd stores a batch before it sends it, because repeating the call that creates a batch could create a second one. If recapd doesn't
//! know whether the batch was created, it looks for it in the provider's list before it sends it again.

use super::time::{HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

/// If it is unknown whether a batch was created, recapd looks for it in the provider's list after this long: such lists lag behind.
pub const UNSURE_WAIT_MS: i64 = MINUTE_MS;
/// The lease of a daemon that polls a batch: no other daemon polls the batch for this long. That is enough for two calls, and longer than
/// every wait between two polls that the provider doesn't ask for.
pub const LOOK_MS: i64 = 11 * MINUTE_MS;
/// Sends a batch at most this many times.
pub const SENDS_MAX: i64 = 5;
/// recapd gives up a batch of this age. The slowest provider gives up after 48 hours.
pub const LIFE_MAX_MS: i64 = 49 * HOUR_MS;
/// Accepts a provider's clock that deviates by up to this much.
const CLOCK_SKEW_MS: i64 = 10 * MINUTE_MS;
const POLL_FIRST_MS: i64 = 30 * SECOND_MS;
const POLL_MAX_MS: i64 = 10 * MINUTE_MS;

/// Returns the price of a question in a batch if it costs `alone_microusd` alone: half of it at all three providers, rounded up.
pub fn cost_in_batch_microusd(alone_microusd: i64) -> i64 {
    alone_microusd.saturating_add(1) / 2
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Stored, and perhaps known to the provider.
    Intent,
    /// The provider is working on it.
    Submitted,
    /// Each of its questions has an outcome.
    Closed,
}

impl BatchState {
    /// All states, in the order of a batch's life.
    pub const ALL: [Self; 3] = [Self::Intent, Self::Submitted, Self::Closed];

    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Submitted => "submitted",
            Self::Closed => "closed",
        }
    }

    /// Parses a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What became of a question in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// Its answer is stored. The agent's next update uses it.
    Answered,
    /// There is no usable answer, so recapd asks directly.
    Failed,
    /// Its answer came after the summary had moved on.
    Late,
}

impl QuestionOutcome {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Late => "late",
        }
    }
}

/// What recapd learned when it sent or polled a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchObservation {
    /// The provider accepted the batch or lists it.
    Accepted,
    /// The provider refused the batch and created nothing.
    Refused,
    /// No conclusive answer came.
    Unsure,
    /// The provider doesn't list the batch, so it wasn't created.
    Unlisted,
    /// The provider is working on the batch, or can't say.
    Running,
    /// The provider no longer knows the batch.
    Gone,
    /// The batch ended, and recapd read its results.
    Read,
}

/// What to do next with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// Poll again after a wait.
    Wait {
        /// In milliseconds.
        wait_ms: i64,
    },
    /// Send it again.
    Send,
    /// The provider has it: store that, and poll it after a wait.
    Submit {
        /// In milliseconds.
        wait_ms: i64,
    },
    /// Close it. recapd asks questions without an answer directly.
    Close,
}

/// Returns what to do after the `observation` of a batch in `state`. `polls` counts the earlier polls in that state; `age_ms` is the time
/// since the batch was stored. An observation that is impossible in that state changes nothing.
pub fn step(state: BatchState, observation: BatchObservation, polls: i64, age_ms: i64) -> BatchStep {
    match (state, observation) {
        (BatchState::Closed, _)
        | (BatchState::Intent, BatchObservation::Refused)
        | (BatchState::Submitted, BatchObservation::Gone | BatchObservation::Read) => BatchStep::Close,
        _ if age_ms > LIFE_MAX_MS => BatchStep::Close,
        (BatchState::Intent, BatchObservation::Accepted) => BatchStep::Submit { wait_ms: poll_wait_ms(0) },
        (BatchState::Intent, BatchObservation::Unlisted) if polls < SENDS_MAX => BatchStep::Send,
        (BatchState::Intent, BatchObservation::Unlisted) => BatchStep::Close,
        (BatchState::Intent, _) => BatchStep::Wait { wait_ms: UNSURE_WAIT_MS },
        (BatchState::Submitted, _) => BatchStep::Wait { wait_ms: poll_wait_ms(polls) },
    }
}

/// Returns the wait before the next poll. Most batches end within an hour, some take a day.
fn poll_wait_ms(polls: i64) -> i64 {
    let doublings = u32::try_from(polls.clamp(0, 10)).unwrap_or(0);
    (POLL_FIRST_MS << doublings).min(POLL_MAX_MS)
}

/// By what recapd recognises a batch in a provider's list, if it may have been created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchIdentity {
    /// The name that recapd gave it.
    pub name: String,
    /// Number of its questions.
    pub requests: i64,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// A batch in a provider's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBatch {
    /// The provider's id.
    pub id: String,
    /// The name; `None` if the provider keeps none.
    pub name: Option<String>,
    /// The number of its questions; `None` if the provider doesn't say.
    pub requests: Option<i64>,
    /// When it was created; `None` if the provider doesn't say.
    pub created_at: Option<Timestamp>,
}

impl BatchIdentity {
    /// Returns true if `listed` is this batch. If the provider keeps no names, time and size decide. If time and size mislead, none of the
    /// results fits a question, and recapd asks the questions directly.
    pub fn is(&self, listed: &ListedBatch) -> bool {
        match &listed.name {
            Some(name) => *name == self.name,
            None => listed.requests == Some(self.requests) && !self.is_newer_than(listed),
        }
    }

    /// Returns true if `listed` is too old to be this batch. All entries after `listed` are even older: lists begin with the newest.
    pub fn is_newer_than(&self, listed: &ListedBatch) -> bool {
        listed.created_at.is_some_and(|at| at.plus_ms(CLOCK_SKEW_MS) < self.created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * HOUR_MS;

    #[test]
    fn every_transition() {
        use BatchState::{Closed, Intent, Submitted};
        let wait = |wait_ms| BatchStep::Wait { wait_ms };
        let cases = [
            (Intent, BatchObservation::Accepted, 0, 0, BatchStep::Submit { wait_ms: 30_000 }),
            (Intent, BatchObservation::Refused, 0, 0, BatchStep::Close),
            (Intent, BatchObservation::Unsure, 0, 0, wait(60_000)),
            (Intent, BatchObservation::Unsure, 99, DAY, wait(60_000)),
            (Intent, BatchObservation::Unsure, 99, 3 * DAY, BatchStep::Close),
            (Intent, BatchObservation::Unlisted, 1, 0, BatchStep::Send),
            (Intent, BatchObservation::Unlisted, 5, 0, BatchStep::Close),
            (Intent, BatchObservation::Unlisted, 1, 3 * DAY, BatchStep::Close),
            (Intent, BatchObservation::Gone, 1, 0, wait(60_000)),
            (Submitted, BatchObservation::Running, 0, 0, wait(30_000)),
            (Submitted, BatchObservation::Running, 1, 0, wait(60_000)),
            (Submitted, BatchObservation::Running, 2, 0, wait(120_000)),
            (Submitted, BatchObservation::Running, 200, DAY, wait(600_000)),
            (Submitted, BatchObservation::Running, 200, 3 * DAY, BatchStep::Close),
            (Submitted, BatchObservation::Unsure, 2, 0, wait(120_000)),
            (Submitted, BatchObservation::Gone, 2, 0, BatchStep::Close),
            (Submitted, BatchObservation::Read, 2, 0, BatchStep::Close),
            (Submitted, BatchObservation::Unlisted, 2, 0, wait(120_000)),
            (Closed, BatchObservation::Running, 0, 0, BatchStep::Close),
        ];
        for (state, observation, polls, age_ms, expected) in cases {
            let got = step(state, observation, polls, age_ms);
            assert_eq!(got, expected, "{state:?} {observation:?} {polls} {age_ms}");
        }
    }

    #[test]
    fn a_batch_costs_half() {
        for (alone, in_batch) in [(0, 0), (1, 1), (2, 1), (3, 2), (1_000, 500)] {
            assert_eq!(cost_in_batch_microusd(alone), in_batch);
        }
    }

    #[test]
    fn states_keep_their_names() {
        for state in BatchState::ALL {
            assert_eq!(BatchState::from_name(state.name()), Some(state));
        }
        assert_eq!(BatchState::from_name("ended"), None);
    }

    #[test]
    fn a_batch_is_known_by_its_name_or_by_time_and_size() {
        let wanted = BatchIdentity { name: "recapd-1".to_owned(), requests: 3, created_at: Timestamp(DAY) };
        let listed = |name: Option<&str>, requests, at: i64| ListedBatch {
            id: "b".to_owned(),
            name: name.map(str::to_owned),
            requests,
            created_at: Some(Timestamp(at)),
        };
        for (listed, expected) in [
            (listed(Some("recapd-1"), None, 0), true),
            (listed(Some("recapd-2"), Some(3), DAY), false),
            (listed(None, Some(3), DAY + 5_000), true),
            (listed(None, Some(3), DAY - 5_000), true),
            (listed(None, Some(3), DAY - HOUR_MS), false),
            (listed(None, Some(2), DAY), false),
            (listed(None, None, DAY), false),
        ] {
            assert_eq!(wanted.is(&listed), expected, "{listed:?}");
        }
    }
}
