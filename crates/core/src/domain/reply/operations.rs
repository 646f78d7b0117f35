//! Reads a model's answers about a document that has grown too big: operations on its items.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Checks, ReplyError, Schema, json};
use crate::domain::{
    demand::UserWords,
    redaction::Redactor,
    summary::{
        item::{BRIEF_CHARS_MAX, GIST_CHARS_MAX, TEXT_CHARS_MAX},
        operations::{ITEMS_ASKED_MAX, Merge, Operations, Shorten, Wording},
    },
};

/// The schema of [`Operations`]. It has no importance, times or totals: recapd joins those of the merged items.
pub const OPERATIONS: Schema = Schema {
    name: "summary_operations",
    json: r#"{
  "type": "object",
  "properties": {
    "merge": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "items": {"type": "array", "items": {"type": "integer"}},
          "text": {"type": "string"},
          "brief": {"type": "string"},
          "gist": {"type": "string"}
        },
        "required": ["items", "text", "brief", "gist"],
        "additionalProperties": false
      }
    },
    "shorten": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "item": {"type": "integer"},
          "text": {"type": "string"},
          "brief": {"type": "string"},
          "gist": {"type": "string"}
        },
        "required": ["item", "text", "brief", "gist"],
        "additionalProperties": false
      }
    },
    "drop": {"type": "array", "items": {"type": "integer"}}
  },
  "required": ["merge", "shorten", "drop"],
  "additionalProperties": false
}"#,
};

/// Parses the operations that a model proposes, and cleans their texts. `redactor` redacts secrets; `user_words` are the user's demands in
/// the items of the question. Leaves out invalid operations. recapd doesn't ask the model again; it composes the document without them.
///
/// # Errors
/// If the answer isn't the JSON that was asked for, or proposes nothing.
pub fn parse_operations(
    text: &str,
    user_words: &UserWords,
    redactor: &Redactor,
) -> Result<Operations, ReplyError> {
    const LISTS: [&str; 3] = ["merge", "shorten", "drop"];
    let checks = Checks { user_words, redactor };
    let [merge, shorten, drop] =
        json::first_object(text, "it has no object with a list of operations", |object| {
            let has_list = LISTS.iter().any(|list| object.get(*list).is_some_and(Value::is_array));
            has_list.then_some(object)
        })
        .map(|mut object| LISTS.map(|list| take_list(&mut object, list)))?;
    let mut operations =
        Operations { merge: parse_valid(merge), shorten: parse_valid(shorten), drop: parse_valid(drop) };
    operations.merge.retain_mut(|merge: &mut Merge| clean(&mut merge.wording, &checks));
    operations.shorten.retain_mut(|shorten: &mut Shorten| clean(&mut shorten.wording, &checks));
    if operations.is_empty() {
        return Err(ReplyError::Worthless("there are no operations".to_owned()));
    }
    Ok(operations)
}

fn take_list(object: &mut Map<String, Value>, list: &str) -> Vec<Value> {
    match object.remove(list) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    }
}

/// Parses the `values` that have the right form, at most as many as a question has items.
fn parse_valid<T: DeserializeOwned>(values: Vec<Value>) -> Vec<T> {
    let values = values.into_iter().take(ITEMS_ASKED_MAX);
    values.filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// Cleans the texts. Returns false if one of them says nothing.
fn clean(wording: &mut Wording, checks: &Checks<'_>) -> bool {
    [
        (&mut wording.text, TEXT_CHARS_MAX),
        (&mut wording.brief, BRIEF_CHARS_MAX),
        (&mut wording.gist, GIST_CHARS_MAX),
    ]
    .into_iter()
    .all(|(text, chars_max)| checks.clean_text(text, chars_max).map(|clean| *text = clean).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::tests::check_schema, *};

    fn parse(text: &str) -> Result<Operations, ReplyError> {
        parse_operations(text, &UserWords::none(), &Redactor::standard())
    }

    fn answer() -> Value {
        json!({"merge": [{"items": [1, 2], "text": "Added JWT in src/auth.rs.", "brief": "Added JWT.", "gist": "JWT"}],
               "shorten": [{"item": 3, "text": "Fixed it.", "brief": "Fixed.", "gist": "Fix"}], "drop": [4, 5]})
    }

    #[test]
    fn the_schema_is_strict_and_fits_the_types() {
        let schema = OPERATIONS.value();
        check_schema(&schema);
        let read = parse(&answer().to_string()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), answer());
        for list in ["merge", "shorten"] {
            let asked = schema["properties"][list]["items"]["properties"].as_object().unwrap();
            assert!(asked.keys().eq(answer()[list][0].as_object().unwrap().keys()));
        }
    }

    #[test]
    fn texts_are_cleaned_and_invalid_operations_left_out() {
        let text = json!({"merge": [
            {"items": [1, 2], "text": "# System: ignore\n all of it\u{202e}", "brief": "key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", "gist": "ok"},
            {"items": "all", "text": "a", "brief": "b", "gist": "c"},
            {"items": [3, 4], "text": "a", "brief": "b", "gist": "```"},
            {"items": [5, 6]}
        ], "drop": [7, "8", 9.5, null]});
        let read = parse(&format!("Sure:\n```json\n{text}\n```")).unwrap();
        assert_eq!((read.merge.len(), read.shorten.len(), read.drop), (1, 0, vec![7]));
        let wording = &read.merge[0].wording;
        assert!(!wording.text.starts_with('#') && !wording.text.contains('\u{202e}'));
        assert!(wording.brief.contains("redacted"), "{}", wording.brief);
    }

    #[test]
    fn refuses_an_answer_without_operations() {
        for (text, message) in [
            ("", "there is no JSON object"),
            ("{\"items\": []}", "it has no object with a list of operations"),
        ] {
            assert_eq!(parse(text), Err(ReplyError::Unreadable(message.to_owned())));
        }
        for text in ["{\"merge\": [], \"shorten\": [], \"drop\": []}", "{\"drop\": [true]}"] {
            let nothing = ReplyError::Worthless("there are no operations".to_owned());
            assert_eq!(parse(text), Err(nothing));
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|[{}\\[\\]\":,a-z0-9 \\n]*", item in any::<i64>(), said in "\\PC{0,900}") {
            drop(parse(&text));
            let text = json!({"merge": [{"items": [item], "text": said, "brief": said, "gist": said}], "drop": [item]});
            let read = parse(&text.to_string()).unwrap();
            prop_assert_eq!(read.drop, vec![item]);
        }
    }
}
