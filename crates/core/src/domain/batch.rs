//! Batches at a provider: questions that may wait are asked together, at half the price and some hours later.
//!
//! ```text
//!   questions   waiting ──gathered──► out ──► answered | failed | late (nobody waits for it any more)
//!                  └──────────────► withdrawn (asked directly meanwhile)
//!
//!   batches     intent ──accepted──► submitted ──ended, results read──► closed
//!                │  ▲                    │
//!                │  └── not listed: send again (a few times)
//!                └── refused ────────────┴── gone, or too old ────────► closed
//! ```
//!
//! A batch is written down before it is sent, and no provider's call that makes a batch can be repeated safely. So if
//! it isn't known whether a batch was made, it is looked for in the provider's list before it is sent again.

use super::time::{HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

/// When it isn't known whether a batch was made, it is looked for after so long: providers' lists lag behind.
pub const UNSURE_WAIT_MS: i64 = MINUTE_MS;
/// How long a batch is left to the daemon that looks at it, as two calls may take. No other wait for a look is longer,
/// except one that a provider asks for.
pub const LOOK_MS: i64 = 11 * MINUTE_MS;
/// How often a batch is sent at most.
pub const SENDS_MAX: i64 = 5;
/// The age at which a batch is given up: the slowest provider gives up after 48 hours.
pub const LIFE_MAX_MS: i64 = 49 * HOUR_MS;
/// How far a provider's clock may be off.
const CLOCK_SKEW_MS: i64 = 10 * MINUTE_MS;
const POLL_FIRST_MS: i64 = 30 * SECOND_MS;
const POLL_MAX_MS: i64 = 10 * MINUTE_MS;

/// What a question costs in a batch that costs `alone_microusd` asked directly: half, at all three providers. Rounded up.
pub fn cost_in_batch_microusd(alone_microusd: i64) -> i64 {
    alone_microusd.saturating_add(1) / 2
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Written down; the provider may or may not know it.
    Intent,
    /// The provider works on it.
    Submitted,
    /// Each of its questions has an outcome.
    Closed,
}

impl BatchState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Intent, Self::Submitted, Self::Closed];

    /// The name under which the state is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Submitted => "submitted",
            Self::Closed => "closed",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// Its answer is journalled; the next update of its agent uses it.
    Answered,
    /// There is no answer to use: it is asked directly.
    Failed,
    /// Its answer came when the summary had moved on.
    Late,
}

impl QuestionOutcome {
    /// The name under which the outcome is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Late => "late",
        }
    }
}

/// What a look at a batch showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchObservation {
    /// The provider accepted it, or lists it.
    Accepted,
    /// The provider refused it: nothing was made.
    Refused,
    /// Unknown: no answer came, or none that says so.
    Unsure,
    /// The provider doesn't list it.
    Unlisted,
    /// The provider works on it, or can't say.
    Running,
    /// The provider doesn't know it any more.
    Gone,
    /// It ended, and its results are read.
    Read,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// Look again after a wait.
    Wait {
        /// The wait in milliseconds.
        wait_ms: i64,
    },
    /// Send it once more.
    Send,
    /// The provider has it: note that, and look after a wait.
    Submit {
        /// The wait in milliseconds.
        wait_ms: i64,
    },
    /// Close it: questions without an answer are asked directly.
    Close,
}

/// What to do after `sight` of a batch in `state`, which was looked at `looks` times in that state, `age_ms` after it
/// was written down. A sight that is impossible in that state changes nothing.
pub fn step(state: BatchState, sight: BatchObservation, looks: i64, age_ms: i64) -> BatchStep {
    match (state, sight) {
        (BatchState::Closed, _)
        | (BatchState::Intent, BatchObservation::Refused)
        | (BatchState::Submitted, BatchObservation::Gone | BatchObservation::Read) => BatchStep::Close,
        _ if age_ms > LIFE_MAX_MS => BatchStep::Close,
        (BatchState::Intent, BatchObservation::Accepted) => BatchStep::Submit {
            wait_ms: poll_wait_ms(0),
        },
        (BatchState::Intent, BatchObservation::Unlisted) if looks < SENDS_MAX => BatchStep::Send,
        (BatchState::Intent, BatchObservation::Unlisted) => BatchStep::Close,
        (BatchState::Intent, _) => BatchStep::Wait {
            wait_ms: UNSURE_WAIT_MS,
        },
        (BatchState::Submitted, _) => BatchStep::Wait {
            wait_ms: poll_wait_ms(looks),
        },
    }
}

/// The wait for the next look after `looks` looks: most batches end within the hour, some take a day.
fn poll_wait_ms(looks: i64) -> i64 {
    let doublings = u32::try_from(looks.clamp(0, 10)).unwrap_or(0);
    (POLL_FIRST_MS << doublings).min(POLL_MAX_MS)
}

/// A batch that may have been made, and by what it is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchIdentity {
    /// The name that the provider was given for it.
    pub name: String,
    /// How many questions it has.
    pub requests: i64,
    /// When it was written down.
    pub created_at: Timestamp,
}

/// A batch as a provider lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBatch {
    /// The provider's id.
    pub id: String,
    /// Its name, if the provider keeps it.
    pub name: Option<String>,
    /// How many questions it has, if the provider says so.
    pub requests: Option<i64>,
    /// When it was made, if the provider says so.
    pub created_at: Option<Timestamp>,
}

impl BatchIdentity {
    /// Whether `listed` is this batch. Where the provider keeps no name, time and size decide; if it is another batch,
    /// none of its results fits, and the questions are asked directly.
    pub fn is(&self, listed: &ListedBatch) -> bool {
        match &listed.name {
            Some(name) => *name == self.name,
            None => listed.requests == Some(self.requests) && !self.is_after(listed),
        }
    }

    /// Whether `listed` was made before this batch could have been: lists are sorted, the newest first.
    pub fn is_after(&self, listed: &ListedBatch) -> bool {
        listed
            .created_at
            .is_some_and(|at| at.plus_ms(CLOCK_SKEW_MS) < self.created_at)
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
            (
                Intent,
                BatchObservation::Accepted,
                0,
                0,
                BatchStep::Submit { wait_ms: 30_000 },
            ),
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
            (
                Submitted,
                BatchObservation::Running,
                200,
                3 * DAY,
                BatchStep::Close,
            ),
            (Submitted, BatchObservation::Unsure, 2, 0, wait(120_000)),
            (Submitted, BatchObservation::Gone, 2, 0, BatchStep::Close),
            (Submitted, BatchObservation::Read, 2, 0, BatchStep::Close),
            (Submitted, BatchObservation::Unlisted, 2, 0, wait(120_000)),
            (Closed, BatchObservation::Running, 0, 0, BatchStep::Close),
        ];
        for (state, sight, looks, age_ms, expected) in cases {
            let got = step(state, sight, looks, age_ms);
            assert_eq!(got, expected, "{state:?} {sight:?} {looks} {age_ms}");
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
        let wanted = BatchIdentity {
            name: "recapd-1".to_owned(),
            requests: 3,
            created_at: Timestamp(DAY),
        };
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
