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
        let query = blocks.iter().find_map(|raw| query(&Fields::of(raw)?.text("text")?));
        match query.filter(|_| role == "user") {
            Some(query) => turn.say(&query),
            None => content::add(message.raw("content"), &mut turn, transcription),
        }
        transcription.push(turn);
    }
}

/// Returns what the user typed, without what Cursor wrote around it.
fn query(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(QUERY.0)?;
    let (typed, _) = rest.split_once(QUERY.1)?;
    Some(typed.trim().to_owned())
}
