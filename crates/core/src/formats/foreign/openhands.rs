//! Reads events of OpenHands: version 0's actions and observations, and version 1's events by `kind`.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, content, objects, texts,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const ACTIONS: ForeignFormat =
    ForeignFormat { name: "openhands", is_entry: is_action, read: read_actions };
pub(super) const EVENTS: ForeignFormat =
    ForeignFormat { name: "openhands-1", is_entry: is_event, read: read_events };
const SOURCES: [&str; 3] = ["user", "agent", "environment"];
/// Actions and observations of the program itself, which it doesn't send to the model.
const SILENT: [&str; 6] =
    ["recall", "change_agent_state", "agent_state_changed", "null", "condensation", "condensation_request"];
/// The kinds of version 1's events that show that a file is OpenHands'.
const KINDS: [&str; 5] =
    ["MessageEvent", "ActionEvent", "ObservationEvent", "SystemPromptEvent", "AgentErrorEvent"];

fn has_known_source(entry: &Fields<'_>) -> bool {
    entry.text("source").is_some_and(|source| SOURCES.contains(&source.as_str()))
}

fn is_action(entry: &Fields<'_>) -> bool {
    let is_action = entry.text("action").is_some() && entry.has("args");
    let is_observation = entry.text("observation").is_some() && entry.contains("content");
    has_known_source(entry) && (is_action || is_observation)
}

fn read_actions(entries: &[&RawValue], transcription: &mut Transcription) {
    for event in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = event.text("action").or_else(|| event.text("observation")).unwrap_or_default();
        if SILENT.contains(&kind.as_str()) || kind.is_empty() {
            transcription.leave_out(&kind);
            continue;
        }
        let is_from_user = event.text("source").is_some_and(|source| source == "user");
        let role = match kind.as_str() {
            "system" => "system",
            "message" if is_from_user => "user",
            _ => "assistant",
        };
        let id = event.label("id").map(|id| format!("event-{id}"));
        let mut turn = TurnWriter::new(role).id(id).at(event.raw("timestamp"));
        if event.has("observation") {
            turn.result(&result_of_observation(&event, &kind));
        } else {
            write_action(&event, &kind, &mut turn);
        }
        transcription.push(turn);
    }
}

fn write_action(event: &Fields<'_>, kind: &str, turn: &mut TurnWriter) {
    let Some(args) = event.object("args") else { return };
    let text_of = |names: &[&str]| names.iter().find_map(|name| args.text(name)).unwrap_or_default();
    match kind {
        "message" | "system" => {
            turn.say(&text_of(&["content"]));
            for url in args.list("image_urls").unwrap_or_default() {
                turn.attach("image/*", &super::json::as_text(url));
            }
        }
        "finish" => {
            let text = text_of(&["final_thought", "thought"]);
            turn.say(&if text.is_empty() { event.text("message").unwrap_or_default() } else { text });
        }
        _ => {
            turn.say(&text_of(&["thought"]));
            let tool = event.object("tool_call_metadata");
            let model_arguments = tool.as_ref().and_then(model_arguments);
            turn.call(&ForeignCall {
                id: tool_id(event).or_else(|| event.label("id")),
                name: tool.as_ref().and_then(|tool| tool.text("function_name")).or(Some(kind.to_owned())),
                arguments: model_arguments.or_else(|| event.raw("args")),
            });
        }
    }
}

/// Returns the arguments as the model wrote them. The action's `args` are what the program made of them.
fn model_arguments<'a>(tool: &Fields<'a>) -> Option<&'a RawValue> {
    let id = tool.text("tool_call_id")?;
    let choices = objects(&tool.object("model_response")?, "choices");
    let calls = objects(&choices.first()?.object("message")?, "tool_calls");
    let call = calls.into_iter().find(|call| call.text("id").as_ref() == Some(&id))?;
    call.object("function")?.raw("arguments")
}

fn tool_id(event: &Fields<'_>) -> Option<String> {
    event.object("tool_call_metadata")?.text("tool_call_id")
}

fn result_of_observation(event: &Fields<'_>, kind: &str) -> ForeignResult {
    let metadata = event.object("extras").and_then(|extras| extras.object("metadata"));
    let exit_code = metadata.and_then(|metadata| metadata.number("exit_code"));
    ForeignResult {
        id: tool_id(event).or_else(|| event.label("cause")),
        name: event.object("tool_call_metadata").and_then(|tool| tool.text("function_name")),
        content: event.raw("content").map(|raw| raw.get().to_owned()),
        is_error: kind == "error" || exit_code.is_some_and(|code| code > 0.0),
    }
}

fn is_event(entry: &Fields<'_>) -> bool {
    let kind = entry.text("kind").unwrap_or_default();
    has_known_source(entry) && KINDS.contains(&kind.as_str())
}

fn read_events(entries: &[&RawValue], transcription: &mut Transcription) {
    for event in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = event.text("kind").unwrap_or_default();
        let turn = |role: &str| TurnWriter::new(role).id(event.text("id")).at(event.raw("timestamp"));
        match kind.as_str() {
            "MessageEvent" => {
                let message = event.object("llm_message");
                let role = message.as_ref().and_then(|message| message.text("role"));
                let mut turn = turn(&role.unwrap_or_else(|| "assistant".to_owned()));
                content::add(message.and_then(|message| message.raw("content")), &mut turn, transcription);
                // OpenHands adds these texts to the user's message, for the model alone.
                for _ in event.list("extended_content").unwrap_or_default() {
                    transcription.leave_out("extended content");
                }
                transcription.push(turn);
            }
            "SystemPromptEvent" => {
                let mut turn = turn("system");
                for part in ["system_prompt", "dynamic_context"] {
                    turn.say(&event.raw(part).map(texts).unwrap_or_default());
                }
                transcription.push(turn);
            }
            "ActionEvent" => {
                let mut turn = turn("assistant");
                turn.think(&event.text("reasoning_content").unwrap_or_default());
                content::add(event.raw("thought"), &mut turn, transcription);
                let call = event.object("tool_call");
                turn.call(&ForeignCall {
                    id: event.text("tool_call_id"),
                    name: event.text("tool_name"),
                    arguments: call.and_then(|call| call.raw("arguments")).or_else(|| event.raw("action")),
                });
                transcription.push(turn);
            }
            "ObservationEvent" | "AgentErrorEvent" => {
                let mut turn = turn("assistant");
                turn.result(&result_of_event(&event));
                transcription.push(turn);
            }
            kind => transcription.leave_out(kind),
        }
    }
}

fn has_failed(observation: &Fields<'_>) -> bool {
    let exit_code = observation.number("exit_code");
    observation.flag("is_error") == Some(true) || exit_code.is_some_and(|code| code > 0.0)
}

fn result_of_event(event: &Fields<'_>) -> ForeignResult {
    let observation = event.object("observation");
    let inner = observation.as_ref();
    let content = inner.and_then(|inner| inner.raw("content").or_else(|| inner.raw("output")));
    let content = content.or_else(|| event.raw("error")).or_else(|| event.raw("observation"));
    ForeignResult {
        id: event.text("tool_call_id"),
        name: event.text("tool_name"),
        content: content.map(|raw| raw.get().to_owned()),
        is_error: event.has("error") || inner.is_some_and(has_failed),
    }
}
