//! An operator's change of an item's texts, importance or pin. Exchanges, times and tokens can't be changed.

use serde_json::{Map, Value};

use super::item::{BRIEF_CHARS_MAX, GIST_CHARS_MAX, Importance, Item, Origin, TEXT_CHARS_MAX};
use crate::domain::redaction::Redactor;

/// Names of the fields, in the order of [`Item`].
pub const FIELDS: [&str; 5] = ["text", "brief", "gist", "importance", "pinned"];

/// Why a change is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The change isn't an object, or is an empty one.
    #[error("a change is an object with at least one of `text`, `brief`, `gist`, `importance`, `pinned`")]
    Nothing,
    /// The change has an unknown field.
    #[error("an item has no field `{0}` that can be changed")]
    Unknown(String),
    /// A field has an invalid value.
    #[error("field `{name}` is invalid: give {expected}")]
    Invalid {
        /// The field's name.
        name: &'static str,
        /// Description of the valid values.
        expected: String,
    },
}

/// A change of an item. If a text is new, the shorter texts that the change doesn't give become empty. The document then shows the new
/// text in their place, cut to their length, so no old text remains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemEdit {
    /// The detailed text, 1 to [`TEXT_CHARS_MAX`] characters.
    pub text: Option<String>,
    /// The shorter text, 1 to [`BRIEF_CHARS_MAX`] characters.
    pub brief: Option<String>,
    /// The headline, 1 to [`GIST_CHARS_MAX`] characters.
    pub gist: Option<String>,
    /// The new importance; `None` leaves it unchanged.
    pub importance: Option<Importance>,
    /// The new pin; `None` leaves it unchanged.
    pub pinned: Option<bool>,
}

impl ItemEdit {
    /// Parses a change such as `{"text": "Chose RS256", "pinned": true}`.
    ///
    /// # Errors
    /// An [`EditError`], which names the field.
    pub fn parse(change: &Value) -> Result<Self, EditError> {
        let fields = change.as_object().filter(|fields| !fields.is_empty()).ok_or(EditError::Nothing)?;
        if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(EditError::Unknown(unknown.clone()));
        }
        Ok(Self {
            text: text(fields, "text", TEXT_CHARS_MAX)?,
            brief: text(fields, "brief", BRIEF_CHARS_MAX)?,
            gist: text(fields, "gist", GIST_CHARS_MAX)?,
            importance: importance(fields)?,
            pinned: pinned(fields)?,
        })
    }

    /// Returns true if the change sets nothing but the pin.
    pub fn is_pin_alone(&self) -> bool {
        let Self { text, brief, gist, importance, pinned: _ } = self;
        text.is_none() && brief.is_none() && gist.is_none() && importance.is_none()
    }

    /// Redacts secrets in the texts.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        let redact = |text: Option<String>| text.map(|text| redactor.redact(&text).into_owned());
        Self { text: redact(self.text), brief: redact(self.brief), gist: redact(self.gist), ..self }
    }

    /// Returns the changed `item`. If a text or the importance is new, the item is the operator's and no model condenses it again.
    #[must_use]
    pub fn apply(&self, item: &Item) -> Item {
        let mut changed = item.clone();
        changed.pinned = self.pinned.unwrap_or(item.pinned);
        if self.is_pin_alone() {
            return changed;
        }
        let mut has_new_longer = false;
        for (text, new) in [
            (&mut changed.text, &self.text),
            (&mut changed.brief, &self.brief),
            (&mut changed.gist, &self.gist),
        ] {
            match new {
                Some(new) => text.clone_from(new),
                None if has_new_longer => text.clear(),
                None => {}
            }
            has_new_longer |= new.is_some();
        }
        changed.importance = self.importance.unwrap_or(item.importance);
        changed.origin = Origin::Edited;
        changed.provisional = false;
        changed
    }
}

fn text(
    fields: &Map<String, Value>,
    name: &'static str,
    chars_max: usize,
) -> Result<Option<String>, EditError> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let text = value.as_str().map(str::trim);
    let fits = text.filter(|text| !text.is_empty() && text.chars().count() <= chars_max);
    let expected = || format!("a text of 1 to {chars_max} characters");
    fits.map(|text| Some(text.to_owned())).ok_or_else(|| EditError::Invalid { name, expected: expected() })
}

fn importance(fields: &Map<String, Value>) -> Result<Option<Importance>, EditError> {
    let Some(value) = fields.get("importance") else {
        return Ok(None);
    };
    let importance = value.as_str().and_then(Importance::from_name);
    let names = Importance::ALL.map(Importance::name).join(", ");
    importance
        .map(Some)
        .ok_or_else(|| EditError::Invalid { name: "importance", expected: format!("one of {names}") })
}

fn pinned(fields: &Map<String, Value>) -> Result<Option<bool>, EditError> {
    let Some(value) = fields.get("pinned") else {
        return Ok(None);
    };
    value
        .as_bool()
        .map(Some)
        .ok_or_else(|| EditError::Invalid { name: "pinned", expected: "true or false".to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{
        summary::{fixtures::item, line::item_line, section::Form},
        time::Timestamp,
    };

    #[test]
    fn a_new_text_empties_the_old_shorter_texts() {
        let mut old = item(3, Timestamp(0));
        old.provisional = true;
        let edit =
            ItemEdit::parse(&json!({"text": " Chose RS256, not HS256 ", "importance": "decision"})).unwrap();
        let new = edit.apply(&old);
        assert_eq!(
            (new.text.as_str(), new.brief.as_str(), new.gist.as_str()),
            ("Chose RS256, not HS256", "", "")
        );
        assert_eq!(
            (new.origin, new.provisional, new.importance),
            (Origin::Edited, false, Importance::Decision)
        );
        for form in Form::ALL {
            assert!(item_line(&new, form).starts_with("Chose RS256, not HS256 ("));
        }
        let headline = ItemEdit::parse(&json!({"gist": "Chose RS256"})).unwrap().apply(&old);
        assert_eq!((&headline.text, &headline.brief), (&old.text, &old.brief));
    }

    #[test]
    fn a_pin_alone_leaves_the_texts_as_they_are() {
        let old = item(3, Timestamp(0));
        let edit = ItemEdit::parse(&json!({"pinned": true})).unwrap();
        assert!(edit.is_pin_alone());
        assert_eq!(edit.apply(&old), Item { pinned: true, ..old });
    }

    #[test]
    fn secrets_are_redacted() {
        let edit = ItemEdit::parse(&json!({"text": "The token is ghp_0123456789abcdefghijABCDEFGHIJ012345"}))
            .unwrap();
        let new = edit.redacted(&Redactor::standard()).apply(&item(3, Timestamp(0)));
        assert!(!new.text.contains("ghp_0123"), "{}", new.text);
    }

    #[test]
    fn invalid_changes_are_refused() {
        let long = "x".repeat(GIST_CHARS_MAX + 1);
        for (change, words) in [
            (json!([]), "an object"),
            (json!({}), "an object"),
            (json!({"ranges": []}), "no field `ranges`"),
            (json!({"text": ""}), "`text` is invalid: give a text of 1 to 700"),
            (json!({"brief": 1}), "`brief`"),
            (json!({"gist": long}), "1 to 110"),
            (json!({"importance": "high"}), "one of trivial, debugging"),
            (json!({"pinned": "yes"}), "true or false"),
        ] {
            let error = ItemEdit::parse(&change).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
