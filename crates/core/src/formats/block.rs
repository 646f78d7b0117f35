//! Refuses messages that have only unknown blocks.
//!
//! Providers keep adding types of blocks, so an unknown block in a transcript goes back unchanged to the provider that wrote it. A new
//! message with nothing but unknown blocks is a mistake, and so is a call or result of an unsupported format: if recapd accepted such a
//! message, no model would ever see its content.

use super::{FormatError, json::Fields};
use crate::domain::message::{Format, Kind, Message, Part};

/// The types of calls and results in the messages of Bedrock's Converse and of Vercel's AI SDK.
const FOREIGN: [&str; 4] = ["toolUse", "toolResult", "tool-call", "tool-result"];

/// Refuses a message if a model would see no part of it. Doesn't check lines of transcripts.
pub(super) fn check(message: &Message, fields: &Fields<'_>) -> Result<(), FormatError> {
    let is_checked =
        matches!(message.format, Format::OpenAiChat | Format::OpenAiResponses | Format::Anthropic);
    if !is_checked || !message.kind.is_conversation() {
        return Ok(());
    }
    let block = unreadable_block(message).map(str::to_owned);
    let result = || foreign_result(fields);
    let kind = block.or_else(|| (message.kind == Kind::ToolResult).then(result).flatten());
    kind.map_or(Ok(()), |kind| Err(refusal(&kind)))
}

/// Returns the type of the first foreign block or, if recapd can read none of the blocks, the type of the first one.
fn unreadable_block(message: &Message) -> Option<&str> {
    let mut kinds = message.parts.iter().filter_map(|part| match part {
        Part::Opaque { kind, json } if !is_accepted(message.format, kind, json) => Some(kind.as_str()),
        _ => None,
    });
    let foreign = kinds.clone().find(|kind| FOREIGN.contains(kind));
    let is_all = kinds.clone().count() == message.parts.len();
    foreign.or_else(|| kinds.next().filter(|_| is_all))
}

/// Returns true for any Anthropic block with a type that isn't foreign, since Anthropic's API has more types than recapd knows.
fn is_accepted(format: Format, kind: &str, json: &str) -> bool {
    let is_typed = || Fields::parse(json).is_ok_and(|block| block.has("type"));
    format == Format::Anthropic && !FOREIGN.contains(&kind) && is_typed()
}

/// Returns the type of a foreign block in a message of role `tool`, which would otherwise be read as the tool's result.
fn foreign_result(fields: &Fields<'_>) -> Option<String> {
    let blocks = fields.list("content")?.into_iter();
    let mut kinds = blocks.filter_map(|raw| Fields::of(raw)?.text("type"));
    kinds.find(|kind| FOREIGN.contains(&kind.as_str()))
}

fn refusal(kind: &str) -> FormatError {
    FormatError::new(
        format!("block `{}` is unknown, and no model would see it", kind.escape_debug()),
        "give its content in a block of OpenAI, Anthropic or Gemini, or name the message's format",
    )
}
