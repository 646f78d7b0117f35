//! The settings of one agent, which override the configuration: its budget, its model, what happens when even its
//! newest leg is too big, how its requests are built. They are changed by merge patches (RFC 7396), stored with
//! the agent, and take effect from its next append on.
//!
//! The value in force is the agent's own; without one its preset's; without one the configuration's.

mod force;
mod patch;
mod table;

use serde::{Deserialize, Serialize};

use super::{
    context::{Alternation, ContextOptions},
    perspective::{self, Mode, PerspectiveStyle},
    preset::{Basis, Preset},
    window::Budget,
};
pub use force::{InForce, Source};
pub use patch::{SettingsError, SettingsPatch};
pub use table::PARTICIPANTS_BYTES_MAX;

/// What an agent overrides. What is absent is the configuration's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentSettings {
    /// What the origins' windows come to: values for what isn't said here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The window's ceiling; 0 never evicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<i64>,
    /// Where an eviction stops, as a share of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<f64>,
    /// The tokens of a leg from which on the next round begins another one: 0 never cuts an exchange, -1 is one eviction step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg_tokens: Option<i64>,
    /// The window's ceiling in messages; 0 is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<i64>,
    /// What happens when the newest leg alone is too big.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_overflow: Option<OnOverflow>,
    /// Whose tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which model's tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most tokens of a whole request; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_max_tokens: Option<i64>,
    /// Tokens of a whole request that are left to the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_reserve_tokens: Option<i64>,
    /// Tokens of a whole request that the agent fills itself, with system and tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserve_tokens: Option<i64>,
    /// The first message of the session stays in view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<bool>,
    /// What happens to neighbouring turns of one side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternation: Option<Alternation>,
    /// Who takes part in a shared conversation, in order: `agent_a, agent_b`; empty for those who are heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<String>,
    /// What stands before the words of a human who steps in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_tag: Option<String>,
    /// What kind of shared conversation it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The most calls to models in a day; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_day: Option<i64>,
    /// The most tokens that models read and write in a day; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<i64>,
    /// What models may cost in a day, in dollars; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    /// Where the agent works: a zone of the IANA database, by whose days its summary ages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// What happens when the window is over budget although only the newest leg is left in it: its last round is too big.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OnOverflow {
    /// It stays, and is reported as over budget.
    #[default]
    Evict,
    /// The append that would do it is refused, and nothing of it is stored.
    Refuse,
    /// It is stored, and the session ends with it.
    End,
}

impl AgentSettings {
    /// These settings; where they have no value, that of their preset.
    #[must_use]
    pub fn expanded(&self, basis: &Basis) -> Self {
        let preset = self.preset.unwrap_or_default();
        self.clone().or(preset.values(self, basis))
    }

    /// These settings; where they have no value, that of `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            preset: self.preset.or(others.preset),
            budget_tokens: self.budget_tokens.or(others.budget_tokens),
            low_water: self.low_water.or(others.low_water),
            leg_tokens: self.leg_tokens.or(others.leg_tokens),
            max_messages: self.max_messages.or(others.max_messages),
            on_overflow: self.on_overflow.or(others.on_overflow),
            provider: self.provider.or(others.provider),
            model: self.model.or(others.model),
            context_max_tokens: self.context_max_tokens.or(others.context_max_tokens),
            output_reserve_tokens: self.output_reserve_tokens.or(others.output_reserve_tokens),
            system_reserve_tokens: self.system_reserve_tokens.or(others.system_reserve_tokens),
            anchor: self.anchor.or(others.anchor),
            alternation: self.alternation.or(others.alternation),
            participants: self.participants.or(others.participants),
            human_tag: self.human_tag.or(others.human_tag),
            mode: self.mode.or(others.mode),
            calls_per_day: self.calls_per_day.or(others.calls_per_day),
            tokens_per_day: self.tokens_per_day.or(others.tokens_per_day),
            usd_per_day: self.usd_per_day.or(others.usd_per_day),
            time_zone: self.time_zone.or(others.time_zone),
        }
    }

    /// The budget of these settings; where they have no value, that of `default`.
    pub fn budget(&self, default: Budget) -> Budget {
        Budget::new(
            self.budget_tokens.unwrap_or_else(|| default.budget_tokens()),
            self.low_water.unwrap_or_else(|| default.low_water()),
        )
        .with_max_messages(self.max_messages.unwrap_or_else(|| default.max_messages()))
        .with_leg_tokens(self.leg_tokens.unwrap_or_else(|| default.leg_tokens_set()))
    }

    /// The options of contexts by these settings; where they have no value, that of `default`.
    pub fn context_options(&self, default: ContextOptions) -> ContextOptions {
        ContextOptions {
            max_tokens: self.context_max_tokens.unwrap_or(default.max_tokens),
            output_reserve_tokens: self
                .output_reserve_tokens
                .unwrap_or(default.output_reserve_tokens),
            system_reserve_tokens: self
                .system_reserve_tokens
                .unwrap_or(default.system_reserve_tokens),
            anchor: self.anchor.unwrap_or(default.anchor),
            alternation: self.alternation.unwrap_or(default.alternation),
            ..default
        }
    }

    /// The provider and the model whose tokenizer counts; `provider` and `model` are the configuration's.
    pub fn tokenizer<'a>(&'a self, provider: &'a str, model: &'a str) -> (&'a str, &'a str) {
        (
            self.provider.as_deref().unwrap_or(provider),
            self.model.as_deref().unwrap_or(model),
        )
    }

    /// How this agent's conversation is shown to its speakers; `default` is the configuration's way.
    pub fn telling(&self, default: PerspectiveStyle) -> PerspectiveStyle {
        let participants = self.participants.as_deref().map(perspective::names);
        PerspectiveStyle {
            participants: participants.unwrap_or(default.participants),
            human_tag: self.human_tag.clone().unwrap_or(default.human_tag),
            mode: self.mode.unwrap_or(default.mode),
        }
    }
}

#[cfg(test)]
mod tests;
