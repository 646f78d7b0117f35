//! Requests in each format: examples, and properties over random conversations.

mod checker;
mod own_answers;
mod perspective;
mod prefix;
mod properties;

use super::*;
use crate::{
    domain::{
        context::{
            Alternation, ContextInput, ContextOptions, SourceExchange, SourceMessage, build, is_safe_boundary,
        },
        message::{Format, Kind, Message},
        tokens::Characters,
    },
    formats,
    validator::{Target, validate},
};

/// The window of a conversation, with one exchange per user message.
pub(super) fn input_of(messages: &[Message]) -> ContextInput<'_> {
    let mut input = ContextInput::default();
    for (seq, message) in (1..).zip(messages) {
        let source = SourceMessage::uncounted(seq, message);
        if message.kind == Kind::System && input.exchanges.is_empty() {
            input.preamble.push(source);
            continue;
        }
        if is_safe_boundary(message) {
            input.anchor = input.anchor.or(Some(source));
        }
        if is_safe_boundary(message) || input.exchanges.is_empty() {
            input.exchanges.push(SourceExchange {
                exchange: i64::try_from(input.exchanges.len()).unwrap() + 1,
                first_leg: i64::try_from(input.exchanges.len()).unwrap() + 1,
                is_open: false,
                messages: Vec::new(),
            });
        }
        input.exchanges.last_mut().unwrap().messages.push(source);
    }
    input
}

fn outgoing(target: RequestFormat, format: Format, lines: &[&str]) -> Outgoing {
    let read = |line: &&str| formats::parse(format, line).unwrap();
    let messages: Vec<Message> = lines.iter().map(read).collect();
    let options = ContextOptions {
        system_in_place: target.takes_system_in_place(),
        names_speakers: target.names_speakers(),
        ..ContextOptions::default()
    };
    render(target, &build(&input_of(&messages), &options, &Characters).turns)
}

const NATIVE: [&str; 6] = [
    r#"{"kind":"system","content":"Be kind."}"#,
    r#"{"kind":"user","content":"Which files?"}"#,
    r#"{"kind":"tool_call","content":"I look.","data":{"tool_call_id":"t/1","name":"ls","arguments":{"path":"."}}}"#,
    r#"{"kind":"tool_call","data":{"name":"pwd","arguments":""}}"#,
    r#"{"kind":"tool_result","content":"a.rs","data":{"tool_call_id":"t/1","success":false}}"#,
    r#"{"kind":"assistant","content":"One: a.rs"}"#,
];

/// Only recapd reads `important`; it is removed even from lines that otherwise go back unchanged.
#[test]
fn no_provider_sees_the_flag_important() {
    let lines = [
        r#"{"role":"user","content":"x","important":true}"#,
        r#"{"role":"assistant","content":"y","important":true}"#,
    ];
    for format in [Format::OpenAiChat, Format::Anthropic] {
        for target in RequestFormat::ALL {
            let out = outgoing(target, format, &lines);
            assert!(!out.body.to_string().contains("important"), "{}", out.body);
        }
    }
}

#[test]
fn anthropic() {
    let out = outgoing(RequestFormat::Anthropic, Format::Native, &NATIVE);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":[{"text":"Which files?","type":"text"}],"role":"user"},{"content":[{"text":"I look.","type":"text"},{"id":"t_1","input":{"path":"."},"name":"ls","type":"tool_use"},{"id":"call","input":{},"name":"pwd","type":"tool_use"}],"role":"assistant"},{"content":[{"content":"a.rs","is_error":true,"tool_use_id":"t_1","type":"tool_result"},{"content":"interrupted: no result was recorded","is_error":true,"tool_use_id":"call","type":"tool_result"}],"role":"user"},{"content":[{"text":"One: a.rs","type":"text"}],"role":"assistant"}],"system":[{"text":"Be kind.","type":"text"}]}"#);
    assert_eq!(out.notes, Vec::<String>::new());
}

#[test]
fn openai_chat() {
    let out = outgoing(RequestFormat::OpenAiChat, Format::Native, &NATIVE);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":"Be kind.","role":"system"},{"content":"Which files?","role":"user"},{"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\".\"}","name":"ls"},"id":"t/1","type":"function"},{"function":{"arguments":"{}","name":"pwd"},"id":"call","type":"function"}]},{"content":"a.rs","role":"tool","tool_call_id":"t/1"},{"content":"interrupted: no result was recorded","role":"tool","tool_call_id":"call"},{"content":"One: a.rs","role":"assistant"}]}"#);
    assert!(out.notes[0].starts_with("failed tool results are not marked"), "{:?}", out.notes);
}

#[test]
fn openai_responses() {
    let out = outgoing(RequestFormat::OpenAiResponses, Format::Native, &NATIVE);
    insta::assert_snapshot!(out.body, @r#"{"input":[{"content":[{"text":"Which files?","type":"input_text"}],"role":"user","type":"message"},{"content":[{"text":"I look.","type":"output_text"}],"role":"assistant","type":"message"},{"arguments":"{\"path\":\".\"}","call_id":"t/1","name":"ls","type":"function_call"},{"arguments":"{}","call_id":"call","name":"pwd","type":"function_call"},{"call_id":"t/1","output":"a.rs","type":"function_call_output"},{"call_id":"call","output":"interrupted: no result was recorded","type":"function_call_output"},{"content":[{"text":"One: a.rs","type":"output_text"}],"role":"assistant","type":"message"}],"instructions":"Be kind."}"#);
}

#[test]
fn gemini() {
    let out = outgoing(RequestFormat::Gemini, Format::Native, &NATIVE);
    insta::assert_snapshot!(out.body, @r#"{"contents":[{"parts":[{"text":"Which files?"}],"role":"user"},{"parts":[{"text":"I look."},{"functionCall":{"args":{"path":"."},"id":"t/1","name":"ls"},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"args":{},"id":"call","name":"pwd"}}],"role":"model"},{"parts":[{"functionResponse":{"id":"t/1","name":"ls","response":{"error":"a.rs"}}},{"functionResponse":{"id":"call","name":"pwd","response":{"error":"interrupted: no result was recorded"}}}],"role":"user"},{"parts":[{"text":"One: a.rs"}],"role":"model"}],"systemInstruction":{"parts":[{"text":"Be kind."}]}}"#);
}

#[test]
fn a_providers_own_messages_go_back_unchanged() {
    let user = r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":""},{"type":"text","text":"What is it?","cache_control":{"type":"ephemeral"}}]}"#;
    let model = r#"{"role":"assistant","id":"msg_1","model":"claude","content":[{"type":"thinking","thinking":"","signature":"xyz"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"A cat."}]}"#;
    let out = outgoing(RequestFormat::Anthropic, Format::Anthropic, &[user, model]);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":[{"source":{"data":"AAAA","media_type":"image/png","type":"base64"},"type":"image"},{"text":"What is it?","type":"text"}],"role":"user"},{"content":[{"signature":"xyz","thinking":"","type":"thinking"},{"id":"s","input":{},"name":"web_search","type":"server_tool_use"},{"text":"A cat.","type":"text"}],"role":"assistant"}]}"#);
    let line = format!(r#"{{"type":"user","uuid":"u","sessionId":"s","message":{user}}}"#);
    let wrapped = outgoing(RequestFormat::Anthropic, Format::ClaudeCode, &[&line]);
    assert_eq!(wrapped.body["messages"][0], out.body["messages"][0]);

    let image = r#"{"role":"user","client_id":"c","at":"2026-01-05T08:00:07Z","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#;
    let answer = r#"{"role":"assistant","content":"","reasoning_content":"hmm","tool_calls":[{"id":"x","type":"custom","custom":{"name":"grep","input":"cat"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"a cat"}]}"#;
    let out = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &[image, answer, result]);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AAAA"},"type":"image_url"}],"role":"user"},{"content":null,"reasoning_content":"hmm","role":"assistant","tool_calls":[{"custom":{"input":"cat","name":"grep"},"id":"x","type":"custom"}]},{"content":[{"text":"a cat","type":"text"}],"role":"tool","tool_call_id":"x"}]}"#);
    assert_eq!(out.notes, Vec::<String>::new());
}

/// Other servers with Anthropic's API don't sign thinking, and Anthropic refuses unsigned thinking.
#[test]
fn thinking_without_a_signature_is_left_out() {
    let user = r#"{"role":"user","content":"Which files?"}"#;
    let answer = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"thinking","thinking":"Hm."},{"type":"thinking","thinking":"Hm.","signature":" "},{"type":"redacted_thinking","data":""},{"type":"text","text":"None."},{"type":"redacted_thinking","data":"router.reasoning:eyJ0"}]}"#;
    let out = outgoing(RequestFormat::Anthropic, Format::Anthropic, &[user, answer]);
    insta::assert_snapshot!(out.body["messages"][1], @r#"{"content":[{"text":"None.","type":"text"}],"role":"assistant"}"#);
    assert_eq!(
        out.notes,
        ["thinking is left out: only the provider that wrote it can read it, and only unchanged"]
    );

    // A message with nothing but unsigned thinking is left out.
    let alone = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""}]}}"#;
    let line = |message: &str| format!(r#"{{"type":"user","message":{message}}}"#);
    let lines = [&line(user), alone, &line(user), alone];
    let out = outgoing(RequestFormat::Anthropic, Format::ClaudeCode, &lines);
    let messages = out.body["messages"].as_array().unwrap();
    assert!(messages.iter().all(|message| message["role"] == "user"), "{messages:?}");
}

/// Images, parts with signatures, and results in the tool's own shape.
#[test]
fn geminis_own_messages_go_back_unchanged() {
    let lines = [
        r#"{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"text":""},{"text":"What is it?"}]}"#,
        r#"{"role":"model","parts":[{"text":"I look.","thought":true},{"functionCall":{"name":"look","args":{"n":1}},"thoughtSignature":"c2ln"}]}"#,
        r#"{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"size":3},"parts":[{"inlineData":{"mimeType":"image/png","data":"BBBB"}}]}}]}"#,
        r#"{"role":"model","parts":[{"text":"A cat."},{"text":"","thoughtSignature":"ZW5k"}]}"#,
    ];
    let out = outgoing(RequestFormat::Gemini, Format::Gemini, &lines);
    insta::assert_snapshot!(out.body, @r#"{"contents":[{"parts":[{"inlineData":{"data":"AAAA","mimeType":"image/png"}},{"text":"What is it?"}],"role":"user"},{"parts":[{"text":"I look.","thought":true},{"functionCall":{"args":{"n":1},"id":"call","name":"look"},"thoughtSignature":"c2ln"}],"role":"model"},{"parts":[{"functionResponse":{"id":"call","name":"look","parts":[{"inlineData":{"data":"BBBB","mimeType":"image/png"}}],"response":{"size":3}}}],"role":"user"},{"parts":[{"text":"A cat."},{"text":"","thoughtSignature":"ZW5k"}],"role":"model"}]}"#);
    assert_eq!(out.notes, Vec::<String>::new());

    let messages = lines.map(|line| formats::parse(Format::Gemini, line).unwrap());
    let evicted = ContextInput { evicted: true, ..input_of(&messages) };
    let turns = build(&evicted, &ContextOptions::default(), &Characters).turns;
    let body = render(RequestFormat::Gemini, &turns).body.to_string();
    assert!(body.contains("c2ln") && !body.contains("I look."), "{body}");

    // Messages with parts of tools that Gemini runs, or with the Python library's field names, are written anew.
    let lines = [
        r#"{"role":"user","parts":[{"text":"Count."},{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}"#,
        r#"{"role":"model","parts":[{"executableCode":{"code":"1+1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}},{"text":"2."}]}"#,
    ];
    let body = outgoing(RequestFormat::Gemini, Format::Gemini, &lines).body;
    let verdict = checker::check(RequestFormat::Gemini, &body, true);
    assert!(verdict.is_ok() && !body.to_string().contains("AAAA"), "{verdict:?} {body}");
}

/// After an eviction, a request has the reasoning of the open exchange, and none of closed exchanges.
#[test]
fn the_responses_api_gets_the_reasoning_of_an_open_round_back() {
    let talk = |number: u8| {
        [
            format!(r#"{{"type":"message","role":"user","content":"Look {number}"}}"#),
            format!(
                r#"{{"type":"reasoning","id":"rs_{number}","summary":[],"encrypted_content":"c2VhbGVk{number}"}}"#
            ),
            format!(
                r#"{{"type":"function_call","id":"fc_{number}","call_id":"c{number}","name":"look","arguments":"{{}}"}}"#
            ),
            format!(r#"{{"type":"function_call_output","call_id":"c{number}","output":"3"}}"#),
        ]
    };
    let lines = [talk(1), talk(2)].concat();
    let as_rollout = |line: &String| format!(r#"{{"type":"response_item","payload":{line}}}"#);
    let rollout: Vec<String> = lines.iter().map(as_rollout).collect();
    for (format, lines) in [(Format::OpenAiResponses, lines), (Format::Codex, rollout)] {
        let messages: Vec<Message> = lines.iter().map(|line| formats::parse(format, line).unwrap()).collect();
        let mut input = input_of(&messages);
        (input.evicted, input.exchanges[1].is_open) = (true, true);
        let options = ContextOptions {
            system_in_place: true,
            keep_open_thinking: RequestFormat::OpenAiResponses.keeps_open_thinking(),
            ..ContextOptions::default()
        };
        let out = render(RequestFormat::OpenAiResponses, &build(&input, &options, &Characters).turns);
        let items = out.body["input"].as_array().unwrap();
        let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let closed = ["message", "function_call", "function_call_output"];
        let open = ["message", "reasoning", "function_call", "function_call_output"];
        assert_eq!(kinds, [closed.as_slice(), open.as_slice()].concat());
        assert_eq!(items[4]["encrypted_content"], "c2VhbGVk2");
        assert_eq!(validate(Target::OpenAiResponses, &out.body, None), []);
    }
}

/// Images, phases, sealed reasoning, and results in blocks; without ids.
#[test]
fn the_responses_apis_own_items_go_back_unchanged() {
    let user = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":" "},{"type":"input_text","text":"What is it?"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}"#;
    let lines = [
        user,
        r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbGVk"}"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"c","name":"look","arguments":"{}","status":"completed"}"#,
        r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"3"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}"#,
        r#"{"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"final_answer","content":[{"type":"output_text","text":"A cat.","annotations":[]},{"type":"refusal","refusal":"No more."}]}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiResponses, Format::OpenAiResponses, &lines);
    insta::assert_snapshot!(out.body, @r#"{"input":[{"content":[{"text":"What is it?","type":"input_text"},{"image_url":"data:image/png;base64,aGk=","type":"input_image"}],"role":"user","type":"message"},{"encrypted_content":"c2VhbGVk","summary":[],"type":"reasoning"},{"arguments":"{}","call_id":"c","name":"look","type":"function_call"},{"call_id":"c","output":[{"text":"3","type":"input_text"},{"image_url":"data:image/png;base64,aGk=","type":"input_image"}],"type":"function_call_output"},{"content":[{"annotations":[],"text":"A cat.","type":"output_text"},{"refusal":"No more.","type":"refusal"}],"phase":"final_answer","role":"assistant","type":"message"}]}"#);
    assert_eq!(out.notes, [""; 0]);

    let line = format!(r#"{{"timestamp":"2026-01-05T08:00:07Z","type":"response_item","payload":{user}}}"#);
    for line in [user, line.as_str()] {
        let codex = outgoing(RequestFormat::OpenAiResponses, Format::Codex, &[line]);
        assert_eq!(codex.body["input"][0], out.body["input"][0], "{line}");
    }

    // The format has no failure flag.
    let failed = lines[3].replace("\"call_id\"", "\"status\":\"failed\",\"call_id\"");
    let out =
        outgoing(RequestFormat::OpenAiResponses, Format::OpenAiResponses, &[user, lines[2], failed.as_str()]);
    assert_eq!(out.body["input"][2]["output"], "3", "{}", out.body);
}

#[test]
fn a_message_of_unknown_blocks_goes_back_to_its_provider_or_is_named() {
    let paused = [
        r#"{"role":"user","content":"Search."}"#,
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}],"stop_reason":"pause_turn"}"#,
        r#"{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"Found."}]}"#,
        r#"{"role":"user","content":"Thanks."}"#,
    ];
    let kinds = |message: &Value| {
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.map(|block| original::kind(block).to_owned()).collect::<Vec<_>>()
    };
    let out = outgoing(RequestFormat::Anthropic, Format::Anthropic, &paused);
    assert_eq!(kinds(&out.body["messages"][1]), ["server_tool_use", "web_search_tool_result", "text"]);
    assert_eq!(out.notes, Vec::<String>::new());
    let messages = paused.map(|line| formats::parse(Format::Anthropic, line).unwrap());
    let apart = ContextOptions { alternation: Alternation::Ack, ..ContextOptions::default() };
    let turns = build(&input_of(&messages), &apart, &Characters).turns;
    assert_eq!(render(RequestFormat::Anthropic, &turns), out, "nothing is put between");
    for target in RequestFormat::ALL {
        let out = outgoing(target, Format::Anthropic, &paused[..2]);
        let is_named = out.body.to_string().contains("[block: server_tool_use]");
        assert_eq!(is_named, target != RequestFormat::Anthropic, "{}", out.body);
        assert_eq!(out.notes.len(), usize::from(is_named), "{:?}", out.notes);
    }

    let line = |content: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{}","message":{{"role":"assistant","content":[{content}]}}}}"#,
            content.len()
        )
    };
    let lines = [
        r#"{"type":"user","uuid":"u","message":{"role":"user","content":"Go."}}"#.to_owned(),
        line(r#"{"type":"thinking","thinking":"","signature":"first"}"#),
        line(r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#),
        r#"{"type":"user","uuid":"r","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}}"#.to_owned(),
        line(r#"{"type":"thinking","thinking":"seen","signature":"second"}"#),
        line(r#"{"type":"text","text":"Done."}"#),
    ];
    let lines = lines.each_ref().map(String::as_str);
    let out = outgoing(RequestFormat::Anthropic, Format::ClaudeCode, &lines);
    assert_eq!(kinds(&out.body["messages"][1]), ["thinking", "tool_use"], "{}", out.body);
    assert_eq!(kinds(&out.body["messages"][3]), ["thinking", "text"], "{}", out.body);
}

#[test]
fn only_blocks_that_a_request_takes_go_back_to_openai() {
    let lines = [
        r#"{"role":"user","content":[{"text":"Look."},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"I do."},{"type":"tool-call","toolCallId":"1","toolName":"f","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"And?"},{"type":"video_url","video_url":{"url":"https://x.example/a.mp4"}}]}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":"Look.\n\n[attachment: image/*]","role":"user"},{"content":"I do.\n\n[block: tool-call]","role":"assistant"},{"content":[{"text":"And?","type":"text"},{"type":"video_url","video_url":{"url":"https://x.example/a.mp4"}}],"role":"user"}]}"#);
    assert_eq!(out.notes.len(), 2, "{:?}", out.notes);
}

#[test]
fn a_spoken_answer_is_sent_by_its_id_or_as_text() {
    let lines = [
        r#"{"role":"user","content":"Hi"}"#,
        r#"{"role":"assistant","content":null,"audio":{"id":"a","transcript":"Hello.","data":"AAAA"}}"#,
        r#"{"role":"user","content":"Again."}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines);
    insta::assert_snapshot!(out.body["messages"][1], @r#"{"audio":{"id":"a"},"content":null,"role":"assistant"}"#);
    let out = outgoing(RequestFormat::Anthropic, Format::OpenAiChat, &lines);
    insta::assert_snapshot!(out.body["messages"][1], @r#"{"content":[{"text":"Hello.","type":"text"}],"role":"assistant"}"#);
}

#[test]
fn markers_of_the_prompt_cache_are_removed() {
    let marked =
        |text: &str| format!(r#"{{"type":"text","text":"{text}","cache_control":{{"type":"ephemeral"}}}}"#);
    let said = |role: &str, text: &str| format!(r#"{{"role":"{role}","content":[{}]}}"#, marked(text));
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"cache_control":"mine"},"cache_control":{"type":"ephemeral"}}]}"#;
    let result = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":[{}],"cache_control":{{"type":"ephemeral"}}}}]}}"#,
        marked("r")
    );
    let lines = [said("user", "a"), said("assistant", "b"), said("user", "c"), call.to_owned(), result];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let body = outgoing(RequestFormat::Anthropic, Format::Anthropic, &lines).body.to_string();
    // A tool argument of that name is kept.
    assert_eq!(body.matches("cache_control").count(), 1, "{body}");
    assert!(body.contains(r#"{"cache_control":"mine"}"#), "{body}");
}

#[test]
fn notes_name_what_a_request_leaves_out() {
    let lines = [
        r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"mind:"},{"type":"tool_result","tool_use_id":"a","is_error":true,"content":""}]}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiChat, Format::Anthropic, &lines);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":"[attachment: image/png]","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"}]},{"content":"(failed)","role":"tool","tool_call_id":"a"},{"content":"mind:","role":"user"}]}"#);
    assert_eq!(out.notes.len(), 3, "{:?}", out.notes);
    let out = outgoing(RequestFormat::Anthropic, Format::Anthropic, &lines);
    assert_eq!(out.body["messages"][2]["content"][0]["type"], "tool_result", "results come first");
}

#[test]
fn repeated_call_ids_become_unique() {
    let lines = [
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"1"}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"2"}"#,
    ];
    for target in RequestFormat::ALL {
        let body = outgoing(target, Format::OpenAiChat, &lines).body.to_string();
        assert_eq!(body.matches("\"x\"").count(), 2, "{body}");
        assert_eq!(body.matches("\"x_2\"").count(), 2, "{body}");
    }
}

/// In a format without a failure flag, an empty result would pass for success.
#[test]
fn a_failed_result_without_text_gets_a_text() {
    let lines = [
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"x","content":"","is_error":true}"#,
    ];
    for target in [RequestFormat::OpenAiChat, RequestFormat::OpenAiResponses] {
        let out = outgoing(target, Format::OpenAiChat, &lines);
        assert!(out.body.to_string().contains(FAILED), "{}", out.body);
        assert_eq!(out.notes.len(), 1, "{:?}", out.notes);
    }
}

/// Consecutive user messages stay separate and keep their names.
#[test]
fn merged_turns_keep_their_speakers() {
    let lines = [
        r#"{"role":"user","name":"ida","content":"Postgres."}"#,
        r#"{"role":"user","name":"ida","content":"Please."}"#,
        r#"{"role":"user","name":"omar","content":"MySQL."}"#,
    ];
    let chat = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines).body;
    insta::assert_snapshot!(chat, @r#"{"messages":[{"content":"Postgres.\n\nPlease.","name":"ida","role":"user"},{"content":"MySQL.","name":"omar","role":"user"}]}"#);
    let anthropic = outgoing(RequestFormat::Anthropic, Format::OpenAiChat, &lines).body;
    insta::assert_snapshot!(anthropic, @r#"{"messages":[{"content":[{"text":"ida:","type":"text"},{"text":"Postgres.","type":"text"},{"text":"Please.","type":"text"},{"text":"omar:","type":"text"},{"text":"MySQL.","type":"text"}],"role":"user"}]}"#);
}

/// OpenAI's chat API calls a speaker `name`.
#[test]
fn speakers_of_every_format_keep_their_names() {
    let lines = [
        r#"{"kind":"system","speaker":"bot","content":"Be kind."}"#,
        r#"{"kind":"user","speaker":"Ida L","content":"Postgres."}"#,
        r#"{"kind":"user","speaker":"Ida L","content":"Please."}"#,
        r#"{"kind":"user","speaker":"omar","content":"MySQL."}"#,
        r#"{"kind":"assistant","speaker":"bot","content":"Both."}"#,
    ];
    let chat = outgoing(RequestFormat::OpenAiChat, Format::Native, &lines).body;
    insta::assert_snapshot!(chat, @r#"{"messages":[{"content":"Be kind.","role":"system"},{"content":"Postgres.\n\nPlease.","name":"Ida_L","role":"user"},{"content":"MySQL.","name":"omar","role":"user"},{"content":"Both.","name":"bot","role":"assistant"}]}"#);
    let original = [r#"{"role":"user","speaker":"omar","content":"MySQL."}"#];
    let chat = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &original).body;
    insta::assert_snapshot!(chat, @r#"{"messages":[{"content":"MySQL.","name":"omar","role":"user"}]}"#);
}

/// Invalid names are respelled, alike in a call and its result, and in each request.
#[test]
fn names_and_ids_are_valid_at_the_target() {
    let id = "mcp_github_enterprise_server_list_pull_requests-1763816000123-9b1f2c3d4e5f6";
    let call = |id: &str, name: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
        )
    };
    let result =
        |id: &str| format!(r#"{{"role":"tool","name":"fs.read file","tool_call_id":"{id}","content":"r"}}"#);
    let lines = [
        r#"{"role":"user","name":"Ada Lovelace","content":"Read it."}"#.to_owned(),
        call(id, "default_api.read_file"),
        result(id),
        call(id, "default_api_read_file"),
        result(id),
        call("c", "fs.read file"),
        result("c"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for target in RequestFormat::ALL {
        let out = outgoing(target, Format::OpenAiChat, &lines);
        let validated = match target {
            RequestFormat::Anthropic => Target::Anthropic,
            RequestFormat::OpenAiChat => Target::OpenAiChat,
            RequestFormat::OpenAiResponses => Target::OpenAiResponses,
            RequestFormat::Gemini => Target::Gemini,
        };
        let violations = validate(validated, &out.body, None);
        assert!(violations.is_empty(), "{violations:?} in {}", out.body);
        // The beginning of a conversation is spelled the same after it has continued.
        let before = outgoing(target, Format::OpenAiChat, &lines[..5]).body.to_string();
        let same = before.trim_end_matches(['}', ']']);
        assert!(out.body.to_string().starts_with(same), "{before} {}", out.body);
    }
    let body = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines).body;
    assert_eq!(body["messages"][0]["name"], "Ada_Lovelace");
    let tool = |at: usize| body["messages"][at]["tool_calls"][0]["function"]["name"].clone();
    assert_eq!((tool(3), tool(5)), ("default_api_read_file".into(), "fs_read_file".into()));
    assert_ne!(tool(1), tool(3), "two tools stay two");
    let name = |at: usize| body["messages"][at]["name"].clone();
    assert_eq!([name(2), name(4), name(6)], [tool(1), tool(3), tool(5)]);
}

#[test]
fn messages_in_other_spellings_are_written_anew() {
    let lines = [
        r#"{"role":"user","blocks":[{"block_type":"text","text":"Which files?"}]}"#,
        r#"{"role":"assistant","content":"","toolCalls":[{"id":"c1","function":{"name":"ls","arguments":"{}"}}]}"#,
        r#"{"role":"tool","name":"ls","content":"a.rs","toolCallId":"c1"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":{"value":"One file.","annotations":[]}}]}"#,
        r#"{"role":"user","content":"Thanks."}"#,
    ];
    let body = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines).body;
    let text = body.to_string();
    for foreign in ["blocks", "toolCall", "annotations", "value"] {
        assert!(!text.contains(foreign), "{text}");
    }
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], "Which files?", "{text}");
    assert_eq!(messages[1]["tool_calls"][0]["id"], "c1", "{text}");
    assert_eq!(messages[2]["tool_call_id"], "c1", "{text}");
    assert_eq!(messages[3]["content"], "One file.", "{text}");
    let violations = validate(Target::OpenAiChat, &body, None);
    assert!(violations.is_empty(), "{violations:?} {text}");
}

#[test]
fn an_answer_of_unknown_blocks_is_written_as_its_provider_accepts_it() {
    let lines = [
        r#"{"role":"user","content":"Hi"}"#,
        r#"{"role":"assistant","content":[{"type":"output_text","txet":"Hello."}]}"#,
        r#"{"role":"user","content":"Again."}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines);
    insta::assert_snapshot!(out.body, @r#"{"messages":[{"content":"Hi","role":"user"},{"content":"Again.","role":"user"}]}"#);
    let lines = [
        r#"{"role":"user","content":[{"type":"input_text","txet":"Hi"}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"Look."},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiChat, Format::OpenAiChat, &lines);
    let blank = r#"{"text":"","type":"text"}"#;
    assert!(!out.body.to_string().contains(blank), "{}", out.body);
    let lines = [
        r#"{"type":"message","role":"user","content":"Hi"}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"No."},{"type":"refusal","fusal":"I can't."}]}"#,
    ];
    let out = outgoing(RequestFormat::OpenAiResponses, Format::OpenAiResponses, &lines);
    insta::assert_snapshot!(out.body["input"][1]["content"], @r#"[{"text":"No.","type":"output_text"}]"#);
}
