//! The summary queue: reasons, priorities, leases, retries and poison rows (`queued, claimed, leased, renewed, completed, failed or
//! expired, parked`).
//!
//! ```text
//!              enqueue: insert, or wake counter + 1 (never shortens a lease or a backoff)
//!                 │
//!    waiting ─────┴── visible_at <= now ──► claim ──► leased ──► complete ──► row deleted, or re-armed
//!       ▲                                    ▲          │  renew: visible_at = now + lease
//!       ├───────── fail: backoff ────────────┼──────────┤
//!       ├───────── release (shutdown) ───────┼──────────┤
//!       ├─ postpone: a limit, or a provider's rest ─────┤
//!       │                                    └──────────┘ lease expired: visible again, so the next claim takes it over
//!       └── revive ── parked ◄── attempts or crashes used up
//! ```

use super::{
    agent::AgentId,
    time::{MINUTE_MS, SECOND_MS, Timestamp},
};

/// Why an agent's summary is updated. Reasons are bits, so that one row can have several. They only label metrics: the agent's state
/// decides what the update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Exchanges left the window.
    Eviction = 1,
    /// A session ended.
    SessionEnd = 2,
    /// An item grew too old for its section.
    Ageing = 4,
    /// Somebody asked for it.
    Manual = 8,
    /// The reconciler found pending exchanges without a row.
    Reconcile = 16,
    /// A host ended a session that it may resume.
    SessionPause = 32,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Eviction, Self::SessionEnd, Self::Ageing, Self::Manual, Self::Reconcile, Self::SessionPause];

    /// Returns the label used in metrics and in the table of runs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::SessionEnd => "session_end",
            Self::Ageing => "aging",
            Self::Manual => "manual",
            Self::Reconcile => "reconcile",
            Self::SessionPause => "session_pause",
        }
    }

    /// Returns the bit of this reason.
    pub fn bit(self) -> i64 {
        self as i64
    }

    /// Returns the most informative of the reasons in `bits`.
    pub fn first_of(bits: i64) -> Self {
        let by_weight = [
            Self::Manual,
            Self::SessionEnd,
            Self::SessionPause,
            Self::Eviction,
            Self::Reconcile,
            Self::Ageing,
        ];
        by_weight.into_iter().find(|reason| bits & reason.bit() != 0).unwrap_or(Self::Eviction)
    }

    /// Returns the priority of work for this reason.
    pub fn priority(self) -> Priority {
        match self {
            Self::Manual | Self::SessionEnd => Priority::High,
            Self::Eviction | Self::Reconcile | Self::SessionPause => Priority::Normal,
            Self::Ageing => Priority::Low,
        }
    }
}

/// How urgent work is; a larger number is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// It can wait: ageing, and failed attempts.
    Low = 0,
    /// Exchanges are pending.
    Normal = 100,
    /// Somebody waits for it.
    High = 200,
}

impl Priority {
    /// Returns the stored number.
    pub fn level(self) -> i64 {
        self as i64
    }

    /// Returns how long more urgent rows may overtake a row of this priority. Claims are ordered by `due_at = visible_at + slack`, so no
    /// row starves.
    pub fn slack_ms(level: i64) -> i64 {
        match level {
            200.. => 0,
            100..=199 => MINUTE_MS,
            _ => 10 * MINUTE_MS,
        }
    }
}

/// Fairness between projects: a project with many waiting rows takes turns with the others. Each row of the project that waits already
/// delays the `due_at` of a new row by this time, and claims are ordered by `due_at`. The time when a row may be claimed
/// (`visible_at`) stays the same, so no row waits while a worker is idle. An update takes about this long.
pub const PROJECT_SPACING_MS: i64 = 10 * SECOND_MS;
/// At most this many rows delay a new one. This bounds the delay and the cost of counting.
pub const ROWS_AHEAD_MAX: i64 = 1_000;

/// A lease: a claimed queue row. Only its holder can complete, fail, renew or release the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The agent whose summary is to be updated.
    pub agent: AgentId,
    /// The fencing token: it grows with each claim and is never reused.
    pub token: i64,
    /// The wake counter at the claim. If the counter is higher at completion, the row is re-armed.
    pub claimed_wake: i64,
    /// The number of this attempt, from 1.
    pub attempt: i64,
    /// How many holders of this row crashed.
    pub crashes: i64,
    /// True if this claim took over an expired lease.
    pub taken_over: bool,
    /// The bits of the reasons.
    pub reasons: i64,
    /// From this time on the row could be claimed.
    pub ready_at: Timestamp,
}

impl Lease {
    /// Returns the most informative reason as a label for metrics.
    pub fn trigger(&self) -> &'static str {
        Reason::first_of(self.reasons).name()
    }
}

/// If a row was woken during its last attempt, it gets one more attempt, after at least this long.
pub const WOKEN_RETRY_MS_MIN: i64 = MINUTE_MS;
/// A row whose holders crashed is tried once more after this long, since another row may have caused the crashes.
pub const CRASHED_PROBE_MS: i64 = 10 * MINUTE_MS;

/// The limits of retries and of their backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After this many failed attempts, digests replace the summary and the row is parked.
    pub attempts_max: i64,
    /// After this many crashes, the row is a poison row: it is parked and no model is called.
    pub crashes_max: i64,
    /// The first backoff is at most twice this.
    pub backoff_base_ms: i64,
    /// The longest backoff.
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

/// Decides how often a failed update is retried and after which exponential backoff. After the last attempt, its row is parked
/// (quarantined, dead letter).
impl RetryPolicy {
    /// Returns the backoff after the failed `attempt`: full jitter over an exponential range. `jitter` is in 0..1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the range is capped at minutes"
    )]
    pub fn backoff_ms(&self, attempt: i64, jitter: f64) -> i64 {
        let exponent = u32::try_from(attempt.clamp(0, 20)).unwrap_or(20);
        let range = self.backoff_base_ms.saturating_mul(1 << exponent).min(self.backoff_max_ms);
        (range as f64 * jitter.clamp(0.0, 1.0)) as i64
    }

    /// Returns true if `lease` holds the row's last attempt. If it fails, the row is parked.
    pub fn is_last(&self, lease: &Lease) -> bool {
        lease.attempt >= self.attempts_max
    }

    /// Returns true if one more crash makes this a poison row. The attempt then runs alone, so that no other row can cause the crash.
    pub fn is_suspect(&self, lease: &Lease) -> bool {
        lease.crashes > 0 && lease.crashes + 1 == self.crashes_max
    }

    /// Returns true for a poison row: its update keeps crashing the daemon that holds it. A poison row is parked.
    pub fn is_poison(&self, lease: &Lease) -> bool {
        lease.crashes >= self.crashes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_is_capped() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.backoff_ms(1, 1.0), 10_000);
        assert_eq!(policy.backoff_ms(2, 1.0), 20_000);
        assert_eq!(policy.backoff_ms(2, 0.5), 10_000);
        assert_eq!(policy.backoff_ms(40, 1.0), 15 * MINUTE_MS);
    }

    #[test]
    fn the_last_attempt_before_a_row_is_parked_runs_alone() {
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
        let suspect_and_poison =
            [0, 1, 2, 3].map(|crashes| (policy.is_suspect(&of(crashes)), policy.is_poison(&of(crashes))));
        assert_eq!(suspect_and_poison, [(false, false), (false, false), (true, false), (false, true)]);
    }

    #[test]
    fn the_most_informative_reason_labels_a_run() {
        assert_eq!(Reason::first_of(Reason::Ageing.bit() | Reason::Eviction.bit()), Reason::Eviction);
        assert_eq!(Reason::first_of(0), Reason::Eviction);
    }
}
