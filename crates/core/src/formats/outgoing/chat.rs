//! Writes requests for OpenAI Chat Completions and compatible servers.

use serde_json::{Map, Value, json};

use super::{
    Names, Notes, RequestFormat, TEXT_SEPARATOR, TurnCalls, arguments_text,
    original::{self, kind},
    spelling::{SpelledNames, Spelling},
    text, unmarked_text, with_calls,
};
use crate::domain::{
    context::{Piece, Turn},
    message::{Part, Role},
};

/// The fields that a message of a request may have.
const FIELDS: [&str; 7] = ["role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"];
/// Fields in which compatible servers have thinking.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];
/// The blocks that a request may have. Each has a field with the name of its type. Compatible servers accept films and sounds by URL. Any
/// other block in a log comes from another provider.
const BLOCKS: [&str; 7] = ["text", "image_url", "input_audio", "file", "refusal", "video_url", "audio_url"];

pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let pieces = turns.iter().flat_map(|turn| &turn.pieces);
    let names_of_speakers =
        pieces.filter_map(|piece| piece.speaker.or_else(|| piece.source?.speaker.as_deref()));
    let speakers = SpelledNames::new(Spelling::speaker(), names_of_speakers);
    let mut messages = Vec::new();
    for (turn, mut calls) in with_calls(turns, names) {
        match turn.role {
            Role::Tool => messages.extend(results(turn, &mut calls, notes)),
            _ => messages.push(message(turn, &mut calls, &speakers, notes)),
        }
    }
    messages.retain(|message| !is_blank_answer(message));
    json!({"messages": messages})
}

fn message(
    turn: &Turn<'_>,
    calls: &mut TurnCalls<'_>,
    speakers: &SpelledNames<'_>,
    notes: &mut Notes,
) -> Value {
    let with_original = |piece| (piece, original(turn.role, piece));
    let mut pieces: Vec<(&Piece<'_>, Option<Map<String, Value>>)> =
        turn.pieces.iter().map(with_original).collect();
    let name = shared_name(&pieces).map(|name| speakers.of(name));
    if let [(_, original)] = pieces.as_mut_slice()
        && let Some(original) = original.take()
    {
        return Value::Object(with_names(original, calls, name));
    }
    let blocks = pieces.into_iter().flat_map(|(piece, original)| blocks(piece, original, notes)).collect();
    let role = match turn.role {
        Role::System => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let content = match content(blocks) {
        // Only an answer may have the content null.
        Value::Null if turn.role != Role::Assistant => json!(""),
        content => content,
    };
    let mut message = json!({"role": role, "content": content});
    let tool_calls: Vec<Value> = turn.parts().filter_map(|part| call(part, calls)).collect();
    if !tool_calls.is_empty() {
        message["tool_calls"] = Value::Array(tool_calls);
    }
    if let Some(name) = name {
        message["name"] = Value::String(name);
    }
    message
}

/// Returns true for an answer without content, calls or anything else, which OpenAI refuses.
fn is_blank_answer(message: &Value) -> bool {
    let mut fields = message.as_object().into_iter().flat_map(Map::iter);
    let is_answer = message.get("role").is_some_and(|role| role == "assistant");
    is_answer && fields.all(|(name, value)| name == "role" || name == "name" || value.is_null())
}

/// Returns the speaker of the pieces, if all have the same one.
fn shared_name<'s>(pieces: &'s [(&Piece<'_>, Option<Map<String, Value>>)]) -> Option<&'s str> {
    let mut names = pieces.iter().map(|(piece, original)| name(piece, original.as_ref()));
    let first = names.next()?;
    names.all(|name| name == first).then_some(first).flatten()
}

/// Returns the speaker whom the original message names, or else the piece's speaker.
fn name<'s>(piece: &'s Piece<'_>, original: Option<&'s Map<String, Value>>) -> Option<&'s str> {
    let own_name = original.and_then(|original| original.get("name")?.as_str());
    own_name.filter(|name| !name.is_empty()).or(piece.speaker)
}

/// Writes a message for each result, and one for the user's content after them.
fn results(turn: &Turn<'_>, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Vec<Value> {
    let (mut messages, mut user_blocks) = (Vec::new(), Vec::new());
    for piece in &turn.pieces {
        if let Some(original) = original(Role::Tool, piece) {
            messages.push(Value::Object(with_names(original, calls, None)));
            continue;
        }
        for part in piece.parts.iter() {
            if let Part::ToolResult { text, is_error, .. } = part {
                let text = unmarked_text(text, *is_error, notes);
                messages.push(json!({"role": "tool", "tool_call_id": calls.next().id, "content": text}));
            }
        }
        user_blocks.extend(blocks(piece, original(Role::User, piece), notes));
    }
    if !user_blocks.is_empty() {
        messages.push(json!({"role": "user", "content": content(user_blocks)}));
    }
    messages
}

/// Writes a piece as blocks, from its original message if there is one.
fn blocks(piece: &Piece<'_>, original: Option<Map<String, Value>>, notes: &mut Notes) -> Vec<Value> {
    match original.and_then(|mut original| original.remove("content")) {
        Some(Value::String(text)) if text.trim().is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![text_block(&text)],
        Some(Value::Array(blocks)) => blocks,
        _ => {
            let texts = piece.parts.iter().filter_map(|part| text(part, notes));
            texts.filter(|text| !text.trim().is_empty()).map(|text| text_block(&text)).collect()
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns one text if there are only texts, else the blocks; null if there are none.
fn content(blocks: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> =
        blocks.iter().map(|block| block.get("text").filter(|_| kind(block) == "text")?.as_str()).collect();
    match texts {
        Some(texts) if texts.is_empty() => Value::Null,
        Some(texts) => Value::String(texts.join(TEXT_SEPARATOR)),
        None => Value::Array(blocks),
    }
}

fn call(part: &Part, calls: &mut TurnCalls<'_>) -> Option<Value> {
    let Part::ToolCall { arguments, .. } = part else {
        return None;
    };
    let Names { id, tool } = calls.next();
    let arguments = arguments_text(arguments);
    Some(json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}))
}

/// Returns the message as it was sent or received, if a request may have it unchanged.
fn original(role: Role, piece: &Piece<'_>) -> Option<Map<String, Value>> {
    if piece.parts.iter().any(fails_silently) {
        return None;
    }
    let mut message = original::message(RequestFormat::OpenAiChat, piece)?;
    let keeps_thinking = piece.keeps_thinking;
    message.retain(|name, value| {
        let name = name.as_str();
        !value.is_null()
            && (FIELDS.contains(&name)
                || name == "function_call"
                || keeps_thinking && THINKING_FIELDS.contains(&name))
    });
    let is_role = match message.get("role").and_then(Value::as_str)? {
        "system" | "developer" => role == Role::System,
        "user" => role == Role::User,
        "assistant" => role == Role::Assistant,
        "tool" => role == Role::Tool,
        _ => false,
    };
    let tool_calls = message.get("tool_calls").map_or(Some(0), sound_calls)?;
    let results = usize::from(role == Role::Tool);
    let is_faithful = is_role
        && !message.contains_key("function_call")
        && original::calls_and_results(piece) == (tool_calls, results);
    let content = original_content(message.remove("content"))?;
    if let Some(Value::Object(audio)) = message.get_mut("audio") {
        // An answer also has the transcript of its audio; a request refers to the audio by its id.
        audio.retain(|name, _| name == "id");
    }
    // Only an answer may have the content null.
    let is_blank = content.is_null() && role != Role::Assistant;
    message.insert("content".to_owned(), if is_blank { json!("") } else { content });
    is_faithful.then_some(message)
}

/// Returns true for a failed result without a text. A request can't mark it as failed, so it gets a text that says so.
fn fails_silently(part: &Part) -> bool {
    matches!(part, Part::ToolResult { text, is_error: true, .. } if text.trim().is_empty())
}

/// Returns the content without blank texts: null if nothing is left, `None` if the content has a block that no request may have.
fn original_content(content: Option<Value>) -> Option<Value> {
    match content {
        None => Some(Value::Null),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Value::Null),
        Some(text @ Value::String(_)) => Some(text),
        Some(Value::Array(mut blocks)) => {
            let is_own = |block: &Value| {
                let kind = kind(block);
                BLOCKS.contains(&kind) && block.get(kind).is_some()
            };
            blocks.retain(|block| !original::is_blank_text(block));
            let content = if blocks.is_empty() { Value::Null } else { Value::Array(blocks) };
            let is_sound = content.as_array().is_none_or(|blocks| blocks.iter().all(is_own));
            is_sound.then_some(content)
        }
        Some(_) => None,
    }
}

/// Returns the number of calls, if a request may have all of them unchanged.
fn sound_calls(calls: &Value) -> Option<usize> {
    let calls = calls.as_array()?;
    let is_sound = |call: &Value| match kind(call) {
        "function" => call.pointer("/function/arguments").is_some_and(Value::is_string),
        "custom" => call.get("custom").is_some(),
        _ => false,
    };
    (!calls.is_empty() && calls.iter().all(is_sound)).then_some(calls.len())
}

/// Replaces the ids, tool names and speaker with those of this request. A result gets its tool's name only if it had a name.
fn with_names(
    mut message: Map<String, Value>,
    calls: &mut TurnCalls<'_>,
    speaker: Option<String>,
) -> Map<String, Value> {
    if let Some(Value::Array(tool_calls)) = message.get_mut("tool_calls") {
        for call in tool_calls {
            let (kind, Names { id, tool }) = (kind(call).to_owned(), calls.next());
            call["id"] = Value::String(id);
            if let Some(function) = call.get_mut(&kind).and_then(Value::as_object_mut) {
                function.insert("name".to_owned(), Value::String(tool));
            }
        }
    }
    let old_name = message.remove("name");
    let name = if message.get("role").and_then(Value::as_str) == Some("tool") {
        let Names { id, tool } = calls.next();
        message.insert("tool_call_id".to_owned(), Value::String(id));
        old_name.map(|_| tool)
    } else {
        speaker
    };
    message.extend(name.map(|name| ("name".to_owned(), Value::String(name))));
    message
}
