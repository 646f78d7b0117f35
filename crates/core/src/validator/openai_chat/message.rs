//! Checks the fields of each message.

use serde_json::Value;

use super::{
    ARGUMENTS, ARGUMENTS_JSON, CALL_ID_LENGTH, CALL_SHAPE, CALLS_EMPTY, CALLS_NULL, CALLS_OF_OTHERS,
    CONTENT_MISSING, CONTENT_SHAPE, NAME, NAME_MISSING, RESULT_ID_MISSING, ROLE,
};
use crate::validator::{
    findings::Findings,
    openai_terms::{
        empty_array, is_function_name, missing, not_a_string, too_long, wrong_pattern, wrong_type,
        wrong_value,
    },
    request::{Object, text},
};

const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];
/// The longest id of a call. Users report that the API refuses longer ids; one of 2026 reports that it accepted a longer one.
const ID_CHARS_MAX: usize = 40;
/// The longest name of a speaker or of a function.
const NAME_CHARS_MAX: usize = 64;

pub(super) fn check(index: usize, message: &Object, findings: &mut Findings) {
    let pointer = format!("/{index}");
    let parameter = format!("messages[{index}]");
    let role = match message.get("role") {
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role.as_str(),
        Some(Value::String(role)) => return findings.add(&ROLE, pointer, wrong_value(role, &ROLES)),
        Some(role) => {
            let text = wrong_type(&format!("{parameter}.role"), "a string", role);
            return findings.add(&ROLE, pointer, text);
        }
        None => return findings.add(&ROLE, pointer, missing(&format!("{parameter}.role"))),
    };
    check_content(role, &pointer, &parameter, message, findings);
    check_name(role, &pointer, &parameter, message, findings);
    if role == "tool"
        && let Some(text) = not_a_string(message, "tool_call_id", &format!("{parameter}.tool_call_id"))
    {
        findings.add(&RESULT_ID_MISSING, &pointer, text);
    }
    check_calls(role, &pointer, &parameter, message, findings);
}

/// Returns true if an assistant message may lack content, because it has calls, a refusal or audio.
fn needs_no_content(message: &Object) -> bool {
    let has = |key: &str| message.get(key).is_some_and(|value| !value.is_null());
    ["tool_calls", "function_call", "refusal", "audio"].into_iter().any(has)
}

fn check_content(role: &str, pointer: &str, parameter: &str, message: &Object, findings: &mut Findings) {
    let may_be_missing = role == "function" || role == "assistant" && needs_no_content(message);
    match message.get("content") {
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) if parts.is_empty() => {
            let text = empty_array(&format!("{parameter}.content"));
            findings.add(&CONTENT_SHAPE, format_args!("{pointer}/content"), text);
        }
        Some(Value::Array(parts)) => check_parts(pointer, parameter, parts, findings),
        None | Some(Value::Null) if may_be_missing => {}
        None => findings.add(&CONTENT_MISSING, pointer, missing(&format!("{parameter}.content"))),
        Some(Value::Null) => findings.add(
            &CONTENT_MISSING,
            format_args!("{pointer}/content"),
            "Invalid value for 'content': expected a string, got null.",
        ),
        Some(value) => {
            let expected = "one of a string or array of objects";
            let text = wrong_type(&format!("{parameter}.content"), expected, value);
            findings.add(&CONTENT_SHAPE, format_args!("{pointer}/content"), text);
        }
    }
}

fn check_parts(pointer: &str, parameter: &str, parts: &[Value], findings: &mut Findings) {
    for (index, part) in parts.iter().enumerate() {
        if part["type"].as_str().is_none() {
            let text = missing(&format!("{parameter}.content[{index}].type"));
            findings.add(&CONTENT_SHAPE, format_args!("{pointer}/content/{index}"), text);
        }
    }
}

fn check_name(role: &str, pointer: &str, parameter: &str, message: &Object, findings: &mut Findings) {
    let parameter = format!("{parameter}.name");
    match text(message, "name") {
        None if role == "function" => findings.add(&NAME_MISSING, pointer, missing(&parameter)),
        Some(name) if !is_speaker_name(name) => {
            let text = wrong_pattern(&parameter, "^[^\\s<|\\\\/>]+$");
            findings.add(&NAME, format_args!("{pointer}/name"), text);
        }
        Some(name) if name.chars().count() > NAME_CHARS_MAX => {
            let text = too_long(&parameter, NAME_CHARS_MAX, name.chars().count());
            findings.add(&NAME, format_args!("{pointer}/name"), text);
        }
        _ => {}
    }
}

fn is_speaker_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "<|\\/>".contains(c))
}

fn check_calls(role: &str, pointer: &str, parameter: &str, message: &Object, findings: &mut Findings) {
    let calls = match message.get("tool_calls") {
        None => return,
        Some(null @ Value::Null) => {
            let text = wrong_type(&format!("{parameter}.tool_calls"), "an array of objects", null);
            return findings.add(&CALLS_NULL, format_args!("{pointer}/tool_calls"), text);
        }
        Some(Value::Array(calls)) => calls.as_slice(),
        Some(value) => {
            let text = wrong_type(&format!("{parameter}.tool_calls"), "an array of objects", value);
            return findings.add(&CALL_SHAPE, format_args!("{pointer}/tool_calls"), text);
        }
    };
    if calls.is_empty() {
        let text = empty_array(&format!("{parameter}.tool_calls"));
        findings.add(&CALLS_EMPTY, format_args!("{pointer}/tool_calls"), text);
    } else if role != "assistant" {
        let text =
            format!("'{parameter}.tool_calls': only 'assistant' messages have tool calls, not '{role}'.");
        findings.add(&CALLS_OF_OTHERS, format_args!("{pointer}/tool_calls"), text);
    }
    for (index, call) in calls.iter().enumerate() {
        let pointer = format!("{pointer}/tool_calls/{index}");
        let parameter = format!("{parameter}.tool_calls[{index}]");
        match call.as_object() {
            Some(call) => check_call(&pointer, &parameter, call, findings),
            None => findings.add(&CALL_SHAPE, pointer, wrong_type(&parameter, "an object", call)),
        }
    }
}

fn check_call(pointer: &str, parameter: &str, call: &Object, findings: &mut Findings) {
    if let Some(text) = not_a_string(call, "id", &format!("{parameter}.id")) {
        findings.add(&CALL_SHAPE, pointer, text);
    }
    let id_chars = text(call, "id").map_or(0, |id| id.chars().count());
    if id_chars > ID_CHARS_MAX {
        let text = too_long(&format!("{parameter}.id"), ID_CHARS_MAX, id_chars);
        findings.add(&CALL_ID_LENGTH, format_args!("{pointer}/id"), text);
    }
    let (kind, arguments) = match text(call, "type") {
        Some("function") => ("function", "arguments"),
        Some("custom") => ("custom", "input"),
        Some(value) => {
            let text = wrong_value(value, &["function", "custom"]);
            return findings.add(&CALL_SHAPE, format_args!("{pointer}/type"), text);
        }
        None => return findings.add(&CALL_SHAPE, pointer, missing(&format!("{parameter}.type"))),
    };
    let Some(body) = call.get(kind).and_then(Value::as_object) else {
        return findings.add(&CALL_SHAPE, pointer, missing(&format!("{parameter}.{kind}")));
    };
    check_call_name(pointer, &format!("{parameter}.{kind}.name"), body, findings);
    if let Some(text) = not_a_string(body, arguments, &format!("{parameter}.{kind}.{arguments}")) {
        findings.add(&ARGUMENTS, format_args!("{pointer}/{kind}"), text);
    } else if kind == "function" && !is_json(text(body, arguments).unwrap_or_default()) {
        let text = format!("'{parameter}.function.arguments' is no JSON; compatible servers parse it");
        findings.add(&ARGUMENTS_JSON, format_args!("{pointer}/function/arguments"), text);
    }
}

fn check_call_name(pointer: &str, parameter: &str, body: &Object, findings: &mut Findings) {
    match text(body, "name") {
        None => findings.add(&CALL_SHAPE, pointer, missing(parameter)),
        Some(name) if !is_function_name(name) => {
            findings.add(&NAME, pointer, wrong_pattern(parameter, "^[a-zA-Z0-9_-]+$"));
        }
        Some(name) if name.chars().count() > NAME_CHARS_MAX => {
            let text = too_long(parameter, NAME_CHARS_MAX, name.chars().count());
            findings.add(&NAME, pointer, text);
        }
        Some(_) => {}
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
