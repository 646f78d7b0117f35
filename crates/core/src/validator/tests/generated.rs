//! Valid conversations, generated from an outline and written in each provider's format.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::validator::{Target, validate};

/// A model to which every model-dependent rule applies.
pub(super) fn model(target: Target) -> &'static str {
    match target {
        Target::Anthropic => "claude-opus-4-6",
        Target::OpenAiChat | Target::OpenAiResponses => "gpt-5.4",
        Target::Gemini => "gemini-3-pro-preview",
    }
}

/// Parallel tool calls of the model, and their results.
#[derive(Clone, Debug)]
pub(super) struct ToolStep {
    /// The number of calls.
    pub(super) calls: usize,
    /// True if text comes before the calls.
    pub(super) speaks: bool,
}

/// A question and the steps to its answer.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) steps: Vec<ToolStep>,
}

/// A conversation in which every exchange but the last is answered.
#[derive(Clone, Debug)]
pub(super) struct Outline {
    pub(super) exchanges: Vec<Exchange>,
}

pub(super) fn any_outline() -> impl Strategy<Value = Outline> {
    let step = (1_usize..4, any::<bool>()).prop_map(|(calls, speaks)| ToolStep { calls, speaks });
    let exchange = prop::collection::vec(step, 0..4).prop_map(|steps| Exchange { steps });
    prop::collection::vec(exchange, 1..6).prop_map(|exchanges| Outline { exchanges })
}

fn ids(exchange: usize, step: usize, calls: usize) -> Vec<String> {
    (0..calls).map(|call| format!("call_{exchange}_{step}_{call}")).collect()
}

/// The parts of an exchange in a provider's format.
struct ProviderShape {
    question: fn() -> Value,
    step: fn(&ToolStep, &[String]) -> Vec<Value>,
    /// Takes the index of the exchange, for ids.
    answer: fn(usize) -> Value,
}

impl ProviderShape {
    fn of(target: Target) -> Self {
        match target {
            Target::Anthropic => {
                Self { question: anthropic_question, step: anthropic_step, answer: plain_answer }
            }
            Target::OpenAiChat => Self { question: plain_question, step: chat_step, answer: plain_answer },
            Target::OpenAiResponses => {
                Self { question: plain_question, step: responses_step, answer: responses_answer }
            }
            Target::Gemini => Self { question: gemini_question, step: gemini_step, answer: gemini_answer },
        }
    }
}

/// Writes `outline` for `target`, as the bare array of messages.
pub(super) fn write(target: Target, outline: &Outline) -> Vec<Value> {
    let shape = ProviderShape::of(target);
    let mut messages = Vec::new();
    for (index, exchange) in outline.exchanges.iter().enumerate() {
        messages.push((shape.question)());
        for (position, step) in exchange.steps.iter().enumerate() {
            messages.extend((shape.step)(step, &ids(index, position, step.calls)));
        }
        if index + 1 < outline.exchanges.len() {
            messages.push((shape.answer)(index));
        }
    }
    messages
}

fn anthropic_question() -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": "What time is it?"}]})
}

fn anthropic_step(step: &ToolStep, ids: &[String]) -> Vec<Value> {
    let mut said = vec![json!({"type": "thinking", "thinking": "", "signature": "EqQB"})];
    if step.speaks {
        said.push(json!({"type": "text", "text": "Let me see."}));
    }
    said.extend(ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "clock", "input": {}})));
    let results: Vec<Value> = ids
        .iter()
        .rev()
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "12:00"}))
        .collect();
    vec![json!({"role": "assistant", "content": said}), json!({"role": "user", "content": results})]
}

fn plain_question() -> Value {
    json!({"role": "user", "content": "What time is it?"})
}

fn chat_step(step: &ToolStep, ids: &[String]) -> Vec<Value> {
    let content = if step.speaks { json!("Let me see.") } else { Value::Null };
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "clock", "arguments": "{}"}}))
        .collect();
    let mut messages = vec![json!({"role": "assistant", "content": content, "tool_calls": calls})];
    messages
        .extend(ids.iter().rev().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "12:00"})));
    messages
}

fn responses_step(step: &ToolStep, ids: &[String]) -> Vec<Value> {
    let turn = ids.first().map_or("", String::as_str);
    let mut items = vec![json!({"type": "reasoning", "id": format!("rs_{turn}"), "summary": []})];
    if step.speaks {
        items.push(json!({"role": "assistant", "id": format!("msg_{turn}"), "content": "Let me see."}));
    }
    items.extend(ids.iter().map(|id| {
        let item = format!("fc_{id}");
        json!({"type": "function_call", "id": item, "call_id": id, "name": "clock", "arguments": "{}"})
    }));
    items.extend(
        ids.iter().rev().map(|id| json!({"type": "function_call_output", "call_id": id, "output": "12:00"})),
    );
    items
}

fn gemini_question() -> Value {
    json!({"role": "user", "parts": [{"text": "What time is it?"}]})
}

fn gemini_step(step: &ToolStep, ids: &[String]) -> Vec<Value> {
    let mut said: Vec<Value> =
        ids.iter().map(|id| json!({"functionCall": {"id": id, "name": "clock", "args": {}}})).collect();
    if let Some(first) = said.first_mut() {
        first["thoughtSignature"] = json!("EqQB");
    }
    if step.speaks {
        said.insert(0, json!({"text": "Let me see."}));
    }
    let responses: Vec<Value> = ids
        .iter()
        .map(|id| json!({"functionResponse": {"id": id, "name": "clock", "response": {"time": "12:00"}}}))
        .collect();
    vec![json!({"role": "model", "parts": said}), json!({"role": "user", "parts": responses})]
}

fn plain_answer(_: usize) -> Value {
    json!({"role": "assistant", "content": "It is noon."})
}

fn responses_answer(exchange: usize) -> Value {
    json!({"role": "assistant", "id": format!("msg_answer_{exchange}"), "content": "It is noon."})
}

fn gemini_answer(_: usize) -> Value {
    json!({"role": "model", "parts": [{"text": "It is noon."}]})
}

proptest! {
    #[test]
    fn valid_conversations_have_no_violations(outline in any_outline()) {
        for target in [Target::Anthropic, Target::OpenAiChat, Target::OpenAiResponses, Target::Gemini] {
            let request = Value::from(write(target, &outline));
            let violations = validate(target, &request, Some(model(target)));
            prop_assert!(violations.is_empty(), "{target:?}: {violations:#?}");
        }
    }
}
