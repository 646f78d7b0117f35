//! Checks the fields of each item.

use serde_json::Value;

use super::{ARGUMENTS, CALL_ID_LENGTH, CONTENT_SHAPE, FIELD_MISSING, InputItem, NAME, PART_ROLE, ROLE};
use crate::validator::{
    findings::Findings,
    openai_terms::{
        is_function_name, missing, not_a_string, too_long, wrong_pattern, wrong_type, wrong_value,
    },
};

const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];
/// Parts that only messages of the assistant have.
const OUTPUT_PARTS: [&str; 2] = ["output_text", "refusal"];
/// Parts that only messages of other roles have.
const INPUT_PARTS: [&str; 3] = ["input_text", "input_image", "input_file"];
/// The longest `call_id`.
const ID_CHARS_MAX: usize = 64;

pub(super) fn check(item: &InputItem<'_>, findings: &mut Findings) {
    match item.kind {
        "message" => check_message(item, findings),
        "function_call" => {
            check_call_id(item, findings);
            check_arguments(item, "arguments", findings);
        }
        "custom_tool_call" => {
            check_call_id(item, findings);
            check_arguments(item, "input", findings);
        }
        "function_call_output" | "custom_tool_call_output" => {
            check_call_id(item, findings);
            if !matches!(item.fields.get("output"), Some(Value::String(_) | Value::Array(_))) {
                let text = missing(&item.parameter("output"));
                findings.add(&FIELD_MISSING, item.pointer(), text);
            }
        }
        _ => {}
    }
}

fn check_message(item: &InputItem<'_>, findings: &mut Findings) {
    let Some(role) = item.text("role") else {
        return findings.add(&ROLE, item.pointer(), missing(&item.parameter("role")));
    };
    if !ROLES.contains(&role) {
        return findings.add(&ROLE, item.pointer(), wrong_value(role, &ROLES));
    }
    let parts = match item.fields.get("content") {
        Some(Value::String(_)) => return,
        Some(Value::Array(parts)) => parts.as_slice(),
        Some(value) => {
            let expected = "one of a string or array of objects";
            let text = wrong_type(&item.parameter("content"), expected, value);
            return findings.add(&CONTENT_SHAPE, item.pointer(), text);
        }
        None => {
            return findings.add(&CONTENT_SHAPE, item.pointer(), missing(&item.parameter("content")));
        }
    };
    for (index, part) in parts.iter().enumerate() {
        let pointer = format!("{}/content/{index}", item.pointer());
        match part["type"].as_str() {
            None => {
                let text = missing(&item.parameter(&format!("content[{index}].type")));
                findings.add(&CONTENT_SHAPE, pointer, text);
            }
            Some(kind) if role == "assistant" && INPUT_PARTS.contains(&kind) => {
                findings.add(&PART_ROLE, pointer, wrong_value(kind, &OUTPUT_PARTS));
            }
            Some(kind) if role != "assistant" && OUTPUT_PARTS.contains(&kind) => {
                findings.add(&PART_ROLE, pointer, wrong_value(kind, &INPUT_PARTS));
            }
            Some(_) => {}
        }
    }
}

fn check_call_id(item: &InputItem<'_>, findings: &mut Findings) {
    let parameter = item.parameter("call_id");
    if let Some(text) = not_a_string(item.fields, "call_id", &parameter) {
        return findings.add(&FIELD_MISSING, item.pointer(), text);
    }
    let chars = item.text("call_id").map_or(0, |id| id.chars().count());
    if chars > ID_CHARS_MAX {
        let text = too_long(&parameter, ID_CHARS_MAX, chars);
        findings.add(&CALL_ID_LENGTH, format_args!("{}/call_id", item.pointer()), text);
    }
}

fn check_arguments(item: &InputItem<'_>, key: &str, findings: &mut Findings) {
    if let Some(text) = not_a_string(item.fields, key, &item.parameter(key)) {
        findings.add(&ARGUMENTS, item.pointer(), text);
    }
    match item.text("name") {
        None => findings.add(&FIELD_MISSING, item.pointer(), missing(&item.parameter("name"))),
        Some(name) if !is_function_name(name) => {
            let text = wrong_pattern(&item.parameter("name"), "^[a-zA-Z0-9_-]+$");
            findings.add(&NAME, format_args!("{}/name", item.pointer()), text);
        }
        Some(_) => {}
    }
}
