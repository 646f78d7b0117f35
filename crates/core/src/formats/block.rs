//! Blocks that nobody knows.
//!
//! Providers keep adding types of blocks, so one that isn't known goes back to who wrote it. In what is said now a message
//! of nothing else is a slip, and so is a call or a result in the form of a format that isn't read, given as OpenAI's
//! perhaps: the message would be accepted, and no model would ever see what it holds.

use super::{FormatError, json::Fields};
use crate::domain::message::{Format, Kind, Message, Part};

/// Calls and results as Bedrock's Converse and Vercel's AI SDK have them.
const FOREIGN: [&str; 4] = ["toolUse", "toolResult", "tool-call", "tool-result"];

/// Refuses a message that holds nothing that a model would see. Lines of transcripts may be anything.
pub(super) fn check(message: &Message, fields: &Fields<'_>) -> Result<(), FormatError> {
    let is_checked = matches!(
        message.format,
        Format::OpenAiChat | Format::OpenAiResponses | Format::Anthropic
    );
    if !is_checked || !message.kind.is_conversation() {
        return Ok(());
    }
    let unread = unread(message).map(str::to_owned);
    let returned = || foreign_result(fields);
    let kind = unread.or_else(|| (message.kind == Kind::ToolResult).then(returned).flatten());
    kind.map_or(Ok(()), |kind| Err(refusal(&kind)))
}

/// A block of another format's, or the first one if all are unknown.
fn unread(message: &Message) -> Option<&str> {
    let mut kinds = message.parts.iter().filter_map(|part| match part {
        Part::Opaque { kind, json } if !is_taken(message.format, kind, json) => Some(kind.as_str()),
        _ => None,
    });
    let foreign = kinds.clone().find(|kind| FOREIGN.contains(kind));
    let is_all = kinds.clone().count() == message.parts.len();
    foreign.or_else(|| kinds.next().filter(|_| is_all))
}

/// Anthropic's blocks all say their type, and its API knows more of them than anybody else.
fn is_taken(format: Format, kind: &str, json: &str) -> bool {
    let is_typed = || Fields::parse(json).is_ok_and(|block| block.has("type"));
    format == Format::Anthropic && !FOREIGN.contains(&kind) && is_typed()
}

/// What a message of role `tool` holds is read as what the tool returned, whatever it is.
fn foreign_result(fields: &Fields<'_>) -> Option<String> {
    let blocks = fields.list("content")?.into_iter();
    let mut kinds = blocks.filter_map(|raw| Fields::of(raw)?.text("type"));
    kinds.find(|kind| FOREIGN.contains(&kind.as_str()))
}

fn refusal(kind: &str) -> FormatError {
    FormatError::new(
        format!(
            "block `{}` is unknown, and no model would see it",
            kind.escape_debug()
        ),
        "give what it holds as OpenAI, Anthropic or Gemini have it, or say which format the message is",
    )
}
