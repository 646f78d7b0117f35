//! Reads `conversations.json` of a Claude export: conversations with `chat_messages` of Anthropic's blocks.

use serde_json::value::RawValue;

use super::{super::json::Fields, ForeignFormat, Transcription, content, objects, turn::TurnWriter};

pub(super) const EXPORT: ForeignFormat = ForeignFormat { name: "claude-export", is_entry, read };

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_message = |message: &Fields<'_>| message.has("sender");
    entry.text("uuid").is_some() && entry.list("chat_messages").is_some()
        || objects(entry, "chat_messages").first().is_some_and(is_message)
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for conversation in entries.iter().filter_map(|raw| Fields::of(raw)) {
        transcription.begin(conversation.text("uuid").or_else(|| conversation.text("name")));
        for message in objects(&conversation, "chat_messages") {
            read_message(&message, transcription);
        }
    }
}

fn read_message(message: &Fields<'_>, transcription: &mut Transcription) {
    let role = match message.text("sender").as_deref() {
        Some("human") => "user",
        _ => "assistant",
    };
    let mut turn = TurnWriter::new(role).id(message.text("uuid")).at(message.raw("created_at"));
    let blocks = message.list("content").unwrap_or_default();
    if blocks.is_empty() {
        turn.say(&message.text("text").unwrap_or_default());
    }
    content::add(message.raw("content"), &mut turn, transcription);
    // The export has the text of documents that were pasted or uploaded. Of other files, it has only the names.
    for attachment in objects(message, "attachments") {
        match attachment.text("extracted_content") {
            Some(text) => turn.say(&text),
            None => transcription.leave_out("attachment"),
        }
    }
    for _ in objects(message, "files") {
        transcription.leave_out("file");
    }
    transcription.push(turn);
}
