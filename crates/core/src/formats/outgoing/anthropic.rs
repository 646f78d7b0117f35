//! Writes requests for Anthropic Messages.

use serde_json::{Map, Value, json};

use super::{
    Names, Notes, RequestFormat, TurnCalls, arguments_object, instructions,
    original::{self, kind},
    text, with_calls,
};
use crate::domain::{
    context::{Piece, Turn},
    message::{Part, Role},
};

pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let system: Vec<Value> = instructions(turns)
        .flat_map(|turn| blocks(turn, &mut TurnCalls::new(&[]), notes))
        .filter(|block| kind(block) == "text")
        .collect();
    let conversation = with_calls(turns, names).filter(|(turn, _)| turn.role != Role::System);
    let mut messages: Vec<Value> = conversation
        .map(|(turn, mut calls)| {
            let role = if turn.role == Role::Assistant { "assistant" } else { "user" };
            json!({"role": role, "content": content(turn, &mut calls, notes)})
        })
        .collect();
    if let Some(last) = messages.last_mut() {
        trim_end(last);
    }
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("system".to_owned(), Value::Array(system));
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

/// Removes white space from the end of the last message if it is the model's: the model continues from there, and Anthropic refuses a
/// message that ends with white space.
fn trim_end(last: &mut Value) {
    if last["role"] != "assistant" {
        return;
    }
    let text = match &mut last["content"] {
        Value::Array(blocks) => blocks.last_mut().and_then(|block| block.get_mut("text")),
        text => Some(text),
    };
    if let Some(Value::String(text)) = text {
        text.truncate(text.trim_end().len());
    }
}

fn content(turn: &Turn<'_>, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Value {
    if let [piece] = turn.pieces.as_slice()
        && let Some(mut message) = original::message(RequestFormat::Anthropic, piece)
        && let Some(text @ Value::String(_)) = message.remove("content")
        && original::calls_and_results(piece) == (0, 0)
    {
        return text;
    }
    let blocks = blocks(turn, calls, notes);
    // Results must come first, or the API doesn't match them to their calls.
    let (results, rest): (Vec<Value>, Vec<Value>) =
        blocks.into_iter().partition(|block| turn.role == Role::Tool && kind(block) == "tool_result");
    results.into_iter().chain(rest).collect()
}

fn blocks(turn: &Turn<'_>, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Vec<Value> {
    let mut blocks = Vec::new();
    for piece in &turn.pieces {
        match original_blocks(turn.role, piece, notes) {
            Some(original) => blocks.extend(original.into_iter().map(|block| with_names(block, calls))),
            None => blocks.extend(piece.parts.iter().filter_map(|part| block(part, calls, notes))),
        }
    }
    blocks
}

/// Returns the blocks as Anthropic or its client wrote them, if they have all calls and results of the piece and a request may have them.
fn original_blocks(role: Role, piece: &Piece<'_>, notes: &mut Notes) -> Option<Vec<Value>> {
    let mut message = original::message(RequestFormat::Anthropic, piece)?;
    let is_model = message.get("role").and_then(Value::as_str) == Some("assistant");
    let blocks = match message.remove("content")? {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks,
        _ => return None,
    };
    let count = |name: &str| blocks.iter().filter(|block| kind(block) == name).count();
    let is_sound = |block: &Value| {
        block.is_object() && (kind(block) != "tool_use" || block.get("input").is_some_and(Value::is_object))
    };
    let is_faithful = is_model == (role == Role::Assistant)
        && (count("tool_use"), count("tool_result")) == original::calls_and_results(piece)
        && blocks.iter().all(is_sound);
    let stays = |block: &Value| {
        !original::is_blank_text(block) && (!is_thinking(block) || piece.keeps_thinking && is_signed(block))
    };
    if piece.keeps_thinking && blocks.iter().any(|block| is_thinking(block) && !is_signed(block)) {
        notes.thinking();
    }
    let blocks: Vec<Value> = blocks.into_iter().filter(stays).map(clean).collect();
    (is_faithful && !blocks.is_empty()).then_some(blocks)
}

fn is_thinking(block: &Value) -> bool {
    matches!(kind(block), "thinking" | "redacted_thinking")
}

/// Returns true if thinking may have Anthropic's signature, which is base64. Other servers with Anthropic's API leave the signature empty
/// or out, or put a name and a colon before redacted thinking. Anthropic refuses requests with such blocks.
fn is_signed(block: &Value) -> bool {
    let seal = if kind(block) == "thinking" { "signature" } else { "data" };
    let seal = block.get(seal).and_then(Value::as_str);
    let is_base64 = |seal: &str| {
        let bytes = seal.trim_end_matches('=').bytes();
        bytes.len() > 0 && { bytes }.all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
    };
    seal.is_some_and(is_base64)
}

/// Removes the block's prompt cache markers. They belong to the request in which the block was sent. A request may have only four of
/// them, and stored messages would bring back all of theirs.
fn clean(mut block: Value) -> Value {
    if let Some(fields) = block.as_object_mut() {
        fields.remove("cache_control");
        let inner = fields.get_mut("content").and_then(Value::as_array_mut);
        for block in inner.into_iter().flatten().filter_map(Value::as_object_mut) {
            block.remove("cache_control");
        }
    }
    if kind(&block) == "tool_result" { without_blanks(block) } else { block }
}

/// Removes the blank texts from a result, and its content if nothing is left.
fn without_blanks(mut block: Value) -> Value {
    if let Some(fields) = block.as_object_mut() {
        let is_empty = match fields.get_mut("content") {
            Some(Value::Array(inner)) => {
                inner.retain(|block| !original::is_blank_text(block));
                inner.is_empty()
            }
            Some(Value::String(text)) => text.trim().is_empty(),
            _ => true,
        };
        if is_empty {
            fields.remove("content");
        }
    }
    block
}

/// Replaces the id, and in a call the tool's name, with those of this request.
fn with_names(mut block: Value, calls: &mut TurnCalls<'_>) -> Value {
    let (field, is_call) = match kind(&block) {
        "tool_use" => ("id", true),
        "tool_result" => ("tool_use_id", false),
        _ => return block,
    };
    let Names { id, tool } = calls.next();
    if let Some(fields) = block.as_object_mut() {
        fields.insert(field.to_owned(), Value::String(id));
        if is_call {
            fields.insert("name".to_owned(), Value::String(tool));
        }
    }
    block
}

fn block(part: &Part, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Option<Value> {
    match part {
        Part::ToolCall { arguments, .. } => {
            let Names { id, tool } = calls.next();
            let input = arguments_object(arguments, notes);
            Some(json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
        }
        Part::ToolResult { text, is_error, .. } => {
            let mut block = json!({"type": "tool_result", "tool_use_id": calls.next().id});
            if !text.trim().is_empty() {
                block["content"] = Value::String(text.clone());
            }
            if *is_error {
                block["is_error"] = Value::Bool(true);
            }
            Some(block)
        }
        part => text(part, notes).map(|text| json!({"type": "text", "text": text})),
    }
}
