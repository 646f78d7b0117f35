//! What one agent overrides in the configuration: its budget, its model, what happens when even its newest exchange is
//! too big, how its requests are built. Changed by merge patches (RFC 7396), kept beside the agent, in force from its
//! next append on.
//!
//! A value in force is the agent's own, else what its preset stands for, else the configuration's.

mod force;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    context::{Alternation, ContextOptions},
    perspective::{self, Mode, Telling},
    preset::{Basis, Preset},
    spend::{CALLS_PER_DAY_MAX, TOKENS_PER_DAY_MAX, USD_PER_DAY_MAX},
    window::Budget,
    zone::Zone,
};
pub use force::{InForce, Source};

/// The most tokens that a setting may hold, as for the configuration's budget.
const TOKENS_MAX: i64 = 100_000_000;
/// The most messages that a window may be said to hold.
const MESSAGES_MAX: i64 = 1_000_000;
/// The longest provider's or model's name, and the longest tag, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// The longest list of participants, in bytes.
pub const PARTICIPANTS_BYTES_MAX: usize = 4_096;

/// What an agent overrides. What is absent is the configuration's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "daemon", derive(utoipa::ToSchema))]
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
    /// The window's ceiling in messages; 0 is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<i64>,
    /// What happens when the newest exchange alone is too big.
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

/// What happens when the window is over budget although only the newest exchange is left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "daemon", derive(utoipa::ToSchema))]
pub enum OnOverflow {
    /// It stays, and is reported as over budget.
    #[default]
    Evict,
    /// The append that would do it is refused, and nothing of it is stored.
    Refuse,
    /// It is stored, and the session ends with it.
    End,
}

/// The settings' names, the keys of the configuration that they override, and what each may be.
#[rustfmt::skip]
const SETTINGS: [(&str, &str, &str); 19] = [
    ("preset", "window.preset", "none, ikigai, structured-memory, pidgin or last-n"),
    ("budget_tokens", "window.budget_tokens", "an integer from 0 to 100000000; 0 never evicts"),
    ("low_water", "window.low_water", "a number from 0 to 1"),
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
    let known = SETTINGS.iter().find(|(known, ..)| *known == name);
    let &(known, _, expected) = known.ok_or_else(|| SettingsError::Unknown(name.to_owned()))?;
    // U+0000 is what PostgreSQL's texts can't hold.
    let is_storable = value.as_str().is_none_or(|text| !text.contains('\0'));
    let alone = Value::from_iter([(known, value.clone())]);
    let is_sound = serde_json::from_value(alone).is_ok_and(|alone: AgentSettings| alone.is_sound());
    (is_sound && is_storable)
        .then_some(())
        .ok_or(SettingsError::Invalid {
            name: known,
            expected,
        })
}

impl AgentSettings {
    /// The settings' names, in the order in which they are shown.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|(name, ..)| *name)
    }

    /// The settings' names with the keys of the configuration that they override.
    pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
        SETTINGS.iter().map(|&(name, key, _)| (name, key))
    }

    /// The value that `text`, as typed by a person, stands for: a number, true or false, nothing (`null` or empty),
    /// else a text.
    pub fn typed(text: &str) -> Value {
        match text {
            "" | "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => text
                .replace('_', "")
                .parse::<serde_json::Number>()
                .map_or_else(|_| Value::from(text), Value::Number),
        }
    }

    /// These settings, and where they say nothing what their preset stands for.
    #[must_use]
    pub fn expanded(&self, basis: &Basis) -> Self {
        let preset = self.preset.unwrap_or_default();
        self.clone().or(preset.values(self, basis))
    }

    /// These settings, and where they say nothing `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            preset: self.preset.or(others.preset),
            budget_tokens: self.budget_tokens.or(others.budget_tokens),
            low_water: self.low_water.or(others.low_water),
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

    /// The budget of these settings, and where they say nothing that of `default`.
    pub fn budget(&self, default: Budget) -> Budget {
        Budget::new(
            self.budget_tokens.unwrap_or_else(|| default.budget_tokens()),
            self.low_water.unwrap_or_else(|| default.low_water()),
        )
        .with_max_messages(self.max_messages.unwrap_or_else(|| default.max_messages()))
    }

    /// How contexts are built by these settings, and where they say nothing as `default` says.
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
        let tokens = [
            self.budget_tokens,
            self.context_max_tokens,
            self.output_reserve_tokens,
            self.system_reserve_tokens,
        ];
        let names = [&self.provider, &self.model, &self.human_tag];
        let participants = self.participants.as_ref();
        tokens
            .into_iter()
            .flatten()
            .all(|tokens| (0..=TOKENS_MAX).contains(&tokens))
            && self
                .max_messages
                .is_none_or(|messages| (0..=MESSAGES_MAX).contains(&messages))
            && names
                .into_iter()
                .flatten()
                .all(|name| name.len() <= NAME_BYTES_MAX)
            && self.low_water.is_none_or(|share| (0.0..=1.0).contains(&share))
            && self
                .time_zone
                .as_deref()
                .is_none_or(|name| Zone::parse(name).is_some())
            && participants.is_none_or(|list| list.len() <= PARTICIPANTS_BYTES_MAX)
            && self
                .calls_per_day
                .is_none_or(|calls| (0..=CALLS_PER_DAY_MAX).contains(&calls))
            && self
                .tokens_per_day
                .is_none_or(|tokens| (0..=TOKENS_PER_DAY_MAX).contains(&tokens))
            && self
                .usd_per_day
                .is_none_or(|usd| (0.0..=USD_PER_DAY_MAX).contains(&usd))
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
            "preset",
            "max_messages",
            "context_max_tokens",
            "system_reserve_tokens",
            "anchor",
            "alternation",
            "participants",
            "human_tag",
            "mode",
            "calls_per_day",
            "tokens_per_day",
            "usd_per_day",
            "time_zone",
        ];
        let cases = [
            json!({"budget_tokens": -1}),
            json!({"low_water": 1.5}),
            json!({"provider": "x".repeat(129)}),
            json!({"output_reserve_tokens": "many"}),
            json!({"on_overflow": "explode"}),
            json!({"preset": "ikiga"}),
            json!({"max_messages": -1}),
            json!({"context_max_tokens": 100_000_001}),
            json!({"system_reserve_tokens": -1}),
            json!({"anchor": "yes"}),
            json!({"alternation": "mix"}),
            json!({"participants": ["a", "b"]}),
            json!({"human_tag": "x".repeat(129)}),
            json!({"mode": "quarrel"}),
            json!({"calls_per_day": -1}),
            json!({"tokens_per_day": 1.5}),
            json!({"usd_per_day": 1_000_001}),
            json!({"time_zone": "Berlin"}),
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
            preset: Some(Preset::LastN),
            budget_tokens: Some(1),
            low_water: Some(0.5),
            max_messages: Some(6),
            on_overflow: Some(OnOverflow::End),
            provider: Some("openai".to_owned()),
            model: Some("gpt-5".to_owned()),
            context_max_tokens: Some(3),
            output_reserve_tokens: Some(2),
            system_reserve_tokens: Some(1),
            anchor: Some(true),
            alternation: Some(Alternation::Ack),
            participants: Some("a, b".to_owned()),
            human_tag: Some("[HUMAN]".to_owned()),
            mode: Some(Mode::Talk),
            calls_per_day: Some(5),
            tokens_per_day: Some(6),
            usd_per_day: Some(7.5),
            time_zone: Some("Europe/Berlin".to_owned()),
        };
        let mut names: Vec<String> = json!(all).as_object().unwrap().keys().cloned().collect();
        let mut table: Vec<&str> = AgentSettings::names().collect();
        names.sort_unstable();
        table.sort_unstable();
        assert_eq!(names, table);
        assert_eq!(patched(&AgentSettings::default(), json!(all)), all);
        assert_eq!(AgentSettings::default().or(all.clone()), all);
        assert_eq!(all.clone().or(AgentSettings::default()), all);
    }

    #[test]
    fn what_a_person_types_is_what_it_looks_like() {
        let cases = [
            ("50_000", json!(50_000)),
            ("0.9", json!(0.9)),
            ("refuse", json!("refuse")),
            ("true", json!(true)),
            ("false", json!(false)),
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
            (json!({"max_messages": 6}), default.with_max_messages(6)),
        ];
        for (patch, budget) in cases {
            let settings = patched(&AgentSettings::default(), patch);
            assert_eq!(settings.budget(default), budget, "{settings:?}");
        }
    }
}
