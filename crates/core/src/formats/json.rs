//! JSON parsed one level at a time: an object's values stay raw text until they are read.
//!
//! This keeps numbers and key order as they came (tool arguments may hold integers that no float can represent), costs
//! nothing for unread fields, and has no nesting limit.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};
use serde_json::value::RawValue;

use super::FormatError;

/// A JSON object. Of duplicate fields, the last one counts.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, FormatError> {
        serde_json::from_str(json)
            .map(Self)
            .map_err(|error| refusal(json, &error))
    }

    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Self)
    }

    /// A field's raw value; `None` if it is absent or null.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// A string field; `None` if it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        string(self.raw(name)?).filter(|text| !text.is_empty())
    }

    pub(super) fn label(&self, name: &str) -> Option<String> {
        let raw = self.raw(name)?;
        let number = || raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        self.text(name).or_else(|| number().then(|| raw.get().to_owned()))
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        list(self.raw(name)?)
    }

    /// The name and value of the only field; `None` if there are several or none.
    pub(super) fn sole(self) -> Option<(String, &'a RawValue)> {
        let mut fields = self.0.into_iter();
        fields.next().filter(|_| fields.next().is_none())
    }

    /// All fields, by name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), *raw))
    }

    /// Returns true if the field is present, even if it is null.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns true if the field is present and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }
}

/// The elements of an array, or `None` if `raw` is none.
pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// The text of a string, or `None` if `raw` is none. Replaces lone surrogates, which JSON can write and Unicode can't hold.
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

/// JSON as text: the content of a string, anything else compacted.
pub(super) fn as_text(raw: &RawValue) -> String {
    string(raw).unwrap_or_else(|| compact(raw.get()))
}

/// Removes the white space between the tokens of valid JSON. A round trip through `serde_json::Value` would round numbers
/// and sort keys.
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

/// Describes a JSON error. Messages are usually one line, so it gives only the column.
pub(super) fn broken(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    format!("broken JSON at column {}: {what}", error.column())
}
