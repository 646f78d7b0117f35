//! OpenAI Responses.

use serde_json::{Map, Value, json};

use super::{Calls, Names, Notes, TEXT_SEPARATOR, arguments_text, named, texts, unmarked};
use crate::domain::{
    context::{Role, Turn},
    message::Part,
};

/// `{instructions?, input}`: leading instructions are apart, later ones stand in their place.
pub(super) fn body(turns: &[Turn<'_>], names: &[Vec<Names>], notes: &mut Notes) -> Value {
    let leading = turns.iter().take_while(|turn| turn.role == Role::System).count();
    let instructions: Vec<String> = turns
        .iter()
        .take(leading)
        .flat_map(|turn| texts(turn, notes))
        .collect();
    let mut input = Vec::new();
    for (turn, mut calls) in named(turns, names).skip(leading) {
        match turn.role {
            Role::System => input.extend(said("system", "input_text", texts(turn, notes))),
            Role::User => input.extend(said("user", "input_text", texts(turn, notes))),
            Role::Assistant => {
                // Outputs follow the calls, so nothing may stand between those.
                input.extend(
                    texts(turn, notes)
                        .into_iter()
                        .filter_map(|text| said("assistant", "output_text", vec![text])),
                );
                input.extend(turn.parts().filter_map(|part| call(part, &mut calls)));
            }
            Role::Tool => {
                let outputs = turn.parts().filter_map(|part| output(part, &mut calls, notes));
                input.extend(outputs.collect::<Vec<_>>());
                input.extend(said("user", "input_text", texts(turn, notes)));
            }
        }
    }
    let mut body = Map::new();
    if !instructions.is_empty() {
        body.insert(
            "instructions".to_owned(),
            Value::String(instructions.join(TEXT_SEPARATOR)),
        );
    }
    body.insert("input".to_owned(), Value::Array(input));
    Value::Object(body)
}

fn said(role: &str, kind: &str, texts: Vec<String>) -> Option<Value> {
    let content: Vec<Value> = texts
        .into_iter()
        .map(|text| json!({"type": kind, "text": text}))
        .collect();
    (!content.is_empty()).then(|| json!({"type": "message", "role": role, "content": content}))
}

fn call(part: &Part, calls: &mut Calls<'_>) -> Option<Value> {
    let Part::ToolCall { arguments, .. } = part else {
        return None;
    };
    let Names { id, tool } = calls.next();
    let arguments = arguments_text(arguments);
    Some(json!({"type": "function_call", "call_id": id, "name": tool, "arguments": arguments}))
}

fn output(part: &Part, calls: &mut Calls<'_>, notes: &mut Notes) -> Option<Value> {
    let Part::ToolResult { text, is_error, .. } = part else {
        return None;
    };
    let output = unmarked(text, *is_error, notes);
    Some(json!({"type": "function_call_output", "call_id": calls.next().id, "output": output}))
}
