//! Counts Anthropic messages: `system` is a field of its own, content is a list of blocks.

use serde_json::{Map, Value};

use super::{super::overhead, Speaker, Tally, list};
use crate::domain::thought::Sealer;

/// Returns true for a request with `messages` that has something that only Anthropic's shape has.
pub(super) fn is_anthropic(request: &Map<String, Value>) -> bool {
    let is_block = |block: &Value| {
        let kind = block["type"].as_str();
        matches!(kind, Some("tool_use" | "tool_result" | "thinking" | "image" | "document"))
    };
    let has_block =
        |message: &Value| message["content"].as_array().is_some_and(|blocks| blocks.iter().any(is_block));
    let has_schema = |tool: &Value| tool.get("input_schema").is_some();
    request.contains_key("system")
        || list(request, "tools").iter().any(has_schema)
        || list(request, "messages").iter().any(has_block)
}

pub(super) fn count(tally: &mut Tally<'_>, request: &Map<String, Value>) {
    if let Some(system) = request.get("system") {
        content(tally, Speaker::System, system);
    }
    for message in list(request, "messages") {
        let role = message["role"].as_str().unwrap_or_default();
        tally.message(role, None);
        content(tally, Speaker::from_role(role), &message["content"]);
    }
    tally.priming();
    tools(tally, request);
}

fn tools(tally: &mut Tally<'_>, request: &Map<String, Value>) {
    let tools = list(request, "tools");
    if tools.is_empty() {
        return;
    }
    let choice = request.get("tool_choice").and_then(|choice| choice["type"].as_str());
    tally.parts.tools += overhead::anthropic_tool_prompt(tally.model, choice);
    for tool in tools {
        let built_in = tool["type"].as_str().and_then(overhead::anthropic_built_in);
        match built_in {
            Some(tokens) => tally.parts.tools += tokens,
            None => tally.definition(tool),
        }
    }
}

fn content(tally: &mut Tally<'_>, speaker: Speaker, content: &Value) {
    match content {
        Value::Array(blocks) => blocks.iter().for_each(|block| self::block(tally, speaker, block)),
        content => tally.value(speaker, content),
    }
}

fn block(tally: &mut Tally<'_>, speaker: Speaker, block: &Value) {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match block["type"].as_str().unwrap_or_default() {
        "text" => tally.value(speaker, &block["text"]),
        "thinking" => tally.thought(text("thinking"), Sealer::Anthropic, text("signature")),
        "redacted_thinking" => tally.thought("", Sealer::Anthropic, text("data")),
        "tool_use" => tally.call(block.get("name"), block.get("input")),
        "tool_result" => {
            tally.parts.overhead += overhead::PER_MESSAGE_TOKENS;
            content(tally, speaker, &block["content"]);
        }
        "image" => tally.image(speaker, block["source"]["data"].as_str(), false),
        "document" => document(tally, speaker, &block["source"]),
        "search_result" => {
            for name in ["title", "source"] {
                tally.value(speaker, &block[name]);
            }
            content(tally, speaker, &block["content"]);
        }
        _ => tally.opaque(speaker, block),
    }
}

fn document(tally: &mut Tally<'_>, speaker: Speaker, source: &Value) {
    match source["type"].as_str() {
        Some("text") => tally.value(speaker, &source["data"]),
        Some("content") => content(tally, speaker, &source["content"]),
        _ => tally.attachment(speaker, source["data"].as_str()),
    }
}
