//! Reads contents of Gemini in an envelope: events of Google's ADK, and lines of Qwen Code.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription,
    gemini_cli::{parts, push_content},
};

pub(super) const ADK: ForeignFormat = ForeignFormat { name: "adk", is_entry: is_event, read: read_events };
pub(super) const QWEN: ForeignFormat =
    ForeignFormat { name: "qwen-code", is_entry: is_line, read: read_lines };

fn is_event(entry: &Fields<'_>) -> bool {
    let is_adk = entry.has("invocationId") || entry.has("invocation_id");
    is_adk && entry.text("author").is_some()
}

fn read_events(entries: &[&RawValue], transcription: &mut Transcription) {
    for event in entries.iter().filter_map(|raw| Fields::of(raw)) {
        // A piece of an answer; a later event has the whole answer.
        if event.flag("partial") == Some(true) {
            transcription.leave_out("partial event");
            continue;
        }
        match event.object("content") {
            Some(content) => {
                let is_from_user = event.text("author").is_some_and(|author| author == "user");
                let role = content.text("role");
                let role = role.unwrap_or_else(|| if is_from_user { "user" } else { "model" }.to_owned());
                push_content(&event, &role, &parts(content.raw("parts")), transcription);
            }
            None => transcription.leave_out("event without content"),
        }
    }
}

fn is_line(entry: &Fields<'_>) -> bool {
    let is_content = |message: Fields<'_>| message.list("parts").is_some();
    entry.text("uuid").is_some()
        && entry.text("sessionId").is_some()
        && entry.object("message").is_some_and(is_content)
}

fn read_lines(entries: &[&RawValue], transcription: &mut Transcription) {
    for line in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = line.text("type").unwrap_or_default();
        let Some(message) = line.object("message").filter(|_| kind != "system") else {
            let kind = line.text("subtype").unwrap_or(kind);
            transcription.leave_out(&format!("{kind} line"));
            continue;
        };
        let role = if kind == "assistant" { "model" } else { "user" };
        push_content(&line, role, &parts(message.raw("parts")), transcription);
    }
}
