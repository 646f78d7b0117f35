//! Reads chat messages of OpenAI and Anthropic: a role, content, and OpenAI's tool calls. The fields and blocks of the two don't collide,
//! so one reader reads both, and also logs that mix them.

use super::{
    FormatError, NAME_CHARS_MAX,
    content::{AUDIO, parts, text_part, tool_call, tool_result, unmeasured},
    json::{self, Fields},
    message, spelling, unknown_kind,
};
use crate::domain::{
    message::{Format, Kind, Message, Part},
    text::cut,
};

pub(super) const ROLES: [&str; 6] = ["user", "assistant", "system", "developer", "tool", "function"];
/// Names used for `content` by mistake or by unsupported formats.
const CONTENT_MISNAMED: [&str; 5] = ["contents", "message", "text", "value", "body"];

pub(super) fn read(format: Format, fields: &Fields<'_>) -> Result<Message, FormatError> {
    let role = fields.text("role").ok_or_else(|| no_role(fields))?;
    if has_parts_only(fields) {
        return Err(FormatError::new(
            "message has `parts` in place of `content`, as Gemini's do",
            "say that its format is gemini, or leave the format out and it is detected",
        ));
    }
    let message = read_as(format, &role, fields);
    // Without this error, recapd would accept the message and lose its content.
    let misnamed = CONTENT_MISNAMED.iter().find(|name| fields.has(name));
    if let Some(name) = misnamed.filter(|_| message.parts.is_empty() && !fields.has("content")) {
        return Err(FormatError::new(
            format!("message has `{name}` in place of `content`"),
            "give what was said as `content`: a text or a list of blocks",
        ));
    }
    Ok(message)
}

/// Returns true if a message has `parts` and no `content`, as Gemini's do.
pub(super) fn has_parts_only(fields: &Fields<'_>) -> bool {
    fields.has("parts") && !fields.has("content")
}

fn no_role(fields: &Fields<'_>) -> FormatError {
    match fields.text("kind") {
        None => FormatError::new(
            "message has no `role`",
            "give its role (user, assistant, system or tool), or specify the format of the messages",
        ),
        Some(kind) => {
            let kind = cut(&kind, NAME_CHARS_MAX);
            FormatError::new(
                format!("kind `{}` is unknown, and the message has no `content`", kind.escape_debug()),
                "give a kind of recapd's own format, or a `role` with `content`",
            )
        }
    }
}

/// Reads a message of `role`, perhaps from the envelope of another format.
pub(super) fn read_as(format: Format, role: &str, fields: &Fields<'_>) -> Message {
    let parts = match role {
        "tool" | "function" => result(fields),
        _ => content_parts(fields),
    };
    message(format, fields, kind(role, &parts), parts)
}

/// Returns the kind of a message. Anthropic's tool results have the user's role, but the user didn't write them.
pub(super) fn kind(role: &str, parts: &[Part]) -> Kind {
    let has_call = || parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let has_result = || parts.iter().any(|part| matches!(part, Part::ToolResult { .. }));
    match role {
        "system" | "developer" => Kind::System,
        "user" if has_result() => Kind::ToolResult,
        "user" => Kind::User,
        "assistant" if has_call() => Kind::ToolCall,
        "assistant" => Kind::Assistant,
        "tool" | "function" => Kind::ToolResult,
        other => unknown_kind(other),
    }
}

fn content_parts(fields: &Fields<'_>) -> Vec<Part> {
    let thinking = fields
        .text("reasoning_content")
        .or_else(|| fields.text("reasoning"))
        .map(|text| Part::Thinking(text.into()));
    let calls = spelling::calls(fields).unwrap_or_default();
    let calls = calls.into_iter().filter_map(|raw| Fields::of(raw).map(|call| self::call(&call)));
    let legacy_call = fields.object("function_call").map(|call| self::call(&call));
    thinking
        .into_iter()
        .chain(parts(fields.raw("content")))
        .chain(spelling::blocks(fields))
        .chain(audio_part(fields))
        .chain(fields.text("refusal").and_then(text_part))
        .chain(calls)
        .chain(legacy_call)
        .collect()
}

/// Reads a spoken answer, which has no `content`: its transcript if there is one, or else an attachment of unknown size.
fn audio_part(fields: &Fields<'_>) -> Option<Part> {
    let audio = fields.object("audio").filter(|_| !fields.has("content"))?;
    let transcript = audio.text("transcript").and_then(text_part);
    Some(transcript.unwrap_or_else(|| unmeasured(AUDIO)))
}

/// Reads one of `tool_calls`: `{id, function: {name, arguments}}`, `{id, custom: {name, input}}`, or flat.
fn call(call: &Fields<'_>) -> Part {
    let inner = call.object("function").or_else(|| call.object("custom"));
    let inner = inner.as_ref().unwrap_or(call);
    let arguments = inner.raw("arguments").or_else(|| inner.raw("input"));
    tool_call(call.text("id"), inner.text("name"), arguments)
}

/// Reads a message of role `tool`. Programs name the call's id differently: OpenAI `tool_call_id`, SWE-agent has a list `tool_call_ids`,
/// tau2 has `id`.
fn result(fields: &Fields<'_>) -> Vec<Part> {
    let from_list = || json::string(fields.list("tool_call_ids")?.first()?);
    let call_id = fields
        .text("tool_call_id")
        .or_else(|| spelling::call_id(fields))
        .or_else(from_list)
        .or_else(|| fields.text("id"));
    let is_error = fields.flag("is_error").or_else(|| fields.flag("error"));
    if let Some(text) = spelling::result_text(fields) {
        return vec![Part::ToolResult {
            call_id,
            name: fields.text("name"),
            text,
            is_error: is_error.unwrap_or(false),
        }];
    }
    tool_result(call_id, fields.text("name"), fields.raw("content"), is_error.unwrap_or(false))
}
