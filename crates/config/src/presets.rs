//! Presets, which override the defaults and are overridden by explicit values. Also the settings that agents may override.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use toml::Table;

use super::{Config, ConfigSource, keys::insert};
use recapd_core::domain::{
    preset::{Basis, provider_limit_tokens},
    settings::AgentSettings,
};

/// Inserts the values that `window.preset` implies for keys that aren't set explicitly.
pub(super) fn expand(table: &mut Table, origins: &mut BTreeMap<String, ConfigSource>) {
    let Ok(config) = Config::deserialize(table.clone()) else {
        return;
    };
    let explicit: Map<String, Value> = AgentSettings::keys()
        .filter(|(_, key)| origins.contains_key(*key))
        .filter_map(|(name, _)| Some((name.to_owned(), json!(config.agent_settings()).get(name)?.clone())))
        .collect();
    let explicit: AgentSettings =
        serde_json::from_value(Value::Object(explicit)).expect("each value has been tried by itself");
    let preset = config.window.preset;
    let values = json!(preset.values(&explicit, &config.basis()));
    for (name, key) in
        AgentSettings::keys().filter(|(_, key)| !origins.contains_key(*key)).collect::<Vec<_>>()
    {
        if let Some(value) = values.get(name).and_then(|value| serde_json::from_value(value.clone()).ok()) {
            insert(table, key, value);
            origins.insert(key.to_owned(), ConfigSource::Preset(preset));
        }
    }
}

impl Config {
    /// Returns the settings of an agent that overrides none. Every field has a value.
    pub fn agent_settings(&self) -> AgentSettings {
        let (window, context) = (&self.window, &self.context);
        AgentSettings {
            time_zone: Some(self.summary.time_zone.clone()),
            preset: Some(window.preset),
            budget_tokens: Some(window.budget_tokens),
            low_water: Some(window.low_water),
            leg_tokens: Some(window.leg_tokens),
            max_messages: Some(window.max_messages),
            on_overflow: Some(window.on_overflow),
            provider: Some(window.provider.clone()),
            model: Some(window.model.clone()),
            context_max_tokens: Some(context.max_tokens),
            output_reserve_tokens: Some(context.output_reserve_tokens),
            system_reserve_tokens: Some(context.system_reserve_tokens),
            anchor: Some(context.anchor),
            alternation: Some(context.alternation),
            participants: Some(self.perspective.participants.clone()),
            human_tag: Some(self.perspective.human_tag.clone()),
            mode: Some(self.perspective.mode),
            calls_per_day: Some(self.spend.agent_calls_per_day),
            tokens_per_day: Some(self.spend.agent_tokens_per_day),
            usd_per_day: Some(self.spend.agent_usd_per_day),
        }
    }

    /// Returns the settings from which a preset derives its values.
    pub fn basis(&self) -> Basis {
        Basis {
            output_reserve_tokens: self.context.output_reserve_tokens,
            system_reserve_tokens: self.context.system_reserve_tokens,
            summary_max_tokens: self.summary.max_tokens,
            pins_max_tokens: self.context.pins_max_tokens,
            provider_limit_tokens: provider_limit_tokens(&self.window.provider),
        }
    }
}
