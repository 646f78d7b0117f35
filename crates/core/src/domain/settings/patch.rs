//! Changes of settings, as programs send them and as people type them.

use serde_json::{Map, Value};

use super::{AgentSettings, table::SETTINGS};

/// Why a patch can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It isn't a JSON object.
    #[error("settings must be one JSON object of names and values")]
    NotAnObject,
    /// No setting has that name.
    #[error("setting `{0}` is unknown")]
    Unknown(String),
    /// The setting doesn't allow that value.
    #[error("setting `{name}` must be {expected}")]
    Invalid {
        /// Its name.
        name: &'static str,
        /// The values that it allows.
        expected: &'static str,
    },
}

/// A valid change of settings: each value replaces the setting's, null resets it to the configuration's.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsPatch(Map<String, Value>);

impl SettingsPatch {
    /// Parses a merge patch (RFC 7396).
    ///
    /// # Errors
    /// When it isn't an object, or has an unknown name or an invalid value.
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
    // PostgreSQL's texts can't hold U+0000.
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
    /// The JSON value for `text` as a person types it: a number, true or false, nothing (`null` or empty), else a text.
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
}
