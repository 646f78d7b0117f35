//! Daily limits on the cost of models.
//!
//! A day is a UTC day for every agent: providers bill by it, and a limit must not depend on an agent's time zone. recapd checks the
//! limits before each call. It finishes a running call, so each running update may exceed a limit by one call. What another daemon on
//! the same database spends is counted only when its update ends.

use serde::{Deserialize, Serialize};

use super::{
    settings::AgentSettings,
    time::{DAY_MS, Timestamp},
};

/// How many micro-dollars a dollar has.
pub const MICROUSD_PER_USD: i64 = 1_000_000;
/// The highest limit on calls that can be set.
pub const CALLS_PER_DAY_MAX: i64 = 1_000_000_000;
/// The highest limit on tokens that can be set.
pub const TOKENS_PER_DAY_MAX: i64 = 1_000_000_000_000;
/// The highest limit in dollars that can be set.
pub const USD_PER_DAY_MAX: f64 = 1_000_000.0;

/// Daily spending limits; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SpendLimits {
    /// Calls to models, including failed ones.
    pub calls: i64,
    /// Input and output tokens.
    pub tokens: i64,
    /// The cost in micro-dollars.
    pub cost_microusd: i64,
}

/// The limits of all agents together, and the default limits of a single agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyLimits {
    /// The limits of all agents together.
    pub all: SpendLimits,
    /// The default limits for agents that set none themselves.
    pub agent: SpendLimits,
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SpendTotal {
    /// Calls to models, including failed ones.
    pub calls: i64,
    /// Input and output tokens.
    pub tokens: i64,
    /// The cost in micro-dollars of the calls with a known price.
    pub cost_microusd: i64,
    /// How many calls have an unknown price.
    pub unpriced_calls: i64,
}

/// A limit that is used up, so that it allows no further call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SpendLimit {
    /// The calls of all agents together.
    Calls,
    /// The tokens of all agents together.
    Tokens,
    /// The dollars of all agents together.
    Usd,
    /// The agent's calls.
    AgentCalls,
    /// The agent's tokens.
    AgentTokens,
    /// The agent's dollars.
    AgentUsd,
    /// A limit in dollars that can't be checked, since a model that may be called has no price.
    Price,
}

impl SpendLimit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::Calls,
        Self::Tokens,
        Self::Usd,
        Self::AgentCalls,
        Self::AgentTokens,
        Self::AgentUsd,
        Self::Price,
    ];

    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Tokens => "tokens",
            Self::Usd => "usd",
            Self::AgentCalls => "agent_calls",
            Self::AgentTokens => "agent_tokens",
            Self::AgentUsd => "agent_usd",
            Self::Price => "price",
        }
    }

    /// Parses a limit's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Returns the configuration key that sets the limit. If a price is missing, returns the key that sets prices.
    pub fn key(self) -> &'static str {
        match self {
            Self::Calls => "spend.calls_per_day",
            Self::Tokens => "spend.tokens_per_day",
            Self::Usd => "spend.usd_per_day",
            Self::AgentCalls => "spend.agent_calls_per_day",
            Self::AgentTokens => "spend.agent_tokens_per_day",
            Self::AgentUsd => "spend.agent_usd_per_day",
            Self::Price => "spend.prices_file",
        }
    }
}

impl SpendTotal {
    /// Adds `more`.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(more.calls),
            tokens: self.tokens.saturating_add(more.tokens),
            cost_microusd: self.cost_microusd.saturating_add(more.cost_microusd),
            unpriced_calls: self.unpriced_calls.saturating_add(more.unpriced_calls),
        }
    }
}

impl SpendLimits {
    /// Returns these limits with those of an agent's settings, which have priority.
    #[must_use]
    pub fn override_with(self, settings: &AgentSettings) -> Self {
        Self {
            calls: settings.calls_per_day.unwrap_or(self.calls),
            tokens: settings.tokens_per_day.unwrap_or(self.tokens),
            cost_microusd: settings.usd_per_day.map_or(self.cost_microusd, microusd),
        }
    }

    fn used_up(self, spent: SpendTotal) -> [bool; 3] {
        [(self.calls, spent.calls), (self.tokens, spent.tokens), (self.cost_microusd, spent.cost_microusd)]
            .map(|(limit, spent)| 0 < limit && limit <= spent)
    }
}

impl DailyLimits {
    /// Returns true if an agent with these `settings` has a limit in dollars, which needs known prices. The configuration can't have such
    /// a limit without prices, but an agent's limit can be set at any time.
    pub fn has_dollar_limit(&self, settings: &AgentSettings) -> bool {
        self.all.cost_microusd > 0 || self.agent.override_with(settings).cost_microusd > 0
    }

    /// Returns the first limit that is used up, for an agent with these `settings`.
    pub fn used_up(
        &self,
        settings: &AgentSettings,
        agent: SpendTotal,
        all: SpendTotal,
    ) -> Option<SpendLimit> {
        let shared = self.all.used_up(all);
        let individual = self.agent.override_with(settings).used_up(agent);
        let used_up = shared.into_iter().chain(individual);
        let mut limits = SpendLimit::ALL.into_iter().zip(used_up);
        limits.find_map(|(limit, is_used_up)| is_used_up.then_some(limit))
    }
}

/// Converts dollars to micro-dollars, rounded to the nearest.
#[expect(clippy::cast_possible_truncation, reason = "limits are far below 2^53 micro-dollars")]
pub fn microusd(usd: f64) -> i64 {
    (usd * 1e6).round() as i64
}

/// Returns when the UTC day of `now` begins.
pub fn day_start(now: Timestamp) -> Timestamp {
    Timestamp(now.0 - now.0.rem_euclid(DAY_MS))
}

/// Returns when the UTC day after `now` begins.
pub fn next_day(now: Timestamp) -> Timestamp {
    day_start(now).plus_ms(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(calls: i64, tokens: i64, cost_microusd: i64) -> SpendTotal {
        SpendTotal { calls, tokens, cost_microusd, unpriced_calls: 0 }
    }

    #[test]
    fn a_limit_is_used_up_once_reached() {
        let limits = DailyLimits {
            all: SpendLimits { calls: 10, tokens: 1_000, cost_microusd: 5_000_000 },
            agent: SpendLimits { calls: 2, tokens: 0, cost_microusd: 1_000_000 },
        };
        let none = SpendTotal::default();
        let own = AgentSettings::default();
        for (agent, all, expected) in [
            (none, none, None),
            (none, spent(9, 999, 4_999_999), None),
            (none, spent(10, 0, 0), Some(SpendLimit::Calls)),
            (none, spent(0, 1_000, 0), Some(SpendLimit::Tokens)),
            (none, spent(0, 0, 5_000_000), Some(SpendLimit::Usd)),
            (spent(1, 999, 999_999), none, None),
            (spent(2, 0, 0), none, Some(SpendLimit::AgentCalls)),
            (spent(0, 0, 1_000_000), none, Some(SpendLimit::AgentUsd)),
        ] {
            assert_eq!(limits.used_up(&own, agent, all), expected, "{agent:?} {all:?}");
        }
        let generous = AgentSettings {
            calls_per_day: Some(0),
            tokens_per_day: Some(500),
            usd_per_day: Some(2.5),
            ..AgentSettings::default()
        };
        assert_eq!(limits.used_up(&generous, spent(99, 499, 2_499_999), none), None);
        let none_in_force = DailyLimits::default();
        assert!(limits.has_dollar_limit(&own) && none_in_force.has_dollar_limit(&generous));
        assert!(!none_in_force.has_dollar_limit(&own));
        let tokens = limits.used_up(&generous, spent(0, 500, 0), none);
        assert_eq!(tokens, Some(SpendLimit::AgentTokens));
        let cost = limits.used_up(&generous, spent(0, 0, 2_500_000), none);
        assert_eq!(cost, Some(SpendLimit::AgentUsd));
    }

    #[test]
    fn days_are_utc_days() {
        let at = |text| Timestamp::parse(text).unwrap();
        for (now, start, next) in [
            ("2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
            ("2026-11-20T23:59:59.999Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
            ("2026-12-31T23:00:00-02:00", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"),
            ("1969-12-31T12:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!((day_start(at(now)), next_day(at(now))), (at(start), at(next)), "{now}");
        }
    }

    #[test]
    fn names_parse_back_to_their_limits_and_dollars_are_exact() {
        for limit in SpendLimit::ALL {
            assert_eq!(SpendLimit::from_name(limit.name()), Some(limit));
            assert!(limit.key().contains(limit.name()), "{limit:?}");
        }
        for (usd, expected) in [(0.0, 0), (5.0, 5_000_000), (0.1, 100_000), (1.92, 1_920_000), (0.000_001, 1)]
        {
            assert_eq!(microusd(usd), expected);
        }
    }
}
