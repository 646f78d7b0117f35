//! Reads transcripts of Cursor's agent (`~/.cursor/projects/*/agent-transcripts/*.jsonl`): lines with a role, and Anthropic's blocks in
//! `message`.

use serde_json::value::RawValue;

use super::{super::json::Fields, ForeignFormat, Transcription, content, turn::TurnWriter};

pub(super) const TRANSCRIPT: ForeignFormat = ForeignFormat { name: "cursor", is_entry, read };
/// The tags around what the user typed.
const QUERY: (&str, &str) = ("<user_query>", "</user_query>");

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_role = entry.text("role").is_some_and(|role| role == "user" || role == "assistant");
    let message = entry.object("message");
    is_role
        && !entry.has("content")
        && !entry.has("type")
        && message.is_some_and(|message| message.has("content"))
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for line in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let Some(message) = line.object("message").filter(|_| line.has("role")) else {
            let kind = line.text("type").unwrap_or_else(|| "line without a message".to_owned());
            transcription.leave_out(&kind);
            continue;
        };
        let role = line.text("role").unwrap_or_default();
        let mut turn = TurnWriter::new(&role).at(line.raw("timestamp"));
        let blocks = message.list("content").unwrap_or_default();
        let text = |raw: &RawValue| Fields::of(raw)?.text("text");
        let has_query =
            role == "user" && blocks.iter().any(|raw| text(raw).as_deref().and_then(query).is_some());
        if has_query {
            for raw in blocks {
                match text(raw) {
                    Some(text) => say_query(&text, &mut turn, transcription),
                    None => content::add(Some(raw), &mut turn, transcription),
                }
            }
        } else {
            content::add(message.raw("content"), &mut turn, transcription);
        }
        transcription.push(turn);
    }
}

/// Adds what the user typed to a turn. Counts what Cursor wrote around it.
fn say_query(text: &str, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let FramedText { typed, around } = query(text).unwrap_or(FramedText { typed: "", around: [text, ""] });
    turn.say(typed);
    for text in around.iter().filter(|text| !text.trim().is_empty()) {
        let tag = text.trim_start().strip_prefix('<').and_then(|text| text.split(['>', ' ', '\n']).next());
        transcription.leave_out(tag.unwrap_or("text around the user's words"));
    }
}

/// A text of Cursor with what the user typed.
struct FramedText<'a> {
    typed: &'a str,
    around: [&'a str; 2],
}

fn query(text: &str) -> Option<FramedText<'_>> {
    let (before, rest) = text.split_once(QUERY.0)?;
    let (typed, after) = rest.split_once(QUERY.1)?;
    Some(FramedText { typed: typed.trim(), around: [before, after] })
}
