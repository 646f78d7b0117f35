//! What one agent overrides in the configuration: its budget, its model, what happens when even its newest exchange is
//! too big. Changed by merge patches (RFC 7396), kept beside the agent, in force from its next append on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    perspective::{self, Mode, Telling},
    window::Budget,
};

/// The most tokens that a setting may hold, as for the configuration's budget.
const TOKENS_MAX: i64 = 100_000_000;
/// The longest provider's or model's name, and the longest tag, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// The longest list of participants, in bytes.
pub const PARTICIPANTS_BYTES_MAX: usize = 4_096;

/// What an agent overrides. What is absent is the configuration's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The window's ceiling; 0 never evicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<i64>,
    /// Where an eviction stops, as a share of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<f64>,
    /// Whose tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which model's tokenizer counts messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of a whole request that are left to the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_reserve_tokens: Option<i64>,
    /// What happens when the newest exchange alone is too big.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_overflow: Option<OnOverflow>,
    /// Who takes part in a shared conversation, in order: `agent_a, agent_b`; empty for those who are heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<String>,
    /// What stands before the words of a human who steps in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_tag: Option<String>,
    /// What kind of shared conversation it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// What happens when the window is over budget although only the newest exchange is left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOverflow {
    /// It stays, and is reported as over budget.
    #[default]
    Evict,
    /// The append that would do it is refused, and nothing of it is stored.
    Refuse,
    /// It is stored, and the session ends with it.
    End,
}

/// The settings' names and what each may be.
const SETTINGS: [(&str, &str); 9] = [
    ("budget_tokens", "an integer from 0 to 100000000; 0 never evicts"),
    ("low_water", "a number from 0 to 1"),
    ("provider", "a text of at most 128 bytes"),
    ("model", "a text of at most 128 bytes"),
    ("output_reserve_tokens", "an integer from 0 to 100000000"),
    ("on_overflow", "evict, refuse or end"),
    (
        "participants",
        "speakers' names with commas between them, of at most 4096 bytes",
    ),
    ("human_tag", "a text of at most 128 bytes"),
    ("mode", "talk, choose-names or meditation"),
];

/// Why a patch can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It isn't a JSON object.
    #[error("settings must be one JSON object of names and values")]
    NotAnObject,
    /// No setting has that name.
    #[error("setting `{0}` is unknown")]
    Unknown(String),
    /// The setting can't have that value.
    #[error("setting `{name}` must be {expected}")]
    Invalid {
        /// Its name.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
}

/// A change of settings, known to be a sound one: each value replaces, null takes back to the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsPatch(Map<String, Value>);

impl SettingsPatch {
    /// Reads a merge patch (RFC 7396).
    ///
    /// # Errors
    /// When it isn't an object, or holds a name or a value that can't be.
    pub fn parse(patch: Value) -> Result<Self, SettingsError> {
        let Value::Object(patch) = patch else {
            return Err(SettingsError::NotAnObject);
        };
        for (name, value) in &patch {
            check(name, value)?;
        }
        Ok(Self(patch))
    }

    /// `settings` after this change.
    pub fn apply(&self, settings: &AgentSettings) -> AgentSettings {
        let mut fields = serde_json::to_value(settings).unwrap_or_default();
        for (name, value) in &self.0 {
            fields[name] = value.clone();
        }
        serde_json::from_value(fields).expect("each value was read when the patch was made")
    }
}

fn check(name: &str, value: &Value) -> Result<(), SettingsError> {
    let known = SETTINGS.iter().find(|(known, _)| *known == name);
    let &(known, expected) = known.ok_or_else(|| SettingsError::Unknown(name.to_owned()))?;
    let alone = Value::from_iter([(known, value.clone())]);
    let is_sound = serde_json::from_value(alone).is_ok_and(|alone: AgentSettings| alone.is_sound());
    is_sound.then_some(()).ok_or(SettingsError::Invalid {
        name: known,
        expected,
    })
}

impl AgentSettings {
    /// The settings' names, in the order in which they are shown.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|(name, _)| *name)
    }

    /// The value that `text`, as typed by a person, stands for: a number, nothing (`null` or empty), else a text.
    pub fn typed(text: &str) -> Value {
        match text {
            "" | "null" => Value::Null,
            text => text
                .replace('_', "")
                .parse::<serde_json::Number>()
                .map_or_else(|_| Value::from(text), Value::Number),
        }
    }

    /// This agent's budget, where the configuration's is `default`.
    pub fn budget(&self, default: Budget) -> Budget {
        Budget::new(
            self.budget_tokens.unwrap_or_else(|| default.budget_tokens()),
            self.low_water.unwrap_or_else(|| default.low_water()),
        )
    }

    /// The provider and the model whose tokenizer counts, where the configuration's are `provider` and `model`.
    pub fn tokenizer<'a>(&'a self, provider: &'a str, model: &'a str) -> (&'a str, &'a str) {
        (
            self.provider.as_deref().unwrap_or(provider),
            self.model.as_deref().unwrap_or(model),
        )
    }

    /// How this agent's conversation is told to its speakers, where the configuration's way is `default`.
    pub fn telling(&self, default: Telling) -> Telling {
        let participants = self.participants.as_deref().map(perspective::names);
        Telling {
            participants: participants.unwrap_or(default.participants),
            human_tag: self.human_tag.clone().unwrap_or(default.human_tag),
            mode: self.mode.unwrap_or(default.mode),
        }
    }

    fn is_sound(&self) -> bool {
        let tokens = [self.budget_tokens, self.output_reserve_tokens];
        let names = [&self.provider, &self.model, &self.human_tag];
        let participants = self.participants.as_ref();
        tokens
            .into_iter()
            .flatten()
            .all(|tokens| (0..=TOKENS_MAX).contains(&tokens))
            && names
                .into_iter()
                .flatten()
                .all(|name| name.len() <= NAME_BYTES_MAX)
            && self.low_water.is_none_or(|share| (0.0..=1.0).contains(&share))
            && participants.is_none_or(|list| list.len() <= PARTICIPANTS_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(settings: &AgentSettings, patch: Value) -> AgentSettings {
        SettingsPatch::parse(patch).unwrap().apply(settings)
    }

    #[test]
    fn a_patch_replaces_what_it_names_and_takes_back_what_it_nulls() {
        let settings = patched(
            &AgentSettings::default(),
            json!({"budget_tokens": 50_000, "model": "gpt-5"}),
        );
        assert_eq!(
            json!(settings),
            json!({"budget_tokens": 50_000, "model": "gpt-5"})
        );
        let settings = patched(
            &settings,
            json!({"low_water": 1, "model": null, "on_overflow": "refuse"}),
        );
        assert_eq!(
            json!(settings),
            json!({"budget_tokens": 50_000, "low_water": 1.0, "on_overflow": "refuse"})
        );
        assert_eq!(patched(&settings, json!({})), settings);
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let invalid = [
            "budget_tokens",
            "low_water",
            "provider",
            "output_reserve_tokens",
            "on_overflow",
            "participants",
            "human_tag",
            "mode",
        ];
        let cases = [
            json!({"budget_tokens": -1}),
            json!({"low_water": 1.5}),
            json!({"provider": "x".repeat(129)}),
            json!({"output_reserve_tokens": "many"}),
            json!({"on_overflow": "explode"}),
            json!({"participants": ["a", "b"]}),
            json!({"human_tag": "x".repeat(129)}),
            json!({"mode": "quarrel"}),
        ];
        for (name, patch) in invalid.into_iter().zip(cases) {
            let error = SettingsPatch::parse(patch).unwrap_err();
            assert!(
                matches!(error, SettingsError::Invalid { name: found, .. } if found == name),
                "{error}"
            );
        }
        let unknown = SettingsPatch::parse(json!({"budget": 1}));
        assert_eq!(unknown, Err(SettingsError::Unknown("budget".to_owned())));
        assert_eq!(SettingsPatch::parse(json!([1])), Err(SettingsError::NotAnObject));
        insta::assert_snapshot!(
            SettingsPatch::parse(json!({"budget_tokens": 0.5})).unwrap_err(),
            @"setting `budget_tokens` must be an integer from 0 to 100000000; 0 never evicts"
        );
    }

    #[test]
    fn every_setting_has_a_row_in_the_table() {
        let all = AgentSettings {
            budget_tokens: Some(1),
            low_water: Some(0.5),
            provider: Some("openai".to_owned()),
            model: Some("gpt-5".to_owned()),
            output_reserve_tokens: Some(2),
            on_overflow: Some(OnOverflow::End),
            participants: Some("a, b".to_owned()),
            human_tag: Some("[HUMAN]".to_owned()),
            mode: Some(Mode::Talk),
        };
        let mut names: Vec<String> = json!(all).as_object().unwrap().keys().cloned().collect();
        let mut table: Vec<&str> = AgentSettings::names().collect();
        names.sort_unstable();
        table.sort_unstable();
        assert_eq!(names, table);
        assert_eq!(patched(&AgentSettings::default(), json!(all)), all);
    }

    #[test]
    fn what_a_person_types_is_what_it_looks_like() {
        let cases = [
            ("50_000", json!(50_000)),
            ("0.9", json!(0.9)),
            ("refuse", json!("refuse")),
            ("claude-opus-5", json!("claude-opus-5")),
            ("", Value::Null),
            ("null", Value::Null),
        ];
        for (text, value) in cases {
            assert_eq!(AgentSettings::typed(text), value, "{text}");
        }
    }

    #[test]
    fn settings_override_how_a_shared_conversation_is_told() {
        let default = Telling {
            participants: vec!["x".to_owned()],
            ..Telling::default()
        };
        assert_eq!(AgentSettings::default().telling(default.clone()), default);
        let settings = patched(
            &AgentSettings::default(),
            json!({"participants": "agent_a, agent_b,agent_a,", "human_tag": "", "mode": "meditation"}),
        );
        assert_eq!(
            settings.telling(default),
            Telling {
                participants: vec!["agent_a".to_owned(), "agent_b".to_owned()],
                human_tag: String::new(),
                mode: Mode::Meditation,
            }
        );
    }

    #[test]
    fn settings_override_the_configurations_budget_one_by_one() {
        let default = Budget::new(100_000, 0.8);
        let cases = [
            (json!({}), default),
            (json!({"budget_tokens": 0}), Budget::new(0, 0.8)),
            (json!({"low_water": 1}), Budget::new(100_000, 1.0)),
            (json!({"budget_tokens": 5, "low_water": 0.5}), Budget::new(5, 0.5)),
        ];
        for (patch, budget) in cases {
            let settings = patched(&AgentSettings::default(), patch);
            assert_eq!(settings.budget(default), budget, "{settings:?}");
        }
    }
}
