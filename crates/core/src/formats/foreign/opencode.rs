//! Reads sessions of opencode as `opencode export` writes them: `{info, messages: [{info, parts}]}`.

use serde_json::value::RawValue;

use super::{
    super::{COMPACT_SUMMARY, json::Fields},
    ForeignFormat, Transcription, objects, quoted,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const EXPORT: ForeignFormat = ForeignFormat { name: "opencode", is_entry, read };

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_session = || entry.object("info").is_some_and(|info| info.text("id").is_some());
    is_message(entry) || is_session() && objects(entry, "messages").first().is_some_and(is_message)
}

fn is_message(entry: &Fields<'_>) -> bool {
    entry.list("parts").is_some() && entry.object("info").is_some_and(|info| info.text("role").is_some())
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for entry in entries.iter().filter_map(|raw| Fields::of(raw)) {
        if is_message(&entry) {
            read_message(&entry, transcription);
            continue;
        }
        if entries.len() > 1 {
            transcription.begin(entry.object("info").and_then(|info| info.text("id")));
        }
        for message in objects(&entry, "messages") {
            read_message(&message, transcription);
        }
    }
}

fn read_message(message: &Fields<'_>, transcription: &mut Transcription) {
    let Some(info) = message.object("info") else {
        transcription.leave_out("message without info");
        return;
    };
    let role = match info.text("role").as_deref() {
        Some("assistant") if info.flag("summary") == Some(true) => COMPACT_SUMMARY,
        Some("assistant") => "assistant",
        _ => "user",
    };
    let time = info.object("time");
    let at = time.as_ref().and_then(|time| time.raw("created"));
    let mut turn = TurnWriter::new(role).id(info.text("id")).at(at);
    for part in objects(message, "parts") {
        read_part(&part, &mut turn, transcription);
    }
    if info.has("error") {
        transcription.leave_out("error of a message");
    }
    transcription.push(turn);
}

fn read_part(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let kind = part.text("type").unwrap_or_default();
    match kind.as_str() {
        // opencode shows such a text to the user and doesn't send it to the model.
        "text" if part.flag("ignored") == Some(true) => transcription.leave_out("ignored text"),
        // opencode writes such a text itself: what a file that the user names contains, or how to go on after a sub-agent.
        "text" if part.flag("synthetic") == Some(true) => transcription.leave_out("synthetic text"),
        "text" => turn.say(&part.text("text").unwrap_or_default()),
        "reasoning" => turn.think(&part.text("text").unwrap_or_default()),
        "file" => attach(part, turn, transcription),
        "tool" => read_tool(part, turn, transcription),
        kind => {
            if kind == "step-start" {
                turn.end_round();
            }
            transcription.leave_out(kind);
        }
    }
}

/// Attaches a file. The address of a file on the user's machine says nothing to a model.
fn attach(file: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let url = file.text("url").unwrap_or_default();
    if url.starts_with("file:") {
        transcription.leave_out("local file");
    } else {
        turn.attach(&file.text("mime").unwrap_or_default(), &url);
    }
}

fn read_tool(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let state = part.object("state");
    let id = part.text("callID");
    turn.call(&ForeignCall {
        id: id.clone(),
        name: part.text("tool"),
        arguments: state.as_ref().and_then(|state| state.raw("input")),
    });
    let Some(state) = state else { return };
    let (field, is_error) = match state.text("status").as_deref() {
        Some("completed") => ("output", false),
        Some("error") => ("error", true),
        // The session ended before the tool did.
        _ => return,
    };
    turn.result(&ForeignResult {
        id,
        name: part.text("tool"),
        content: Some(quoted(&state.text(field).unwrap_or_default())),
        is_error,
    });
    for _ in objects(&state, "attachments") {
        transcription.leave_out("attachment of a result");
    }
}
