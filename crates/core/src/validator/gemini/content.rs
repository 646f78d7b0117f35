//! Checks each content: its role, its parts, and one data field in each part.

use serde_json::Value;

use super::{
    CALL_ROLE, CONTENT_SHAPE, FIELD_MISSING, PART_AMBIGUOUS, PART_EMPTY, PARTS_EMPTY, ROLE, ROLE_MISSING,
};
use crate::validator::{
    findings::{Findings, shorten},
    request::{Object, text},
};

/// The fields with data, of which a part has exactly one, in both spellings.
const DATA_FIELDS: [(&str, &str); 9] = [
    ("text", "text"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
];
/// The fields that only describe the data. Any other unknown field may be a new kind of data.
const DESCRIBING_FIELDS: [&str; 9] = [
    "thought",
    "thoughtSignature",
    "thought_signature",
    "videoMetadata",
    "video_metadata",
    "mediaResolution",
    "media_resolution",
    "partMetadata",
    "part_metadata",
];

pub(super) struct ContentTurn<'a> {
    /// The index in the request.
    pub(super) index: usize,
    role: Option<&'a str>,
    /// The parts that are objects, with their indices.
    pub(super) parts: Vec<(usize, &'a Object)>,
}

/// Returns a field in either spelling; `None` if it is null.
pub(super) fn field<'a>(part: &'a Object, camel: &str, snake: &str) -> Option<&'a Value> {
    let value = part.get(camel).or_else(|| part.get(snake));
    value.filter(|value| !value.is_null())
}

pub(super) fn call(part: &Object) -> Option<&Value> {
    field(part, "functionCall", "function_call")
}

pub(super) fn response(part: &Object) -> Option<&Value> {
    field(part, "functionResponse", "function_response")
}

impl<'a> ContentTurn<'a> {
    /// Reads a content. Reports what can't be read; returns `None` if the content has no parts.
    pub(super) fn read(index: usize, content: &'a Value, findings: &mut Findings) -> Option<Self> {
        let parts = content.get("parts").and_then(Value::as_array);
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
            let text = format!(
                "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
            );
            findings.add(&PARTS_EMPTY, format_args!("/{index}"), text);
            return None;
        };
        let mut objects = Vec::new();
        for (position, part) in parts.iter().enumerate() {
            if let Some(part) = part.as_object() {
                objects.push((position, part));
            } else {
                let text =
                    format!("Invalid value at 'contents[{index}].parts[{position}]', an object is expected");
                findings.add(&CONTENT_SHAPE, format_args!("/{index}/parts/{position}"), text);
            }
        }
        Some(Self { index, role: content.get("role").and_then(Value::as_str), parts: objects })
    }

    /// Returns the content's JSON pointer below the array of contents.
    pub(super) fn pointer(&self) -> String {
        format!("/{}", self.index)
    }

    pub(super) fn is_of_model(&self) -> bool {
        self.role == Some("model")
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &'a Value)> {
        self.parts.iter().filter_map(|&(index, part)| Some((index, call(part)?)))
    }

    pub(super) fn responses(&self) -> impl Iterator<Item = (usize, &'a Value)> {
        self.parts.iter().filter_map(|&(index, part)| Some((index, response(part)?)))
    }
}

/// Checks a content of a request with `turn_count` contents.
pub(super) fn check(turn: &ContentTurn<'_>, turn_count: usize, findings: &mut Findings) {
    match turn.role {
        Some("user" | "model" | "function") => {}
        None if turn_count == 1 => {}
        None => {
            let text = "Please use a valid role: user, model. (A turn without one is refused or read as the user's.)";
            findings.add(&ROLE_MISSING, turn.pointer(), text);
        }
        Some(_) => findings.add(&ROLE, turn.pointer(), "Please use a valid role: user, model."),
    }
    for &(index, part) in &turn.parts {
        let pointer = format!("/{}/parts/{index}", turn.index);
        let name = format!("contents[{}].parts[{index}]", turn.index);
        check_data(&pointer, &name, part, findings);
        if let Some(call) = call(part) {
            check_call(turn, &pointer, &name, call, findings);
        }
        if let Some(response) = response(part) {
            check_response(&pointer, &name, response, findings);
        }
    }
}

fn check_data(pointer: &str, name: &str, part: &Object, findings: &mut Findings) {
    let mut data = DATA_FIELDS.iter().filter(|(camel, snake)| field(part, camel, snake).is_some());
    let (first, second) = (data.next(), data.next());
    if let Some((second, _)) = second {
        let text = format!(
            "Invalid value at '{name}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
        );
        findings.add(&PART_AMBIGUOUS, pointer, text);
    }
    let mut other_keys = part.keys().filter(|key| {
        let is_data = DATA_FIELDS.iter().any(|(camel, snake)| key == camel || key == snake);
        !is_data && !DESCRIBING_FIELDS.contains(&key.as_str())
    });
    if first.is_none() && other_keys.next().is_none() {
        let text = format!(
            "* GenerateContentRequest.{name}.data: required oneof field 'data' must have one initialized field"
        );
        findings.add(&PART_EMPTY, pointer, text);
    }
}

fn check_call(turn: &ContentTurn<'_>, pointer: &str, name: &str, call: &Value, findings: &mut Findings) {
    if !turn.is_of_model() {
        let role = shorten(turn.role.unwrap_or_default());
        let text = format!("{name}: a functionCall stands in a turn of role '{role}', not 'model'");
        findings.add(&CALL_ROLE, pointer, text);
    }
    check_function(pointer, &format!("{name}.function_call"), call, "args", findings);
}

fn check_response(pointer: &str, name: &str, response: &Value, findings: &mut Findings) {
    let name = format!("{name}.function_response");
    check_function(pointer, &name, response, "response", findings);
    if response.get("response").is_none() {
        let text = format!("* GenerateContentRequest.{name}.response: [REQUIRED_FIELD_MISSING]");
        findings.add(&FIELD_MISSING, pointer, text);
    }
}

/// Checks what calls and responses have in common: a name, and data in the field `data`.
fn check_function(pointer: &str, name: &str, function: &Value, data: &str, findings: &mut Findings) {
    let function_name = function.as_object().and_then(|function| text(function, "name"));
    if function_name.is_none_or(str::is_empty) {
        let text = format!("* GenerateContentRequest.{name}.name: Name cannot be empty.");
        findings.add(&FIELD_MISSING, pointer, text);
    }
    let data_value = function.get(data);
    if data_value.is_some_and(|value| !value.is_object() && !value.is_null()) {
        let text = format!("Invalid value at '{name}.{data}' (type.googleapis.com/google.protobuf.Struct)");
        findings.add(&FIELD_MISSING, pointer, text);
    }
}
