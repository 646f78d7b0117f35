use super::*;

fn stream(events: &[Value]) -> Vec<u8> {
    let events = events.iter().map(|event| format!("event: x\ndata: {event}\n\n"));
    events.collect::<String>().into_bytes()
}

fn read(dialect: Dialect, events: &[Value]) -> Option<Value> {
    messages(dialect, "text/event-stream; charset=utf-8", &stream(events))
}

#[test]
fn anthropics_stream_is_assembled() {
    let events = [
        json!({"type": "message_start", "message": {"role": "assistant"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I loo"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "k."}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"command\":"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "\"ls\"}"}}),
        json!({"type": "message_stop"}),
    ];
    let whole = json!({"messages": [{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]}]});
    assert_eq!(read(Dialect::Anthropic, &events), Some(whole.clone()));
    // A call that broke off is no call.
    let mut cut = whole.clone();
    cut["messages"][0]["content"].as_array_mut().unwrap().pop();
    assert_eq!(read(Dialect::Anthropic, &events[..9]), Some(cut));
    assert_eq!(read(Dialect::Anthropic, &events[..1]), None);
    let answer = json!({"type": "message", "role": "assistant", "content": whole["messages"][0]["content"]});
    assert_eq!(messages(Dialect::Anthropic, "application/json", answer.to_string().as_bytes()), Some(whole));
}

#[test]
fn openais_streams_are_assembled() {
    let chunk = |delta: Value| json!({"choices": [{"delta": delta}]});
    let chat = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "Ye"})),
        chunk(json!({"content": "s."})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}}]}),
        ),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})),
    ];
    let message = json!({"role": "assistant", "content": "Yes.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
    assert_eq!(read(Dialect::OpenAiChat, &chat), Some(json!({"messages": [message]})));
    let answer = json!({"choices": [{"message": message}]}).to_string();
    assert_eq!(
        messages(Dialect::OpenAiChat, "application/json", answer.as_bytes()),
        Some(json!({"messages": [message]}))
    );

    let item =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]});
    let responses = [
        json!({"type": "response.output_text.delta", "delta": "Yes."}),
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": {"output": [item]}}),
    ];
    assert_eq!(read(Dialect::OpenAiResponses, &responses), Some(json!({"input": [item]})));
    let answer = json!({"output": [item]}).to_string();
    assert_eq!(
        messages(Dialect::OpenAiResponses, "application/json", answer.as_bytes()),
        Some(json!({"input": [item]}))
    );
}

#[test]
fn geminis_chunks_are_joined() {
    let chunk = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    let chunks = [
        chunk(json!([{"text": "I think", "thought": true}])),
        chunk(json!([{"text": "Ye"}])),
        chunk(json!([{"text": "s."}, {"functionCall": {"name": "look", "args": {}}}])),
    ];
    let content = json!({"contents": [{"role": "model", "parts": [{"text": "Yes."}, {"functionCall": {"name": "look", "args": {}}}]}]});
    assert_eq!(read(Dialect::Gemini, &chunks), Some(content.clone()));
    let array = Value::from(chunks.to_vec()).to_string();
    assert_eq!(messages(Dialect::Gemini, "application/json", array.as_bytes()), Some(content));
}

#[test]
fn bodies_without_an_answer_give_none() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Gemini] {
        for (content_type, body) in [
            ("text/event-stream", "data: [DONE]\n\n"),
            ("application/json", "{\"error\":{}}"),
            ("text/html", "<html>"),
        ] {
            assert_eq!(messages(dialect, content_type, body.as_bytes()), None, "{dialect:?} {body}");
        }
    }
}
