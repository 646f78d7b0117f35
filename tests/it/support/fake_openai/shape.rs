//! What is wrong with a request, by OpenAI's documentation.

use recapd::domain::prompt::FENCE_WORD;
use serde_json::{Value, json};

/// The words that strict schemas may hold.
const SCHEMA_WORDS: [&str; 6] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
];
/// Fields that models refuse which reason.
const REFUSED: [&str; 3] = ["temperature", "top_p", "stop"];

/// All faults of a request's body.
pub(super) fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |is_right: bool, fault: &str| {
        if !is_right {
            faults.push(fault.to_owned());
        }
    };
    check(body["model"].is_string(), "no model");
    for field in REFUSED {
        check(body[field].is_null(), &format!("`{field}` is sent"));
    }
    let limits = ["max_tokens", "max_completion_tokens"];
    let sent = limits.iter().filter(|field| body[**field].is_i64()).count();
    check(sent == 1, "the answer must be limited by one field");
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let roles: Vec<&str> = messages
        .iter()
        .filter_map(|message| message["role"].as_str())
        .collect();
    check(roles == ["system", "user"], "the roles must be system, user");
    let content = |index: usize| {
        messages
            .get(index)
            .and_then(|message| message["content"].as_str())
            .unwrap_or_default()
    };
    check(!content(0).contains(FENCE_WORD), "material in the system role");
    check(content(0).contains("JSON"), "the instructions must say JSON");
    check(
        content(1).matches(&format!("</{FENCE_WORD} ")).count() == 1,
        "one fence must close",
    );
    let format = &body["response_format"];
    match format["type"].as_str() {
        Some("json_schema") => {
            let named = &format["json_schema"];
            check(named["strict"] == json!(true), "the schema isn't strict");
            check(
                is_name(named["name"].as_str().unwrap_or_default()),
                "the schema's name is wrong",
            );
            check(
                is_strict(&named["schema"]),
                "the schema doesn't fit the strict mode",
            );
        }
        Some("json_object") => {}
        _ => check(format.is_null(), "unknown response_format"),
    }
    faults
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

fn is_strict(schema: &Value) -> bool {
    let Some(words) = schema.as_object() else {
        return false;
    };
    let properties = schema["properties"].as_object();
    let required = schema["required"].as_array().map_or(0, Vec::len);
    let closed = schema["additionalProperties"] == json!(false);
    words.keys().all(|word| SCHEMA_WORDS.contains(&word.as_str()))
        && properties.is_none_or(|properties| {
            closed && required == properties.len() && properties.values().all(is_strict)
        })
        && words.get("items").is_none_or(is_strict)
}
