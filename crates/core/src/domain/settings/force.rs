//! The settings in force for an agent, each with its source.

use serde::Serialize;
use serde_json::{Value, json};

use super::{AgentSettings, table::SETTINGS};
use crate::domain::preset::Basis;

/// Where a value in force comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SettingSource))]
pub enum Source {
    /// The agent's own settings.
    Agent,
    /// The agent's preset.
    Preset,
    /// The configuration, or a preset in it.
    Configuration,
}

/// A value in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SettingInForce))]
pub struct InForce {
    /// The setting's name.
    pub name: &'static str,
    /// The value as JSON.
    pub value: Value,
    /// Where the value comes from.
    pub from: Source,
}

impl AgentSettings {
    /// Returns the value in force of each setting, for an agent with these settings. `configured` is the configuration.
    pub fn in_force(&self, configured: &Self, basis: &Basis) -> Vec<InForce> {
        let sources = [
            (Source::Agent, json!(self)),
            (Source::Preset, json!(self.expanded(basis))),
            (Source::Configuration, json!(configured)),
        ];
        let of = |name: &'static str| {
            let mut values = sources.iter().filter_map(|(from, fields)| {
                let value = fields.get(name)?.clone();
                Some(InForce { name, value, from: *from })
            });
            values.next()
        };
        SETTINGS.iter().filter_map(|&(name, ..)| of(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{budget::OnOverflow, preset::Preset};

    #[test]
    fn a_value_comes_from_agent_preset_or_configuration() {
        let settings = AgentSettings {
            preset: Some(Preset::Dialogue),
            low_water: Some(0.7),
            ..AgentSettings::default()
        };
        let configured = AgentSettings {
            low_water: Some(0.8),
            model: Some("gpt-5".to_owned()),
            on_overflow: Some(OnOverflow::Evict),
            ..AgentSettings::default()
        };
        let lines: Vec<String> = settings
            .in_force(&configured, &Basis::default())
            .iter()
            .map(|value| format!("{} = {} {:?}", value.name, value.value, value.from))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        preset = "dialogue" Agent
        budget_tokens = 68000 Preset
        low_water = 0.7 Agent
        leg_tokens = 0 Preset
        on_overflow = "end" Preset
        model = "gpt-5" Configuration
        context_max_tokens = 90000 Preset
        anchor = false Preset
        "#);
    }
}
