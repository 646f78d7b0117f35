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
    request::{Object, RequestToCheck, text},
};

// Each comment says what breaks the rule.
/// The request has neither input nor a stored conversation or prompt, or its input is neither a string nor a list.
const INPUT_MISSING: Rule = Rule::refused("input_missing", Unverified);
/// An item is no object, or has neither a type nor a role.
const ITEM_SHAPE: Rule = Rule::refused("item_shape", Schema);
/// A message has no role, or an unknown one.
const ROLE: Rule = Rule::refused("role", Schema);
/// A message's content is neither a string nor a list of parts with types.
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
/// A message has a part that its role can't have, such as `output_text` in a user message.
const PART_ROLE: Rule = Rule::refused("part_role", Reported);
/// A call or an output lacks a required field.
const FIELD_MISSING: Rule = Rule::refused("field_missing", Schema);
/// The arguments of a call are missing or no string.
const ARGUMENTS: Rule = Rule::refused("arguments", Schema);
/// The name of a function has a character that names can't have.
const NAME: Rule = Rule::refused("name", Unverified);
/// A `call_id` is too long.
const CALL_ID_LENGTH: Rule = Rule::refused("call_id_length", Schema);
/// No output after a call has its `call_id`.
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Reported);
/// No call before an output has its `call_id`.
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
/// A call has two outputs.
const RESULT_TWICE: Rule = Rule::risky("result_twice", Reported);
/// Two calls of one kind have the same `call_id`.
const CALL_ID_TWICE: Rule = Rule::risky("call_id_twice", Reported);
/// Two items have the same id.
const ITEM_ID_TWICE: Rule = Rule::refused("item_id_twice", Reported);
/// The item that a reasoning item led to is missing.
const REASONING_ALONE: Rule = Rule::refused("reasoning_alone", Reported);
/// A reasoning item has its id, but the item that it led to doesn't.
const REASONING_ID_ALONE: Rule = Rule::risky("reasoning_id_alone", Unverified);
/// A turn calls tools without reasoning, although other turns have reasoning.
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

/// Fields that name a conversation that the provider stores and the request continues.
const STORED_BY_PROVIDER: [&str; 2] = ["previous_response_id", "conversation"];

struct InputItem<'a> {
    /// The index in the input.
    index: usize,
    /// The item's `type`; `message` if a message omits its type.
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

    /// Returns the id that the provider gave to the item, if the request repeats it.
    fn id(&self) -> Option<&'a str> {
        self.text("id").filter(|id| !id.is_empty())
    }

    /// Returns the item's JSON pointer below the input.
    fn pointer(&self) -> String {
        format!("/{}", self.index)
    }

    /// Returns the name of the item's field `key` in the API's errors.
    fn parameter(&self, key: &str) -> String {
        format!("input[{}].{key}", self.index)
    }

    /// Returns true for a message that isn't the model's own.
    fn is_said_to_model(&self) -> bool {
        self.kind == "message" && self.text("role") != Some("assistant")
    }

    /// Returns true for the output of a call.
    fn is_output(&self) -> bool {
        self.kind.ends_with("_output")
    }
}

pub(super) fn check(request: &RequestToCheck<'_>, findings: &mut Findings) {
    let has = |key: &str| request.body().and_then(|body| body.get(key)).is_some_and(|value| !value.is_null());
    let is_continued = STORED_BY_PROVIDER.into_iter().any(has);
    let values = match request.messages_value() {
        Some(Value::String(_)) => return,
        Some(Value::Array(values)) => values.as_slice(),
        None | Some(Value::Null) => &[],
        Some(value) => {
            let text = openai_terms::wrong_type("input", "one of a string or array of objects", value);
            return findings.add_to_messages(&INPUT_MISSING, text);
        }
    };
    if values.is_empty() && !is_continued && !has("prompt") {
        let text =
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.";
        return findings.add_to_messages(&INPUT_MISSING, text);
    }
    let read = values.iter().enumerate();
    let items: Vec<InputItem<'_>> =
        read.filter_map(|(index, value)| InputItem::read(index, value, findings)).collect();
    for item in &items {
        item::check(item, findings);
    }
    calls::check(&items, is_continued, findings);
    reasoning::check(&items, findings);
}
