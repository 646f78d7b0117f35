//! Counts requests to OpenAI's Responses API: `instructions`, and `input` as a string or as items.

use serde_json::{Map, Value};

use super::{super::overhead, Speaker, Tally, list, text};
use crate::domain::{attachment::data_url, thought::Sealer};

pub(super) fn count(tally: &mut Tally<'_>, request: &Map<String, Value>) {
    let instructions = text(request, "instructions");
    if !instructions.is_empty() {
        tally.message("system", None);
        tally.text(Speaker::System, instructions);
    }
    match request.get("input") {
        Some(Value::Array(items)) => {
            for item in items.iter().filter_map(Value::as_object) {
                self::item(tally, item);
            }
        }
        Some(input) => {
            tally.message("user", None);
            tally.value(Speaker::Conversation, input);
        }
        None => {}
    }
    tally.priming();
    tools(tally, list(request, "tools"));
    if let Some(format) = request.get("text").and_then(|text| text.get("format")) {
        tally.definition(format);
    }
}

fn tools(tally: &mut Tally<'_>, tools: &[Value]) {
    let (functions, other_tools): (Vec<_>, Vec<_>) =
        tools.iter().partition(|tool| tool["type"] == "function");
    let functions: Vec<_> = functions.into_iter().filter_map(Value::as_object).collect();
    tally.parts.tools += overhead::functions(tally.counter.as_ref(), &functions);
    for tool in other_tools {
        tally.definition(tool);
    }
}

fn item(tally: &mut Tally<'_>, item: &Map<String, Value>) {
    match text(item, "type") {
        "function_call" => tally.call(item.get("name"), item.get("arguments")),
        "custom_tool_call" => tally.call(item.get("name"), item.get("input")),
        "function_call_output" | "custom_tool_call_output" => {
            tally.message("tool", None);
            content(tally, Speaker::Conversation, item.get("output"));
        }
        "reasoning" => reasoning(tally, item),
        "compaction" | "context_compaction" => {
            tally.thought("", Sealer::OpenAi, text(item, "encrypted_content"));
        }
        "item_reference" => {}
        "message" | "" => {
            let role = text(item, "role");
            tally.message(role, None);
            content(tally, Speaker::from_role(role), item.get("content"));
        }
        _ => tally.value(Speaker::Conversation, &Value::Object(item.clone())),
    }
}

/// Counts reasoning. Encrypted reasoning is counted by its encrypted content alone, which includes the summary.
fn reasoning(tally: &mut Tally<'_>, item: &Map<String, Value>) {
    let sealed = text(item, "encrypted_content");
    if sealed.is_empty() {
        for name in ["summary", "content"] {
            content(tally, Speaker::Conversation, item.get(name));
        }
    } else {
        tally.thought("", Sealer::OpenAi, sealed);
    }
}

fn content(tally: &mut Tally<'_>, speaker: Speaker, content: Option<&Value>) {
    match content {
        Some(Value::Array(parts)) => parts.iter().for_each(|part| self::part(tally, speaker, part)),
        Some(content) => tally.value(speaker, content),
        None => {}
    }
}

fn part(tally: &mut Tally<'_>, speaker: Speaker, part: &Value) {
    match part["type"].as_str().unwrap_or_default() {
        "input_image" => {
            let url = part["image_url"].as_str();
            tally.image(speaker, url.and_then(data_url), part["detail"] == "low");
        }
        "input_file" => {
            let url = part["file_data"].as_str();
            tally.attachment(speaker, url.and_then(data_url));
        }
        "input_audio" => tally.attachment(speaker, None),
        "encrypted_content" => tally.opaque(speaker, part),
        _ => {
            let text = ["text", "refusal"].into_iter().find_map(|name| part.get(name));
            tally.value(speaker, text.unwrap_or(part));
        }
    }
}
