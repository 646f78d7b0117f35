//! Reads conversations of Cline and its relatives that aren't quite Anthropic's messages. In version 3 (`*.messages.json`), a result is a
//! list of outcomes. In some earlier versions (`api_conversation_history.json`), it is a text of the user's message, which begins with a
//! line such as `[read_file for 'a.rs'] Result:`.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, content, objects, quoted,
    turn::{ForeignResult, TurnWriter},
};

pub(super) const HISTORY: ForeignFormat = ForeignFormat { name: "cline", is_entry, read };
/// The end of a result's heading.
const RESULT: &str = "] Result:";
/// The beginnings of what the user wrote in a result.
const USER_TAGS: [&str; 3] = ["<answer>", "<feedback>", "<user_message>"];

/// Cline's own field in a call shows that the results are texts. Version 3 has results without types.
fn is_entry(entry: &Fields<'_>) -> bool {
    let is_clines = |block: &Fields<'_>| match block.text("type").as_deref() {
        Some("tool_use") => block.text("call_id").is_some(),
        Some("tool_result") => block.has("name") && !untyped(block).is_empty(),
        _ => false,
    };
    entry.has("role") && objects(entry, "content").iter().any(is_clines)
}

/// Returns the elements of a result that have no type.
fn untyped<'a>(result: &Fields<'a>) -> Vec<Fields<'a>> {
    objects(result, "content").into_iter().filter(|element| !element.has("type")).collect()
}

/// Reads a result of version 3, which has an outcome for each query.
fn add_result(result: &Fields<'_>, turn: &mut TurnWriter) {
    let content = result.raw("content").map(RawValue::get).unwrap_or_default();
    let failed = |outcome: &Fields<'_>| outcome.flag("success") == Some(false);
    turn.result(&ForeignResult {
        id: result.text("tool_use_id"),
        name: result.text("name"),
        content: Some(quoted(content)),
        is_error: result.flag("is_error") == Some(true) || untyped(result).iter().any(failed),
    });
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut calls = VecDeque::new();
    for message in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let role = message.text("role").unwrap_or_default();
        let mut turn = TurnWriter::new(&role).at(message.raw("ts"));
        let blocks = message.list("content").unwrap_or_else(|| message.raw("content").into_iter().collect());
        if role == "assistant" {
            calls = called(&message);
        }
        for raw in blocks {
            let block = Fields::of(raw);
            if let Some(result) = block.as_ref().filter(|block| !untyped(block).is_empty()) {
                add_result(result, &mut turn);
                continue;
            }
            let text = block.and_then(|block| block.text("text"));
            match text.as_deref().and_then(result_text).and_then(|text| Some((text, calls.pop_front()?))) {
                Some((text, call)) => {
                    let content = Some(quoted(text));
                    turn.result(&ForeignResult { id: Some(call), content, ..ForeignResult::default() });
                    if has_user_words(text) {
                        turn.say(text);
                    }
                }
                None => content::add(Some(raw), &mut turn, transcription),
            }
        }
        transcription.push(turn);
    }
}

/// Returns the ids of a message's calls, which the texts of the next message answer in order.
fn called(message: &Fields<'_>) -> VecDeque<String> {
    let blocks = objects(message, "content");
    let calls = blocks.iter().filter(|block| block.text("type").is_some_and(|kind| kind == "tool_use"));
    calls.filter_map(|call| call.text("id")).collect()
}

/// Returns the result in a text, without its heading, such as `[read_file for 'a.rs'] Result:`; `None` if the text isn't a result.
fn result_text(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('[')?;
    let tool_end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_')?;
    let (_, after_tool) = rest.split_at_checked(tool_end)?;
    let is_heading = after_tool.starts_with(RESULT) || after_tool.starts_with(" for '");
    let (_, result) = after_tool.split_once(RESULT).filter(|_| is_heading)?;
    Some(result.trim_start())
}

/// Returns true if a result has words of the user: an answer to a question, or what the user said about a call.
fn has_user_words(result: &str) -> bool {
    USER_TAGS.iter().any(|tag| result.contains(tag))
}
