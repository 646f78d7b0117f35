//! The names of the settings, and their allowed values.

use super::AgentSettings;
use crate::domain::{
    spend::{CALLS_PER_DAY_MAX, TOKENS_PER_DAY_MAX, USD_PER_DAY_MAX},
    zone::Zone,
};

const TOKENS_MAX: i64 = 100_000_000;
const MESSAGES_MAX: i64 = 1_000_000;
/// Limits a provider's name, a model's name and a tag to this many bytes.
const NAME_BYTES_MAX: usize = 128;
/// Limits a list of participants to this many bytes.
pub const PARTICIPANTS_BYTES_MAX: usize = 4_096;

/// The names of the settings, the configuration keys that they override, and their allowed values.
#[rustfmt::skip]
pub(super) const SETTINGS: [(&str, &str, &str); 20] = [
    ("preset", "window.preset", "none, request-limit, long-memory, dialogue or chat"),
    ("budget_tokens", "window.budget_tokens", "an integer from 0 to 100000000; 0 never evicts"),
    ("low_water", "window.low_water", "a number above 0, at most 1"),
    ("leg_tokens", "window.leg_tokens", "an integer from -1 to 100000000; 0 never cuts, -1 is one eviction step"),
    ("max_messages", "window.max_messages", "an integer from 0 to 1000000; 0 is no ceiling"),
    ("on_overflow", "window.on_overflow", "evict, refuse or end"),
    ("provider", "window.provider", "a text of at most 128 bytes"),
    ("model", "window.model", "a text of at most 128 bytes"),
    ("context_max_tokens", "context.max_tokens", "an integer from 0 to 100000000; 0 is no limit"),
    ("output_reserve_tokens", "context.output_reserve_tokens", "an integer from 0 to 100000000"),
    ("system_reserve_tokens", "context.system_reserve_tokens", "an integer from 0 to 100000000"),
    ("anchor", "context.anchor", "true or false"),
    ("alternation", "context.alternation", "merge, ack or keep"),
    ("participants", "perspective.participants", "speakers' names with commas between them, of at most 4096 bytes"),
    ("human_tag", "perspective.human_tag", "a text of at most 128 bytes"),
    ("mode", "perspective.mode", "talk, choose-names or meditation"),
    ("calls_per_day", "spend.agent_calls_per_day", "an integer from 0 to 1000000000; 0 is no limit"),
    ("tokens_per_day", "spend.agent_tokens_per_day", "an integer from 0 to 1000000000000; 0 is no limit"),
    ("usd_per_day", "spend.agent_usd_per_day", "a number from 0 to 1000000; 0 is no limit"),
    ("time_zone", "summary.time_zone", "a time zone such as Europe/Berlin"),
];

impl AgentSettings {
    /// Returns the names of the settings, in the order in which they are shown.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|(name, ..)| *name)
    }

    /// Returns the names of the settings and the configuration keys that they override.
    pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
        SETTINGS.iter().map(|&(name, key, _)| (name, key))
    }

    pub(super) fn is_valid(&self) -> bool {
        let tokens = [
            self.budget_tokens,
            self.context_max_tokens,
            self.output_reserve_tokens,
            self.system_reserve_tokens,
        ];
        let names = [&self.provider, &self.model, &self.human_tag];
        let participants = self.participants.as_ref();
        tokens.into_iter().flatten().all(|tokens| (0..=TOKENS_MAX).contains(&tokens))
            && self.max_messages.is_none_or(|messages| (0..=MESSAGES_MAX).contains(&messages))
            && names.into_iter().flatten().all(|name| name.len() <= NAME_BYTES_MAX)
            && self.low_water.is_none_or(|share| 0.0 < share && share <= 1.0)
            && self.time_zone.as_deref().is_none_or(|name| Zone::parse(name).is_some())
            && participants.is_none_or(|list| list.len() <= PARTICIPANTS_BYTES_MAX)
            && self.calls_per_day.is_none_or(|calls| (0..=CALLS_PER_DAY_MAX).contains(&calls))
            && self.tokens_per_day.is_none_or(|tokens| (0..=TOKENS_PER_DAY_MAX).contains(&tokens))
            && self.usd_per_day.is_none_or(|usd| (0.0..=USD_PER_DAY_MAX).contains(&usd))
    }
}
