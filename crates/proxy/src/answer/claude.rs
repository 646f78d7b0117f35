//! Claude Code's compaction: a request with the whole history. Its last message asks for a summary.

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

use super::{CompactReply, CompactionAnswer};
use crate::session::RequestClass;

/// Texts that the order to compact contains in all tested versions of Claude Code. Used if no header names the request's class.
const ORDER: [&str; 3] = ["create a detailed summary", "<analysis>", "<summary>"];
/// The heading of instructions that the user gave with `/compact`. Only a model can follow them.
const INSTRUCTIONS: &str = "Additional Instructions:";

/// Returns the conversation of a compaction, without the order; `None` if this isn't a compaction that can be answered.
pub(super) fn conversation(class: RequestClass, body: &[u8]) -> Option<Bytes> {
    let may_be = class == RequestClass::Compaction || memmem::find(body, ORDER[0].as_bytes()).is_some();
    if !may_be {
        return None;
    }
    let request: Value = serde_json::from_slice(body).ok()?;
    let mut messages = request["messages"].as_array()?.clone();
    let order = text(&messages.pop()?)?;
    let is_order = ORDER.iter().all(|words| order.contains(words));
    if (class != RequestClass::Compaction && !is_order) || order.contains(INSTRUCTIONS) || messages.is_empty()
    {
        return None;
    }
    Some(json!({ "messages": messages }).to_string().into())
}

/// Returns the last text of the user's message.
fn text(message: &Value) -> Option<String> {
    let content = &message["content"];
    let last = || content.as_array()?.iter().rev().find_map(|block| block["text"].as_str());
    (message["role"] == "user").then(|| content.as_str().or_else(last).unwrap_or_default().to_owned())
}

/// Returns the answer, as a stream if the request asks for one.
pub(super) fn answer(text: &CompactReply, body: &[u8]) -> Option<CompactionAnswer> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let summary =
        format!("<analysis>From recapd's archive.</analysis>\n<summary>\n{}\n</summary>", text.text.trim());
    let usage = json!({"input_tokens": 0, "output_tokens": text.tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
    let message = |content: Value, stop: Value| {
        json!({
            "id": format!("msg_recapd_{}", text.summary_version), "type": "message", "role": "assistant",
            "model": request["model"], "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    };
    if request["stream"] != true {
        let body = message(json!([{"type": "text", "text": summary}]), json!("end_turn")).to_string();
        return Some(CompactionAnswer {
            content_type: "application/json",
            body,
            version: text.summary_version,
        });
    }
    let events = [
        ("message_start", json!({"type": "message_start", "message": message(json!([]), Value::Null)})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": summary}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": text.tokens}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let body = events.map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).concat();
    Some(CompactionAnswer { content_type: "text/event-stream", body, version: text.summary_version })
}
