//! Detects the format of a message from its content, never from a file's name.

use super::{
    chat::has_parts_only,
    codex,
    json::Fields,
    pidgin,
    responses::{is_call, is_output},
    spelling,
};
use crate::domain::message::{Format, Kind, Metadata};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageShape {
    /// The message has something that only this format has.
    Certain(Format),
    /// The message has a role and plain text, as messages of both OpenAI and Anthropic have.
    Chat,
    /// The object isn't a message of any format.
    Unknown,
}

/// Besides `type`, a Claude Code line has at least one of these fields.
const CLAUDE_CODE_FIELDS: [&str; 5] = ["uuid", "parentUuid", "sessionId", "leafUuid", "messageId"];
/// Blocks that only Anthropic's messages have.
const ANTHROPIC_BLOCKS: [&str; 10] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "document",
    "server_tool_use",
    "search_result",
    "mcp_tool_use",
    "container_upload",
];
/// The types of results from tools that Anthropic runs end like this.
const ANTHROPIC_RESULT: &str = "_tool_result";
/// Blocks and fields that only OpenAI's chat messages have.
const OPENAI_BLOCKS: [&str; 4] = ["image_url", "input_audio", "file", "refusal"];
const OPENAI_FIELDS: [&str; 4] = ["tool_calls", "tool_call_id", "function_call", "refusal"];
/// Blocks that only the messages of OpenAI's Responses API have.
const RESPONSES_BLOCKS: [&str; 4] = ["input_text", "output_text", "input_image", "input_file"];
/// Items of the Responses API that are neither messages nor calls nor outputs.
const RESPONSES_ITEMS: [&str; 8] = [
    "reasoning",
    "item_reference",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
];
/// Every item of the Responses API that isn't a message has one of these fields.
const RESPONSES_FIELDS: [&str; 5] = ["id", "call_id", "summary", "encrypted_content", "action"];
const GEMINI_ROLES: [&str; 4] = ["user", "model", "function", "system"];

/// Returns what the fields of a message say about its format.
pub(super) fn shape(fields: &Fields<'_>) -> MessageShape {
    let Some(role) = fields.text("role") else {
        return shape_without_role(fields);
    };
    if has_parts_only(fields) {
        let is_gemini = GEMINI_ROLES.contains(&role.as_str()) && has_gemini_parts(fields);
        return certain_if(is_gemini, Format::Gemini);
    }
    if OPENAI_FIELDS.iter().any(|name| fields.has(name)) || spelling::is_openai(fields, &role) {
        return MessageShape::Certain(Format::OpenAiChat);
    }
    if is_responses_message(fields) {
        return MessageShape::Certain(Format::OpenAiResponses);
    }
    if matches!(role.as_str(), "developer" | "tool" | "function") {
        return MessageShape::Certain(Format::OpenAiChat);
    }
    if fields.has("stop_reason") || is_of_type(fields, "message") {
        return MessageShape::Certain(Format::Anthropic);
    }
    blocks_format(fields).map_or(MessageShape::Chat, MessageShape::Certain)
}

/// Returns true for contents without a role that a user could send. The API treats them as the user's.
fn is_gemini_user(fields: &Fields<'_>) -> bool {
    let has_words = |raw| {
        Fields::of(raw).is_some_and(|part| part.has("text") || part.has("inlineData") || part.has("fileData"))
    };
    let parts = fields.list("parts").unwrap_or_default();
    has_parts_only(fields) && has_gemini_parts(fields) && parts.into_iter().any(has_words)
}

/// Returns true if the parts have no `type`. Other programs' parts have one, Gemini's don't.
fn has_gemini_parts(fields: &Fields<'_>) -> bool {
    let parts = fields.list("parts");
    parts.is_some_and(|parts| {
        parts.into_iter().all(|raw| Fields::of(raw).is_some_and(|part| !part.has("type")))
    })
}

fn shape_without_role(fields: &Fields<'_>) -> MessageShape {
    if let Some(kind) = fields.text("kind") {
        certain_if(is_native(fields, &kind), Format::Native)
    } else if pidgin::is_event(fields) {
        MessageShape::Certain(Format::Pidgin)
    } else if codex::is_line(fields) {
        MessageShape::Certain(Format::Codex)
    } else if is_claude_code(fields) {
        MessageShape::Certain(Format::ClaudeCode)
    } else if is_gemini_user(fields) {
        MessageShape::Certain(Format::Gemini)
    } else {
        certain_if(is_responses_item(fields), Format::OpenAiResponses)
    }
}

/// Returns true for a message of one of recapd's kinds, or for one with content and a kind of an agent's own. Objects of many programs
/// have a `kind`, so an unknown kind alone isn't enough.
fn is_native(fields: &Fields<'_>, kind: &str) -> bool {
    let is_known = !matches!(Kind::from_name(kind), Kind::Metadata(Metadata::Other(_)));
    let has_content = || ["content", "data"].iter().any(|name| fields.has(name));
    !is_of_journal(fields) && !spelling::is_pydantic(fields) && (is_known || has_content())
}

/// Returns true for a line of a journal. Such a line has a kind, too, but its message is in its payload, which only `recapd import` reads.
fn is_of_journal(fields: &Fields<'_>) -> bool {
    fields.has("count_method") && (fields.has("payload") || fields.has("payload_text"))
}

/// Returns true for a line of Claude Code, whose `type` is the role. Other programs also put messages into an envelope, but have the role
/// only inside of it.
fn is_claude_code(fields: &Fields<'_>) -> bool {
    let is_role = is_of_type(fields, "user") || is_of_type(fields, "assistant");
    is_role && fields.has("message")
        || fields.text("type").is_some() && CLAUDE_CODE_FIELDS.iter().any(|name| fields.has(name))
}

fn certain_if(is_certain: bool, format: Format) -> MessageShape {
    if is_certain { MessageShape::Certain(format) } else { MessageShape::Unknown }
}

fn is_of_type(fields: &Fields<'_>, name: &str) -> bool {
    fields.text("type").is_some_and(|kind| kind == name)
}

/// Returns true for a message of the Responses API. Anthropic's answers also have the type `message`, but with a list of blocks and no
/// status.
fn is_responses_message(fields: &Fields<'_>) -> bool {
    let is_item = is_of_type(fields, "message") && !fields.has("stop_reason");
    let has_block = || {
        let blocks = fields.list("content").unwrap_or_default();
        blocks
            .into_iter()
            .filter_map(|raw| Fields::of(raw)?.text("type"))
            .any(|kind| RESPONSES_BLOCKS.contains(&kind.as_str()))
    };
    has_block() || is_item && (fields.has("status") || fields.text("content").is_some())
}

fn is_responses_item(fields: &Fields<'_>) -> bool {
    let is_item = fields
        .text("type")
        .is_some_and(|kind| is_call(&kind) || is_output(&kind) || RESPONSES_ITEMS.contains(&kind.as_str()));
    is_item && RESPONSES_FIELDS.iter().any(|name| fields.has(name))
}

fn blocks_format(fields: &Fields<'_>) -> Option<Format> {
    let blocks = fields.list("content")?;
    blocks.into_iter().find_map(|raw| {
        let kind = Fields::of(raw)?.text("type")?;
        if ANTHROPIC_BLOCKS.contains(&kind.as_str()) || kind.ends_with(ANTHROPIC_RESULT) {
            Some(Format::Anthropic)
        } else {
            OPENAI_BLOCKS.contains(&kind.as_str()).then_some(Format::OpenAiChat)
        }
    })
}
