//! Checks the `system` field, and system messages in the middle of a conversation.

use serde_json::Value;

use super::{
    SYSTEM_FIRST, SYSTEM_MODEL, SYSTEM_POSITION, SYSTEM_SHAPE, SYSTEM_TEXT_ONLY, TEXT_EMPTY,
    turn::{Conversation, RoleMessage, TurnRole},
};
use crate::validator::{findings::Findings, request::RequestToCheck};

pub(super) fn check(request: &RequestToCheck<'_>, conversation: &Conversation<'_>, findings: &mut Findings) {
    if let Some(system) = request.body().and_then(|body| body.get("system")) {
        check_field(system, findings);
    }
    let messages = &conversation.messages;
    for (position, message) in messages.iter().enumerate() {
        if message.role == TurnRole::System {
            let previous = position.checked_sub(1).and_then(|position| messages.get(position));
            check_message(previous, message, messages.get(position + 1), findings);
        }
    }
    if let Some(first) = messages.iter().find(|message| message.role == TurnRole::System) {
        let text = "role 'system' is not supported on this model (some models accept it)";
        findings.add(&SYSTEM_MODEL, format_args!("/{}", first.index), text);
    }
}

fn check_field(system: &Value, findings: &mut Findings) {
    let blocks = match system {
        Value::String(_) => return,
        Value::Array(blocks) => blocks.as_slice(),
        _ => {
            let text = "system: Input should be a valid list";
            return findings.add_in_body(&SYSTEM_SHAPE, "/system", text);
        }
    };
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("/system/{index}");
        match (block["type"].as_str(), block["text"].as_str()) {
            (Some("text"), Some(text)) if text.trim().is_empty() => {
                let text = "system: text content blocks must be non-empty";
                findings.add_in_body(&TEXT_EMPTY, &path, text);
            }
            (Some("text"), Some(_)) => {}
            _ => {
                let text = format!("system.{index}: Input should be a text block");
                findings.add_in_body(&SYSTEM_SHAPE, &path, text);
            }
        }
    }
}

fn check_message(
    previous: Option<&RoleMessage<'_>>,
    message: &RoleMessage<'_>,
    next: Option<&RoleMessage<'_>>,
    findings: &mut Findings,
) {
    let index = message.index;
    let pointer = format!("/{index}");
    if message.blocks.iter().any(|block| block.kind != "text") {
        let text = format!("messages.{index}: a `system` message holds text only");
        findings.add(&SYSTEM_TEXT_ONLY, &pointer, text);
    }
    let Some(previous) = previous else {
        let text = "messages.0: the first message must not use the 'system' role; use the top-level `system`";
        return findings.add(&SYSTEM_FIRST, &pointer, text);
    };
    if let Some(error) = position_error(previous, next) {
        let text = format!("messages.{index}: a `system` message {error}");
        findings.add(&SYSTEM_POSITION, &pointer, text);
    }
}

/// Returns why a system message must not stand between `previous` and `next`; `None` if it may.
fn position_error(previous: &RoleMessage<'_>, next: Option<&RoleMessage<'_>>) -> Option<&'static str> {
    let last = previous.blocks.last();
    let follows_server_tool = last.is_some_and(|block| block.is_server_call() || block.is_server_result());
    let follows_call = previous.blocks.iter().any(|block| block.kind == "tool_use");
    match previous.role {
        TurnRole::Assistant if follows_call => Some("never stands between `tool_use` and `tool_result`"),
        TurnRole::Assistant if !follows_server_tool => {
            Some("must follow a user message or an assistant turn that ends in server tool use")
        }
        TurnRole::System => Some("must follow a user message, not another system message"),
        _ if next.is_some_and(|next| next.role != TurnRole::Assistant) => {
            Some("must be last or be followed by an assistant turn")
        }
        _ => None,
    }
}
