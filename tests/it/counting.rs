//! A window counts what a request costs, whatever it contains: blocks that only their provider can read, images, documents.

use recapd_core::{
    domain::{message::Format, tokens::count_message},
    formats, tokenizer,
};
use serde_json::{Value, json};

/// The first 24 bytes of a PNG of 2,560 × 1,440 pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAACgAAAAWg";
/// A PDF of two pages, as far as a counter reads it.
const PDF: &str = "JVBERi0xLjQgPDwvVHlwZSAvUGFnZXM+PiA8PC9UeXBlL1BhZ2U+PiA8PC9UeXBlIC9QYWdlIC9QYXJlbnQgMSAwIFI+PiA8PC9UeXBlIC9QYWdlTGFiZWw+PiAg";

/// Tokens of a message to Claude, by the window and by `recapd count`.
fn counted(message: &Value) -> (i64, i64) {
    let body = json!({"system": "", "messages": [message]});
    counted_as(Format::Anthropic, ("anthropic", "claude-opus-5"), message, &body)
}

/// Tokens of an item of the Responses API, by both.
fn counted_item(item: &Value) -> (i64, i64) {
    let body = json!({"input": [item]});
    counted_as(Format::OpenAiResponses, ("openai", "gpt-5"), item, &body)
}

fn counted_as(format: Format, (provider, model): (&str, &str), message: &Value, body: &Value) -> (i64, i64) {
    let counter = tokenizer::counter_for(provider, model);
    let read = formats::parse(format, &message.to_string()).unwrap();
    let request = tokenizer::count_request(provider, model, body.to_string().as_bytes());
    (count_message(counter.as_ref(), &read), request.tokens)
}

fn of_source(kind: &str, media_type: &str, data: &str) -> Value {
    json!({"role": "user", "content": [
        {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}]})
}

#[test]
fn a_window_counts_as_the_request_is_counted() {
    let page = json!({"type": "web_search_result", "url": "https://x.example", "encrypted_content": "QUJD".repeat(2_000)});
    let search = json!({"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "cats"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": vec![page; 10]},
        {"type": "text", "text": "Found."}]});
    let novel =
        json!({"role": "assistant", "content": [{"type": "novel", "said": "lorem ipsum ".repeat(1_000)}]});
    let found = json!({"role": "user", "content": [{"type": "search_result", "source": "https://x.example", "title": "Cats",
        "content": [{"type": "text", "text": "They sleep. ".repeat(1_000)}]}]});
    for (message, at_least) in [
        (search, 16_000),
        (novel, 2_000),
        (found, 3_000),
        (of_source("image", "image/png", PNG), 4_784),
        (of_source("document", "application/pdf", PDF), 6_000),
    ] {
        let (window, request) = counted(&message);
        assert!(
            window >= at_least && (window - request).abs() * 50 <= request,
            "{window} {request} {message}"
        );
    }
}

#[test]
fn encrypted_content_counts_the_same_in_window_and_request() {
    let sealed = "QUJD".repeat(4_000);
    let redacted = json!({"role": "assistant", "content": [{"type": "redacted_thinking", "data": sealed}]});
    let unshown =
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": sealed}]});
    let reasoning = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm. ".repeat(100)}], "encrypted_content": sealed});
    let output = json!({"type": "function_call_output", "call_id": "f", "output": [
        {"type": "input_text", "text": "done"}, {"type": "encrypted_content", "encrypted_content": sealed}]});
    let anthropics = [redacted, unshown].map(|message| (counted(&message), 4_514));
    let openais = [(reasoning, 2_356), (output, 3_216)].map(|(item, tokens)| (counted_item(&item), tokens));
    for ((window, request), tokens) in anthropics.into_iter().chain(openais) {
        assert!((window - tokens).abs() <= 10, "{window} for {tokens}");
        assert!((window - request).abs() <= 10, "{window} {request}");
    }
}
