use proptest::{collection::vec, option, prelude::*};

use super::*;

/// Values and field names with a meaning to some reader.
const VALUES: &[&str] = &[
    "user",
    "assistant",
    "tool",
    "system",
    "tool_call",
    "tool_result",
    "tool_use",
    "text",
    "thinking",
    "image",
    "document",
    "model",
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "input_text",
    "event_msg",
    "response_item",
    "turn_aborted",
    "MessageCompleteEvent",
    "ConversationStartEvent",
    "[API error",
    "computer_screenshot",
    "[Request interrupted by user]",
    "2026-01-05T08:00:07Z",
    "\u{0}",
];
const KEYS: &[&str] = &[
    "role",
    "kind",
    "type",
    "content",
    "message",
    "messages",
    "traj",
    "history",
    "simulations",
    "data",
    "name",
    "id",
    "tool_calls",
    "tool_call_id",
    "tool_use_id",
    "function",
    "function_call",
    "arguments",
    "input",
    "output",
    "text",
    "source",
    "media_type",
    "image_url",
    "url",
    "at",
    "isMeta",
    "isSidechain",
    "agentId",
    "summary",
    "system",
    "uuid",
    "interrupted",
    "success",
    "conversation",
    "agent_id",
    "parts",
    "contents",
    "functionCall",
    "functionResponse",
    "response",
    "inlineData",
    "thought",
    "call_id",
    "action",
    "summary",
    "encrypted_content",
    "status",
    "payload",
    "record_type",
    "event_type",
    "conversation_id",
    "prompt",
    "initial_prompt",
];

/// Random JSON of field names and values that readers know.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<i16>().prop_map(|n| format!("{n}.50e3")),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
        prop::sample::select(VALUES.to_vec()).prop_map(|s| serde_json::to_string(s).unwrap()),
        Just(r#""\ud83d""#.to_owned()),
    ];
    let key = prop::sample::select(KEYS.to_vec());
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(", "))),
            vec((key.clone(), inner), 0..8).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// A message with the fields that its format requires.
fn message_of(format: Format) -> impl Strategy<Value = String> {
    let (head, values): (&str, &[&'static str]) = match format {
        Format::Native | Format::Aider => ("kind", &["user", "assistant", "tool_result", "system", "mark"]),
        Format::ClaudeCode => ("type", &["summary", "system", "progress"]),
        Format::Codex => ("type\":\"event_msg\",\"payload\":{},\"x", &["user"]),
        Format::Pidgin => ("event_type", &["TurnStartEvent", "ConversationStartEvent", "SystemPromptEvent"]),
        Format::Gemini => ("parts\":[],\"role", &["user", "model", "function", "exit"]),
        Format::OpenAiResponses => ("type", &["reasoning", "function_call", "tea_output", "compaction"]),
        _ => ("role", &["user", "assistant", "tool", "system", "exit"]),
    };
    (prop::sample::select(values), option::of(json()), option::of(json())).prop_map(
        move |(value, content, calls)| {
            let field = |name: &str, value: Option<String>| {
                value.map_or(String::new(), |v| format!(",\"{name}\":{v}"))
            };
            format!("{{\"{head}\":\"{value}\"{}{}}}", field("content", content), field("tool_calls", calls))
        },
    )
}

proptest! {
    #[test]
    fn parse_never_panics_on_any_text(text in any::<String>()) {
        for format in Format::ALL {
            if let Err(error) = parse(format, &text) {
                prop_assert!(!error.reason.is_empty() && !error.cure.is_empty());
            }
        }
    }

    #[test]
    fn parse_never_panics_on_any_json_and_keeps_it_verbatim(json in json()) {
        for format in Format::ALL {
            match parse(format, &json) {
                Ok(message) => {
                    prop_assert_eq!(&message.payload, &json);
                    prop_assert_eq!(Kind::from_name(message.kind.name()), message.kind);
                }
                Err(error) => prop_assert!(!error.reason.is_empty() && !error.cure.is_empty()),
            }
        }
    }

    #[test]
    fn a_message_with_its_formats_required_fields_is_never_refused(
        (format, json) in prop::sample::select(Format::ALL.to_vec()).prop_flat_map(|f| (Just(f), message_of(f)))
    ) {
        let message = parse(format, &json);
        prop_assert!(message.is_ok(), "{:?}", message);
    }

    #[test]
    fn any_text_is_read_as_it_is(text in ".+") {
        let quoted = serde_json::to_string(&text).unwrap();
        let message = parse(Format::OpenAiChat, &format!(r#"{{"role":"user","content":{quoted}}}"#)).unwrap();
        prop_assert_eq!(message.text(), text.clone());
        let message = parse(Format::Anthropic, &format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{quoted}}}]}}"#
        )).unwrap();
        let found = matches!(message.parts.as_slice(), [Part::ToolResult { text: found, .. }] if *found == text);
        prop_assert!(found);
    }

    #[test]
    fn compact_json_has_the_same_value(json in json()) {
        let tool = format!(r#"{{"role":"tool","content":{{"x": {json}}}}}"#);
        let message = parse(Format::OpenAiChat, &tool).unwrap();
        let Some(Part::ToolResult { text, .. }) = message.parts.first() else {
            return Err(TestCaseError::fail("no result"));
        };
        let expected: Result<serde_json::Value, _> = serde_json::from_str(&format!("{{\"x\":{json}}}"));
        if let Ok(expected) = expected {
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(text).unwrap(), expected);
        }
    }
}
