//! Conversations of any structure, and the contexts built from them: valid for every provider, within the limit, and
//! complete if there is no limit.

use std::sync::Arc;

use crate::Corpus;
use arbitrary::{Arbitrary, Unstructured};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{Alternation, ContextInput, ContextOptions, SourceMessage, build, fence},
        message::{Format, Kind, Message},
        time::Timestamp,
        window::{Budget, Window},
    },
    formats::{
        self,
        outgoing::{RequestFormat, render},
    },
    tokenizer::BytesCounter,
    validator::{Severity, Target, validate},
};
use serde_json::{Value, json};

const MESSAGES_MAX: usize = 60;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Written {
    Native,
    OpenAi,
    Anthropic,
    Responses,
    Gemini,
}

/// The kind of a message. There are few different ids, so that they repeat.
#[derive(Arbitrary, Debug)]
enum Said {
    System,
    User { words: u8 },
    Assistant { words: u8 },
    Blank,
    Thinking,
    Calls { ids: Vec<u8> },
    Results { ids: Vec<u8>, words: u8 },
    ResultsAndWords { ids: Vec<u8> },
    Image,
    Mark,
    Interrupt,
}

#[derive(Arbitrary, Debug)]
struct Script {
    said: Vec<(Written, Said)>,
    budget_tokens: u16,
    low_water: u8,
    limit_tokens: u16,
    alternation: u8,
    evicted: bool,
    keep_open_thinking: bool,
}

/// Builds contexts of the conversation that `data` describes.
pub(crate) fn build_contexts(data: &[u8]) -> Corpus {
    let Ok(script) = Script::arbitrary_take_rest(Unstructured::new(data)) else {
        return Corpus::Reject;
    };
    let messages: Vec<Message> = (1..).zip(script.said.iter().take(MESSAGES_MAX)).map(message).collect();
    let low_water = f64::from(script.low_water.max(1)) / 255.0;
    fill(&messages, Budget::new(i64::from(script.budget_tokens), low_water));
    let mut window = Window::new(Budget::unlimited(), Arc::new(BytesCounter));
    for message in &messages {
        window.push(message, Timestamp(0));
    }
    if window.exchanges().next().is_some() {
        check(&window, &script);
    }
    Corpus::Keep
}

/// Checks that a window keeps its invariants throughout, and that a request can be made whenever it is the model's turn.
fn fill(messages: &[Message], budget: Budget) {
    let mut window = Window::new(budget, Arc::new(BytesCounter));
    for message in messages {
        let evicted = window.push(message, Timestamp(0));
        for held in evicted.iter().chain(window.exchanges()) {
            let exchange = &held.exchange;
            let messages = i64::try_from(held.messages.len()).expect("a few");
            assert_eq!(messages, exchange.last_seq - exchange.first_seq + 1, "split");
        }
        let exchanges = window.exchanges().count();
        assert!(exchanges <= 1 || !budget.is_exceeded_by(window.tokens()), "over budget");
        if exchanges == 0 || !is_asked(&window) {
            continue;
        }
        for format in RequestFormat::ALL {
            let options = ContextOptions { max_tokens: budget.budget_tokens(), ..options(format) };
            let context = build(&window.context_input(), &options, &BytesCounter);
            judge(format, render(format, &context.turns).body);
        }
    }
}

fn options(format: RequestFormat) -> ContextOptions {
    ContextOptions {
        system_in_place: format.takes_system_in_place(),
        ends_with_user: format.ends_with_user(),
        ..ContextOptions::default()
    }
}

fn is_asked(window: &Window<&Message>) -> bool {
    let conversation = window.messages().filter(|message| message.kind.is_conversation());
    conversation.last().is_some_and(|last| matches!(last.kind, Kind::User | Kind::ToolResult))
}

fn check(window: &Window<&Message>, script: &Script) {
    let first_said = window.messages().find(|message| message.kind == Kind::User);
    for format in RequestFormat::ALL {
        let options = ContextOptions {
            max_tokens: i64::from(script.limit_tokens),
            output_reserve_tokens: i64::from(script.limit_tokens / 10),
            alternation: match script.alternation % 3 {
                0 => Alternation::Merge,
                1 => Alternation::Ack,
                _ => Alternation::Keep,
            },
            keep_open_thinking: script.keep_open_thinking,
            ..options(format)
        };
        let mut input = window.context_input();
        all_is_there(&input, format);
        if script.evicted {
            let agent: AgentId = "coder".parse().expect("a good name");
            input.summary = Some(fence(&agent, 3, "# Past\n\nThings happened.", None));
            input.evicted = true;
            input.anchor = first_said.map(|message| SourceMessage::uncounted(0, message));
        }
        let context = build(&input, &options, &BytesCounter);
        assert_eq!(context, build(&input, &options, &BytesCounter), "built twice");
        if let Some(limit) = context.limit_tokens {
            assert_eq!(context.over_budget, context.tokens > limit);
            let alone = context.left_out.len() + 1 == input.exchanges.len();
            assert!(!context.over_budget || alone, "over budget with more than one exchange");
        }
        if is_asked(window) {
            judge(format, render(format, &context.turns).body);
        }
    }
}

fn judge(format: RequestFormat, body: Value) {
    let target = match format {
        RequestFormat::Anthropic => Target::Anthropic,
        RequestFormat::OpenAiChat => Target::OpenAiChat,
        RequestFormat::OpenAiResponses => Target::OpenAiResponses,
        RequestFormat::Gemini => Target::Gemini,
    };
    let mut request = body;
    if let (Target::Anthropic, Some(fields)) = (target, request.as_object_mut()) {
        fields.insert("model".to_owned(), json!("claude-sonnet-4-5"));
        fields.insert("max_tokens".to_owned(), json!(1_024));
    }
    let refused = validate(target, &request, None)
        .into_iter()
        .find(|violation| violation.severity == Severity::Refused);
    assert!(refused.is_none(), "{refused:?} in {request}");
}

/// Checks that without a limit the request contains the whole conversation.
fn all_is_there(input: &ContextInput<'_>, format: RequestFormat) {
    let options = options(format);
    let context = build(input, &options, &BytesCounter);
    let body = render(format, &context.turns).body.to_string();
    let exchanges = input.exchanges.iter().flat_map(|exchange| &exchange.messages);
    for stored in input.preamble.iter().chain(exchanges) {
        let text = stored.message.text();
        let is_sent = stored.message.kind.is_conversation() && !text.trim().is_empty();
        assert!(!is_sent || body.contains(&text), "`{text}` is lost in {body}");
    }
}

fn message((number, (written, said)): (usize, &(Written, Said))) -> Message {
    let (format, json) = match written {
        Written::Native => (Format::Native, native(said, number)),
        Written::OpenAi => (Format::OpenAiChat, openai(said, number)),
        Written::Anthropic => (Format::Anthropic, anthropic(said, number)),
        Written::Responses => (Format::OpenAiResponses, responses(said, number)),
        Written::Gemini => (Format::Gemini, gemini(said, number)),
    };
    formats::parse(format, &json.to_string()).expect("a good message")
}

fn words(number: usize, words: u8) -> String {
    format!("said{number}.{}", " word".repeat(usize::from(words)))
}

/// At most three ids of four different ones; numbers near 255 give none.
fn ids(ids: &[u8]) -> impl Iterator<Item = Option<String>> {
    let ids = if ids.is_empty() { &[0] } else { ids };
    ids.iter().take(3).map(|id| (*id < 250).then(|| format!("call_{}", id % 4)))
}

fn tool(id: Option<&String>) -> String {
    format!("tool_{}", id.map_or(0, String::len))
}

fn native(said: &Said, number: usize) -> Value {
    match said {
        Said::System => json!({"kind": "system", "content": words(number, 1)}),
        Said::User { words: count } => json!({"kind": "user", "content": words(number, *count)}),
        Said::Assistant { words: count } => json!({"kind": "assistant", "content": words(number, *count)}),
        Said::Blank => json!({"kind": "assistant", "content": " "}),
        Said::Thinking => json!({"kind": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": words(number, 1)}]}),
        Said::Calls { ids: given } => {
            let id = ids(given).next().flatten();
            json!({"kind": "tool_call", "content": words(number, 0),
                   "data": {"tool_call_id": id, "name": tool(id.as_ref()), "arguments": {"n": number}}})
        }
        Said::Results { ids: given, words: count } => {
            let id = ids(given).next().flatten();
            json!({"kind": "tool_result", "content": words(number, *count), "data": {"tool_call_id": id}})
        }
        Said::ResultsAndWords { .. } => {
            json!({"kind": "tool_result", "content": words(number, 2), "data": {"name": "tool_0"}})
        }
        Said::Image => {
            json!({"kind": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]})
        }
        Said::Mark => json!({"kind": "mark", "content": "here"}),
        Said::Interrupt => json!({"kind": "interrupted"}),
    }
}

fn openai(said: &Said, number: usize) -> Value {
    match said {
        Said::System => json!({"role": "system", "content": words(number, 1)}),
        Said::User { words: count } => json!({"role": "user", "content": words(number, *count)}),
        Said::Assistant { words: count } => json!({"role": "assistant", "content": words(number, *count)}),
        Said::Blank | Said::Mark | Said::Interrupt => json!({"role": "assistant", "content": null}),
        Said::Thinking => json!({"role": "assistant", "content": words(number, 1), "refusal": null}),
        Said::Calls { ids: given } => {
            let calls = ids(given).map(|id| {
                let name = tool(id.as_ref());
                json!({"id": id.unwrap_or_default(), "type": "function",
                       "function": {"name": name, "arguments": "{\"n\": 1}"}})
            });
            json!({"role": "assistant", "content": words(number, 0), "tool_calls": calls.collect::<Vec<_>>()})
        }
        Said::Results { ids: given, words: count } => {
            json!({"role": "tool", "tool_call_id": ids(given).next().flatten().unwrap_or_default(), "content": words(number, *count)})
        }
        Said::ResultsAndWords { ids: given } => {
            json!({"role": "function", "name": tool(ids(given).next().flatten().as_ref()), "content": words(number, 1)})
        }
        Said::Image => json!({"role": "user", "content": [
            {"type": "text", "text": words(number, 1)}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}),
    }
}

fn anthropic(said: &Said, number: usize) -> Value {
    let results = |given: &[u8], count| -> Vec<Value> {
        let results = ids(given).map(|id| {
            json!({"type": "tool_result", "tool_use_id": id.unwrap_or_default(), "content": words(number, count)})
        });
        results.collect()
    };
    match said {
        Said::System => json!({"role": "system", "content": words(number, 1)}),
        Said::User { words: count } => json!({"role": "user", "content": words(number, *count)}),
        Said::Assistant { words: count } => {
            json!({"role": "assistant", "content": [{"type": "text", "text": words(number, *count)}]})
        }
        Said::Blank | Said::Mark | Said::Interrupt => json!({"role": "assistant", "content": []}),
        Said::Thinking => json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": words(number, 1)}]}),
        Said::Calls { ids: given } => {
            let calls = ids(given).map(|id| {
                let name = tool(id.as_ref());
                json!({"type": "tool_use", "id": id.unwrap_or_default(), "name": name, "input": {"n": number}})
            });
            let blocks = std::iter::once(json!({"type": "text", "text": words(number, 0)})).chain(calls);
            json!({"role": "assistant", "content": blocks.collect::<Vec<_>>()})
        }
        Said::Results { ids: given, words: count } => {
            json!({"role": "user", "content": results(given, *count)})
        }
        Said::ResultsAndWords { ids: given } => {
            let mut blocks = results(given, 1);
            blocks.push(json!({"type": "text", "text": words(number, 1)}));
            json!({"role": "user", "content": blocks})
        }
        Said::Image => json!({"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}),
    }
}

fn responses(said: &Said, number: usize) -> Value {
    let message = |role, kind, count| json!({"type": "message", "role": role, "content": [{"type": kind, "text": words(number, count)}]});
    match said {
        Said::System => message("developer", "input_text", 1),
        Said::User { words: count } => message("user", "input_text", *count),
        Said::Assistant { words: count } => message("assistant", "output_text", *count),
        Said::Blank | Said::Mark | Said::Interrupt => {
            json!({"type": "message", "role": "assistant", "content": []})
        }
        Said::Thinking => json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [
            {"type": "summary_text", "text": "hm"}], "encrypted_content": "c2ln"}),
        Said::Calls { ids: given } => {
            let id = ids(given).next().flatten();
            json!({"type": "function_call", "call_id": id.clone().unwrap_or_default(), "name": tool(id.as_ref()), "arguments": "{}"})
        }
        Said::Results { ids: given, words: count } => {
            json!({"type": "function_call_output", "call_id": ids(given).next().flatten().unwrap_or_default(), "output": words(number, *count)})
        }
        Said::ResultsAndWords { ids: given } => {
            json!({"type": "custom_tool_call_output", "call_id": ids(given).last().flatten().unwrap_or_default(), "output": words(number, 1)})
        }
        Said::Image => json!({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": words(number, 1)}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}),
    }
}

fn gemini(said: &Said, number: usize) -> Value {
    let responses = |given: &[u8], count| -> Vec<Value> {
        let responses = ids(given).map(|id| {
            json!({"functionResponse": {"name": tool(id.as_ref()), "id": id, "response": {"output": words(number, count)}}})
        });
        responses.collect()
    };
    match said {
        Said::System => json!({"role": "system", "parts": [{"text": words(number, 1)}]}),
        Said::User { words: count } => json!({"role": "user", "parts": [{"text": words(number, *count)}]}),
        Said::Assistant { words: count } => {
            json!({"role": "model", "parts": [{"text": words(number, *count)}]})
        }
        Said::Blank | Said::Mark | Said::Interrupt => json!({"role": "model", "parts": []}),
        Said::Thinking => {
            json!({"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": words(number, 1), "thoughtSignature": "c2ln"}]})
        }
        Said::Calls { ids: given } => {
            let calls = ids(given).map(
                |id| json!({"functionCall": {"name": tool(id.as_ref()), "id": id, "args": {"n": number}}}),
            );
            json!({"role": "model", "parts": calls.collect::<Vec<_>>()})
        }
        Said::Results { ids: given, words: count } => {
            json!({"role": "user", "parts": responses(given, *count)})
        }
        Said::ResultsAndWords { ids: given } => {
            let mut parts = responses(given, 1);
            parts.push(json!({"text": words(number, 1)}));
            json!({"role": "user", "parts": parts})
        }
        Said::Image => {
            json!({"role": "user", "parts": [{"text": words(number, 1)}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]})
        }
    }
}
