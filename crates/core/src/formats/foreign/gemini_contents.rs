//! Reads contents of Gemini in an envelope: events of Google's ADK, and lines of Qwen Code.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription,
    branch::find_current,
    gemini_cli::{parts, push_content},
};

pub(super) const ADK: ForeignFormat = ForeignFormat { name: "adk", is_entry: is_event, read: read_events };
pub(super) const QWEN: ForeignFormat =
    ForeignFormat { name: "qwen-code", is_entry: is_line, read: read_lines };

/// The beginning of a text that hooks add to what the user says.
const HOOK_CONTEXT: &str = "<qwen:user-prompt-submit-context>";

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
    let lines: Vec<Fields<'_>> = entries.iter().filter_map(|raw| Fields::of(raw)).collect();
    let is_current = find_current(&lines, "uuid", "parentUuid");
    for (line, is_current) in lines.iter().zip(is_current) {
        if is_current {
            read_line(line, transcription);
        } else {
            transcription.leave_out("line of another branch");
        }
    }
}

fn read_line(line: &Fields<'_>, transcription: &mut Transcription) {
    let kind = line.text("type").unwrap_or_default();
    let subtype = line.text("subtype");
    // Qwen Code writes notifications under the user's name.
    let is_programs = kind == "system" || subtype.as_deref() == Some("notification");
    let Some(message) = line.object("message").filter(|_| !is_programs) else {
        transcription.leave_out(&format!("{} line", subtype.unwrap_or(kind)));
        return;
    };
    let role = if kind == "assistant" { "model" } else { "user" };
    let mut parts = parts(message.raw("parts"));
    let is_of_hook = |part: &mut String| {
        let text = Fields::parse(part).ok().and_then(|part| part.text("text"));
        text.is_some_and(|text| text.starts_with(HOOK_CONTEXT))
    };
    for _ in parts.extract_if(.., is_of_hook) {
        transcription.leave_out("hook's context");
    }
    push_content(line, role, &parts, transcription);
}
