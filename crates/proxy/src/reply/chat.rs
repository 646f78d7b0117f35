//! Answers of OpenAI's chat completions.

use serde_json::{Value, json};

use super::append;

/// Assembles the message from one answer, or from the chunks of a stream.
pub(super) fn message(events: &[Value]) -> Option<Value> {
    if let [answer] = events
        && answer["choices"][0]["message"].is_object()
    {
        return Some(json!([answer["choices"][0]["message"]]));
    }
    let mut message = json!({"role": "assistant", "content": ""});
    let mut calls: Vec<Value> = Vec::new();
    for event in events {
        let delta = &event["choices"][0]["delta"];
        append(&mut message, "content", &delta["content"]);
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            add_call(&mut calls, part);
        }
    }
    calls.retain(|call| {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        arguments.is_empty() || serde_json::from_str::<Value>(arguments).is_ok()
    });
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let is_blank = message["content"] == "" && message["tool_calls"].is_null();
    (!is_blank).then(|| json!([message]))
}

/// Adds a piece of a call to the call with the same index.
fn add_call(calls: &mut Vec<Value>, part: &Value) {
    let index = part["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(calls.len());
    if index >= calls.len() {
        calls.push(json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}}));
    }
    let index = index.min(calls.len() - 1);
    if let Some(id) = part["id"].as_str() {
        calls[index]["id"] = id.into();
    }
    append(&mut calls[index]["function"], "name", &part["function"]["name"]);
    append(&mut calls[index]["function"], "arguments", &part["function"]["arguments"]);
}
