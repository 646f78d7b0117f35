//! Answers of OpenAI's Responses API.

use serde_json::{Value, json};

/// Returns the complete items of one answer, or of the events of a stream.
pub(super) fn items(events: &[Value]) -> Option<Value> {
    if let [answer] = events
        && answer["output"].is_array()
    {
        return Some(answer["output"].clone());
    }
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<&Value> = done.map(|event| &event["item"]).collect();
    (!items.is_empty()).then(|| json!(items))
}
