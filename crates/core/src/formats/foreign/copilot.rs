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

/// How the `source` of a user's message begins that the user didn't write.
const PROGRAM_SOURCES: [&str; 2] = ["skill-", "agent-"];

fn is_entry(entry: &Fields<'_>) -> bool {
    let kind = entry.text("type").unwrap_or_default();
    TYPES.contains(&kind.as_str()) && entry.object("data").is_some()
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut called = HashSet::new();
    let events: Vec<Fields<'_>> = entries.iter().filter_map(|raw| Fields::of(raw)).collect();
    let last_prompt = events.iter().rposition(is_prompt);
    for (index, event) in events.iter().enumerate() {
        let kind = event.text("type").unwrap_or_default();
        match event.object("data") {
            Some(data) if is_sub_agents(event, &data) => transcription.leave_out("sub-agent's event"),
            // Each prompt replaces the one before.
            Some(_) if is_prompt(event) && Some(index) != last_prompt => {
                transcription.leave_out("earlier system.message");
            }
            Some(data) if is_programs(&data) => transcription.leave_out("user.message that Copilot wrote"),
            Some(data) => {
                let turn = TurnWriter::new("assistant").id(event.text("id")).at(event.raw("timestamp"));
                read_event(&kind, turn, &data, &mut called, transcription);
            }
            None => transcription.leave_out(&kind),
        }
    }
}

fn is_prompt(event: &Fields<'_>) -> bool {
    let is_own = |data: Fields<'_>| !is_sub_agents(event, &data);
    event.text("type").is_some_and(|kind| kind == "system.message")
        && event.object("data").is_some_and(is_own)
}

fn is_sub_agents(event: &Fields<'_>, data: &Fields<'_>) -> bool {
    event.has("agentId") || data.has("parentToolCallId")
}

/// Returns true if Copilot wrote a user's message: a reminder, a skill's text, a sub-agent's prompt, or what keeps the autopilot going.
fn is_programs(data: &Fields<'_>) -> bool {
    let source = data.text("source").unwrap_or_default();
    let is_programs = source == "system" || PROGRAM_SOURCES.iter().any(|prefix| source.starts_with(prefix));
    is_programs || data.flag("isAutopilotContinuation") == Some(true)
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
