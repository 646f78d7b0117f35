//! Returns messages in the form in which their provider wrote them.

use serde_json::{Map, Value};

use super::RequestFormat;
use crate::{
    domain::{
        context::Piece,
        message::{Format, Part},
    },
    formats::spelling,
};

/// Returns the message of `piece` as the target's provider wrote it, without a transcript's envelope; `None` if another provider or
/// program wrote it.
pub(super) fn message(target: RequestFormat, piece: &Piece<'_>) -> Option<Map<String, Value>> {
    let source = piece.source?;
    let is_own = matches!(
        (target, source.format),
        (RequestFormat::Anthropic, Format::Anthropic | Format::ClaudeCode)
            | (RequestFormat::OpenAiChat, Format::OpenAiChat)
            | (RequestFormat::OpenAiResponses, Format::OpenAiResponses | Format::Codex)
            | (RequestFormat::Gemini, Format::Gemini)
    );
    if !is_own {
        return None;
    }
    let mut line: Map<String, Value> = serde_json::from_str(&source.payload).ok()?;
    let wrapped = match source.format {
        Format::ClaudeCode => Some(line.remove("message")?),
        // Older rollouts have no envelope.
        Format::Codex => line.remove("payload"),
        _ => None,
    };
    match wrapped {
        None if spelling::is_spelled_otherwise(&line) => None,
        None => Some(line),
        Some(Value::Object(message)) => Some(message),
        Some(_) => None,
    }
}

/// Counts the calls and the results of a piece.
pub(super) fn calls_and_results(piece: &Piece<'_>) -> (usize, usize) {
    let count = |is: fn(&Part) -> bool| piece.parts.iter().filter(|part| is(part)).count();
    (
        count(|part| matches!(part, Part::ToolCall { .. })),
        count(|part| matches!(part, Part::ToolResult { .. })),
    )
}

/// Returns the type of a content block; empty if it has none.
pub(super) fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns true for a blank text block, which providers refuse.
pub(super) fn is_blank_text(block: &Value) -> bool {
    matches!(kind(block), "text" | "input_text" | "output_text")
        && block.get("text").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
}
