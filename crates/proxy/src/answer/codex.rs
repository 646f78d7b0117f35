//! Codex' compaction: a request whose last item is a trigger, or a request to `/v1/responses/compact`.

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

use super::{CapsuleKey, CompactReply, CompactionAnswer, capsule};
use recapd_core::domain::agent::AgentId;

const TRIGGER: &str = "compaction_trigger";

/// Returns the conversation of a compaction, without the trigger; `None` if this isn't a compaction.
pub(super) fn conversation(body: &[u8]) -> Option<Bytes> {
    memmem::find(body, TRIGGER.as_bytes())?;
    let request: Value = serde_json::from_slice(body).ok()?;
    let mut items = request["input"].as_array()?.clone();
    let is_trigger = items.pop()?["type"] == TRIGGER;
    is_trigger.then(|| json!({ "input": items }).to_string().into())
}

/// Returns the answer: exactly one compaction item.
pub(super) fn answer(
    text: &CompactReply,
    agent: &AgentId,
    key: &CapsuleKey,
    is_own_route: bool,
    body: &[u8],
) -> Option<CompactionAnswer> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let (version, tokens) = (text.summary_version, text.tokens);
    let item = json!({"type": "compaction", "id": format!("cmp_recapd_{version}"), "encrypted_content": capsule::seal(agent, text, key)});
    let usage = json!({
        "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens,
    });
    let response = |status: &str, output: Value| {
        json!({
            "id": format!("resp_recapd_{version}"), "object": if is_own_route { "response.compaction" } else { "response" },
            "created_at": 0, "status": status, "model": request["model"], "output": output, "usage": usage,
        })
    };
    if request["stream"] != true {
        let body = response("completed", json!([item])).to_string();
        return Some(CompactionAnswer { content_type: "application/json", body, version });
    }
    let events = [
        json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": item}),
        json!({"type": "response.completed", "sequence_number": 2, "response": response("completed", json!([item]))}),
    ];
    let events = events
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()));
    Some(CompactionAnswer { content_type: "text/event-stream", body: events.concat(), version })
}
