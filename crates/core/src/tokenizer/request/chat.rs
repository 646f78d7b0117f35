//! Counts OpenAI chat completions, and requests of compatible APIs.

use serde_json::{Map, Value};

use super::{super::overhead, Speaker, Tally, list, text};
use crate::domain::attachment::data_url;

/// Returns true for a request with `messages` that has something that only OpenAI's chat shape has.
pub(super) fn is_chat(request: &Map<String, Value>) -> bool {
    let has_role =
        |message: &Value| matches!(message["role"].as_str(), Some("system" | "developer" | "tool"));
    list(request, "tools").iter().any(|tool| tool.get("function").is_some())
        || list(request, "messages")
            .iter()
            .any(|message| has_role(message) || message.get("tool_calls").is_some())
}

pub(super) fn count(tally: &mut Tally<'_>, request: &Map<String, Value>) {
    for message in list(request, "messages").iter().filter_map(Value::as_object) {
        self::message(tally, message);
    }
    tally.priming();
    let current = list(request, "tools").iter().filter_map(|tool| tool.get("function"));
    let functions: Vec<_> = current.chain(list(request, "functions")).filter_map(Value::as_object).collect();
    tally.parts.tools += overhead::functions(tally.counter.as_ref(), &functions);
    for custom in list(request, "tools").iter().filter(|tool| tool.get("function").is_none()) {
        tally.definition(custom);
    }
    if let Some(schema) = request.get("response_format").and_then(|format| format.get("json_schema")) {
        tally.definition(schema);
    }
}

fn message(tally: &mut Tally<'_>, message: &Map<String, Value>) {
    let role = text(message, "role");
    let speaker = Speaker::from_role(role);
    tally.message(role, message.get("name"));
    match message.get("content") {
        Some(Value::Array(parts)) => parts.iter().for_each(|part| self::part(tally, speaker, part)),
        Some(content) => tally.value(speaker, content),
        None => {}
    }
    for name in ["refusal", "reasoning_content"] {
        tally.text(speaker, text(message, name));
    }
    for call in list(message, "tool_calls").iter().filter_map(Value::as_object) {
        match (call.get("function"), call.get("custom")) {
            (Some(function), _) => tally.call(function.get("name"), function.get("arguments")),
            (None, Some(custom)) => tally.call(custom.get("name"), custom.get("input")),
            (None, None) => {}
        }
    }
    if let Some(call) = message.get("function_call").filter(|call| !call.is_null()) {
        tally.call(call.get("name"), call.get("arguments"));
    }
}

fn part(tally: &mut Tally<'_>, speaker: Speaker, part: &Value) {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "image_url" => {
            let image = &part["image_url"];
            let url = image.get("url").unwrap_or(image).as_str();
            let low_detail = image.get("detail").and_then(Value::as_str) == Some("low");
            tally.image(speaker, url.and_then(data_url), low_detail);
        }
        "file" => {
            let url = part["file"]["file_data"].as_str();
            tally.attachment(speaker, url.and_then(data_url));
        }
        "input_audio" | "video_url" | "audio_url" => tally.attachment(speaker, None),
        _ => {
            let text = ["text", "refusal"].into_iter().find_map(|name| part.get(name));
            tally.value(speaker, text.unwrap_or(part));
        }
    }
}
