//! Reads sessions of pi, and of programs that are built on pi: entries of a tree. The session continues from the last entry.

use serde_json::value::RawValue;

use super::{
    super::{COMPACT_SUMMARY, json::Fields},
    ForeignFormat, Transcription,
    branch::find_current,
    content,
    turn::{ForeignResult, TurnWriter},
};

pub(super) const SESSION: ForeignFormat = ForeignFormat { name: "pi", is_entry, read };

fn is_entry(entry: &Fields<'_>) -> bool {
    let has_role = || entry.object("message").is_some_and(|message| message.has("role"));
    match entry.text("type").as_deref() {
        Some("session") => entry.text("id").is_some() && entry.has("cwd"),
        Some("message") => entry.has("timestamp") && has_role(),
        _ => false,
    }
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    let entries: Vec<Fields<'_>> = entries.iter().filter_map(|raw| Fields::of(raw)).collect();
    // The entries of old sessions have no parents, so all are current.
    let is_current = find_current(&entries, "id", "parentId");
    for (entry, is_current) in entries.iter().zip(is_current) {
        if is_current {
            read_entry(entry, transcription);
        } else {
            transcription.leave_out("entry of another branch");
        }
    }
}

fn read_entry(entry: &Fields<'_>, transcription: &mut Transcription) {
    let kind = entry.text("type").unwrap_or_default();
    let at = entry.raw("timestamp");
    let id = entry.text("id");
    match kind.as_str() {
        "message" => match entry.object("message") {
            Some(message) => read_message(&message, TurnWriter::new("user").id(id).at(at), transcription),
            None => transcription.leave_out("message without content"),
        },
        "compaction" | "branch_summary" => {
            let summary = entry.text("summary").unwrap_or_default();
            transcription.push(TurnWriter::new(COMPACT_SUMMARY).id(id).at(at).saying(&summary));
        }
        kind => transcription.leave_out(kind),
    }
}

fn read_message(message: &Fields<'_>, turn: TurnWriter, transcription: &mut Transcription) {
    let role = message.text("role").unwrap_or_default();
    let mut turn = turn.with_role(&role);
    match role.as_str() {
        "user" | "assistant" => content::add(message.raw("content"), &mut turn, transcription),
        "toolResult" => turn.result(&ForeignResult {
            id: message.text("toolCallId"),
            name: message.text("toolName"),
            content: message.raw("content").map(|raw| raw.get().to_owned()),
            is_error: message.flag("isError") == Some(true),
        }),
        // pi sends a command that the user ran to the model in this form.
        "bashExecution" => {
            let (command, output) = (message.text("command"), message.text("output"));
            let ran = format!("Ran `{}`\n{}", command.unwrap_or_default(), output.unwrap_or_default());
            turn = turn.with_role("user").saying(&ran);
        }
        role => return transcription.leave_out(&format!("{role} message")),
    }
    transcription.push(turn);
}
