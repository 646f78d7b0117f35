use super::*;

/// Messages, and what they are read as.
const READ: [(&str, &str); 9] = [
    (
        r#"{"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"Which files?"}]}"#,
        r#"user: "Which files?""#,
    ),
    (
        r#"{"role":"assistant","additional_kwargs":{},"blocks":[{"block_type":"thinking","content":"List them."},{"block_type":"text","text":"I look."},{"block_type":"tool_call","tool_call_id":"c1","tool_name":"ls","tool_kwargs":{"path":"."}}]}"#,
        r#"tool_call: thinking(List them.) "I look." call(c1 ls {"path":"."})"#,
    ),
    (
        r#"{"role":"assistant","additional_kwargs":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},"blocks":[{"block_type":"text","text":"I look."}]}"#,
        r#"tool_call: "I look." call(c1 ls {})"#,
    ),
    (
        r#"{"role":"tool","additional_kwargs":{"tool_call_id":"c1"},"blocks":[{"block_type":"text","text":"a.rs"},{"block_type":"text","text":"b.rs"}]}"#,
        r#"tool_result: result(c1 - "a.rs\nb.rs")"#,
    ),
    (
        r#"{"role":"user","blocks":[{"block_type":"text","text":"Look."},{"block_type":"image","url":"https://example.org/a.png"}]}"#,
        r#"user: "Look." attachment(image/*)"#,
    ),
    (
        r#"{"id":"msg_1","object":"thread.message","thread_id":"t","role":"assistant","content":[{"type":"text","text":{"value":"Two files.","annotations":[]}}]}"#,
        r#"assistant: "Two files.""#,
    ),
    (
        r#"{"role":"assistant","content":"","toolCalls":[{"id":"c1","function":{"name":"ls","arguments":{"path":"."}}}]}"#,
        r#"tool_call: call(c1 ls {"path":"."})"#,
    ),
    (
        r#"{"role":"tool","name":"ls","content":"a.rs","toolCallId":"c1"}"#,
        r#"tool_result: result(c1 ls "a.rs")"#,
    ),
    // A field `blocks` next to `content` isn't LlamaIndex's.
    (r#"{"role":"user","content":"Hi","blocks":[{"block_type":"text","text":"Ho"}]}"#, r#"user: "Hi""#),
];

#[test]
fn messages_in_other_spellings_are_read() {
    for (json, expected) in READ {
        assert_eq!(brief(&parse_strict(Format::OpenAiChat, json).unwrap()), expected);
        let detected = detect(json);
        assert!([None, Some(Format::OpenAiChat)].contains(&detected), "{json}: {detected:?}");
    }
}

#[test]
fn the_error_for_a_message_of_pydantic_ai_names_its_field() {
    for json in [
        r#"{"kind":"request","parts":[{"part_kind":"user-prompt","content":"Hi"}]}"#,
        r#"{"kind":"response","parts":[{"part_kind":"text","content":"Hello"}],"model_name":"m"}"#,
        r#"{"kind":"request","parts":[]}"#,
        r#"{"parts":[{"part_kind":"tool-return","tool_name":"ls","content":"a","tool_call_id":"1"}]}"#,
    ] {
        for format in [Format::Native, Format::OpenAiChat] {
            let error = parse_strict(format, json).unwrap_err();
            assert!(error.reason.starts_with("`parts`: this message is Pydantic-AI's"), "{error}");
        }
        assert_eq!(detect(json), None, "{json}");
    }
}

#[test]
fn a_kind_alone_makes_no_message() {
    for json in [r#"{"kind":"event","name":"started"}"#, r#"{"kind":"FunctionDef"}"#] {
        assert_eq!(detect(json), None);
        let error = parse_strict(Format::OpenAiChat, json).unwrap_err();
        assert!(error.reason.ends_with("is unknown, and the message has no `content`"), "{error}");
    }
    for json in [r#"{"kind":"clear"}"#, r#"{"kind":"note","content":"x"}"#, r#"{"kind":"note","data":{}}"#] {
        assert_eq!(detect(json), Some(Format::Native), "{json}");
    }
}

#[test]
fn a_message_of_unknown_blocks_in_another_spelling_is_refused() {
    for (json, block) in [
        (r#"{"role":"user","blocks":[{"block_type":"citable","title":"x"}]}"#, "citable"),
        (r#"{"role":"user","content":[{"type":"image_file","image_file":{"file_id":"f"}}]}"#, "image_file"),
    ] {
        let error = parse_strict(Format::OpenAiChat, json).unwrap_err();
        assert_eq!(error.reason, format!("block `{block}` is unknown, and no model would see it"));
    }
}
