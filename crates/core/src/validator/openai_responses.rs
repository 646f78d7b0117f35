//! Checks requests for OpenAI Responses.
//!
//! A request is a list of items: messages, calls, outputs, reasoning. Calls and outputs are matched by `call_id`. Reasoning belongs to
//! the item after it. Items of other kinds aren't checked.

mod calls;
mod item;
mod reasoning;

use serde_json::Value;

use super::{
    Evidence::{Reported, Schema, Unverified},
    Findings, Rule, openai_terms,
    request::{CheckedRequest, Object, text},
};

const INPUT_MISSING: Rule = Rule::refused("input_missing", Unverified);
const ITEM_SHAPE: Rule = Rule::refused("item_shape", Schema);
const ROLE: Rule = Rule::refused("role", Schema);
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
const PART_ROLE: Rule = Rule::refused("part_role", Reported);
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
const ARGUMENTS: Rule = Rule::refused("arguments", Schema);
const NAME: Rule = Rule::refused("name", Unverified);
const CALL_ID_LENGTH: Rule = Rule::refused("call_id_length", Schema);
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Reported);
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
const RESULT_TWICE: Rule = Rule::risky("result_twice", Reported);
const CALL_ID_TWICE: Rule = Rule::risky("call_id_twice", Reported);
const ITEM_ID_TWICE: Rule = Rule::refused("item_id_twice", Reported);
const REASONING_ALONE: Rule = Rule::refused("reasoning_alone", Reported);
const REASONING_ID_ALONE: Rule = Rule::risky("reasoning_id_alone", Unverified);
const REASONING_MISSING: Rule = Rule::risky("reasoning_missing", Reported);

pub(super) const RULES: &[Rule] = &[
    INPUT_MISSING,
    ITEM_SHAPE,
    ROLE,
    CONTENT_SHAPE,
    PART_ROLE,
    FIELD_MISSING,
    ARGUMENTS,
    NAME,
    CALL_ID_LENGTH,
    CALL_UNANSWERED,
    RESULT_ORPHAN,
    RESULT_TWICE,
    CALL_ID_TWICE,
    ITEM_ID_TWICE,
    REASONING_ALONE,
    REASONING_ID_ALONE,
    REASONING_MISSING,
];

/// Fields that continue a conversation that the provider stores.
const STORED_BY_PROVIDER: [&str; 2] = ["previous_response_id", "conversation"];

struct InputItem<'a> {
    /// The index in the input.
    index: usize,
    /// The item's `type`, which a message may omit.
    kind: &'a str,
    fields: &'a Object,
}

impl<'a> InputItem<'a> {
    fn read(index: usize, value: &'a Value, findings: &mut Findings) -> Option<Self> {
        let Some(fields) = value.as_object() else {
            let text = openai_terms::wrong_type(&format!("input[{index}]"), "an object", value);
            findings.add(&ITEM_SHAPE, format_args!("/{index}"), text);
            return None;
        };
        let kind = match text(fields, "type") {
            Some(kind) => kind,
            None if fields.contains_key("role") => "message",
            None => {
                let text = openai_terms::missing(&format!("input[{index}].type"));
                findings.add(&ITEM_SHAPE, format_args!("/{index}"), text);
                return None;
            }
        };
        Some(Self { index, kind, fields })
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        text(self.fields, key)
    }

    /// Returns the provider's id, if the request repeats it.
    fn id(&self) -> Option<&'a str> {
        self.text("id").filter(|id| !id.is_empty())
    }

    /// Returns the item's JSON pointer below the input.
    fn place(&self) -> String {
        format!("/{}", self.index)
    }

    /// Returns the name of the item's field `key` in the API's errors.
    fn parameter(&self, key: &str) -> String {
        format!("input[{}].{key}", self.index)
    }

    fn is_said_to_model(&self) -> bool {
        self.kind == "message" && self.text("role") != Some("assistant")
    }

    fn is_output(&self) -> bool {
        self.kind.ends_with("_output")
    }
}

pub(super) fn check(request: &CheckedRequest<'_>, findings: &mut Findings) {
    let has = |key: &str| {
        request
            .body()
            .and_then(|body| body.get(key))
            .is_some_and(|value| !value.is_null())
    };
    let is_continued = STORED_BY_PROVIDER.into_iter().any(has);
    let values = match request.field() {
        Some(Value::String(_)) => return,
        Some(Value::Array(values)) => values.as_slice(),
        None | Some(Value::Null) => &[],
        Some(other) => {
            let text = openai_terms::wrong_type("input", "one of a string or array of objects", other);
            return findings.add(&INPUT_MISSING, "", text);
        }
    };
    if values.is_empty() && !is_continued && !has("prompt") {
        let text =
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.";
        return findings.add(&INPUT_MISSING, "", text);
    }
    let read = values.iter().enumerate();
    let items: Vec<InputItem<'_>> = read
        .filter_map(|(index, value)| InputItem::read(index, value, findings))
        .collect();
    for item in &items {
        item::check(item, findings);
    }
    calls::check(&items, is_continued, findings);
    reasoning::check(&items, findings);
}
