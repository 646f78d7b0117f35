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
    request::{CheckedRequest, Object},
};

const MESSAGES_MISSING: Rule = Rule::refused("messages_missing", Schema);
const MESSAGE_SHAPE: Rule = Rule::refused("message_shape", Schema);
const ROLE: Rule = Rule::refused("role", Schema);
const CONTENT_MISSING: Rule = Rule::refused("content_missing", Schema);
const CONTENT_SHAPE: Rule = Rule::refused("content_shape", Schema);
const NAME: Rule = Rule::refused("name", Reported);
const NAME_MISSING: Rule = Rule::refused("name_missing", Schema);
const CALL_SHAPE: Rule = Rule::refused("call_shape", Schema);
const CALLS_EMPTY: Rule = Rule::refused("calls_empty", Reported);
const CALLS_NULL: Rule = Rule::risky("calls_null", Schema);
const CALLS_OF_OTHERS: Rule = Rule::risky("calls_of_others", Schema);
const ARGUMENTS: Rule = Rule::refused("arguments", Schema);
const ARGUMENTS_JSON: Rule = Rule::risky("arguments_json", Unverified);
const CALL_ID_LENGTH: Rule = Rule::risky("call_id_length", Reported);
const CALL_ID_TWICE: Rule = Rule::risky("call_id_twice", Reported);
const CALL_UNANSWERED: Rule = Rule::refused("call_unanswered", Reported);
const RESULT_ID_MISSING: Rule = Rule::refused("result_id_missing", Schema);
const RESULT_ORPHAN: Rule = Rule::refused("result_orphan", Reported);
const RESULT_UNKNOWN: Rule = Rule::refused("result_unknown", Unverified);
const RESULT_TWICE: Rule = Rule::refused("result_twice", Reported);
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

pub(super) fn check(request: &CheckedRequest<'_>, findings: &mut Findings) {
    let Some(messages) = request.items() else {
        let text = match request.field() {
            Some(field) => openai_terms::wrong_type("messages", "an array of objects", field),
            None => openai_terms::missing("messages"),
        };
        return findings.add(&MESSAGES_MISSING, "", text);
    };
    if messages.is_empty() {
        return findings.add(&MESSAGES_MISSING, "", openai_terms::empty_array("messages"));
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

/// Checks that the prompt has the word "json", which JSON mode without a schema requires.
fn check_json_mode(request: &CheckedRequest<'_>, messages: &[Value], findings: &mut Findings) {
    let format = request.body().and_then(|body| body.get("response_format"));
    let is_plain = format.is_some_and(|format| format["type"] == "json_object");
    let says_json = |message: &Value| message["content"].to_string().to_lowercase().contains("json");
    if is_plain && !messages.iter().any(says_json) {
        let text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
                    'json_object'.";
        findings.add_in_body(&JSON_MODE, "/response_format", text);
    }
}
