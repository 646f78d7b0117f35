//! Telling formats apart by what stands in a message, never by a file's name.

use super::json::Fields;
use crate::domain::message::Format;

/// What a message's shape says about its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// It has what only this format has.
    Certain(Format),
    /// A role and plain text: OpenAI's and Anthropic's messages look alike.
    Chat,
    /// No message of any format.
    Unknown,
}

/// Fields that a line of a Claude Code transcript has beside its type.
const CLAUDE_CODE_FIELDS: [&str; 6] = [
    "message",
    "uuid",
    "parentUuid",
    "sessionId",
    "leafUuid",
    "messageId",
];
/// Blocks that only Anthropic's content has.
const ANTHROPIC_BLOCKS: [&str; 8] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "document",
    "server_tool_use",
    "search_result",
];
/// Blocks and fields that only OpenAI's messages have.
const OPENAI_BLOCKS: [&str; 4] = ["image_url", "input_audio", "file", "refusal"];
const OPENAI_FIELDS: [&str; 4] = ["tool_calls", "tool_call_id", "function_call", "refusal"];

/// The shape of one message.
pub(super) fn shape(fields: &Fields<'_>) -> Shape {
    let Some(role) = fields.text("role") else {
        return shape_without_role(fields);
    };
    if is_by_parts(fields) {
        return Shape::Unknown;
    }
    let is_openai = OPENAI_FIELDS.iter().any(|name| fields.has(name))
        || matches!(role.as_str(), "developer" | "tool" | "function");
    if is_openai {
        return Shape::Certain(Format::OpenAiChat);
    }
    if fields.has("stop_reason") || fields.text("type").is_some_and(|kind| kind == "message") {
        return Shape::Certain(Format::Anthropic);
    }
    blocks_format(fields).map_or(Shape::Chat, Shape::Certain)
}

/// Whether a message has `parts` in place of `content`, as Gemini's have. No format here reads those.
pub(super) fn is_by_parts(fields: &Fields<'_>) -> bool {
    fields.has("parts") && !fields.has("content")
}

fn shape_without_role(fields: &Fields<'_>) -> Shape {
    if fields.text("kind").is_some() {
        Shape::Certain(Format::Native)
    } else if fields.text("type").is_some() && CLAUDE_CODE_FIELDS.iter().any(|name| fields.has(name)) {
        Shape::Certain(Format::ClaudeCode)
    } else {
        Shape::Unknown
    }
}

fn blocks_format(fields: &Fields<'_>) -> Option<Format> {
    let blocks = fields.list("content")?;
    blocks.into_iter().find_map(|raw| {
        let kind = Fields::of(raw)?.text("type")?;
        if ANTHROPIC_BLOCKS.contains(&kind.as_str()) {
            Some(Format::Anthropic)
        } else {
            OPENAI_BLOCKS
                .contains(&kind.as_str())
                .then_some(Format::OpenAiChat)
        }
    })
}
