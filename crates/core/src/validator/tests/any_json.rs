//! For any input, the validator returns and points into the input.

use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::validator::{Target, VIOLATIONS_MAX, validate};

const TARGETS: [Target; 4] = [Target::Anthropic, Target::OpenAiChat, Target::OpenAiResponses, Target::Gemini];

/// Keys and texts that the rules look at, so that random values get past the first check.
const WORDS: [&str; 46] = [
    "messages",
    "input",
    "contents",
    "role",
    "user",
    "assistant",
    "system",
    "tool",
    "model",
    "content",
    "parts",
    "type",
    "text",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "id",
    "name",
    "thinking",
    "redacted_thinking",
    "signature",
    "data",
    "server_tool_use",
    "web_search_tool_result",
    "advisor_tool_result",
    "tool_calls",
    "tool_call_id",
    "function",
    "arguments",
    "custom",
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "call_id",
    "output",
    "functionCall",
    "functionResponse",
    "response",
    "thoughtSignature",
    "enabled",
    "claude-opus-4-5",
    "gemini-3-pro",
    "",
    " ",
    "é\u{0}\u{1b}[1m",
];

fn any_value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(&WORDS[..]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        4 => word.clone().prop_map(Value::from),
        1 => ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn assert_points_into(request: &Value, target: Target) {
    let violations = validate(target, request, None);
    assert!(violations.len() <= VIOLATIONS_MAX);
    for violation in violations {
        let known = target.rules().iter().any(|rule| rule.code == violation.rule);
        assert!(known, "{violation:?}");
        // A missing list of messages is reported where it should be.
        let is_missing_list = ["/messages", "/input", "/contents"].contains(&violation.path.as_str());
        assert!(is_missing_list || request.pointer(&violation.path).is_some(), "{violation:?}");
    }
}

proptest! {
    #[test]
    fn violations_of_any_json_point_into_it(value in any_value()) {
        for target in TARGETS {
            assert_points_into(&value, target);
        }
    }

    #[test]
    fn violations_of_any_messages_point_into_them(
        roles in prop::collection::vec(prop::sample::select(&["user", "assistant", "system", "tool", "model"][..]), 1..6),
        content in prop::collection::vec(any_value(), 6),
    ) {
        let messages: Vec<Value> = roles
            .iter()
            .zip(&content)
            .map(|(role, content)| serde_json::json!({
                "role": role, "content": [content], "parts": [content], "tool_calls": [content],
            }))
            .collect();
        for target in TARGETS {
            assert_points_into(&Value::from(messages.clone()), target);
        }
    }
}
