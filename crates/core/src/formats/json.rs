//! Parses JSON one level at a time: an object's values remain raw text until they are read.
//!
//! So numbers and the order of keys stay as they are (a tool's arguments may have integers that no float can represent), fields that
//! aren't read cost nothing, and values may be nested to any depth.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};
use serde_json::value::RawValue;

use super::FormatError;

/// A JSON object. Of duplicate fields, the last one counts.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, FormatError> {
        serde_json::from_str(json).map(Self).map_err(|error| refusal(json, &error))
    }

    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Self)
    }

    /// Returns a field's raw value; `None` if it is absent or null.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// Returns the string in a field; `None` if it is empty or the field has no string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        string(self.raw(name)?).filter(|text| !text.is_empty())
    }

    /// Returns the string or the number in a field, as text.
    pub(super) fn label(&self, name: &str) -> Option<String> {
        let raw = self.raw(name)?;
        let number = || raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        self.text(name).or_else(|| number().then(|| raw.get().to_owned()))
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// Returns the boolean in a field.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        list(self.raw(name)?)
    }

    /// Returns the name and value of the only field; `None` if there are several or none.
    pub(super) fn sole(self) -> Option<(String, &'a RawValue)> {
        let mut fields = self.0.into_iter();
        fields.next().filter(|_| fields.next().is_none())
    }

    /// Returns all fields, by name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), *raw))
    }

    /// Returns true if the field is present, even if it is null.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns true if the field is present and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }
}

/// Returns the elements of an array; `None` if `raw` isn't an array.
pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns the text of a string; `None` if `raw` isn't a string. Replaces lone surrogates, which JSON allows and Unicode doesn't.
pub(super) fn string(raw: &RawValue) -> Option<String> {
    struct Lossy(String);

    impl<'de> Deserialize<'de> for Lossy {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct JsonText;

            impl Visitor<'_> for JsonText {
                type Value = Lossy;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a string")
                }

                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Lossy, E> {
                    Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
                }
            }

            // serde_json rejects lone surrogates when it is asked for a string, but not when it is asked for bytes.
            deserializer.deserialize_bytes(JsonText)
        }
    }

    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str(raw.get()).ok().map(|Lossy(text)| text)
}

/// Returns JSON as text: the content of a string; any other value without white space.
pub(super) fn as_text(raw: &RawValue) -> String {
    string(raw).unwrap_or_else(|| compact(raw.get()))
}

/// Removes the white space between the tokens of valid JSON. Parsing and writing it with `serde_json::Value` would round numbers and sort
/// keys.
fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if in_string || !c.is_ascii_whitespace() {
            text.push(c);
        }
        in_string ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    text
}

fn refusal(json: &str, error: &serde_json::Error) -> FormatError {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(raw) if !raw.get().starts_with('{') => FormatError::new(
            format!("message is a JSON {}, not an object", kind_name(raw)),
            "give one JSON object per message",
        ),
        _ => FormatError::new(broken(error), "give each message as one complete JSON object"),
    }
}

fn kind_name(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'"') => "string",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Describes a JSON error. Most messages are one line, so the description has only the column.
pub(super) fn broken(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("broken JSON at column {}: {what}", error.column())
}
