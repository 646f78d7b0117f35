//! Changes of settings by programs and people.

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
        /// The setting's name.
        name: &'static str,
        /// The allowed values, as text.
        expected: &'static str,
    },
}

/// A valid change of settings. Each value replaces the agent's; null removes it.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsPatch(Map<String, Value>);

impl SettingsPatch {
    /// Parses a merge patch (RFC 7396).
    ///
    /// # Errors
    /// [`SettingsError`] if it isn't an object, or has an unknown name or an invalid value.
    pub fn parse(patch: Value) -> Result<Self, SettingsError> {
        let Value::Object(patch) = patch else {
            return Err(SettingsError::NotAnObject);
        };
        for (name, value) in &patch {
            check(name, value)?;
        }
        Ok(Self(patch))
    }

    /// Applies the change to `settings`.
    pub fn apply(&self, settings: &AgentSettings) -> AgentSettings {
        let mut fields = serde_json::to_value(settings).unwrap_or_default();
        for (name, value) in &self.0 {
            fields[name] = value.clone();
        }
        serde_json::from_value(fields).expect("each value was read when the patch was made")
    }
}

fn check(name: &str, value: &Value) -> Result<(), SettingsError> {
    let setting = SETTINGS.iter().find(|(known_name, ..)| *known_name == name);
    let &(known_name, _, expected) = setting.ok_or_else(|| SettingsError::Unknown(name.to_owned()))?;
    // PostgreSQL texts can't hold U+0000.
    let is_storable = value.as_str().is_none_or(|text| !text.contains('\0'));
    let settings = Value::from_iter([(known_name, value.clone())]);
    let is_valid = serde_json::from_value(settings).is_ok_and(|settings: AgentSettings| settings.is_valid());
    (is_valid && is_storable).then_some(()).ok_or(SettingsError::Invalid { name: known_name, expected })
}

impl AgentSettings {
    /// Parses a value that a person typed: a number, true or false, null (`null` or nothing), else a string.
    pub fn parse_value(text: &str) -> Value {
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
