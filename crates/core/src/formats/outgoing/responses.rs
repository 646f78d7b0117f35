//! Writes requests for OpenAI Responses.

use serde_json::{Map, Value, json};

use super::{
    Names, Notes, RequestFormat, TEXT_SEPARATOR, TurnCalls, arguments_text,
    original::{self, kind},
    text, texts, unmarked_text, with_calls,
};
use crate::domain::{
    context::{Piece, Turn},
    message::{Part, Role},
};

/// The types of blocks in messages that aren't the model's.
const INPUT: [&str; 3] = ["input_text", "input_image", "input_file"];
/// The types of blocks in the model's messages.
const OUTPUT: [&str; 2] = ["output_text", "refusal"];

/// Writes `{instructions?, input}`. Only leading instructions go to `instructions`; later ones remain in their place.
pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let leading = turns.iter().take_while(|turn| turn.role == Role::System).count();
    let instructions: Vec<String> = turns.iter().take(leading).flat_map(|turn| texts(turn, notes)).collect();
    let mut input = Vec::new();
    for (turn, mut calls) in with_calls(turns, names).skip(leading) {
        match turn.role {
            Role::System => input.extend(message_item("system", &input_blocks(&turn.pieces, notes))),
            Role::User => input.extend(message_item("user", &input_blocks(&turn.pieces, notes))),
            Role::Assistant => {
                // Outputs follow the calls, so nothing may come between calls.
                input.extend(turn.pieces.iter().flat_map(|piece| write_answer(piece, notes)));
                input.extend(turn.parts().filter_map(|part| call(part, &mut calls)));
            }
            Role::Tool => input.extend(results(turn, &mut calls, notes)),
        }
    }
    let mut body = Map::new();
    if !instructions.is_empty() {
        body.insert("instructions".to_owned(), Value::String(instructions.join(TEXT_SEPARATOR)));
    }
    body.insert("input".to_owned(), Value::Array(input));
    Value::Object(body)
}

/// Returns encrypted reasoning, which OpenAI needs in a tool round that continues. Leaves out its id, since OpenAI would require the ids
/// of the items after it, too.
fn reasoning(piece: &Piece<'_>) -> Option<Value> {
    let mut item = original::message(RequestFormat::OpenAiResponses, piece)?;
    let is_kept = piece.keeps_thinking && item.get("type").is_some_and(|kind| kind == "reasoning");
    let sealed = item.remove("encrypted_content").filter(|sealed| is_kept && sealed.is_string())?;
    let summary = item.remove("summary").unwrap_or_else(|| json!([]));
    Some(json!({"type": "reasoning", "summary": summary, "encrypted_content": sealed}))
}

fn message_item(role: &str, content: &[Value]) -> Option<Value> {
    (!content.is_empty()).then(|| json!({"type": "message", "role": role, "content": content}))
}

/// Returns the blocks of one message of speakers other than the model.
fn input_blocks<'p, 'a: 'p>(
    pieces: impl IntoIterator<Item = &'p Piece<'a>>,
    notes: &mut Notes,
) -> Vec<Value> {
    let mut content = Vec::new();
    for piece in pieces {
        if let Some((original, _)) = original_message(piece, &INPUT) {
            content.extend(original);
        } else {
            let texts = piece.parts.iter().filter_map(|part| text(part, notes));
            content.extend(texts.map(|text| json!({"type": "input_text", "text": text})));
        }
    }
    content
}

/// Writes the model's answer: its reasoning, its own message with its phase, or a message for each text.
fn write_answer(piece: &Piece<'_>, notes: &mut Notes) -> Vec<Value> {
    if let Some(reasoning) = reasoning(piece) {
        return vec![reasoning];
    }
    if let Some((original, phase)) = original_message(piece, &OUTPUT) {
        let mut message = json!({"type": "message", "role": "assistant", "content": original});
        if let Some(phase) = phase {
            message["phase"] = phase;
        }
        return vec![message];
    }
    let texts = piece.parts.iter().filter_map(|part| text(part, notes));
    texts
        .filter_map(|text| message_item("assistant", &[json!({"type": "output_text", "text": text})]))
        .collect()
}

/// Returns the blocks and the phase of a message as OpenAI or its client wrote it, if all blocks are of `kinds`. Leaves out the id, as
/// [`reasoning`] does.
fn original_message(piece: &Piece<'_>, kinds: &[&str]) -> Option<(Vec<Value>, Option<Value>)> {
    let mut item = original::message(RequestFormat::OpenAiResponses, piece)?;
    if item.get("type").is_some_and(|kind| kind != "message") {
        return None;
    }
    let blocks = original_blocks(item.remove("content")?, kinds)?;
    Some((blocks, item.remove("phase").filter(Value::is_string)))
}

/// Returns the blocks without blank texts; `None` if a block isn't of `kinds`, or none is left.
fn original_blocks(content: Value, kinds: &[&str]) -> Option<Vec<Value>> {
    let Value::Array(mut blocks) = content else {
        return None;
    };
    blocks.retain(|block| !original::is_blank_text(block));
    // A refusal has its text in a field of its own.
    let is_own = |block: &Value| {
        let kind = kind(block);
        kinds.contains(&kind) && (kind != "refusal" || block.get(kind).is_some_and(Value::is_string))
    };
    let is_sound = !blocks.is_empty() && blocks.iter().all(is_own);
    is_sound.then_some(blocks)
}

/// Writes an output for each result, and a message with the user's content after them.
fn results(turn: &Turn<'_>, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Vec<Value> {
    let (mut outputs, mut pieces) = (Vec::new(), Vec::new());
    for piece in &turn.pieces {
        if let Some(original) = original_output(piece) {
            outputs.push(output(&calls.next().id, &original));
            continue;
        }
        for part in piece.parts.iter() {
            if let Part::ToolResult { text, is_error, .. } = part {
                let text = unmarked_text(text, *is_error, notes);
                outputs.push(output(&calls.next().id, &text.into()));
            }
        }
        pieces.push(piece);
    }
    outputs.extend(message_item("user", &input_blocks(pieces, notes)));
    outputs
}

/// Returns the blocks that a tool returned, such as an image; `None` for a failure, which is written as text.
fn original_output(piece: &Piece<'_>) -> Option<Value> {
    let has_failed = |part: &Part| matches!(part, Part::ToolResult { is_error: true, .. });
    let mut item = original::message(RequestFormat::OpenAiResponses, piece)?;
    let is_own = item.get("type").is_some_and(|kind| kind == "function_call_output")
        && original::calls_and_results(piece) == (0, 1)
        && !piece.parts.iter().any(has_failed);
    let blocks = original_blocks(item.remove("output")?, &INPUT)?;
    is_own.then_some(Value::Array(blocks))
}

fn output(call_id: &str, output: &Value) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}

fn call(part: &Part, calls: &mut TurnCalls<'_>) -> Option<Value> {
    let Part::ToolCall { arguments, .. } = part else {
        return None;
    };
    let Names { id, tool } = calls.next();
    let arguments = arguments_text(arguments);
    Some(json!({"type": "function_call", "call_id": id, "name": tool, "arguments": arguments}))
}
