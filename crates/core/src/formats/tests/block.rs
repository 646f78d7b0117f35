use super::*;

#[test]
fn parse_strict_refuses_a_message_of_unknown_blocks_and_parse_keeps_it() {
    for (format, json, block) in [
        (
            Format::OpenAiChat,
            r#"{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"42"}]}}]}"#,
            "toolResult",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"assistant","content":[{"text":"I look."},{"toolUse":{"toolUseId":"1","name":"f","input":{}}}]}"#,
            "toolUse",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool-call","toolCallId":"1","toolName":"f","input":{}}]}"#,
            "tool-call",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","output":{"type":"text","value":"r"}}]}"#,
            "tool-result",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"user","content":[{"type":"novel","x":1},{"type":"newer"}]}"#,
            "novel",
        ),
        (Format::OpenAiResponses, r#"{"role":"user","content":[{"type":"input_novel"}]}"#, "input_novel"),
        (Format::Anthropic, r#"{"role":"user","content":[{"image":{"format":"png"}}]}"#, "image"),
    ] {
        assert_eq!(
            parse_strict(format, json).unwrap_err().to_string(),
            format!(
                "block `{block}` is unknown, and no model would see it; give its content in a block of OpenAI, \
                 Anthropic or Gemini, or name the message's format"
            ),
            "{json}"
        );
        assert_eq!(parse(format, json).unwrap().payload, json);
    }
}

#[test]
fn parse_strict_accepts_a_block_that_its_provider_may_know() {
    for (format, json) in [
        (Format::Anthropic, r#"{"role":"assistant","content":[{"type":"novel","x":1}]}"#),
        (
            Format::Anthropic,
            r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#,
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"user","content":[{"type":"text","text":"See"},{"type":"novel","x":1}]}"#,
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://x.example/a.mp4"}}]}"#,
        ),
        (Format::OpenAiChat, r#"{"role":"user","content":[]}"#),
        (Format::OpenAiChat, r#"{"role":"user","content":[{"type":"text","text":""}]}"#),
        (
            Format::ClaudeCode,
            r#"{"type":"user","uuid":"u","message":{"role":"user","content":[{"novel":1}]}}"#,
        ),
        (Format::Native, r#"{"kind":"user","content":[{"novel":1}]}"#),
    ] {
        let message = parse(format, json);
        assert!(message.is_ok(), "{message:?}");
        assert_eq!(parse_strict(format, json), message, "{json}");
    }
}
