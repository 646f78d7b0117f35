//! Conversations that grow round by round, in each dialect.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::dialect::Dialect;

/// A request of the user, the model's rounds on it, and its answer.
#[derive(Clone, Debug)]
pub(super) struct ScriptTurn {
    request: usize,
    rounds: Vec<ScriptRound>,
}

#[derive(Clone, Debug)]
struct ScriptRound {
    calls: usize,
    result: usize,
    thinks: bool,
    speaks: bool,
}

pub(super) fn turns() -> impl Strategy<Value = Vec<ScriptTurn>> {
    let round = (1..4_usize, 1..400_usize, any::<bool>(), any::<bool>())
        .prop_map(|(calls, result, thinks, speaks)| ScriptRound { calls, result, thinks, speaks });
    let turn = (1..200_usize, prop::collection::vec(round, 0..9))
        .prop_map(|(request, rounds)| ScriptTurn { request, rounds });
    prop::collection::vec(turn, 1..6)
}

pub(super) fn dialects() -> impl Strategy<Value = Dialect> {
    prop::sample::select(vec![
        Dialect::Anthropic,
        Dialect::OpenAiChat,
        Dialect::OpenAiResponses,
        Dialect::Gemini,
    ])
}

/// The conversation as its client sends it, request by request. Each has the messages of the one before, the model's answer
/// to it, and what follows that.
pub(super) fn requests(dialect: Dialect, turns: &[ScriptTurn]) -> Vec<Vec<Value>> {
    let (mut messages, mut requests) = (Vec::new(), Vec::new());
    if dialect == Dialect::OpenAiChat {
        messages.push(json!({"role": "system", "content": "Be brief."}));
    }
    for (number, turn) in turns.iter().enumerate() {
        messages.push(said(dialect, "user", &format!("Request {number} {}", "x".repeat(turn.request))));
        if dialect == Dialect::Anthropic && turn.request % 3 == 0 {
            messages.push(json!({"role": "system", "content": format!("Mind request {number}.")}));
        }
        requests.push(messages.clone());
        for (at, round) in turn.rounds.iter().enumerate() {
            messages.extend(round.messages(dialect, &format!("{number}-{at}")));
            requests.push(messages.clone());
        }
        messages.push(said(dialect, "assistant", &format!("Answer {number}")));
    }
    requests
}

fn said(dialect: Dialect, role: &str, text: &str) -> Value {
    match (dialect, role) {
        (Dialect::Gemini, "assistant") => json!({"role": "model", "parts": [{"text": text}]}),
        (Dialect::Gemini, _) => json!({"role": role, "parts": [{"text": text}]}),
        (Dialect::OpenAiResponses, "assistant") => {
            json!({"type": "message", "role": role, "content": [{"type": "output_text", "text": text, "annotations": []}]})
        }
        _ => json!({"role": role, "content": text}),
    }
}

impl ScriptRound {
    fn messages(&self, dialect: Dialect, name: &str) -> Vec<Value> {
        let ids = (0..self.calls).map(|at| format!("call-{name}-{at}"));
        let result = format!("Result {name} {}", "y".repeat(self.result));
        let words = format!("Step {name}");
        match dialect {
            Dialect::Anthropic => {
                let thinking =
                    json!({"type": "thinking", "thinking": format!("Hm {name}"), "signature": "c2ln"});
                let thinking = self.thinks.then_some(thinking);
                let spoken = self.speaks.then(|| json!({"type": "text", "text": words}));
                let calls = ids
                    .clone()
                    .map(|id| json!({"type": "tool_use", "id": id, "name": "Read", "input": {"path": name}}));
                let content: Vec<Value> = thinking.into_iter().chain(spoken).chain(calls).collect();
                let results: Vec<Value> = ids
                    .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": result}))
                    .collect();
                vec![
                    json!({"role": "assistant", "content": content}),
                    json!({"role": "user", "content": results}),
                ]
            }
            Dialect::OpenAiChat => {
                let calls: Vec<Value> = ids
                    .clone()
                    .map(|id| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}"}}))
                    .collect();
                let content = if self.speaks { json!(words) } else { Value::Null };
                let results = ids.map(|id| json!({"role": "tool", "tool_call_id": id, "content": result}));
                let call = json!({"role": "assistant", "content": content, "tool_calls": calls});
                std::iter::once(call).chain(results).collect()
            }
            Dialect::OpenAiResponses => {
                let thinking = json!({"type": "reasoning", "id": format!("rs_{name}"), "summary": []});
                let calls = ids.clone().map(
                    |id| json!({"type": "function_call", "call_id": id, "name": "Read", "arguments": "{}"}),
                );
                let results =
                    ids.map(|id| json!({"type": "function_call_output", "call_id": id, "output": result}));
                let thinking = self.thinks.then_some(thinking);
                thinking.into_iter().chain(calls).chain(results).collect()
            }
            Dialect::Gemini => {
                let mut calls: Vec<Value> = (0..self.calls)
                    .map(|at| json!({"functionCall": {"name": "Read", "args": {"path": format!("{name}-{at}")}}}))
                    .collect();
                calls[0]["thoughtSignature"] = json!("c2ln");
                let results: Vec<Value> = (0..self.calls)
                    .map(|_| json!({"functionResponse": {"name": "Read", "response": {"output": result}}}))
                    .collect();
                vec![json!({"role": "model", "parts": calls}), json!({"role": "user", "parts": results})]
            }
        }
    }
}
