//! Messages in the form in which their provider wrote them.

use serde_json::{Map, Value};

use super::RequestFormat;
use crate::domain::{
    context::Piece,
    message::{Format, Part},
};

/// The message of `piece` as the target's provider wrote it, if it did, without the envelope of a transcript.
pub(super) fn message(target: RequestFormat, piece: &Piece<'_>) -> Option<Map<String, Value>> {
    let source = piece.source?;
    let payload: Value = match (target, source.format) {
        (RequestFormat::Anthropic, Format::Anthropic | Format::ClaudeCode)
        | (RequestFormat::OpenAiChat, Format::OpenAiChat)
        | (RequestFormat::Gemini, Format::Gemini) => serde_json::from_str(&source.payload).ok()?,
        _ => return None,
    };
    match (payload, source.format) {
        (Value::Object(mut line), Format::ClaudeCode) => match line.remove("message")? {
            Value::Object(message) => Some(message),
            _ => None,
        },
        (Value::Object(message), _) => Some(message),
        _ => None,
    }
}

/// How many calls and results a piece holds.
pub(super) fn calls_and_results(piece: &Piece<'_>) -> (usize, usize) {
    let count = |is: fn(&Part) -> bool| piece.parts.iter().filter(|part| is(part)).count();
    (
        count(|part| matches!(part, Part::ToolCall { .. })),
        count(|part| matches!(part, Part::ToolResult { .. })),
    )
}

/// The type of a content block; empty if it says none.
pub(super) fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// A text block that says nothing: providers refuse it.
pub(super) fn is_blank_text(block: &Value) -> bool {
    kind(block) == "text"
        && block
            .get("text")
            .and_then(Value::as_str)
            .is_none_or(|text| text.trim().is_empty())
}
