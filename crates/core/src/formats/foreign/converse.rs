//! Reads messages of Amazon Bedrock's Converse API. A block has no type: it has one field, whose name is its type.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, objects,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const MESSAGES: ForeignFormat = ForeignFormat { name: "bedrock-converse", is_entry, read };
/// Blocks that only Converse has.
const BLOCKS: [&str; 4] = ["toolUse", "toolResult", "reasoningContent", "cachePoint"];

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_converse = |block: &Fields<'_>| !block.has("type") && BLOCKS.iter().any(|name| block.has(name));
    let is_text = |block: &Fields<'_>| !block.has("type") && block.has("text");
    if let Some(message) = stored_by_strands(entry) {
        return objects(&message, "content").iter().any(|block| is_converse(block) || is_text(block));
    }
    entry.has("role") && objects(entry, "content").iter().any(is_converse)
}

/// Returns the message in an entry of a session of Strands Agents.
fn stored_by_strands<'a>(entry: &Fields<'a>) -> Option<Fields<'a>> {
    entry.object("message").filter(|message| entry.has("message_id") && message.has("role"))
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for entry in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let at = entry.raw("created_at");
        let message = stored_by_strands(&entry).unwrap_or(entry);
        let mut turn = TurnWriter::new(&message.text("role").unwrap_or_default()).at(at);
        turn.say(&message.text("content").unwrap_or_default());
        for raw in message.list("content").unwrap_or_default() {
            match Fields::of(raw).and_then(Fields::sole) {
                Some((name, value)) => read_block(&name, value, &mut turn, transcription),
                None => transcription.leave_out("content of another type"),
            }
        }
        transcription.push(turn);
    }
}

fn read_block(name: &str, value: &RawValue, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let text = super::json::string(value);
    let block = Fields::of(value);
    match (name, text, block) {
        ("text", Some(text), _) => turn.say(&text),
        ("toolUse", _, Some(block)) => turn.call(&ForeignCall {
            id: block.text("toolUseId"),
            name: block.text("name"),
            arguments: block.raw("input"),
        }),
        ("toolResult", _, Some(block)) => turn.result(&result_of(&block, transcription)),
        ("reasoningContent", _, Some(block)) => match block.object("reasoningText") {
            Some(reasoning) => turn.think(&reasoning.text("text").unwrap_or_default()),
            None => transcription.leave_out("redacted reasoning"),
        },
        ("image" | "document" | "video", _, Some(block)) => attach(name, &block, turn),
        ("citationsContent", _, Some(block)) => {
            turn.say(&block.raw("content").map(super::texts).unwrap_or_default());
        }
        (name, ..) => transcription.leave_out(name),
    }
}

/// Reads a result: joins its texts and its JSON by line feeds, and counts its other blocks.
fn result_of(block: &Fields<'_>, transcription: &mut Transcription) -> ForeignResult {
    let mut texts = Vec::new();
    for raw in block.list("content").unwrap_or_default() {
        match Fields::of(raw).and_then(Fields::sole) {
            Some((name, value)) if name == "text" || name == "json" => {
                texts.push(super::json::as_text(value));
            }
            Some((name, _)) => transcription.leave_out(&format!("{name} of a result")),
            None => transcription.leave_out("content of another type"),
        }
    }
    ForeignResult {
        id: block.text("toolUseId"),
        name: None,
        content: Some(super::quoted(&texts.join("\n"))),
        is_error: block.text("status").is_some_and(|status| status == "error"),
    }
}

fn attach(name: &str, block: &Fields<'_>, turn: &mut TurnWriter) {
    let format = block.text("format").unwrap_or_else(|| "*".to_owned());
    let kind = if name == "document" { "application" } else { name };
    let data = block.object("source").and_then(|source| source.text("bytes"));
    turn.attach_data(&format!("{kind}/{format}"), &data.unwrap_or_default());
}
