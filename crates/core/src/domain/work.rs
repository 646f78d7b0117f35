//! Queue rows, leases and when to try again: the life of a piece of work (`queued, claimed, leased, renewed,
//! completed, failed or expired, parked`).
//!
//! ```text
//!              enqueue: insert, or wake counter + 1 (never shortens a lease or a backoff)
//!                 │
//!    waiting ─────┴── visible_at <= now ──► claim ──► leased ──► complete ──► row deleted, or re-armed
//!       ▲                                    ▲          │  renew: visible_at = now + lease
//!       ├───────── fail: backoff ────────────┼──────────┤
//!       ├───────── release (shutdown) ───────┼──────────┤
//!       ├─ postpone: a limit, or a provider's rest ─────┤
//!       │                                    └──────────┘ expired = visible again: an ordinary claim takes it over
//!       └── revive ── parked ◄── attempts or crashes used up
//! ```

use super::{
    agent::AgentId,
    time::{MINUTE_MS, SECOND_MS, Timestamp},
};

/// Why an update was asked for. Reasons are bits, so that one row can carry several; a label for metrics only: what
/// has to be done is read from the agent's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Exchanges left the window.
    Eviction = 1,
    /// A session ended.
    SessionEnd = 2,
    /// Items grew older than their section.
    Ageing = 4,
    /// Somebody asked.
    Manual = 8,
    /// The reconciler found pending exchanges without a row.
    Reconcile = 16,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Eviction,
        Self::SessionEnd,
        Self::Ageing,
        Self::Manual,
        Self::Reconcile,
    ];

    /// The label used in metrics and the runs table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::SessionEnd => "session_end",
            Self::Ageing => "aging",
            Self::Manual => "manual",
            Self::Reconcile => "reconcile",
        }
    }

    /// The bit of this reason.
    pub fn bit(self) -> i64 {
        self as i64
    }

    /// The most telling of the reasons in `bits`.
    pub fn first_of(bits: i64) -> Self {
        let by_weight = [
            Self::Manual,
            Self::SessionEnd,
            Self::Eviction,
            Self::Reconcile,
            Self::Ageing,
        ];
        by_weight
            .into_iter()
            .find(|reason| bits & reason.bit() != 0)
            .unwrap_or(Self::Eviction)
    }

    /// How urgent work for this reason is.
    pub fn priority(self) -> Priority {
        match self {
            Self::Manual | Self::SessionEnd => Priority::High,
            Self::Eviction | Self::Reconcile => Priority::Normal,
            Self::Ageing => Priority::Low,
        }
    }
}

/// How urgent work is; larger is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Can wait: ageing, failed tries.
    Low = 0,
    /// Exchanges are pending.
    Normal = 100,
    /// Somebody waits for it.
    High = 200,
}

impl Priority {
    /// The number stored.
    pub fn level(self) -> i64 {
        self as i64
    }

    /// How long a row of this priority may be overtaken by more urgent ones: `due_at = visible_at + slack`, and
    /// claims go by `due_at`, so nothing starves.
    pub fn slack_ms(level: i64) -> i64 {
        match level {
            200.. => 0,
            100..=199 => MINUTE_MS,
            _ => 10 * MINUTE_MS,
        }
    }
}

/// Fairness between projects: a row stands behind the rows of its project that wait already, so that a project that asks
/// for very much is served in turn with the others. The place is a delay of `due_at`, the order of claims; when a row may be
/// claimed (`visible_at`) stays as it is, so that nobody waits while nobody else has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// How far behind each of them; 0: all rows are taken as they come.
    pub project_spacing_ms: i64,
}

impl Default for Fairness {
    fn default() -> Self {
        Self {
            project_spacing_ms: 10 * SECOND_MS,
        }
    }
}

impl Fairness {
    /// No row stands behind more of its project's: what is counted, and what is waited, has a limit.
    pub const ROWS_AHEAD_MAX: i64 = 1_000;

    /// The most rows that are worth counting.
    pub fn rows_counted_max(self) -> i64 {
        if self.project_spacing_ms > 0 {
            Self::ROWS_AHEAD_MAX
        } else {
            0
        }
    }

    /// How far a row is put behind its time, where so many of its project are ahead of it.
    pub fn behind_ms(self, rows_ahead: i64) -> i64 {
        let rows_ahead = rows_ahead.clamp(0, self.rows_counted_max());
        rows_ahead.saturating_mul(self.project_spacing_ms)
    }
}

/// A claimed queue row. Only its holder can complete, fail, renew or release it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whose summary is to be updated.
    pub agent: AgentId,
    /// The fencing token: grows with each claim, is never used again.
    pub token: i64,
    /// The wake counter at the claim: if it has moved on at completion, the row is re-armed.
    pub claimed_wake: i64,
    /// Which try this is, from 1.
    pub attempt: i64,
    /// How often a holder of this row vanished without a word.
    pub crashes: i64,
    /// Whether this claim found it so: held by somebody whose lease had run out.
    pub taken_over: bool,
    /// [`Reason`] bits.
    pub reasons: i64,
    /// Since when it could have been claimed.
    pub ready_at: Timestamp,
}

impl Lease {
    /// The metrics' label for what triggered this lease's update.
    pub fn trigger(&self) -> &'static str {
        Reason::first_of(self.reasons).name()
    }
}

/// A row that was woken during its last attempt is tried once more, not before so long.
pub const WOKEN_RETRY_MS_MIN: i64 = MINUTE_MS;

/// A row whose holders vanished is tried once more after so long: it may have been parked for what another row did to them.
pub const CRASHED_PROBE_MS: i64 = 10 * MINUTE_MS;

/// When a failed piece of work is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After this many attempts digests stand in, and the row is parked.
    pub attempts_max: i64,
    /// After this many crashes the row is parked without calling a model.
    pub crashes_max: i64,
    /// The first wait is up to twice this long.
    pub backoff_base_ms: i64,
    /// No wait is longer than this.
    pub backoff_max_ms: i64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            crashes_max: 3,
            backoff_base_ms: 5 * SECOND_MS,
            backoff_max_ms: 15 * MINUTE_MS,
        }
    }
}

impl RetryPolicy {
    /// The wait after `attempt` failed: full jitter over an exponential range. `jitter` lies in 0..1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the range is capped at minutes"
    )]
    pub fn backoff_ms(&self, attempt: i64, jitter: f64) -> i64 {
        let exponent = u32::try_from(attempt.clamp(0, 20)).unwrap_or(20);
        let range = self
            .backoff_base_ms
            .saturating_mul(1 << exponent)
            .min(self.backoff_max_ms);
        (range as f64 * jitter.clamp(0.0, 1.0)) as i64
    }

    /// Whether `lease` is the last try.
    pub fn is_last(&self, lease: &Lease) -> bool {
        lease.attempt >= self.attempts_max
    }

    /// Whether one more crash would show that the row kills its holders. It gets that try alone: whoever holds nothing else
    /// can't die of anything else's.
    pub fn is_suspect(&self, lease: &Lease) -> bool {
        lease.crashes > 0 && lease.crashes + 1 == self.crashes_max
    }

    /// Whether the row has killed its holders too often to be given to another one.
    pub fn is_poison(&self, lease: &Lease) -> bool {
        lease.crashes >= self.crashes_max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_crowd_puts_a_row_back_without_a_limit(
            spacing_ms in 0..=60_000_i64, ahead in any::<i64>(), more in 0..5_000_i64,
        ) {
            let fairness = Fairness { project_spacing_ms: spacing_ms };
            let (behind, farther) = (fairness.behind_ms(ahead), fairness.behind_ms(ahead.saturating_add(more)));
            prop_assert!(0 <= behind && behind <= farther);
            prop_assert!(farther <= Fairness::ROWS_AHEAD_MAX * spacing_ms);
            prop_assert_eq!(fairness.behind_ms(0), 0);
            prop_assert_eq!(fairness.behind_ms(1), spacing_ms);
        }
    }

    #[test]
    fn backoff_grows_and_is_capped() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.backoff_ms(1, 1.0), 10_000);
        assert_eq!(policy.backoff_ms(2, 1.0), 20_000);
        assert_eq!(policy.backoff_ms(2, 0.5), 10_000);
        assert_eq!(policy.backoff_ms(40, 1.0), 15 * MINUTE_MS);
    }

    #[test]
    fn the_last_try_before_a_row_is_parked_is_made_alone() {
        let policy = RetryPolicy::default();
        let of = |crashes| Lease {
            agent: "a".parse().unwrap(),
            token: 1,
            claimed_wake: 1,
            attempt: 1,
            crashes,
            taken_over: false,
            reasons: 1,
            ready_at: Timestamp(0),
        };
        let told =
            [0, 1, 2, 3].map(|crashes| (policy.is_suspect(&of(crashes)), policy.is_poison(&of(crashes))));
        assert_eq!(
            told,
            [(false, false), (false, false), (true, false), (false, true)]
        );
    }

    #[test]
    fn the_most_telling_reason_labels_a_run() {
        assert_eq!(
            Reason::first_of(Reason::Ageing.bit() | Reason::Eviction.bit()),
            Reason::Eviction
        );
        assert_eq!(Reason::first_of(0), Reason::Eviction);
    }
}
