//! Reads messages of AutoGen 0.4 and later: those of its teams (`TextMessage`, `ToolCallRequestEvent`), and those of its models' contexts
//! (`UserMessage`, `AssistantMessage`).

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, content, objects,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const MESSAGES: ForeignFormat = ForeignFormat { name: "autogen", is_entry, read };
const TYPES: [&str; 11] = [
    "TextMessage",
    "MultiModalMessage",
    "StopMessage",
    "HandoffMessage",
    "ThoughtEvent",
    "ToolCallRequestEvent",
    "ToolCallExecutionEvent",
    "ToolCallSummaryMessage",
    "UserMessage",
    "AssistantMessage",
    "FunctionExecutionResultMessage",
];
const USER: &str = "user";

/// Returns the messages of a team's saved state: those of the manager of the group chat. The states of the agents have these messages,
/// too, each from the agent's point of view.
pub(super) fn team_thread<'a>(state: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    let agents = state.object("agent_states")?;
    agents.entries().find_map(|(_, agent)| Fields::of(agent)?.list("message_thread"))
}

fn is_entry(entry: &Fields<'_>) -> bool {
    let kind = entry.text("type").unwrap_or_default();
    TYPES.contains(&kind.as_str()) && entry.contains("content") && !entry.has("lc")
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for message in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = message.text("type").unwrap_or_default();
        let is_from_user = message.text("source").is_some_and(|source| source == USER);
        let role = match kind.as_str() {
            "SystemMessage" => "system",
            "UserMessage" => USER,
            "TextMessage" | "MultiModalMessage" if is_from_user => USER,
            kind if TYPES.contains(&kind) => "assistant",
            kind => {
                transcription.leave_out(kind);
                continue;
            }
        };
        let mut turn = TurnWriter::new(role).id(message.text("id")).at(message.raw("created_at"));
        turn.think(&message.text("thought").unwrap_or_default());
        match kind.as_str() {
            "ThoughtEvent" => turn.think(&message.text("content").unwrap_or_default()),
            "ToolCallExecutionEvent" | "FunctionExecutionResultMessage" => {
                let results = objects(&message, "content");
                for result in &results {
                    turn.result(&result_of(result));
                }
            }
            _ => add_content(&message, &mut turn, transcription),
        }
        transcription.push(turn);
    }
}

/// Adds a text, a list of texts and images, or a list of calls.
fn add_content(message: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let is_call = |call: &Fields<'_>| call.has("name") && call.has("arguments");
    let calls = objects(message, "content");
    if calls.is_empty() || !calls.iter().all(is_call) {
        content::add(message.raw("content"), turn, transcription);
        return;
    }
    for call in calls {
        turn.call(&ForeignCall {
            id: call.text("id"),
            name: call.text("name"),
            arguments: call.raw("arguments"),
        });
    }
}

fn result_of(result: &Fields<'_>) -> ForeignResult {
    ForeignResult {
        id: result.text("call_id"),
        name: result.text("name"),
        content: result.raw("content").map(|raw| raw.get().to_owned()),
        is_error: result.flag("is_error") == Some(true),
    }
}
