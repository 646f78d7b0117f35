//! An operator's changes of facts: adds, rewords, closes or pins one. The voice and the time of a fact can't be changed.

use serde_json::{Map, Value};

use super::{FACT_CHARS_MAX, FactKind};
use crate::domain::redaction::Redactor;

/// Names of the fields of a change.
pub const FIELDS: [&str; 3] = ["text", "pinned", "closed"];
/// Names of the fields of a new fact.
pub const NEW_FIELDS: [&str; 2] = ["kind", "text"];

/// Why a change is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactEditError {
    /// The change isn't an object, or is an empty one.
    #[error(
        "a change is an object with at least one of `text`, `pinned`, `closed`; a new fact has `kind` and `text`"
    )]
    Nothing,
    /// The change has an unknown field.
    #[error("a fact has no field `{0}` that can be set")]
    Unknown(String),
    /// A field is missing or has an invalid value.
    #[error("field `{name}` is invalid: give {expected}")]
    Invalid {
        /// The field's name.
        name: &'static str,
        /// Description of the valid values.
        expected: String,
    },
}

/// A fact that an operator adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    /// Its subject.
    pub kind: FactKind,
    /// The statement, on one line of 1 to [`FACT_CHARS_MAX`] characters.
    pub text: String,
}

impl NewFact {
    /// Parses a fact such as `{"kind": "demand", "text": "use pnpm, not npm"}`.
    ///
    /// # Errors
    /// A [`FactEditError`], which names the field.
    pub fn parse(fact: &Value) -> Result<Self, FactEditError> {
        let fields = fields(fact, &NEW_FIELDS)?;
        let kind = fields.get("kind").and_then(Value::as_str);
        let kind = kind.and_then(FactKind::from_name).ok_or_else(|| FactEditError::Invalid {
            name: "kind",
            expected: format!("one of {}", FactKind::ALL.map(FactKind::name).join(", ")),
        })?;
        let text = text(fields)?.ok_or_else(no_text)?;
        Ok(Self { kind, text })
    }

    /// Redacts secrets in the text.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        Self { text: redactor.redact(&self.text).into_owned(), ..self }
    }
}

/// A change of a fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactEdit {
    /// The new text, 1 to [`FACT_CHARS_MAX`] characters.
    pub text: Option<String>,
    /// The new pin; `None` leaves it unchanged.
    pub pinned: Option<bool>,
    /// True if the change closes the fact.
    pub is_closed: bool,
}

impl FactEdit {
    /// Parses a change such as `{"text": "use bun", "pinned": true}` or `{"closed": true}`.
    ///
    /// # Errors
    /// A [`FactEditError`], which names the field.
    pub fn parse(change: &Value) -> Result<Self, FactEditError> {
        let fields = fields(change, &FIELDS)?;
        let is_closed = match fields.get("closed") {
            None => false,
            Some(Value::Bool(true)) if fields.len() == 1 => true,
            Some(_) => {
                return Err(FactEditError::Invalid {
                    name: "closed",
                    expected: "true, and no other field with it".to_owned(),
                });
            }
        };
        Ok(Self { text: text(fields)?, pinned: pinned(fields)?, is_closed })
    }

    /// Redacts secrets in the text.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        let text = self.text.map(|text| redactor.redact(&text).into_owned());
        Self { text, ..self }
    }
}

fn fields<'v>(value: &'v Value, names: &[&str]) -> Result<&'v Map<String, Value>, FactEditError> {
    let fields = value.as_object().filter(|fields| !fields.is_empty());
    let fields = fields.ok_or(FactEditError::Nothing)?;
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => Err(FactEditError::Unknown(unknown.clone())),
        None => Ok(fields),
    }
}

fn text(fields: &Map<String, Value>) -> Result<Option<String>, FactEditError> {
    let Some(value) = fields.get("text") else {
        return Ok(None);
    };
    let text = value.as_str().map(str::trim);
    let fits = |text: &&str| {
        let is_line = !text.chars().any(char::is_control);
        is_line && text.contains(char::is_alphanumeric) && text.chars().count() <= FACT_CHARS_MAX
    };
    let text = text.filter(fits).ok_or_else(no_text)?;
    Ok(Some(text.to_owned()))
}

fn no_text() -> FactEditError {
    FactEditError::Invalid { name: "text", expected: format!("one line of 1 to {FACT_CHARS_MAX} characters") }
}

fn pinned(fields: &Map<String, Value>) -> Result<Option<bool>, FactEditError> {
    let Some(value) = fields.get("pinned") else {
        return Ok(None);
    };
    value
        .as_bool()
        .map(Some)
        .ok_or_else(|| FactEditError::Invalid { name: "pinned", expected: "true or false".to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_read_field_by_field() {
        let read = FactEdit::parse(&json!({"text": " use bun ", "pinned": false})).unwrap();
        assert_eq!(
            (read.text.as_deref(), read.pinned, read.is_closed),
            (Some("use bun"), Some(false), false)
        );
        assert!(FactEdit::parse(&json!({"closed": true})).unwrap().is_closed);
        let new = NewFact::parse(&json!({"kind": "dead_end", "text": "npm"})).unwrap();
        assert_eq!((new.kind, new.text.as_str()), (FactKind::DeadEnd, "npm"));
    }

    #[test]
    fn errors_name_the_field() {
        let long = "x".repeat(FACT_CHARS_MAX + 1);
        for (change, words) in [
            (json!({}), "at least one of"),
            (json!([]), "at least one of"),
            (json!({"exchange": 3}), "no field `exchange`"),
            (json!({"text": "two\nlines"}), "one line"),
            (json!({"text": "…"}), "one line"),
            (json!({"text": long}), "400 characters"),
            (json!({"pinned": "yes"}), "true or false"),
            (json!({"closed": false}), "no other field"),
            (json!({"closed": true, "text": "x"}), "no other field"),
        ] {
            let error = FactEdit::parse(&change).unwrap_err().to_string();
            assert!(error.contains(words), "{change}: {error}");
        }
        for (fact, words) in [
            (json!({"kind": "mood", "text": "fine"}), "one of goal, demand"),
            (json!({"text": "fine"}), "one of goal, demand"),
            (json!({"kind": "goal"}), "one line"),
        ] {
            let error = NewFact::parse(&fact).unwrap_err().to_string();
            assert!(error.contains(words), "{fact}: {error}");
        }
    }
}
