//! Answers of Anthropic's API.

use serde_json::{Value, json};

use super::append;

/// A message whose blocks arrive in pieces.
#[derive(Default)]
struct Assembly {
    blocks: Vec<Value>,
    /// For each block, the JSON of its input as far as it has arrived.
    inputs: Vec<String>,
}

/// Assembles the message from one answer, or from the events of a stream.
pub(super) fn message(events: &[Value]) -> Option<Value> {
    if let [answer] = events
        && answer["type"] == "message"
    {
        return Some(json!([{"role": "assistant", "content": answer["content"]}]));
    }
    let mut assembly = Assembly::default();
    for event in events {
        assembly.add(event);
    }
    let content = assembly.finish();
    (!content.is_empty()).then(|| json!([{"role": "assistant", "content": content}]))
}

impl Assembly {
    fn add(&mut self, event: &Value) {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match event["type"].as_str() {
            Some("content_block_start") => {
                self.blocks.push(event["content_block"].clone());
                self.inputs.push(String::new());
            }
            Some("content_block_delta") => {
                if let Some(index) = index.filter(|&index| index < self.blocks.len()) {
                    self.change(index, &event["delta"]);
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, index: usize, delta: &Value) {
        match delta["type"].as_str() {
            Some("text_delta") => append(&mut self.blocks[index], "text", &delta["text"]),
            Some("thinking_delta") => append(&mut self.blocks[index], "thinking", &delta["thinking"]),
            Some("signature_delta") => append(&mut self.blocks[index], "signature", &delta["signature"]),
            Some("input_json_delta") => {
                self.inputs[index].push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Returns the complete blocks.
    fn finish(self) -> Vec<Value> {
        let blocks = self.blocks.into_iter().zip(self.inputs).filter_map(|(mut block, input)| {
            if !input.is_empty() {
                block["input"] = serde_json::from_str(&input).ok()?;
            }
            let is_blank = block["type"] == "text" && block["text"].as_str().unwrap_or_default().is_empty();
            (!is_blank).then_some(block)
        });
        blocks.collect()
    }
}
