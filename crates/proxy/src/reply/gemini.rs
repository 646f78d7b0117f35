//! Answers of Gemini's API.

use serde_json::{Value, json};

use super::append;

/// Joins the parts of all chunks. Neighbouring texts become one.
pub(super) fn content(events: &[Value]) -> Option<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for part in events
        .iter()
        .flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten())
    {
        match parts.last_mut() {
            Some(last) if is_plain_text(last) && is_plain_text(part) => append(last, "text", &part["text"]),
            _ => parts.push(part.clone()),
        }
    }
    parts.retain(|part| part["thought"] != true);
    (!parts.is_empty()).then(|| json!([{"role": "model", "parts": parts}]))
}

fn is_plain_text(part: &Value) -> bool {
    part.as_object().is_some_and(|part| part.len() == 1 && part.contains_key("text"))
}
