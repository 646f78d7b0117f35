//! Conversations that are cut, shuffled or patched, and the rules that report it.

#![expect(
    clippy::ptr_arg,
    reason = "every change has the type `Change`, whether it shortens the list or not"
)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::generated::{Exchange, Outline, ToolStep, any_outline, model, write};
use crate::validator::{Target, validate};

/// Changes a conversation; returns false if it has no place for the change.
type MutateFn = fn(&mut Vec<Value>) -> bool;

/// A name, a change, and the code of the rule that the change breaks.
type Mutation = (&'static str, MutateFn, &'static str);

fn holds(message: &Value, list: &str, test: impl Fn(&Value) -> bool) -> bool {
    message[list].as_array().is_some_and(|parts| parts.iter().any(test))
}

fn is_call(message: &Value) -> bool {
    holds(message, "content", |block| block["type"] == "tool_use")
        || message["tool_calls"].is_array()
        || message["type"] == "function_call"
        || holds(message, "parts", |part| part.get("functionCall").is_some())
}

fn is_result(message: &Value) -> bool {
    holds(message, "content", |block| block["type"] == "tool_result")
        || message["role"] == "tool"
        || message["type"] == "function_call_output"
        || holds(message, "parts", |part| part.get("functionResponse").is_some())
}

fn change_first(
    messages: &mut Vec<Value>,
    test: fn(&Value) -> bool,
    change: impl FnOnce(&mut Vec<Value>, usize),
) -> bool {
    let position = messages.iter().position(test);
    if let Some(position) = position {
        change(messages, position);
    }
    position.is_some()
}

fn drop_call(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| drop(messages.remove(call)))
}

fn drop_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        drop(messages.remove(result));
    })
}

/// Of parallel results in one message, drops the last.
fn drop_last_part_of_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        for list in ["content", "parts"] {
            if let Some(parts) = messages[result][list].as_array_mut() {
                parts.pop();
            }
        }
    })
}

fn swap_call_and_result(messages: &mut Vec<Value>) -> bool {
    let Some(call) = messages.iter().rposition(is_call) else {
        return false;
    };
    messages.swap(call, call + 1);
    true
}

fn repeat_call_and_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        let pair: Vec<Value> = messages[call..=call + 1].to_vec();
        messages.splice(call + 2..call + 2, pair);
    })
}

fn repeat_first_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        messages.insert(result, messages[result].clone());
    })
}

fn repeat_result_in_message(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        let results = messages[result]["content"].as_array_mut().unwrap();
        results.push(results[0].clone());
    })
}

/// Drops the first message, as a window does that counts messages.
fn drop_first_message(messages: &mut Vec<Value>) -> bool {
    messages.remove(0);
    messages.len() > 1
}

fn cut_before_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        drop(messages.drain(..result));
    })
}

fn cut_after_last_call(messages: &mut Vec<Value>) -> bool {
    let Some(call) = messages.iter().rposition(is_call) else {
        return false;
    };
    messages.truncate(call + 1);
    true
}

fn speak_last(messages: &mut Vec<Value>) -> bool {
    messages.push(json!({"role": "assistant", "content": "It is noon."}));
    true
}

fn model_speaks_last(messages: &mut Vec<Value>) -> bool {
    messages.push(json!({"role": "model", "parts": [{"text": "It is noon."}]}));
    true
}

fn text_before_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        let results = messages[result]["content"].as_array_mut().unwrap();
        results.insert(0, json!({"type": "text", "text": "Here:"}));
    })
}

fn empty_text(messages: &mut Vec<Value>) -> bool {
    messages[0]["content"][0]["text"] = json!("");
    true
}

fn unsign_thinking(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        messages[call]["content"][0]["signature"] = json!("");
    })
}

fn blank_signature(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        messages[call]["content"][0]["signature"] = json!(" ");
    })
}

fn redact_by_another_provider(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        messages[call]["content"][0] = json!({"type": "redacted_thinking", "data": "router.reasoning:eyJ0"});
    })
}

fn drop_signature(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        let thought = messages[call]["content"][0].as_object_mut().unwrap();
        thought.remove("signature");
    })
}

fn system_before_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        messages.insert(result, json!({"role": "system", "content": "Be brief."}));
    })
}

fn user_before_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        messages.insert(result, json!({"role": "user", "content": "Hello?"}));
    })
}

fn rename_result(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_result, |messages, result| {
        messages[result]["tool_call_id"] = json!("call_other");
    })
}

fn parse_arguments(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        messages[call]["tool_calls"][0]["function"]["arguments"] = json!({});
    })
}

fn null_content(messages: &mut Vec<Value>) -> bool {
    messages[0]["content"] = Value::Null;
    true
}

fn repeat_item(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        messages.push(messages[call].clone());
    })
}

fn cut_after_reasoning(messages: &mut Vec<Value>) -> bool {
    let is_reasoning = |item: &Value| item["type"] == "reasoning";
    let Some(reasoning) = messages.iter().rposition(is_reasoning) else {
        return false;
    };
    messages.truncate(reasoning + 1);
    true
}

/// Puts each response in a turn of its own; only parallel ones can be split.
fn split_responses(messages: &mut Vec<Value>) -> bool {
    let is_parallel = |turn: &Value| is_result(turn) && turn["parts"].as_array().unwrap().len() > 1;
    let Some(turn) = messages.iter().position(is_parallel) else {
        return false;
    };
    let part = messages[turn]["parts"].as_array_mut().unwrap().pop();
    messages.insert(turn + 1, json!({"role": "user", "parts": [part]}));
    true
}

/// Removes the signature of the last call, and everything after its result, so that the user hasn't spoken since.
fn unsign_last_call(messages: &mut Vec<Value>) -> bool {
    let Some(call) = messages.iter().rposition(is_call) else {
        return false;
    };
    for part in messages[call]["parts"].as_array_mut().unwrap() {
        part.as_object_mut().unwrap().remove("thoughtSignature");
    }
    messages.truncate(call + 2);
    true
}

fn text_in_call(messages: &mut Vec<Value>) -> bool {
    change_first(messages, is_call, |messages, call| {
        for part in messages[call]["parts"].as_array_mut().unwrap() {
            part["text"] = json!("Let me see.");
        }
    })
}

const ANTHROPIC: [Mutation; 17] = [
    ("drop a call", drop_call, "result_orphan"),
    ("drop a result", drop_result, "call_unanswered"),
    ("drop one result", drop_last_part_of_result, "call_unanswered"),
    ("swap", swap_call_and_result, "result_orphan"),
    ("swap, the call", swap_call_and_result, "call_unanswered"),
    ("repeat a pair", repeat_call_and_result, "id_twice"),
    ("repeat a result", repeat_result_in_message, "result_twice"),
    ("cut before a result", cut_before_result, "result_orphan"),
    ("cut after a call", cut_after_last_call, "call_unanswered"),
    ("the assistant last", speak_last, "prefill"),
    ("text before a result", text_before_result, "result_not_first"),
    ("an empty text", empty_text, "text_empty"),
    ("an unsigned thought", unsign_thinking, "signature"),
    ("a thought with a blank signature", blank_signature, "signature"),
    ("a thought without a signature", drop_signature, "signature"),
    ("what another provider redacted", redact_by_another_provider, "signature"),
    ("a system message before a result", system_before_result, "system_position"),
];

const OPENAI_CHAT: [Mutation; 10] = [
    ("drop a call", drop_call, "result_orphan"),
    ("drop a result", drop_result, "call_unanswered"),
    ("swap", swap_call_and_result, "call_unanswered"),
    ("repeat a result", repeat_first_result, "result_twice"),
    ("cut before a result", cut_before_result, "result_orphan"),
    ("cut after a call", cut_after_last_call, "call_unanswered"),
    ("the user before a result", user_before_result, "call_unanswered"),
    ("rename a result", rename_result, "result_unknown"),
    ("parse arguments", parse_arguments, "arguments"),
    ("null content", null_content, "content_missing"),
];

const OPENAI_RESPONSES: [Mutation; 7] = [
    ("drop a call", drop_call, "result_orphan"),
    ("drop a result", drop_result, "call_unanswered"),
    ("cut before a result", cut_before_result, "result_orphan"),
    ("cut after a call", cut_after_last_call, "call_unanswered"),
    ("repeat an item", repeat_item, "item_id_twice"),
    ("repeat a result", repeat_first_result, "result_twice"),
    ("cut after reasoning", cut_after_reasoning, "reasoning_alone"),
];

const GEMINI: [Mutation; 10] = [
    ("drop a call", drop_call, "response_orphan"),
    ("drop a result", drop_result, "response_count"),
    ("drop one result", drop_last_part_of_result, "response_count"),
    ("swap", swap_call_and_result, "response_orphan"),
    ("cut before a result", cut_before_result, "response_orphan"),
    ("cut after a call", cut_after_last_call, "response_count"),
    ("split responses", split_responses, "response_count"),
    ("an unsigned call", unsign_last_call, "signature_missing"),
    ("text in a call", text_in_call, "part_ambiguous"),
    ("the model last", model_speaks_last, "last_turn"),
];

/// Makes each mutation, and asserts that its rule reports it. Returns the names of the mutations, and whether the outline had a place for
/// each.
fn outcomes(target: Target, mutations: &[Mutation], outline: &Outline) -> Vec<(&'static str, bool)> {
    let outcome = |&(name, change, rule): &Mutation| {
        let mut messages = write(target, outline);
        let is_changed = change(&mut messages);
        if is_changed {
            let request = Value::from(messages);
            let violations = validate(target, &request, Some(model(target)));
            let is_reported = violations.iter().any(|violation| violation.rule == rule);
            assert!(is_reported, "{target:?}, {name}: no {rule} in {violations:#?}");
        }
        (name, is_changed)
    };
    mutations.iter().map(outcome).collect()
}

fn all_outcomes(outline: &Outline) -> Vec<(&'static str, bool)> {
    [
        outcomes(Target::Anthropic, &ANTHROPIC, outline),
        outcomes(Target::OpenAiChat, &OPENAI_CHAT, outline),
        outcomes(Target::OpenAiResponses, &OPENAI_RESPONSES, outline),
        outcomes(Target::Gemini, &GEMINI, outline),
    ]
    .concat()
}

#[test]
fn every_mutation_has_a_place_in_an_outline() {
    let step = |calls, speaks| ToolStep { calls, speaks };
    let outline = Outline {
        exchanges: vec![
            Exchange { steps: vec![step(2, true), step(1, false)] },
            Exchange { steps: vec![step(2, false)] },
        ],
    };
    let missed: Vec<_> = all_outcomes(&outline).into_iter().filter(|(_, is_changed)| !is_changed).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn a_conversation_without_its_first_message_is_reported() {
    let call = ToolStep { calls: 1, speaks: false };
    for (target, steps, rule) in
        [(Target::Anthropic, vec![], "first_message"), (Target::Gemini, vec![call], "call_position")]
    {
        let exchanges = vec![Exchange { steps }, Exchange { steps: vec![] }];
        let mut messages = write(target, &Outline { exchanges });
        assert!(drop_first_message(&mut messages));
        let violations = validate(target, &Value::from(messages), Some(model(target)));
        let is_reported = violations.iter().any(|violation| violation.rule == rule);
        assert!(is_reported, "{violations:#?}");
    }
}

proptest! {
    // Each case makes about forty mutations.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_mutation_is_reported(outline in any_outline()) {
        // `outcomes` asserts that the rules report the mutations.
        prop_assert!(!all_outcomes(&outline).is_empty());
    }
}
