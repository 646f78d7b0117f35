//! Reads a conversation as Anthropic does: messages, their blocks, and turns.

use serde_json::Value;

use super::{CONTENT_SHAPE, ROLE};
use crate::validator::{
    findings::{Findings, shorten},
    request::{Object, text},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnRole {
    User,
    Assistant,
    System,
}

/// A content block. A plain string counts as a text block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    /// The index of its message.
    pub(super) message: usize,
    /// The index within its message; `None` if the content is a string.
    pub(super) index: Option<usize>,
    /// The block's `type`.
    pub(super) kind: &'a str,
    /// The text of a text block.
    pub(super) text: Option<&'a str>,
    /// The block as JSON; `None` if the content is a string.
    fields: Option<&'a Object>,
}

/// A message with a known role.
#[derive(Debug)]
pub(super) struct RoleMessage<'a> {
    /// The index in the request.
    pub(super) index: usize,
    pub(super) role: TurnRole,
    pub(super) blocks: Vec<Block<'a>>,
}

#[derive(Debug)]
pub(super) struct Conversation<'a> {
    /// The readable messages.
    pub(super) messages: Vec<RoleMessage<'a>>,
    /// The number of all messages in the request.
    pub(super) length: usize,
}

/// Consecutive messages of the user or of the assistant, which Anthropic joins.
#[derive(Debug)]
pub(super) struct RoleTurn<'a> {
    pub(super) role: TurnRole,
    pub(super) blocks: Vec<Block<'a>>,
}

impl<'a> Block<'a> {
    /// Returns the string in the field `key`.
    pub(super) fn text_of(&self, key: &str) -> Option<&'a str> {
        self.fields.and_then(|fields| text(fields, key))
    }

    pub(super) fn field(&self, key: &str) -> Option<&'a Value> {
        self.fields.and_then(|fields| fields.get(key))
    }

    /// Returns the block's JSON pointer below the array of messages.
    pub(super) fn pointer(&self) -> String {
        match self.index {
            Some(index) => format!("/{}/content/{index}", self.message),
            None => format!("/{}/content", self.message),
        }
    }

    /// Returns the name that the block has in Anthropic's errors.
    pub(super) fn name(&self) -> String {
        match self.index {
            Some(index) => format!("messages.{}.content.{index}", self.message),
            None => format!("messages.{}.content", self.message),
        }
    }

    /// Returns true for a call of a tool that Anthropic runs.
    pub(super) fn is_server_call(&self) -> bool {
        ["server_tool_use", "mcp_tool_use"].contains(&self.kind)
    }

    /// Returns true for the result of a tool that Anthropic runs.
    pub(super) fn is_server_result(&self) -> bool {
        self.kind.ends_with("_tool_result")
    }

    pub(super) fn is_thinking(&self) -> bool {
        ["thinking", "redacted_thinking"].contains(&self.kind)
    }
}

impl RoleTurn<'_> {
    /// Returns the index of the last message in the request.
    pub(super) fn last_message(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.message)
    }

    /// Returns true for a user turn with nothing but results.
    pub(super) fn is_only_results(&self) -> bool {
        self.role == TurnRole::User && self.blocks.iter().all(|block| block.kind == "tool_result")
    }
}

impl<'a> Conversation<'a> {
    /// Reads the messages. Reports and leaves out messages without a readable role or content.
    pub(super) fn read(messages: &'a [Value], findings: &mut Findings) -> Self {
        let read = messages.iter().enumerate();
        Self {
            messages: read.filter_map(|(index, message)| read_message(index, message, findings)).collect(),
            length: messages.len(),
        }
    }

    /// Returns the turns, without empty messages and system messages.
    pub(super) fn turns(&self) -> Vec<RoleTurn<'a>> {
        let mut turns: Vec<RoleTurn<'a>> = Vec::new();
        for message in &self.messages {
            if message.role == TurnRole::System || message.blocks.is_empty() {
                continue;
            }
            match turns.last_mut() {
                Some(turn) if turn.role == message.role => turn.blocks.extend(&message.blocks),
                _ => turns.push(RoleTurn { role: message.role, blocks: message.blocks.clone() }),
            }
        }
        turns
    }
}

fn read_message<'a>(index: usize, message: &'a Value, findings: &mut Findings) -> Option<RoleMessage<'a>> {
    let Some(fields) = message.as_object() else {
        let text = format!("messages.{index}: Input should be a valid dictionary");
        findings.add(&CONTENT_SHAPE, format_args!("/{index}"), text);
        return None;
    };
    let role = match text(fields, "role") {
        Some("user") => TurnRole::User,
        Some("assistant") => TurnRole::Assistant,
        Some("system") => TurnRole::System,
        other => {
            let role = shorten(other.unwrap_or_default());
            let text = format!(
                "messages.{index}.role: Input should be 'user', 'assistant' or 'system', not '{role}'"
            );
            findings.add(&ROLE, format_args!("/{index}"), text);
            return None;
        }
    };
    Some(RoleMessage { index, role, blocks: read_content(index, fields.get("content"), findings)? })
}

fn read_content<'a>(
    message: usize,
    content: Option<&'a Value>,
    findings: &mut Findings,
) -> Option<Vec<Block<'a>>> {
    let error = match content {
        Some(Value::String(text)) if text.is_empty() => return Some(Vec::new()),
        Some(Value::String(text)) => {
            return Some(vec![Block { message, index: None, kind: "text", text: Some(text), fields: None }]);
        }
        Some(Value::Array(blocks)) => {
            let read = blocks.iter().enumerate();
            return Some(
                read.filter_map(|(index, block)| read_block(message, index, block, findings)).collect(),
            );
        }
        Some(_) => format!("messages.{message}.content: Input should be a valid list"),
        None => format!("messages.{message}.content: Field required"),
    };
    findings.add(&CONTENT_SHAPE, format_args!("/{message}"), error);
    None
}

fn read_block<'a>(
    message: usize,
    index: usize,
    block: &'a Value,
    findings: &mut Findings,
) -> Option<Block<'a>> {
    let fields = block.as_object();
    let Some(kind) = fields.and_then(|fields| text(fields, "type")) else {
        let text = format!("messages.{message}.content.{index}.type: Field required");
        findings.add(&CONTENT_SHAPE, format_args!("/{message}/content/{index}"), text);
        return None;
    };
    Some(Block {
        message,
        index: Some(index),
        kind,
        text: fields.filter(|_| kind == "text").and_then(|fields| text(fields, "text")),
        fields,
    })
}
