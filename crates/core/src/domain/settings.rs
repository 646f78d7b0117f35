//! The settings of one agent, which override the configuration. Merge patches (RFC 7396) change them. They are stored with the agent and
//! take effect with its next append.
//!
//! The value in force is the agent's own; without one, that of its preset; without a preset, that of the configuration.

mod force;
mod patch;
mod presets;
mod table;

use serde::{Deserialize, Serialize};

use super::{
    budget::{Budget, OnOverflow},
    context::{Alternation, ContextOptions},
    perspective::{self, Mode, PerspectiveStyle},
    preset::{Basis, Preset},
};
pub use force::{InForce, Source};
pub use patch::{SettingsError, SettingsPatch};
pub use table::PARTICIPANTS_BYTES_MAX;

/// The settings that one agent can override.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentSettings {
    /// A preset. It provides values for settings that are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The window's budget; 0 never evicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<i64>,
    /// An eviction stops when the window is this full, as a share of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<f64>,
    /// Once a leg has this many tokens, the next round begins a new leg. 0 never cuts an exchange; -1 means one eviction step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg_tokens: Option<i64>,
    /// Limits the window to this many messages; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<i64>,
    /// What to do if the newest leg alone is too big.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_overflow: Option<OnOverflow>,
    /// The provider whose tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model whose tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Limits a whole request to this many tokens; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_max_tokens: Option<i64>,
    /// Keeps this many tokens of a request free for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_reserve_tokens: Option<i64>,
    /// Keeps this many tokens of a request free for the agent's system prompt and tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserve_tokens: Option<i64>,
    /// True if the first message of the session stays in view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<bool>,
    /// What to do with consecutive turns of one side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternation: Option<Alternation>,
    /// The participants of a shared conversation, in order: `agent_a, agent_b`. If empty, the speakers of the messages take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<String>,
    /// Stands before the words of a human who steps in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_tag: Option<String>,
    /// The kind of a shared conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Limits the calls to models in a day; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_day: Option<i64>,
    /// Limits the input and output tokens of models in a day; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<i64>,
    /// Limits the cost of models in a day, in dollars; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_day: Option<f64>,
    /// The agent's time zone, from the IANA database. The summary ages by its days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

impl AgentSettings {
    /// Fills missing values from the preset.
    #[must_use]
    pub fn expanded(&self, basis: &Basis) -> Self {
        let preset = self.preset.unwrap_or_default();
        self.clone().or(preset.values(self, basis))
    }

    /// Fills missing values from `defaults`.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        Self {
            preset: self.preset.or(defaults.preset),
            budget_tokens: self.budget_tokens.or(defaults.budget_tokens),
            low_water: self.low_water.or(defaults.low_water),
            leg_tokens: self.leg_tokens.or(defaults.leg_tokens),
            max_messages: self.max_messages.or(defaults.max_messages),
            on_overflow: self.on_overflow.or(defaults.on_overflow),
            provider: self.provider.or(defaults.provider),
            model: self.model.or(defaults.model),
            context_max_tokens: self.context_max_tokens.or(defaults.context_max_tokens),
            output_reserve_tokens: self.output_reserve_tokens.or(defaults.output_reserve_tokens),
            system_reserve_tokens: self.system_reserve_tokens.or(defaults.system_reserve_tokens),
            anchor: self.anchor.or(defaults.anchor),
            alternation: self.alternation.or(defaults.alternation),
            participants: self.participants.or(defaults.participants),
            human_tag: self.human_tag.or(defaults.human_tag),
            mode: self.mode.or(defaults.mode),
            calls_per_day: self.calls_per_day.or(defaults.calls_per_day),
            tokens_per_day: self.tokens_per_day.or(defaults.tokens_per_day),
            usd_per_day: self.usd_per_day.or(defaults.usd_per_day),
            time_zone: self.time_zone.or(defaults.time_zone),
        }
    }

    /// Returns the budget. Missing values come from `default`.
    pub fn budget(&self, default: Budget) -> Budget {
        Budget::new(
            self.budget_tokens.unwrap_or_else(|| default.budget_tokens()),
            self.low_water.unwrap_or_else(|| default.low_water()),
        )
        .with_max_messages(self.max_messages.unwrap_or_else(|| default.max_messages()))
        .with_leg_tokens(self.leg_tokens.unwrap_or_else(|| default.leg_tokens_set()))
    }

    /// Returns the options for contexts. Missing values come from `default`.
    pub fn context_options(&self, default: ContextOptions) -> ContextOptions {
        ContextOptions {
            max_tokens: self.context_max_tokens.unwrap_or(default.max_tokens),
            output_reserve_tokens: self.output_reserve_tokens.unwrap_or(default.output_reserve_tokens),
            system_reserve_tokens: self.system_reserve_tokens.unwrap_or(default.system_reserve_tokens),
            anchor: self.anchor.unwrap_or(default.anchor),
            alternation: self.alternation.unwrap_or(default.alternation),
            ..default
        }
    }

    /// Returns the provider and the model of the tokenizer. `provider` and `model` are those of the configuration.
    pub fn tokenizer<'a>(&'a self, provider: &'a str, model: &'a str) -> (&'a str, &'a str) {
        (self.provider.as_deref().unwrap_or(provider), self.model.as_deref().unwrap_or(model))
    }

    /// Returns how the conversation is shown to its speakers. Missing values come from `default`.
    pub fn perspective_style(&self, default: PerspectiveStyle) -> PerspectiveStyle {
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
