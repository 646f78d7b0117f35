//! The limits of a window.

use serde::{Deserialize, Serialize};

/// The size of legs is at least this many tokens, unless it is set explicitly. Smaller legs would only add rows.
pub const LEG_TOKENS_MIN: i64 = 1_000;
/// The setting that makes legs as big as one eviction makes room for ([`Budget::step_tokens`]).
pub const ONE_STEP: i64 = -1;
/// The size of legs is at least 1/`LEG_SHARE_MIN` of the budget, unless it is set explicitly.
const LEG_SHARE_MIN: i64 = 20;

/// The limits of a window, in tokens and in messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    max_tokens: i64,
    low_water: f64,
    max_messages: i64,
    leg_tokens: i64,
}

impl Budget {
    /// Limits the window to `budget_tokens`; 0 disables eviction. A bigger window evicts exchanges until it has at most `low_water` × the
    /// budget. 1.0 evicts just enough (seeds 000 and 001); a lower value keeps the provider's prompt cache warm between evictions.
    /// `low_water` is clamped to 0..=1.
    pub const fn new(budget_tokens: i64, low_water: f64) -> Self {
        Self {
            max_tokens: if budget_tokens < 0 { 0 } else { budget_tokens },
            low_water: low_water.clamp(0.0, 1.0),
            max_messages: 0,
            leg_tokens: ONE_STEP,
        }
    }

    /// Also limits the window to `max_messages` messages (0 means no limit): evicts whole exchanges, oldest first. Neither metadata nor
    /// the preamble counts. The newest exchange stays and isn't over budget, however many messages it has (seed 004; origins 4.2, edge
    /// case 1).
    #[must_use]
    pub fn with_max_messages(self, max_messages: i64) -> Self {
        Self { max_messages: max_messages.max(0), ..self }
    }

    /// Sets the size of legs: once the newest leg has `leg_tokens`, the next round begins a new leg. 0 never cuts an exchange (seeds 000
    /// and 001). [`ONE_STEP`] means as many tokens as one eviction makes room for.
    #[must_use]
    pub fn with_leg_tokens(self, leg_tokens: i64) -> Self {
        Self { leg_tokens, ..self }
    }

    /// Returns the size of legs as it was set: [`ONE_STEP`], 0, or a number of tokens.
    pub fn leg_tokens_set(self) -> i64 {
        self.leg_tokens
    }

    /// Returns how many tokens a leg has when the next round begins a new leg; 0 means no limit. Unless set explicitly, the size is
    /// [`Self::step_tokens`]. Without eviction no exchange is cut.
    pub fn leg_tokens(self) -> i64 {
        if self.max_tokens == 0 {
            return 0;
        }
        if self.leg_tokens >= 0 {
            return self.leg_tokens;
        }
        self.step_tokens()
    }

    /// Returns the tokens that one eviction makes room for, but at least a twentieth of the budget and [`LEG_TOKENS_MIN`]; 0 without
    /// eviction.
    pub fn step_tokens(self) -> i64 {
        if self.max_tokens == 0 {
            return 0;
        }
        let step = self.max_tokens - self.low_water_tokens();
        let least = LEG_TOKENS_MIN.max(self.max_tokens / LEG_SHARE_MIN);
        step.max(least)
    }

    /// Returns a budget without limits: nothing is ever evicted.
    pub fn unlimited() -> Self {
        Self::new(0, 1.0)
    }

    /// Returns the limit in tokens; 0 means none.
    pub fn budget_tokens(self) -> i64 {
        self.max_tokens
    }

    /// Returns the limit in messages; 0 means none.
    pub fn max_messages(self) -> i64 {
        self.max_messages
    }

    /// Returns the share of the budget at which an eviction stops.
    pub fn low_water(self) -> f64 {
        self.low_water
    }

    /// Returns the tokens at which an eviction stops.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "budgets are far below 2^52 tokens"
    )]
    pub fn low_water_tokens(self) -> i64 {
        (self.max_tokens as f64 * self.low_water).floor() as i64
    }

    /// Returns true if the limit in tokens or in messages is higher than the one in `other`. A limit that is absent counts as the
    /// highest.
    pub fn is_above(self, other: Self) -> bool {
        let is_above = |limit, other| other > 0 && (limit == 0 || limit > other);
        is_above(self.max_tokens, other.max_tokens) || is_above(self.max_messages, other.max_messages)
    }

    /// Lowers each limit that is higher than the one in `other` to that one.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        let lower = |limit: i64, other: i64| match (limit, other) {
            (0, only) | (only, 0) => only,
            (limit, other) => limit.min(other),
        };
        Self {
            max_tokens: lower(self.max_tokens, other.max_tokens),
            max_messages: lower(self.max_messages, other.max_messages),
            ..self
        }
    }

    /// Returns true if `tokens` exceed the limit (seed 001: equal is allowed).
    pub fn is_exceeded_by(self, tokens: i64) -> bool {
        self.max_tokens > 0 && tokens > self.max_tokens
    }

    /// Returns true if `messages` exceed the limit.
    pub fn is_exceeded_by_messages(self, messages: i64) -> bool {
        self.max_messages > 0 && messages > self.max_messages
    }
}

/// What to do if the newest leg alone is over budget because its last round is too big.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OnOverflow {
    /// The leg stays, and recapd reports it as over budget.
    #[default]
    Evict,
    /// recapd refuses the append and stores none of it.
    Refuse,
    /// recapd stores the append, and the session ends after it.
    End,
}
