//! Writes requests for Gemini.

use serde_json::{Map, Value, json};

use super::{
    Names, Notes, RequestFormat, TurnCalls, arguments_object, instructions, original, text, texts, with_calls,
};
use crate::domain::{
    context::{Piece, Turn},
    message::{Part, Role},
};

/// Gemini's documented placeholder for the signature of a call that another provider's model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
const CALL: &str = "functionCall";
const RESPONSE: &str = "functionResponse";
const SIGNATURE: &str = "thoughtSignature";
/// The fields with data: a part has exactly one. Other data belongs to tools that Gemini runs; a request only names it.
const DATA_FIELDS: [&str; 5] = ["text", "inlineData", "fileData", CALL, RESPONSE];
/// The fields that only describe the data.
const DESCRIBING_FIELDS: [&str; 5] =
    ["thought", SIGNATURE, "videoMetadata", "mediaResolution", "partMetadata"];

pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let system: Vec<Value> =
        instructions(turns).flat_map(|turn| texts(turn, notes)).map(|text| json!({"text": text})).collect();
    let mut contents: Vec<(Role, Vec<Value>)> = Vec::new();
    for (turn, mut calls) in with_calls(turns, names) {
        if turn.role == Role::System {
            continue;
        }
        let mut parts = parts(turn, &mut calls, notes);
        // Gemini requires signatures only after the user's last words. But if earlier calls lost their placeholders, the prefix that the
        // prompt cache matches would change.
        if turn.role == Role::Assistant {
            sign(&mut parts, notes);
        }
        match contents.last_mut() {
            // A call must not follow another turn of the model.
            Some((Role::Assistant, last)) if turn.role == Role::Assistant => last.extend(parts),
            _ => contents.push((turn.role, parts)),
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

/// Writes the parts of a turn, results first.
fn parts(turn: &Turn<'_>, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Vec<Value> {
    let mut parts = Vec::new();
    for piece in &turn.pieces {
        match original_parts(turn.role, piece) {
            Some(original) => parts.extend(original.into_iter().map(|part| with_names(part, calls))),
            None => parts.extend(piece.parts.iter().filter_map(|part| write_part(part, calls, notes))),
        }
    }
    let (results, rest): (Vec<Value>, Vec<Value>) =
        parts.into_iter().partition(|part| part.get(RESPONSE).is_some());
    results.into_iter().chain(rest).collect()
}

/// Returns the parts as Gemini or its client wrote them, if they have all calls and results of the piece and a request may have them.
fn original_parts(role: Role, piece: &Piece<'_>) -> Option<Vec<Value>> {
    let mut content = original::message(RequestFormat::Gemini, piece)?;
    let is_model = content.get("role").and_then(Value::as_str) == Some("model");
    let Some(Value::Array(parts)) = content.remove("parts") else {
        return None;
    };
    let count = |name: &str| parts.iter().filter(|part| part.get(name).is_some()).count();
    let is_faithful = is_model == (role == Role::Assistant)
        && (count(CALL), count(RESPONSE)) == original::calls_and_results(piece)
        && parts.iter().all(is_sound);
    let stays = |part: &Value| !is_blank(part) && (piece.keeps_thinking || part["thought"] != true);
    let parts: Vec<Value> = parts.into_iter().filter(stays).collect();
    (is_faithful && !parts.is_empty()).then_some(parts)
}

/// Returns true if a request may have the part unchanged.
fn is_sound(part: &Value) -> bool {
    let Some(fields) = part.as_object() else {
        return false;
    };
    let (data, other_fields): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(name, _)| DATA_FIELDS.contains(&name.as_str()));
    let is_known = other_fields.iter().all(|(name, _)| DESCRIBING_FIELDS.contains(&name.as_str()));
    let [(name, value)] = data[..] else { return false };
    is_known
        && match name.as_str() {
            "text" => value.is_string(),
            CALL => value.is_object() && value.get("args").is_none_or(Value::is_object),
            RESPONSE => value.get("response").is_some_and(Value::is_object),
            _ => value.is_object(),
        }
}

/// Returns true for an empty text without a signature.
fn is_blank(part: &Value) -> bool {
    let text = part.get("text").and_then(Value::as_str);
    text.is_some_and(|text| text.trim().is_empty()) && part.get(SIGNATURE).is_none()
}

/// Replaces the id and the tool's name with those of this request.
fn with_names(mut part: Value, calls: &mut TurnCalls<'_>) -> Value {
    let field = if part.get(CALL).is_some() { CALL } else { RESPONSE };
    if let Some(function) = part.get_mut(field).and_then(Value::as_object_mut) {
        let Names { id, tool } = calls.next();
        function.insert("id".to_owned(), Value::String(id));
        function.insert("name".to_owned(), Value::String(tool));
    }
    part
}

fn write_part(part: &Part, calls: &mut TurnCalls<'_>, notes: &mut Notes) -> Option<Value> {
    match part {
        Part::ToolCall { arguments, .. } => {
            let Names { id, tool } = calls.next();
            let args = arguments_object(arguments, notes);
            Some(json!({CALL: {"id": id, "name": tool, "args": args}}))
        }
        Part::ToolResult { text, is_error, .. } => {
            let Names { id, tool } = calls.next();
            let field = if *is_error { "error" } else { "output" };
            Some(json!({RESPONSE: {"id": id, "name": tool, "response": {field: text}}}))
        }
        part => text(part, notes).map(|text| json!({"text": text})),
    }
}

/// Adds a placeholder to the first call if it has no signature.
fn sign(parts: &mut [Value], notes: &mut Notes) {
    let first_call = parts.iter_mut().find(|part| part.get(CALL).is_some());
    if let Some(call) = first_call.filter(|call| call.get(SIGNATURE).is_none()) {
        notes.add("calls have a placeholder in place of their thought signatures");
        call[SIGNATURE] = json!(NO_SIGNATURE);
    }
}
