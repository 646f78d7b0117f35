//! Reads message histories of Pydantic-AI: `{kind: request | response, parts: [{part_kind}]}`.

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    ForeignFormat, Transcription, objects,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const MESSAGES: ForeignFormat = ForeignFormat { name: "pydantic-ai", is_entry, read };

fn is_entry(entry: &Fields<'_>) -> bool {
    let parts = objects(entry, "parts");
    !parts.is_empty() && parts.iter().all(|part| part.text("part_kind").is_some())
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut instructions = None;
    for message in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let parts = objects(&message, "parts");
        let at = message.raw("timestamp").or_else(|| parts.iter().find_map(|part| part.raw("timestamp")));
        // Each request repeats the instructions.
        let repeated = message.text("instructions");
        if let Some(text) = repeated.as_ref().filter(|_| repeated != instructions) {
            transcription.push(TurnWriter::new("system").at(at).saying(text));
        }
        instructions = repeated.or(instructions);
        let is_answer = message.text("kind").is_some_and(|kind| kind == "response");
        let mut turn = TurnWriter::new(if is_answer { "assistant" } else { "user" }).at(at);
        let is_apart = !parts.is_empty() && parts.iter().all(is_programs);
        for part in parts {
            read_part(&part, &mut turn, transcription);
        }
        if !is_apart {
            transcription.push(turn);
        }
    }
}

/// Returns true for a part that becomes a message of its own.
fn is_programs(part: &Fields<'_>) -> bool {
    match part.text("part_kind").as_deref() {
        Some("system-prompt" | "retry-feedback") => true,
        Some("retry-prompt") => !part.has("tool_name"),
        _ => false,
    }
}

fn read_part(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let kind = part.text("part_kind").unwrap_or_default();
    let text = || part.text("content").unwrap_or_default();
    match kind.as_str() {
        _ if is_programs(part) => {
            let text = part.raw("content").map(json::as_text).unwrap_or_default();
            transcription.push(TurnWriter::new("system").at(part.raw("timestamp")).saying(&text));
        }
        "text" => turn.say(&text()),
        "thinking" => turn.think(&text()),
        "user-prompt" => add_prompt(part.raw("content"), turn, transcription),
        "tool-call" | "builtin-tool-call" => turn.call(&ForeignCall {
            id: part.text("tool_call_id"),
            name: part.text("tool_name"),
            arguments: part.raw("args"),
        }),
        "tool-return" | "builtin-tool-return" => {
            let outcome = part.text("outcome");
            turn.result(&result(part, outcome.is_some_and(|outcome| outcome != "success")));
        }
        "retry-prompt" => turn.result(&result(part, true)),
        kind => transcription.leave_out(kind),
    }
}

fn result(part: &Fields<'_>, is_error: bool) -> ForeignResult {
    ForeignResult {
        id: part.text("tool_call_id"),
        name: part.text("tool_name"),
        content: part.raw("content").map(|raw| raw.get().to_owned()),
        is_error,
    }
}

/// Adds a prompt: a text, or a list of texts, addresses and data.
fn add_prompt(content: Option<&RawValue>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let Some(content) = content else { return };
    for raw in json::list(content).unwrap_or_else(|| vec![content]) {
        if let Some(text) = json::string(raw) {
            turn.say(&text);
            continue;
        }
        let Some(item) = Fields::of(raw) else { continue };
        let kind = item.text("kind").unwrap_or_default();
        let media = item.text("media_type");
        match (kind.as_str(), item.text("url"), item.text("data")) {
            ("text-content", ..) => turn.say(&item.text("content").unwrap_or_default()),
            ("binary", _, Some(data)) => turn.attach_data(&media.unwrap_or_default(), &data),
            (kind, Some(url), _) if kind.ends_with("-url") => {
                let media = media.unwrap_or_else(|| kind.replace("-url", "/*"));
                turn.attach(&media, &url);
            }
            (kind, ..) => transcription.leave_out(&format!("{kind} of a prompt")),
        }
    }
}
