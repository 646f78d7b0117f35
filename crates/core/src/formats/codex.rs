//! Reads the lines of a Codex rollout: items of the Responses API in an envelope (without one in files from before September 2025), and
//! events, most of which repeat the items.

use super::{FormatError, content::text_part, json::Fields, message, responses, unknown_kind};
use crate::domain::{
    message::{Format, Kind, Message, Metadata},
    user_text,
};

/// Types of lines whose content is in `payload`.
const ENVELOPES: [&str; 8] = [
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "world_state",
    "compacted",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
];
/// Texts that report what another agent did or what a command printed begin like this. They are never instructions.
const REPORTS: [&str; 2] = ["<subagent_notification>", "<user_shell_command>"];
/// A text that marks where the user stopped a turn begins like this.
const ABORTED: &str = "<turn_aborted>";
/// The event that takes back the last turns.
const ROLLED_BACK: &str = "thread_rolled_back";

/// Returns how many turns `message` takes back, if it takes any back.
pub(super) fn turns_taken_back(message: &Message) -> Option<usize> {
    if message.kind != unknown_kind(ROLLED_BACK) {
        return None;
    }
    let event = Fields::parse(&message.payload).ok()?.object("payload")?;
    serde_json::from_str(event.raw("num_turns")?.get()).ok()
}

pub(super) fn read(line: &Fields<'_>) -> Result<Message, FormatError> {
    if is_header(line) {
        return Ok(metadata("session_meta", line));
    }
    if let Some(record) = line.text("record_type") {
        return Ok(metadata(&record, line));
    }
    let name = line.text("type").unwrap_or_default();
    if !is_envelope(&name) && !line.has("payload") {
        return item(line, line);
    }
    let payload = line.object("payload").ok_or_else(|| {
        FormatError::new(
            format!("`payload` of this {name} line is no object"),
            "give lines as Codex writes them, or specify the format of the messages",
        )
    })?;
    match name.as_str() {
        "response_item" => item(line, &payload),
        "event_msg" => Ok(event(line, &payload)),
        _ => {
            let summary = payload.text("message").and_then(text_part);
            let parts = summary.into_iter().collect();
            Ok(message(Format::Codex, line, unknown_kind(&name), parts))
        }
    }
}

/// Returns true if only Codex writes such a line. An item without an envelope isn't such a line: it looks like the Responses API's.
pub(super) fn is_line(line: &Fields<'_>) -> bool {
    match line.text("type") {
        Some(name) => is_envelope(&name) && line.object("payload").is_some(),
        None => line.text("record_type").is_some() || is_header(line),
    }
}

fn is_envelope(name: &str) -> bool {
    ENVELOPES.contains(&name)
}

/// Returns true for the first line of an old rollout.
fn is_header(line: &Fields<'_>) -> bool {
    let has_id = line.text("id").is_some() && line.text("timestamp").is_some();
    has_id && !line.has("type") && (line.contains("instructions") || line.object("git").is_some())
}

fn item(line: &Fields<'_>, item: &Fields<'_>) -> Result<Message, FormatError> {
    let read = responses::read_as(Format::Codex, item)?;
    let text = read.text();
    let text = text.trim_start();
    let is_from_user = read.kind == Kind::User;
    let interrupts = is_from_user && text.starts_with(ABORTED);
    let is_from_program = is_from_user && !interrupts && user_text::are_programs(&read.parts, Format::Codex);
    let kind = match read.kind {
        Kind::User if is_from_program && REPORTS.iter().any(|start| text.starts_with(start)) => {
            Kind::ToolResult
        }
        Kind::User if is_from_program => Kind::System,
        kind => kind,
    };
    Ok(Message { interrupts, ..message(Format::Codex, line, kind, read.parts) })
}

/// Reads an event. Ignores its text, since an item repeats the text.
fn event(line: &Fields<'_>, payload: &Fields<'_>) -> Message {
    let name = payload.text("type").unwrap_or_else(|| "event_msg".to_owned());
    let kind = match name.as_str() {
        "turn_aborted" => Kind::Metadata(Metadata::Interrupted),
        "task_complete" | "turn_complete" => Kind::Metadata(Metadata::TurnEnd),
        _ => unknown_kind(&name),
    };
    Message {
        interrupts: kind == Kind::Metadata(Metadata::Interrupted),
        ..message(Format::Codex, line, kind, Vec::new())
    }
}

fn metadata(name: &str, line: &Fields<'_>) -> Message {
    message(Format::Codex, line, unknown_kind(name), Vec::new())
}
