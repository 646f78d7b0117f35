//! Describes schemas in words, for people.

use std::fmt::Write as _;

use serde_json::Value;

/// An enumeration with more values than this is cut short where it is used.
const ENUM_VALUES_SHOWN_MAX: usize = 12;

/// Writes the chapter about the schemas of `document`.
pub(super) fn chapter(document: &Value, text: &mut String) {
    text.push_str("\n## Shapes\n\nFields that may be absent are marked with `?`.\n");
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        write!(text, "\n### {name}\n\n").ok();
        let description = on_one_line(schema["description"].as_str().unwrap_or_default());
        if !description.is_empty() {
            writeln!(text, "{description}\n").ok();
        }
        section(schema, text);
    }
}

fn section(schema: &Value, text: &mut String) {
    let parts = ["allOf", "anyOf", "oneOf"].map(|key| (key, schema[key].as_array()));
    if let Some((key, parts)) = parts.into_iter().find_map(|(key, parts)| Some((key, parts?))) {
        let (prefix, is_all) = match key {
            "allOf" => ("the members of ", true),
            _ => ("", false),
        };
        for part in parts {
            if is_all && part["properties"].is_object() {
                members(part, text);
            } else {
                writeln!(text, "- {prefix}{}", kind_and_description(part)).ok();
            }
        }
        return;
    }
    if schema["properties"].is_object() {
        members(schema, text);
    } else {
        writeln!(text, "{}", kind(schema)).ok();
    }
}

fn members(schema: &Value, text: &mut String) {
    let is_required = |name: &str| {
        let required_names = schema["required"].as_array().into_iter().flatten();
        required_names.into_iter().any(|required| required == name)
    };
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let mark = if is_required(name) { "" } else { "?" };
        writeln!(text, "- `{name}`{mark}: {}", kind_and_description(member)).ok();
    }
}

fn kind_and_description(schema: &Value) -> String {
    let description = schema["description"].as_str().or_else(|| schema["oneOf"][0]["description"].as_str());
    match description.map(on_one_line).filter(|description| !description.is_empty()) {
        None => kind(schema),
        Some(description) => format!("{}. {description}", kind(schema)),
    }
}

/// Describes in a few words which values a schema allows.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return format!("[{name}](#{})", anchor(name));
    }
    if let Some(choices) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        let kinds: Vec<_> = choices.iter().map(kind).collect();
        return kinds.join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return choices(values);
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "any JSON".to_owned(),
    };
    let kinds: Vec<_> = names.into_iter().map(|name| simple(name, schema)).collect();
    format!("{}{}", kinds.join(" or "), limits(schema))
}

fn simple(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    }
}

fn choices(values: &[Value]) -> String {
    let names = values.iter().take(ENUM_VALUES_SHOWN_MAX);
    let names: Vec<_> = names.filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
    let more = if values.len() > ENUM_VALUES_SHOWN_MAX { ", …" } else { "" };
    format!("one of {}{more}", names.join(", "))
}

fn limits(schema: &Value) -> String {
    let mut limits = String::new();
    let number = |member: &str| schema.get(member).filter(|value| value.is_number());
    for (member, word) in [("minimum", " from"), ("maximum", " to"), ("default", ", by default")] {
        if let Some(value) = number(member) {
            write!(limits, "{word} {value}").ok();
        }
    }
    limits
}

pub(super) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the anchor of a heading: lower-case letters and digits, with hyphens for spaces.
pub(super) fn anchor(heading: &str) -> String {
    let characters = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    characters.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_described_in_words() {
        for (schema, expected) in [
            (
                json!({"type": "integer", "minimum": 1, "maximum": 200, "default": 50}),
                "integer from 1 to 200, by default 50",
            ),
            (json!({"type": ["string", "null"]}), "string or null"),
            (
                json!({"type": "array", "items": {"$ref": "#/components/schemas/AgentId"}}),
                "list of [AgentId](#agentid)",
            ),
            (json!({"oneOf": [{"$ref": "#/a/Paused"}, {"type": "null"}]}), "[Paused](#paused) or null"),
            (json!({"type": "string", "enum": ["a", "b"]}), "one of `a`, `b`"),
            (json!({"description": "anything"}), "any JSON"),
            (json!({"type": "object", "additionalProperties": {"type": "integer"}}), "object of integer"),
        ] {
            assert_eq!(kind(&schema), expected);
        }
        assert_eq!(anchor("GET /v1/agents/{id}/summary"), "get-v1agentsidsummary");
    }
}
