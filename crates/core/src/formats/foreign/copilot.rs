//! Reads sessions of GitHub Copilot CLI (`~/.copilot/session-state/*/events.jsonl`): events with their content in `data`.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    ForeignFormat, Transcription, objects, quoted,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const EVENTS: ForeignFormat = ForeignFormat { name: "copilot-cli", is_entry, read };
/// The types of events that show that a file is Copilot's.
const TYPES: [&str; 5] =
    ["session.start", "user.message", "assistant.message", "tool.execution_start", "tool.execution_complete"];

fn is_entry(entry: &Fields<'_>) -> bool {
    let kind = entry.text("type").unwrap_or_default();
    TYPES.contains(&kind.as_str()) && entry.object("data").is_some()
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut called = HashSet::new();
    for event in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = event.text("type").unwrap_or_default();
        match event.object("data") {
            Some(data) if data.has("parentToolCallId") => transcription.leave_out("sub-agent's event"),
            Some(data) => {
                let turn = TurnWriter::new("assistant").id(event.text("id")).at(event.raw("timestamp"));
                read_event(&kind, turn, &data, &mut called, transcription);
            }
            None => transcription.leave_out(&kind),
        }
    }
}

/// Reads an event into its turn. `called` has the ids of calls that have been read.
fn read_event(
    kind: &str,
    mut turn: TurnWriter,
    data: &Fields<'_>,
    called: &mut HashSet<String>,
    transcription: &mut Transcription,
) {
    let content = data.text("content").unwrap_or_default();
    match kind {
        "user.message" => {
            for _ in objects(data, "attachments") {
                transcription.leave_out("attachment");
            }
            transcription.push(turn.with_role("user").saying(&content));
        }
        "system.message" => transcription.push(turn.with_role("system").saying(&content)),
        "assistant.message" => {
            turn.think(&data.text("reasoningText").unwrap_or_default());
            turn.say(&content);
            for request in objects(data, "toolRequests") {
                called.extend(request.text("toolCallId"));
                turn.call(&call(&request, "name"));
            }
            transcription.push(turn);
        }
        "tool.execution_start" if data.text("toolCallId").is_none_or(|id| called.insert(id)) => {
            turn.call(&call(data, "toolName"));
            transcription.push(turn);
        }
        // A message before this event has the call.
        "tool.execution_start" => {}
        "tool.execution_complete" => {
            turn.result(&result_of(data));
            transcription.push(turn);
        }
        kind => transcription.leave_out(kind),
    }
}

fn call<'a>(request: &Fields<'a>, name: &str) -> ForeignCall<'a> {
    ForeignCall {
        id: request.text("toolCallId"),
        name: request.text(name),
        arguments: request.raw("arguments"),
    }
}

fn result_of(data: &Fields<'_>) -> ForeignResult {
    let text = |raw: &RawValue| {
        let inner = Fields::of(raw).and_then(|inner| inner.text("content").or_else(|| inner.text("message")));
        inner.unwrap_or_else(|| json::as_text(raw))
    };
    let content = data.raw("result").or_else(|| data.raw("error"));
    ForeignResult {
        id: data.text("toolCallId"),
        name: data.text("toolName"),
        content: Some(quoted(&content.map(text).unwrap_or_default())),
        is_error: data.flag("success") == Some(false),
    }
}
