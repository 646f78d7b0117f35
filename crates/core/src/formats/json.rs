//! JSON read one level at a time: an object's values stay raw text until somebody asks for one.
//!
//! That keeps numbers and key order as they came (a tool's arguments may hold integers that no float can), costs
//! nothing for fields nobody reads, and has no limit of nesting.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};
use serde_json::value::RawValue;

use super::FormatError;

/// A JSON object. With a field given twice, the last one counts.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads one JSON object.
    pub(super) fn parse(json: &'a str) -> Result<Self, FormatError> {
        serde_json::from_str(json)
            .map(Self)
            .map_err(|error| refusal(json, &error))
    }

    /// The object that `raw` is, if it is one.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Self)
    }

    /// The value of a field; none if it is absent or null.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// A field that is a string, unless it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        string(self.raw(name)?).filter(|text| !text.is_empty())
    }

    /// A field that is a string or a number, as text.
    pub(super) fn label(&self, name: &str) -> Option<String> {
        let raw = self.raw(name)?;
        let number = || raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        self.text(name).or_else(|| number().then(|| raw.get().to_owned()))
    }

    /// A field that is a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// A field that is true or false.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// A field that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    /// A field that is an array.
    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        list(self.raw(name)?)
    }

    /// The object's only field, if it has just one.
    pub(super) fn sole(self) -> Option<(String, &'a RawValue)> {
        let mut fields = self.0.into_iter();
        fields.next().filter(|_| fields.next().is_none())
    }

    /// Whether a field is there, be it null.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a field is there and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }
}

/// The elements of an array, if `raw` is one.
pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// The text of a string, if `raw` is one. Half a surrogate pair, which JSON can write and Unicode can't hold, is
/// replaced.
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

            // serde_json checks surrogates where it is asked for a string, but not where it is asked for bytes.
            deserializer.deserialize_bytes(JsonText)
        }
    }

    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str(raw.get()).ok().map(|Lossy(text)| text)
}

/// JSON as text: a string's content, anything else without the white space between its tokens.
pub(super) fn as_text(raw: &RawValue) -> String {
    string(raw).unwrap_or_else(|| compact(raw.get()))
}

/// Valid JSON without the white space between its tokens. Going through `serde_json::Value` instead would round
/// numbers and sort keys.
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

/// What is broken in a JSON text. A message is one line as a rule, so the column says where.
pub(super) fn broken(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    format!("broken JSON at column {}: {what}", error.column())
}
