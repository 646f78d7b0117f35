use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The first bytes of a PNG of 1,000 × 500 pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAH0";

fn counted(provider: &str, model: &str, request: &Value) -> RequestCount {
    let count = count_request(provider, model, request.to_string().as_bytes());
    assert_eq!(count.tokens, count.parts.total());
    count
}

fn gpt(request: &Value) -> RequestCount {
    counted("openai", "gpt-5", request)
}

fn without(request: &Value, field: &str) -> Value {
    let mut request = request.clone();
    request.as_object_mut().unwrap().remove(field);
    request
}

fn chat() -> Value {
    json!({
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "You run the warehouse."},
            {"role": "user", "name": "Ada", "content": "Where is order 1042?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function",
                 "function": {"name": "find_order", "arguments": "{\"number\":1042}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "{\"status\":\"shipped\"}"},
            {"role": "assistant", "content": "It was shipped."},
        ],
        "tools": [{"type": "function", "function": {
            "name": "find_order", "description": "Finds an order by its number",
            "parameters": {"type": "object", "properties": {
                "number": {"type": "integer", "description": "Its number"},
                "state": {"type": "string", "enum": ["open", "shipped"]}}}}}],
    })
}

fn responses() -> Value {
    json!({
        "model": "gpt-5",
        "instructions": "You run the warehouse.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Where is order 1042?"}]},
            {"type": "function_call", "call_id": "call_1", "name": "find_order", "arguments": "{\"number\":1042}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "{\"status\":\"shipped\"}"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It was shipped."}]},
        ],
        "tools": [{"type": "function", "name": "find_order", "description": "Finds an order by its number",
            "parameters": {"type": "object", "properties": {
                "number": {"type": "integer", "description": "Its number"},
                "state": {"type": "string", "enum": ["open", "shipped"]}}}}],
    })
}

fn anthropic() -> Value {
    json!({
        "model": "claude-sonnet-4-5",
        "system": [{"type": "text", "text": "You run the warehouse."}],
        "messages": [
            {"role": "user", "content": "Where is order 1042?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "find_order", "input": {"number": 1042}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{\"status\":\"shipped\"}"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "It was shipped."}]},
        ],
        "tools": [{"name": "find_order", "description": "Finds an order by its number",
            "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}}}],
    })
}

fn gemini() -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": "You run the warehouse."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Where is order 1042?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "find_order", "args": {"number": 1042}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "find_order",
                "response": {"status": "shipped"}}}]},
            {"role": "model", "parts": [{"text": "It was shipped."}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "find_order", "description": "Finds an order by its number"}]}],
    })
}

/// The expected count is the sum of o200k's counts of each text, of 3 and the role for each message, of 1 and the name for a message with
/// a name, and of 3 for the call and 3 for the start of the answer.
#[cfg(feature = "tokenizer")]
#[test]
fn a_chat_is_counted_in_parts() {
    let count = gpt(&chat());
    let token = |text: &str| crate::tokenizer::ceiling_counter().count(text);
    assert_eq!(count.method, "o200k");
    assert_eq!(count.parts.system, token("You run the warehouse."));
    let texts = [
        "Where is order 1042?",
        "find_order",
        "{\"number\":1042}",
        "{\"status\":\"shipped\"}",
        "It was shipped.",
    ];
    assert_eq!(count.parts.messages, texts.into_iter().map(token).sum::<i64>());
    assert_eq!(count.parts.overhead, 5 * (3 + 1) + (1 + token("Ada")) + 3 + 3);
    let declared = token("find_order:Finds an order by its number") + token("number:integer:Its number");
    let states = 3 + token("open") + 3 + token("shipped") - 3 + token("state:string:");
    assert_eq!(count.parts.tools, 7 + 3 + 3 + 3 + declared + states + 12);
}

#[test]
fn the_same_conversation_costs_about_the_same_in_each_shape() {
    let shapes = [chat(), responses(), anthropic(), gemini()].map(|request| gpt(&request));
    for count in &shapes {
        assert_eq!(count.parts.system, shapes[0].parts.system);
        assert!((count.parts.messages - shapes[0].parts.messages).abs() <= 4, "{shapes:#?}");
        assert!((count.parts.overhead - shapes[0].parts.overhead).abs() <= 8, "{shapes:#?}");
    }
    assert_eq!(shapes[0].parts.tools, shapes[1].parts.tools);
}

#[test]
fn a_request_without_instructions_or_tools_has_no_tokens_of_them() {
    let cases = [(anthropic(), "system"), (responses(), "instructions"), (gemini(), "systemInstruction")];
    for (request, field) in cases {
        let (whole, rest) = (gpt(&request), gpt(&without(&request, field)));
        assert!(whole.parts.system > 0, "{field}");
        assert_eq!((rest.parts.system, rest.parts.tools), (0, whole.parts.tools), "{field}");
    }
    for request in [chat(), responses(), anthropic(), gemini()] {
        let (whole, rest) = (gpt(&request), gpt(&without(&request, "tools")));
        assert!(whole.parts.tools > 0, "{request}");
        assert_eq!((rest.parts.tools, rest.parts.messages), (0, whole.parts.messages), "{request}");
    }
}

#[test]
fn tools_add_anthropics_instructions() {
    let cases = [
        ("claude-sonnet-4-5", None, 496),
        ("claude-sonnet-4-5-20250929", Some("any"), 588),
        ("claude-opus-4-1-20250805", None, 313),
        ("claude-opus-4-20250514", Some("tool"), 315),
        ("anthropic/claude-opus-5", Some("auto"), 286),
        ("claude-opus-4-7", None, 675),
        ("claude-of-tomorrow", Some("any"), 804),
    ];
    for (model, choice, prompt) in cases {
        let mut request = anthropic();
        request["tools"] = json!([{"type": "bash_20250124", "name": "bash"}]);
        request["tool_choice"] = choice.map_or(Value::Null, |choice| json!({"type": choice}));
        let count = counted("anthropic", model, &request);
        assert_eq!(count.parts.tools, prompt + 325, "{model} {choice:?}");
    }
}

#[test]
fn an_image_is_counted_by_its_pixels_in_each_shape() {
    let url = format!("data:image/png;base64,{PNG}");
    let cases = [
        (
            "openai",
            "gpt-5",
            350,
            json!({"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}}]}]}),
        ),
        (
            "openai",
            "gpt-5",
            70,
            json!({"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]}]}),
        ),
        (
            "openai",
            "gpt-5",
            350,
            json!({"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": url}]}]}),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            648,
            json!({"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}]}),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            1_568,
            json!({"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}]}]}),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            648,
            json!({"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "image", "source": {"type": "base64", "data": PNG}}]}]}]}),
        ),
        (
            "google",
            "gemini-3-pro",
            516,
            json!({"contents": [{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": PNG}}]}]}),
        ),
    ];
    for (provider, model, tokens, request) in cases {
        assert_eq!(counted(provider, model, &request).parts.messages, tokens, "{provider} {request}");
    }
}

#[test]
fn an_unknown_request_is_counted_by_bytes() {
    let chat = chat().to_string();
    let deep = format!(r#"{{"messages":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let cases = [
        ("somebody", chat.as_str()),
        ("", &chat),
        ("openai", ""),
        ("openai", "hello"),
        ("openai", "[1,2]"),
        ("openai", r#"{"prompt":"hello"}"#),
        ("openai", r#"{"messages":"hello"}"#),
        ("openai", r#"{"messages":[{"role":"user","content":"\ud800"}]}"#),
        ("openai", &deep),
    ];
    for (provider, body) in cases {
        let count = count_request(provider, "gpt-5", body.as_bytes());
        assert_eq!(count.method, "bytes/3");
        let tokens = i64::try_from(body.len().div_ceil(3)).unwrap();
        assert_eq!((count.tokens, count.parts.messages), (tokens, tokens));
    }
    assert_eq!(count_request("openai", "gpt-5", &[0xff, 0xfe, 0, 1]).tokens, 2);
}

#[test]
fn claude_behind_openais_shape_is_counted_with_claudes_tokenizer() {
    let count = counted("anthropic", "claude-opus-4-6", &chat());
    let openai = counted("openai", "gpt-5", &chat());
    assert!(count.parts.tools < openai.parts.tools * 2, "{count:?}: has Anthropic's instructions for tools");
    assert_ne!(count.method, openai.method);
}

/// Huge base64 data that isn't an image isn't counted as a text, and isn't decoded to its end.
#[test]
fn invalid_image_data_counts_as_one_image() {
    for data in ["A".repeat(4_000_000), format!("/9j/{}", "/".repeat(1_000_000)), "=".repeat(1_000)] {
        let request = json!({"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "data": data}}]}]});
        let count = counted("anthropic", "claude-sonnet-4-5", &request);
        assert_eq!(count.parts.messages, 1_568);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = "(role|content|type|text|parts|messages|input|contents|tools|function|parameters|properties|items|enum|\
                source|data|image_url|url|tool_calls|name|system|instructions|input_schema|image|tool_result|x)";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        keys.prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..6).prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn nonsense_in_a_known_shape_is_counted_without_a_crash(
        field in "(messages|input|contents|tools|system|systemInstruction|instructions)",
        value in any_json(),
        more in any_json(),
        provider in "(openai|anthropic|google|local|nobody)",
    ) {
        let request = json!({"messages": [value.clone()], (field): value, "tools": [more]});
        let count = count_request(&provider, "claude-opus-5", request.to_string().as_bytes());
        prop_assert!(count.tokens >= 0);
        prop_assert_eq!(count.tokens, count.parts.total());
    }

    #[test]
    fn a_longer_message_never_costs_less(text in "\\PC{0,80}", more in "[a-z ]{1,40}") {
        let request = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
        let (short, long) = (gpt(&request(&text)), gpt(&request(&format!("{text}\n\n{more}"))));
        prop_assert!(long.tokens >= short.tokens);
    }
}
