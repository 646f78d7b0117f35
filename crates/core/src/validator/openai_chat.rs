//! Checks requests for OpenAI Chat Completions.
//!
//! Any role may come first or last, and roles may repeat. The API checks the shape of messages, and that tool messages directly follow
//! the calls that they answer.

mod calls;
mod message;

use serde_json::Value;

use super::{
    Evidence::{Reported, Schema, Unverified},
    Findings, Rule, openai_terms,
    request::{Object, RequestToCheck},
};

// Each comment says what breaks the rule.
/// The request has no messages.
const MESSAGES_MISSING: Rule = Rule::refused("messages_missing", Schema);
/// A message is no object.
const MESSAGE_SHAPE: Rule = Rule::refused("message_shape", Schema);
/// A message has no role, or an unknown one.
const ROLE: Rule = Rule::refused("role", Schema);
/// A message has no content, although its role requires content.
const CONTENT_MISSING: Rule = Rule::refused("content_missing", Schema);
/// The content is neither a string nor a list of parts with types.
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
/// The name of a speaker or function is too long, or has a character that names can't have.
const NAME: Rule = Rule::refused("name", Reported);
/// A function message doesn't name its function.
const NAME_MISSING: Rule = Rule::refused("name_missing", Schema);
/// A call is no object, or lacks its id, its type or its function's name.
const CALL_SHAPE: Rule = Rule::refused("call_shape", Schema);
/// `tool_calls` is an empty list.
const CALLS_EMPTY: Rule = Rule::refused("calls_empty", Reported);
/// `tool_calls` is null.
const CALLS_NULL: Rule = Rule::risky("calls_null", Schema);
/// A message that isn't the assistant's has calls.
const CALLS_OF_OTHERS: Rule = Rule::risky("calls_of_others", Schema);
/// The arguments of a call are missing or no string.
const ARGUMENTS: Rule = Rule::refused("arguments", Schema);
/// The arguments of a call aren't JSON.
const ARGUMENTS_JSON: Rule = Rule::risky("arguments_json", Unverified);
/// The id of a call is too long.
const CALL_ID_LENGTH: Rule = Rule::risky("call_id_length", Reported);
/// Two calls of one message have the same id.
const CALL_ID_TWICE: Rule = Rule::risky("call_id_twice", Reported);
/// The tool messages after an assistant message don't answer all its calls.
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Reported);
/// A tool message doesn't name its call.
const RESULT_ID_MISSING: Rule = Rule::refused("result_id_missing", Schema);
/// A tool message doesn't follow an assistant message with calls.
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
/// The assistant message before a tool message has no call with its id.
const RESULT_UNKNOWN: Rule = Rule::refused("result_unknown", Unverified);
/// Two tool messages answer the same call.
const RESULT_TWICE: Rule = Rule::refused("result_twice", Reported);
/// The request asks for JSON without a schema, and no message has the word "json".
const JSON_MODE: Rule = Rule::refused("json_mode", Schema);

pub(super) const RULES: &[Rule] = &[
    MESSAGES_MISSING,
    MESSAGE_SHAPE,
    ROLE,
    CONTENT_MISSING,
    CONTENT_SHAPE,
    NAME,
    NAME_MISSING,
    CALL_SHAPE,
    CALLS_EMPTY,
    CALLS_NULL,
    CALLS_OF_OTHERS,
    ARGUMENTS,
    ARGUMENTS_JSON,
    CALL_ID_LENGTH,
    CALL_ID_TWICE,
    CALL_UNANSWERED,
    RESULT_ID_MISSING,
    RESULT_ORPHAN,
    RESULT_UNKNOWN,
    RESULT_TWICE,
    JSON_MODE,
];

pub(super) fn check(request: &RequestToCheck<'_>, findings: &mut Findings) {
    let Some(messages) = request.messages() else {
        let text = match request.messages_value() {
            Some(field) => openai_terms::wrong_type("messages", "an array of objects", field),
            None => openai_terms::missing("messages"),
        };
        return findings.add_to_messages(&MESSAGES_MISSING, text);
    };
    if messages.is_empty() {
        return findings.add_to_messages(&MESSAGES_MISSING, openai_terms::empty_array("messages"));
    }
    let mut read: Vec<(usize, &Object)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if let Some(fields) = message.as_object() {
            message::check(index, fields, findings);
            read.push((index, fields));
        } else {
            let text = openai_terms::wrong_type(&format!("messages[{index}]"), "an object", message);
            findings.add(&MESSAGE_SHAPE, format_args!("/{index}"), text);
        }
    }
    calls::check(&read, findings);
    check_json_mode(request, messages, findings);
}

/// Checks that a message has the word "json" if the request asks for JSON without a schema.
fn check_json_mode(request: &RequestToCheck<'_>, messages: &[Value], findings: &mut Findings) {
    let format = request.body().and_then(|body| body.get("response_format"));
    let has_no_schema = format.is_some_and(|format| format["type"] == "json_object");
    let says_json = |message: &Value| message["content"].to_string().to_lowercase().contains("json");
    if has_no_schema && !messages.iter().any(says_json) {
        let text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
                    'json_object'.";
        findings.add_in_body(&JSON_MODE, "/response_format", text);
    }
}
