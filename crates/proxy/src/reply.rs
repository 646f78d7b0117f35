//! Reads the model's message from a copy of an answer.
//!
//! From an answer that broke off, reads what is usable: the text so far, and calls whose arguments are complete.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use crate::dialect::Dialect;

/// Returns a JSON object with the answer's messages, in the form of a request; `None` if the answer holds none.
pub(crate) fn messages(dialect: Dialect, content_type: &str, bytes: &[u8]) -> Option<Value> {
    let events = if content_type.starts_with("text/event-stream") {
        events(bytes)
    } else {
        match serde_json::from_slice(bytes).ok()? {
            // Gemini streams an array unless it is asked for events.
            Value::Array(chunks) => chunks,
            answer => vec![answer],
        }
    };
    let list = match dialect {
        Dialect::Anthropic => anthropic::message(&events)?,
        Dialect::OpenAiChat => chat::message(&events)?,
        Dialect::OpenAiResponses => responses::items(&events)?,
        Dialect::Gemini => gemini::content(&events)?,
    };
    Some(json!({ dialect.list(): list }))
}

/// Returns the JSON data of server-sent events, in order. Leaves out other data, such as `[DONE]`.
fn events(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let events = text.split("\n\n").filter_map(|event| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        serde_json::from_str(&data.join("\n")).ok()
    });
    events.collect()
}

/// Appends the text in `delta` to the field `name` of `block`.
fn append(block: &mut Value, name: &str, delta: &Value) {
    if let Some(more) = delta.as_str() {
        let text = block[name].as_str().unwrap_or_default().to_owned() + more;
        block[name] = Value::String(text);
    }
}

#[cfg(test)]
mod tests;
