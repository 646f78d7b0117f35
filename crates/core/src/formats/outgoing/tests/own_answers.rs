//! Long answers of recapd's own tools: once a step of the window has passed them, a request has notes in their place.

use serde_json::{Value, json};

use super::{Characters, RequestFormat, checker::check, input_of, render};
use crate::{
    domain::{
        context::{Context, ContextInput, ContextOptions, build},
        message::{Format, Message},
        own_output::EXPANDED_NOTE,
        tokens::TokenCounter as _,
    },
    formats,
};

const FORMATS: [Format; 4] = [Format::Anthropic, Format::OpenAiChat, Format::OpenAiResponses, Format::Gemini];
/// A part of the note in place of an answer.
const AGAIN: &str = "the same call answers again";
/// A text in the answers of recapd.
const OWN: &str = "as it was said then";
/// A text in the answers of another tool.
const OTHER: &str = "of the file";

/// An answer of `expand`, and one of another tool that is as long.
fn answers() -> [String; 2] {
    let quoted = format!("  {OWN}\n").repeat(100);
    [
        format!(
            "#3 of a  2026-11-20 08:40 to 2026-11-20 08:41  9 tokens, covered\n{EXPANDED_NOTE}\n\n[7] user\n{quoted}"
        ),
        format!("line {OTHER}\n").repeat(100),
    ]
}

fn user(format: Format, text: &str) -> Value {
    match format {
        Format::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        _ => json!({"role": "user", "content": text}),
    }
}

/// The id, the tool, the arguments and the answer of a call.
type Call = (String, &'static str, Value, String);

/// An exchange as a client of `format` stores it, in which the model calls `expand` and another tool.
fn exchange(format: Format, number: usize) -> Vec<Value> {
    let [own, other] = answers();
    let calls = [
        (format!("own-{number}"), "mcp__recapd__expand", json!({"exchanges": "#3"}), own),
        (format!("other-{number}"), "Read", json!({"path": "a.rs"}), other),
    ];
    let for_calls = |make: &dyn Fn(&Call) -> Value| -> Vec<Value> { calls.iter().map(make).collect() };
    let mut said = vec![user(format, &format!("Question {number}"))];
    match format {
        Format::Anthropic => {
            let thought =
                json!({"type": "thinking", "thinking": format!("thought {number}"), "signature": "c2ln"});
            let mut blocks = vec![thought];
            blocks.extend(for_calls(
                &|(id, name, input, _)| json!({"type": "tool_use", "id": id, "name": name, "input": input}),
            ));
            said.push(json!({"role": "assistant", "content": blocks}));
            let results = for_calls(
                &|(id, _, _, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text}),
            );
            said.push(json!({"role": "user", "content": results}));
            said.push(json!({"role": "assistant", "content": format!("Answer {number}")}));
        }
        Format::Gemini => {
            let calls = for_calls(
                &|(_, name, args, _)| json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2ln"}),
            );
            said.push(json!({"role": "model", "parts": calls}));
            let results = for_calls(
                &|(_, name, _, text)| json!({"functionResponse": {"name": name, "response": {"output": text}}}),
            );
            said.push(json!({"role": "user", "parts": results}));
            said.push(json!({"role": "model", "parts": [{"text": format!("Answer {number}")}]}));
        }
        Format::OpenAiResponses => {
            said.extend(for_calls(&|(id, name, arguments, _)| {
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string()})
            }));
            said.extend(for_calls(
                &|(id, _, _, text)| json!({"type": "function_call_output", "call_id": id, "output": text}),
            ));
            said.push(json!({"role": "assistant", "content": [{"type": "output_text", "text": format!("Answer {number}")}]}));
        }
        _ => {
            let calls = for_calls(
                &|(id, name, arguments, _)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}),
            );
            said.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
            said.extend(for_calls(
                &|(id, _, _, text)| json!({"role": "tool", "tool_call_id": id, "content": text}),
            ));
            said.push(json!({"role": "assistant", "content": format!("Answer {number}")}));
        }
    }
    said
}

fn conversation(format: Format, exchanges: usize) -> Vec<Message> {
    let said = (1..=exchanges).flat_map(|number| exchange(format, number));
    said.map(|json| formats::parse(format, &json.to_string()).unwrap()).collect()
}

/// The window of `messages` after a step that passed all exchanges before number `passed_before`.
fn window(messages: &[Message], passed_before: i64) -> ContextInput<'_> {
    ContextInput { evicted: true, passed_before, ..input_of(messages) }
}

/// Builds the context and the messages of a request, and asserts that the request is valid.
fn build_request<'a>(target: RequestFormat, input: &ContextInput<'a>) -> (Context<'a>, Vec<Value>) {
    let options = ContextOptions {
        system_in_place: target.takes_system_in_place(),
        names_speakers: target.names_speakers(),
        keep_open_thinking: true,
        ..ContextOptions::default()
    };
    let context = build(input, &options, &Characters);
    let body = render(target, &context.turns).body;
    check(target, &body, true).unwrap();
    let field = match target {
        RequestFormat::Anthropic | RequestFormat::OpenAiChat => "messages",
        RequestFormat::OpenAiResponses => "input",
        RequestFormat::Gemini => "contents",
    };
    let messages = body[field].as_array().unwrap().clone();
    (context, messages)
}

/// The index of the first message that contains `text`, and how many messages contain it.
fn find(messages: &[Value], text: &str) -> (Option<usize>, usize) {
    let holds = |message: &&Value| message.to_string().contains(text);
    let first = messages.iter().position(|message| holds(&message));
    (first, messages.iter().filter(holds).count())
}

#[test]
fn notes_replace_passed_answers_and_their_calls_stay() {
    for format in FORMATS {
        let messages = conversation(format, 5);
        for target in RequestFormat::ALL {
            let (whole, before) = build_request(target, &window(&messages, 0));
            assert_eq!((whole.elided.len(), find(&before, AGAIN).1), (0, 0));
            let (context, sent) = build_request(target, &window(&messages, 4));
            let what = format!("{format:?} {target:?} {}", json!(sent));
            assert_eq!(sent.len(), before.len(), "{what}");
            assert_eq!(find(&sent, AGAIN).1, 3, "{what}");
            // recapd's answers are whole from the fourth exchange on. Another tool's are whole everywhere.
            assert_eq!(find(&sent, OWN).1, 2, "{what}");
            assert!(find(&sent, OWN).0 > find(&sent, "Question 4").0, "{what}");
            assert_eq!(find(&sent, OTHER).1, 5, "{what}");
            let calls = json!(sent).to_string();
            assert_eq!(
                calls.matches("mcp__recapd__expand").count(),
                json!(before).to_string().matches("mcp__recapd__expand").count()
            );
            assert!(find(&sent, "#3").1 >= 5, "{what}");
            let [own, _] = answers();
            let shortened: Vec<(i64, usize)> =
                context.elided.iter().map(|of| (of.exchange, of.chars)).collect();
            let chars = own.chars().count();
            assert_eq!(shortened, [(1, chars), (2, chars), (3, chars)]);
            assert!(context.tokens < whole.tokens - 3 * Characters.count(&own) / 2);
        }
    }
}

#[test]
fn between_two_steps_messages_are_only_appended() {
    for format in FORMATS {
        for target in RequestFormat::ALL {
            let mut before: Vec<Value> = Vec::new();
            for exchanges in 3..8 {
                let messages = conversation(format, exchanges);
                let (_, sent) = build_request(target, &window(&messages, 3));
                assert!(sent.starts_with(&before), "{format:?} {target:?}");
                before = sent;
            }
        }
    }
}

#[test]
fn short_and_failed_answers_and_signed_thinking_stay_whole() {
    let short = "#3 of a\nshort";
    let [own, _] = answers();
    let said = [
        user(Format::Anthropic, "Question"),
        json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "mcp__recapd__expand", "input": {}},
            {"type": "tool_use", "id": "2", "name": "mcp__recapd__expand", "input": {}},
        ]}),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": short},
            {"type": "tool_result", "tool_use_id": "2", "content": own, "is_error": true},
        ]}),
        json!({"role": "assistant", "content": "Answer"}),
    ];
    let said = said.into_iter().chain(exchange(Format::Anthropic, 2));
    let messages: Vec<Message> =
        said.map(|json| formats::parse(Format::Anthropic, &json.to_string()).unwrap()).collect();
    let mut input = window(&messages, 2);
    input.exchanges[1].is_open = true;
    let (context, sent) = build_request(RequestFormat::Anthropic, &input);
    assert_eq!(context.elided, []);
    let thought = json!({"type": "thinking", "thinking": "thought 2", "signature": "c2ln"});
    assert!(sent.iter().any(|message| message["content"][0] == thought), "{}", json!(sent));
}
