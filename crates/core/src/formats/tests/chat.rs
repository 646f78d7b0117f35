use super::*;

#[test]
fn openai_roles() {
    check(
        Format::OpenAiChat,
        &[
            (r#"{"role":"system","content":"Be brief."}"#, r#"system: "Be brief.""#),
            (r#"{"role":"developer","content":"Be brief."}"#, r#"system: "Be brief.""#),
            (r#"{"role":"user","name":"Lin","content":"Hi"}"#, r#"user of Lin: "Hi""#),
            (r#"{"role":"assistant","content":"Hello"}"#, r#"assistant: "Hello""#),
            (r#"{"role":"assistant","content":"Hello","tool_calls":[]}"#, r#"assistant: "Hello""#),
            (r#"{"role":"assistant","content":"Hello","tool_calls":null}"#, r#"assistant: "Hello""#),
            (r#"{"role":"assistant","content":null,"refusal":"I can't."}"#, r#"assistant: "I can't.""#),
            (r#"{"role":"exit","content":"diff"}"#, r#"exit: "diff""#),
            (r#"{"role":"clear","content":"x"}"#, r#"other_clear: "x""#),
            (
                r#"{"content":"x"}"#,
                "refused: message has no `role`; give its role (user, assistant, system or tool), or specify the format of the messages",
            ),
            (
                r#"{"role":"user","parts":[{"text":"x"}]}"#,
                "refused: message has `parts` in place of `content`, as Gemini's do; say that its format is gemini, or leave the format out and it is detected",
            ),
            (
                r#"{"role":"user","contents":"Hi"}"#,
                "refused: message has `contents` in place of `content`; give what was said as `content`: a text or a list of blocks",
            ),
            (r#"{"role":"assistant","content":null}"#, "assistant:"),
            (
                r#"{"role":7,"content":"x"}"#,
                "refused: message has no `role`; give its role (user, assistant, system or tool), or specify the format of the messages",
            ),
        ],
    );
}

#[test]
fn an_unknown_role_is_never_a_command_to_recapd() {
    for role in ["clear", "rewind", "agent_killed", "turn_end", "tool_call", "exit", "model"] {
        let message = parse(Format::OpenAiChat, &format!(r#"{{"role":"{role}","content":"x"}}"#)).unwrap();
        assert!(matches!(message.kind, Kind::Metadata(Metadata::Other(_))), "{role}");
        assert_eq!(Kind::from_name(message.kind.name()), message.kind, "stored by name");
    }
}

#[test]
fn openai_tool_traffic() {
    check(
        Format::OpenAiChat,
        &[
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"b","type":"custom","custom":{"name":"g","input":"free text"}}]}"#,
                r#"tool_call: call(a f {"x": 1}) call(b g free text)"#,
            ),
            (
                r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#,
                "tool_call: call(- f {})",
            ),
            (
                r#"{"role":"assistant","content":"","reasoning_content":"Look first.","tool_calls":[{"function":{"arguments":"not json"}},"junk"]}"#,
                "tool_call: thinking(Look first.) call(- unknown not json)",
            ),
            (
                r#"{"role":"user","content":"Trying.","tool_calls":[{"id":"a","name":"f","arguments":{"on": true},"requestor":"user"}]}"#,
                r#"user: "Trying." call(a f {"on":true})"#,
            ),
            (
                r#"{"role":"tool","tool_call_id":"a","name":"f","content":"ok"}"#,
                r#"tool_result: result(a f "ok")"#,
            ),
            (
                r#"{"role":"tool","id":"a","content":"no line","error":true,"requestor":"user"}"#,
                r#"tool_result: result(a - failed "no line")"#,
            ),
            (
                r#"{"role":"tool","tool_call_ids":["a"],"content":[{"type":"text","text":"one"},{"type":"text","text":""},{"type":"text","text":"two"}]}"#,
                r#"tool_result: result(a - "one\n\ntwo")"#,
            ),
            (
                r#"{"role":"tool","content":{"rows": [1, 2.50], "b": null}}"#,
                r#"tool_result: result(- - "{\"rows\":[1,2.50],\"b\":null}")"#,
            ),
            (
                r#"{"role":"tool","content":[{"price": 3}, {"price": 4}]}"#,
                r#"tool_result: result(- - "[{\"price\":3},{\"price\":4}]")"#,
            ),
            (r#"{"role":"function","name":"f","content":null}"#, r#"tool_result: result(- f "")"#),
        ],
    );
}

#[test]
fn openai_content_parts() {
    check(
        Format::OpenAiChat,
        &[
            (
                r#"{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}"#,
                r#"user: "See" attachment(image/png) attachment(image/*)"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AA=="}},{"type":"file","file":{"file_id":"f1"}}]}"#,
                "user: attachment(audio/wav) attachment(application/pdf) attachment(application/octet-stream)",
            ),
            (
                r#"{"role":"assistant","content":[{"type":"refusal","refusal":"No."},{"type":"output_text","text":"But."},{"type":"novel","x":1},7,null]}"#,
                r#"assistant: "No." "But." opaque(novel {"type":"novel","x":1})"#,
            ),
            (
                r#"{"role":"assistant","content":null,"audio":{"id":"a1","transcript":"spoken words"}}"#,
                r#"assistant: "spoken words""#,
            ),
            (r#"{"role":"assistant","content":null,"audio":{"id":"a1"}}"#, "assistant: attachment(audio/*)"),
            (r#"{"role":"user","content":[]}"#, "user:"),
            (r#"{"role":"user","content":7}"#, r#"user: "7""#),
        ],
    );
}

#[test]
fn anthropic_messages() {
    check(
        Format::Anthropic,
        &[
            (r#"{"role":"user","content":"Hi"}"#, r#"user: "Hi""#),
            (
                r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"c2VhbGVk"},{"type":"thinking","thinking":"","signature":"x"},{"type":"text","text":"Yes"}]}"#,
                r#"assistant: thinking("" Anthropic 8) thinking("" Anthropic 1) "Yes""#,
            ),
            (
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"gone","is_error":true},{"type":"text","text":"Try again."}]}"#,
                r#"tool_result: result(t1 - failed "gone") "Try again.""#,
            ),
            (
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}"#,
                r#"tool_result: result(t1 - "")"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain words"}},{"type":"image","source":{"type":"url","url":"https://x.example/a.png"}}]}"#,
                r#"user: attachment(application/pdf) "plain words" attachment(image/*)"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"search_result","title":"T", "content":[]}]}]}"#,
                r#"tool_result: result(t1 - "{\"type\":\"search_result\",\"title\":\"T\",\"content\":[]}")"#,
            ),
            (
                r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}],"stop_reason":"end_turn"}"#,
                r#"assistant: opaque(server_tool_use {"type":"server_tool_use","id":"s","name":"web_search","input":{}})"#,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content": [{"encrypted_content":"YQ=="}]},{"type":"text","text":""},{"novel":{}},{}]}"#,
                r#"assistant: opaque(web_search_tool_result {"type":"web_search_tool_result","tool_use_id":"s","content":[{"encrypted_content":"YQ=="}]}) opaque(novel {"novel":{}}) opaque(unknown {})"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"search_result","source":"https://x.example/a","title":"On cats","content":[{"type":"text","text":"They sleep."}]},{"type":"text","text":"Is it so?"}]}"#,
                r#"user: "On cats\nhttps://x.example/a\nThey sleep." "Is it so?""#,
            ),
            (
                r#"{"role":"system","content":[{"type":"text","text":"From now on in French."}]}"#,
                r#"system: "From now on in French.""#,
            ),
        ],
    );
}

#[test]
fn an_anthropic_tool_round_keeps_its_order_and_separates_images() {
    let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Read it.","signature":"c2ln"},{"type":"text","text":"I'll look."},{"type":"tool_use","id":"t1","name":"read","input":{"path": "a.csv", "lines": 1}}]}"#;
    insta::assert_debug_snapshot!(parse(Format::Anthropic, call).unwrap(), @r#"
    Message {
        kind: ToolCall,
        speaker: None,
        parts: [
            Thinking(
                Thought {
                    text: "Read it.",
                    seal: Some(
                        Seal {
                            sealer: Anthropic,
                            chars: 4,
                        },
                    ),
                },
            ),
            Text(
                "I'll look.",
            ),
            ToolCall {
                id: Some(
                    "t1",
                ),
                name: "read",
                arguments: "{\"path\":\"a.csv\",\"lines\":1}",
            },
        ],
        client_id: None,
        response_id: None,
        at: None,
        interrupts: false,
        important: false,
        author: None,
        format: Anthropic,
        payload: "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Read it.\",\"signature\":\"c2ln\"},{\"type\":\"text\",\"text\":\"I'll look.\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{\"path\": \"a.csv\", \"lines\": 1}}]}",
    }
    "#);
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"date,site"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"text","text":"1 of 9"}]}]}"#;
    insta::assert_debug_snapshot!(parse(Format::Anthropic, result).unwrap(), @r#"
    Message {
        kind: ToolResult,
        speaker: None,
        parts: [
            ToolResult {
                call_id: Some(
                    "t1",
                ),
                name: None,
                text: "date,site\n1 of 9",
                is_error: false,
            },
            Attachment {
                media: "image/png",
                extent: Unknown,
            },
        ],
        client_id: None,
        response_id: None,
        at: None,
        interrupts: false,
        important: false,
        author: None,
        format: Anthropic,
        payload: "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\",\"text\":\"date,site\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}},{\"type\":\"text\",\"text\":\"1 of 9\"}]}]}",
    }
    "#);
}

/// PHP escapes slashes in JSON, and so do writers that guard against HTML.
#[test]
fn an_image_is_measured_however_its_data_is_escaped() {
    use crate::domain::attachment::{Extent, ImageSize};

    let jpeg = "/9j//gAEAAD/wAARCAHgAoADASIA";
    let png = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAH0";
    for (data, width, height) in [
        (jpeg.to_owned(), 640, 480),
        (jpeg.replace('/', r"\/"), 640, 480),
        (png.replace('+', r"\u002B"), 1_000, 500),
    ] {
        let source = format!(r#"{{"type":"base64","media_type":"image/x","data":"{data}"}}"#);
        let json = format!(r#"{{"role":"user","content":[{{"type":"image","source":{source}}}]}}"#);
        let image = Part::Attachment {
            media: "image/x".to_owned(),
            extent: Extent::Pixels(ImageSize { width, height }),
        };
        assert_eq!(parse(Format::Anthropic, &json).unwrap().parts, [image], "{json}");
    }
}
