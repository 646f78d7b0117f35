//! Checks each block: required fields, ids, empty text, and the role of its message.

use serde_json::Value;

use super::{
    BLOCK_ROLE, CONTENT_EMPTY, DOCUMENT_IN_ASSISTANT, FIELD_MISSING, ID_PATTERN, RESULT_TEXT_EMPTY,
    SIGNATURE, TEXT_EMPTY,
    turn::{Block, Conversation, RoleMessage, TurnRole},
};
use crate::validator::findings::Findings;

pub(super) fn check(conversation: &Conversation<'_>, findings: &mut Findings) {
    for message in &conversation.messages {
        check_not_empty(message, conversation.length, findings);
        for block in &message.blocks {
            check_role(message.role, block, findings);
            match block.kind {
                "text" => check_text(block, findings),
                "tool_use" => check_call(block, findings),
                "tool_result" => check_result(block, findings),
                "thinking" => check_signature(block, "signature", findings),
                "redacted_thinking" => check_signature(block, "data", findings),
                _ => {}
            }
        }
    }
}

fn check_not_empty(message: &RoleMessage<'_>, message_count: usize, findings: &mut Findings) {
    let index = message.index;
    let may_be_empty = message.role == TurnRole::Assistant && index + 1 == message_count;
    if message.blocks.is_empty() && !may_be_empty {
        let text = format!(
            "messages.{index}: all messages must have non-empty content except for the optional final assistant message"
        );
        findings.add(&CONTENT_EMPTY, format_args!("/{index}/content"), text);
    }
}

fn check_role(role: TurnRole, block: &Block<'_>, findings: &mut Findings) {
    let (required_role, name) = match block.kind {
        "tool_use" | "thinking" | "redacted_thinking" => (TurnRole::Assistant, "assistant"),
        "tool_result" => (TurnRole::User, "user"),
        "document" if role == TurnRole::Assistant => {
            let text = "`document` blocks in an `assistant` turn give 400 from version 2026-10-21 on";
            findings.add(&DOCUMENT_IN_ASSISTANT, block.pointer(), format!("{}: {text}", block.name()));
            return;
        }
        _ => return,
    };
    // `SYSTEM_TEXT_ONLY` reports any such block of a system message.
    if role != required_role && role != TurnRole::System {
        let text =
            format!("messages.{}: `{}` blocks can only be in `{name}` messages", block.message, block.kind);
        findings.add(&BLOCK_ROLE, block.pointer(), text);
    }
}

fn check_text(block: &Block<'_>, findings: &mut Findings) {
    let text = match block.text {
        None => return report_missing(block, "text", findings),
        Some("") => "messages: text content blocks must be non-empty",
        Some(text) if text.trim().is_empty() => {
            "messages: text content blocks must contain non-whitespace text"
        }
        Some(_) => return,
    };
    findings.add(&TEXT_EMPTY, block.pointer(), text);
}

fn check_call(block: &Block<'_>, findings: &mut Findings) {
    check_id(block, "id", findings);
    if block.text_of("name").is_none() {
        report_missing(block, "name", findings);
    }
    match block.field("input") {
        Some(Value::Object(_)) => {}
        Some(_) => {
            let text = format!("{}.tool_use.input: Input should be a valid dictionary", block.name());
            findings.add(&FIELD_MISSING, block.pointer(), text);
        }
        None => report_missing(block, "input", findings),
    }
}

fn check_result(block: &Block<'_>, findings: &mut Findings) {
    check_id(block, "tool_use_id", findings);
    match block.field("content") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Array(inner)) => {
            let is_empty =
                |part: &Value| part["type"] == "text" && part["text"].as_str().is_some_and(str::is_empty);
            if inner.iter().any(is_empty) {
                let text = format!("{}.tool_result: text content blocks must be non-empty", block.name());
                findings.add(&RESULT_TEXT_EMPTY, block.pointer(), text);
            }
        }
        Some(_) => {
            let text = format!("{}.tool_result.content: Input should be a valid list", block.name());
            findings.add(&FIELD_MISSING, block.pointer(), text);
        }
    }
}

fn check_id(block: &Block<'_>, key: &str, findings: &mut Findings) {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match block.text_of(key) {
        None => report_missing(block, key, findings),
        Some(id) if !id.is_empty() && id.chars().all(fits) => {}
        Some(_) => {
            let text = format!(
                "{}.{}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'",
                block.name(),
                block.kind
            );
            findings.add(&ID_PATTERN, block.pointer(), text);
        }
    }
}

/// Checks that a thinking block has a signature, in the field `key`. Only Anthropic can tell if a signature is genuine.
fn check_signature(block: &Block<'_>, key: &str, findings: &mut Findings) {
    let (name, kind) = (block.name(), block.kind);
    let text = match block.text_of(key) {
        None => format!("{name}.{kind}.{key}: Field required"),
        Some(text) if is_base64(text) => return,
        Some(_) => format!("{name}: Invalid `{key}` in `{kind}` block"),
    };
    findings.add(&SIGNATURE, block.pointer(), text);
}

/// Returns true if a signature has only base64 characters, as Anthropic's signatures do.
fn is_base64(signature: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let digits = signature.trim_end_matches('=');
    !digits.is_empty() && digits.chars().all(is_digit)
}

fn report_missing(block: &Block<'_>, key: &str, findings: &mut Findings) {
    let text = format!("{}.{}.{key}: Field required", block.name(), block.kind);
    findings.add(&FIELD_MISSING, block.pointer(), text);
}
