//! Gemini contents.

use serde_json::{Map, Value, json};

use super::{Calls, Names, Notes, arguments_object, instructions, named, text, texts};
use crate::domain::{
    context::{Role, Turn},
    message::Part,
};

/// What stands for a signature that another provider's model couldn't give (provider documentation, section 5).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// `{systemInstruction?, contents}`.
pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let system: Vec<Value> = instructions(turns)
        .flat_map(|turn| texts(turn, notes))
        .map(|text| json!({"text": text}))
        .collect();
    // Signatures are asked for in the current turn only: since the user said something.
    let current = turns
        .iter()
        .rposition(|turn| turn.role == Role::User)
        .unwrap_or(0);
    let mut contents: Vec<(Role, Vec<Value>)> = Vec::new();
    for (at, (turn, mut calls)) in named(turns, names).enumerate() {
        match turn.role {
            Role::System => {}
            Role::User => contents.push((Role::User, said(turn, notes))),
            Role::Tool => {
                let mut parts: Vec<Value> = turn
                    .parts()
                    .filter_map(|part| response(part, &mut calls))
                    .collect();
                parts.extend(said(turn, notes));
                contents.push((Role::Tool, parts));
            }
            Role::Assistant => {
                let parts = model_parts(turn, &mut calls, at > current, notes);
                match contents.last_mut() {
                    // A call must not follow another turn of the model's.
                    Some((Role::Assistant, before)) => before.extend(parts),
                    _ => contents.push((Role::Assistant, parts)),
                }
            }
        }
    }
    let contents = contents.into_iter().map(|(role, parts)| {
        let role = if role == Role::Assistant { "model" } else { "user" };
        json!({"role": role, "parts": parts})
    });
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({"parts": system}));
    }
    body.insert("contents".to_owned(), contents.collect());
    Value::Object(body)
}

fn said(turn: &Turn<'_>, notes: &mut Notes) -> Vec<Value> {
    let texts = texts(turn, notes).into_iter();
    texts.map(|text| json!({"text": text})).collect()
}

fn model_parts(turn: &Turn<'_>, calls: &mut Calls<'_>, is_current: bool, notes: &mut Notes) -> Vec<Value> {
    let mut parts: Vec<Value> = turn
        .parts()
        .filter_map(|part| match part {
            Part::ToolCall { arguments, .. } => {
                let Names { id, tool } = calls.next();
                let args = arguments_object(arguments, notes);
                Some(json!({"functionCall": {"id": id, "name": tool, "args": args}}))
            }
            part => text(part, notes).map(|text| json!({"text": text})),
        })
        .collect();
    let first_call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(call) = first_call.filter(|_| is_current) {
        notes.add("calls of the current turn carry a stand-in for their thought signatures");
        call["thoughtSignature"] = json!(NO_SIGNATURE);
    }
    parts
}

fn response(part: &Part, calls: &mut Calls<'_>) -> Option<Value> {
    let Part::ToolResult { text, is_error, .. } = part else {
        return None;
    };
    let Names { id, tool } = calls.next();
    let field = if *is_error { "error" } else { "output" };
    Some(json!({"functionResponse": {"id": id, "name": tool, "response": {field: text}}}))
}
