//! Reads chat messages as other programs spell them: Mistral's clients in camel case, LlamaIndex in `blocks`, OpenAI's Assistants API with
//! texts in objects. They are read like OpenAI's messages. A request has them in OpenAI's spelling, since no provider accepts them as they
//! are. Messages of Pydantic-AI are refused, since one of them has several roles.

use serde_json::{Map, Value, value::RawValue};

use super::{
    FormatError,
    content::{IMAGE, attachment_from_url, opaque, text_part, tool_call},
    json::Fields,
};
use crate::domain::message::Part;

/// The field with calls in messages of Mistral's clients.
const CALLS: &str = "toolCalls";
/// The field with the id of the call that a result answers, in such messages.
const CALL_ID: &str = "toolCallId";
/// The field with the content in LlamaIndex's messages.
const BLOCKS: &str = "blocks";
/// The field with the type of a LlamaIndex block.
const BLOCK_TYPE: &str = "block_type";
/// The field into which LlamaIndex copies other fields of OpenAI's messages.
const EXTRA: &str = "additional_kwargs";
/// The field with the type of a part, in Pydantic-AI's messages.
const PART_KIND: &str = "part_kind";

/// Refuses a message of Pydantic-AI.
pub(super) fn check(fields: &Fields<'_>) -> Result<(), FormatError> {
    if !is_pydantic(fields) {
        return Ok(());
    }
    Err(FormatError::new(
        "`parts`: this message is Pydantic-AI's, and its parts are of several roles",
        "give each part as a message of its role: system-prompt and user-prompt as `content`, tool-call in `tool_calls`, \
         tool-return with `tool_call_id`, as OpenAI has them",
    ))
}

/// Returns true for a request or response of Pydantic-AI: `{"kind": "request", "parts": [{"part_kind": "user-prompt", …}]}`.
pub(super) fn is_pydantic(fields: &Fields<'_>) -> bool {
    let has_kind = matches!(fields.text("kind").as_deref(), Some("request" | "response"));
    let parts = fields.list("parts").unwrap_or_default();
    let mut kinds = parts.into_iter().filter_map(Fields::of);
    kinds.any(|part| part.has(PART_KIND)) || has_kind && fields.has("parts")
}

/// Returns true for a message with OpenAI's roles in another spelling.
pub(super) fn is_openai(fields: &Fields<'_>, role: &str) -> bool {
    let has_value = |raw: &RawValue| Fields::of(raw).is_some_and(|block| block.object("text").is_some());
    let has_calls = || role == "assistant" && fields.list(CALLS).is_some();
    let has_texts = || fields.list("content").is_some_and(|blocks| blocks.into_iter().any(has_value));
    has_calls() || has_texts() || typed_blocks(fields).is_some()
}

/// Returns true for a message that must be spelled differently for a request. Checks a parsed message, as [`is_openai`] checks a raw one.
pub(super) fn is_spelled_otherwise(message: &Map<String, Value>) -> bool {
    let has_value = |block: &Value| block.get("text").is_some_and(Value::is_object);
    let blocks = message.get("content").and_then(Value::as_array);
    let has_texts = || blocks.is_some_and(|blocks| blocks.iter().any(has_value));
    let has_blocks = || !message.contains_key("content") && message.contains_key(BLOCKS);
    message.contains_key(CALLS) || message.contains_key(CALL_ID) || has_blocks() || has_texts()
}

/// Returns the calls of a message. LlamaIndex has them in blocks; its older versions have them in the fields copied from OpenAI.
pub(super) fn calls<'a>(fields: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    let is_call = |raw: &&RawValue| Fields::of(raw).is_some_and(|block| is_call(&block));
    let in_blocks = || typed_blocks(fields).is_some_and(|blocks| blocks.iter().any(is_call));
    fields
        .list("tool_calls")
        .or_else(|| fields.list(CALLS))
        .or_else(|| fields.object(EXTRA)?.list("tool_calls").filter(|_| !in_blocks()))
}

/// Returns the id of the call that a result answers.
pub(super) fn call_id(fields: &Fields<'_>) -> Option<String> {
    let extra = || fields.object(EXTRA)?.text("tool_call_id");
    fields.text(CALL_ID).or_else(extra)
}

/// Returns the parts in LlamaIndex's blocks.
pub(super) fn blocks(fields: &Fields<'_>) -> Vec<Part> {
    let blocks = typed_blocks(fields).unwrap_or_default();
    blocks.into_iter().filter_map(block).collect()
}

/// Returns the text of a tool's result in LlamaIndex's blocks; `None` if there are no such blocks.
pub(super) fn result_text(fields: &Fields<'_>) -> Option<String> {
    typed_blocks(fields)?;
    let texts = blocks(fields).into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the blocks of a message without `content`, if each has a type.
fn typed_blocks<'a>(fields: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    let blocks = fields.list(BLOCKS).filter(|_| !fields.has("content"))?;
    let is_typed = |raw: &&RawValue| Fields::of(raw).is_some_and(|block| block.has(BLOCK_TYPE));
    (!blocks.is_empty() && blocks.iter().all(is_typed)).then_some(blocks)
}

fn is_call(block: &Fields<'_>) -> bool {
    block.text(BLOCK_TYPE).as_deref() == Some("tool_call")
}

fn block(raw: &RawValue) -> Option<Part> {
    let block = Fields::of(raw)?;
    match block.text(BLOCK_TYPE)?.as_str() {
        "text" => block.text("text").and_then(text_part),
        "thinking" => Some(Part::Thinking(block.text("content")?.into())),
        "tool_call" => {
            Some(tool_call(block.text("tool_call_id"), block.text("tool_name"), block.raw("tool_kwargs")))
        }
        "image" => Some(attachment_from_url(block.text("url"), IMAGE)),
        _ => Some(opaque(raw, &block)),
    }
}
