//! Counts Gemini's `generateContent`: `contents` with parts, and `systemInstruction`. Field names are in camel case; older clients have
//! them in snake case.

use serde_json::{Map, Value};

use super::{Speaker, Tally, list, text};
use crate::domain::thought::Sealer;

pub(super) fn count(tally: &mut Tally<'_>, request: &Map<String, Value>) {
    let either = |camel: &str, snake: &str| request.get(camel).or_else(|| request.get(snake));
    if let Some(system) = either("systemInstruction", "system_instruction").and_then(Value::as_object) {
        parts(tally, Speaker::System, system);
    }
    for content in list(request, "contents").iter().filter_map(Value::as_object) {
        tally.message(text(content, "role"), None);
        parts(tally, Speaker::Conversation, content);
    }
    tally.priming();
    for tool in list(request, "tools") {
        tally.definition(tool);
    }
    let generation = either("generationConfig", "generation_config");
    let schemas = ["responseSchema", "responseJsonSchema", "response_schema"];
    if let Some(schema) =
        generation.and_then(|generation| schemas.iter().find_map(|name| generation.get(name)))
    {
        tally.definition(schema);
    }
}

fn parts(tally: &mut Tally<'_>, speaker: Speaker, content: &Map<String, Value>) {
    for part in list(content, "parts") {
        self::part(tally, speaker, part);
    }
}

fn part(tally: &mut Tally<'_>, speaker: Speaker, part: &Value) {
    let either = |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake));
    let signature = either("thoughtSignature", "thought_signature").and_then(Value::as_str);
    // A signature alone in its part is thinking, too.
    let is_alone = || part.as_object().is_none_or(|fields| fields.len() <= 1);
    if let Some(signature) = signature.filter(|_| part["thought"] == true || is_alone()) {
        let text = part["text"].as_str().unwrap_or_default();
        tally.thought(text, Sealer::Other, signature);
    } else if let Some(text) = part.get("text") {
        tally.value(speaker, text);
    } else if let Some(call) = either("functionCall", "function_call") {
        tally.call(call.get("name"), call.get("args"));
    } else if let Some(result) = either("functionResponse", "function_response") {
        tally.call(result.get("name"), result.get("response"));
    } else if let Some(data) = either("inlineData", "inline_data") {
        inline(tally, speaker, data);
    } else if let Some(file) = either("fileData", "file_data") {
        if is_image(file) {
            tally.image(speaker, None, false);
        } else {
            tally.attachment(speaker, None);
        }
    } else {
        tally.value(speaker, part);
    }
}

fn inline(tally: &mut Tally<'_>, speaker: Speaker, data: &Value) {
    if is_image(data) {
        tally.image(speaker, data["data"].as_str(), false);
    } else {
        tally.attachment(speaker, data["data"].as_str());
    }
}

fn is_image(data: &Value) -> bool {
    let media = data.get("mimeType").or_else(|| data.get("mime_type"));
    media.and_then(Value::as_str).is_some_and(|media| media.starts_with("image/"))
}
