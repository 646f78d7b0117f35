use super::*;
use crate::domain::user_text::OwnWords;

#[test]
fn lines_that_the_user_did_not_write_have_other_kinds() {
    check(
        Format::ClaudeCode,
        &[
            (
                r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"Sort them."}}"#,
                r#"user: "Sort them." id=u1"#,
            ),
            (
                r#"{"type":"user","isMeta":true,"message":{"role":"user","content":"Base directory"}}"#,
                r#"system: "Base directory""#,
            ),
            (
                r#"{"type":"user","isMeta":null,"message":{"role":"user","content":"Sort"}}"#,
                r#"user: "Sort""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<command-name>/clear</command-name>"}}"#,
                r#"command: "<command-name>/clear</command-name>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":" <local-command-stdout>ok</local-command-stdout>"}]}}"#,
                r#"command: " <local-command-stdout>ok</local-command-stdout>""#,
            ),
            (r#"{"type":"user","message":{"role":"user","content":" "}}"#, r#"user: " ""#),
            (
                r#"{"type":"assistant","isApiErrorMessage":true,"message":{"role":"assistant","content":[{"type":"text","text":"API Error: 529"}]}}"#,
                r#"api_error: "API Error: 529""#,
            ),
            (
                r#"{"type":"attachment","uuid":"q1","attachment":{"type":"queued_command","prompt":"stop, don't post it","commandMode":"prompt","origin":{"kind":"human"}}}"#,
                r#"user: "stop, don't post it" id=q1"#,
            ),
            (
                r#"{"type":"attachment","uuid":"q2","attachment":{"type":"queued_command","prompt":[{"type":"text","text":"and sort them"}]}}"#,
                r#"user: "and sort them" id=q2"#,
            ),
            (
                r#"{"type":"attachment","uuid":"q3","attachment":{"type":"queued_command","prompt":"done","origin":{"kind":"task-notification"}}}"#,
                "attachment: id=q3",
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<command-line> is broken"}}"#,
                r#"user: "<command-line> is broken""#,
            ),
            (
                r#"{"type":"user","isCompactSummary":true,"message":{"role":"user","content":"Continued."}}"#,
                r#"compact_summary: "Continued.""#,
            ),
            (
                r#"{"type":"user","isMeta":true,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#,
                r#"tool_result: result(t - "x")"#,
            ),
        ],
    );
}

#[test]
fn tagged_texts_of_programs_have_other_kinds_than_the_users() {
    check(
        Format::ClaudeCode,
        &[
            (
                r#"{"type":"user","message":{"role":"user","content":"<bash-input>ls</bash-input>"}}"#,
                r#"user: "<bash-input>ls</bash-input>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<bash-stdout>a.rs</bash-stdout><bash-stderr></bash-stderr>"}}"#,
                r#"tool_result: "<bash-stdout>a.rs</bash-stdout><bash-stderr></bash-stderr>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>PR 12</command-args>"}}"#,
                r#"user: "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>PR 12</command-args>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<task-notification>\n<task-id>b1</task-id>\n</task-notification>"}}"#,
                r#"tool_result: "<task-notification>\n<task-id>b1</task-id>\n</task-notification>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<task-notification>done</task-notification>\nNow push it."}}"#,
                r#"user: "<task-notification>done</task-notification>\nNow push it.""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>Be brief.</system-reminder>"}]}}"#,
                r#"system: "<system-reminder>Be brief.</system-reminder>""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"<ide_opened_file>a.rs</ide_opened_file>"},{"type":"text","text":"Sort it."}]}}"#,
                r#"user: "<ide_opened_file>a.rs</ide_opened_file>" "Sort it.""#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"<teammate-message teammate_id=\"lead\">Sort it.</teammate-message>"}}"#,
                r#"user: "<teammate-message teammate_id=\"lead\">Sort it.</teammate-message>""#,
            ),
        ],
    );
}

#[test]
fn only_a_line_with_nothing_but_an_interruption_interrupts() {
    check(
        Format::ClaudeCode,
        &[
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}"#,
                r#"user: "[Request interrupted by user for tool use]" interrupts"#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"[Request interrupted by user]"}}"#,
                r#"user: "[Request interrupted by user]" interrupts"#,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"},{"type":"text","text":"Use plums."}]}}"#,
                r#"user: "[Request interrupted by user]" "Use plums.""#,
            ),
            (
                r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#,
                r#"assistant: "[Request interrupted by user]""#,
            ),
            (r#"{"type":"user","message":{"role":"user"}}"#, "user:"),
        ],
    );
}

#[test]
fn other_lines_are_metadata_and_broken_ones_are_refused() {
    check(
        Format::ClaudeCode,
        &[
            (r#"{"type":"summary","summary":"Tidying","leafUuid":"u0"}"#, r#"summary: "Tidying""#),
            (
                r#"{"type":"system","subtype":"x","content":"Limit reached","uuid":"u2"}"#,
                r#"other_system: "Limit reached" id=u2"#,
            ),
            (
                r#"{"type":"queue-operation","content":[{"type":"text","text":"/init"}]}"#,
                r#"queue-operation: "/init""#,
            ),
            (r#"{"type":"file-history-snapshot","messageId":"m"}"#, "file-history-snapshot:"),
            (
                r#"{"type":"user","message":"error"}"#,
                "refused: `message` of this user line is no object; give the message in Anthropic's form, with a role and content",
            ),
            (
                r#"{"type":"assistant"}"#,
                "refused: `message` of this assistant line is no object; give the message in Anthropic's form, with a role and content",
            ),
            (
                r#"{"silly":"this"}"#,
                "refused: line has no `type`; give lines as Claude Code writes them, or specify the format of the messages",
            ),
            (r#"{"type":"user","message":{"role":"user","content":["wow error"]}}"#, r#"user: "wow error""#),
        ],
    );
}

#[test]
fn a_message_has_the_id_and_time_of_its_line() {
    let line = r#"{"parentUuid":"u4","isSidechain":false,"sessionId":"s","type":"assistant","uuid":"u5","timestamp":"2026-03-02T10:00:05.250Z","message":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Glob","input":{"pattern": "*.md"}}],"stop_reason":null}}"#;
    insta::assert_debug_snapshot!(parse(Format::ClaudeCode, line).unwrap(), @r#"
    Message {
        kind: ToolCall,
        speaker: None,
        parts: [
            ToolCall {
                id: Some(
                    "t1",
                ),
                name: "Glob",
                arguments: "{\"pattern\":\"*.md\"}",
            },
        ],
        client_id: Some(
            "u5",
        ),
        response_id: Some(
            "msg_1",
        ),
        at: Some(
            Timestamp(
                1772445605250,
            ),
        ),
        interrupts: false,
        important: false,
        author: None,
        format: ClaudeCode,
        payload: "{\"parentUuid\":\"u4\",\"isSidechain\":false,\"sessionId\":\"s\",\"type\":\"assistant\",\"uuid\":\"u5\",\"timestamp\":\"2026-03-02T10:00:05.250Z\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Glob\",\"input\":{\"pattern\": \"*.md\"}}],\"stop_reason\":null}}",
    }
    "#);
}

#[test]
fn empty_prompts_are_recognised() {
    let user =
        |content: &str| format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
    for (line, is_wordless) in [
        (r#"{"type":"user","message":{"role":"user"}}"#.to_owned(), true),
        (user("null"), true),
        (user("[]"), true),
        (user(r#"" \n""#), true),
        (user(r#"[{"type":"text","text":""},{"type":"text","text":" "}]"#), true),
        (r#"{"type":"attachment","attachment":{"type":"queued_command","prompt":" "}}"#.to_owned(), true),
        (user(r#""?""#), false),
        (user(r#"[{"type":"text","text":" "},{"type":"image","source":{}}]"#), false),
        (user(r#"[{"type":"new"}]"#), false),
        (user(r#"[{"type":"tool_result","tool_use_id":"t"}]"#), false),
        (user(r#""[Request interrupted by user]""#), false),
        (r#"{"type":"assistant","message":{"role":"assistant","content":[]}}"#.to_owned(), false),
        (r#"{"type":"user","isMeta":true,"message":{"role":"user","content":""}}"#.to_owned(), false),
    ] {
        let message = parse(Format::ClaudeCode, &line).unwrap();
        assert_eq!(is_wordless_prompt(&message), is_wordless, "{line}");
    }
    // An empty message in another format is deliberate.
    let message = parse(Format::Anthropic, r#"{"role":"user","content":""}"#).unwrap();
    assert!(!is_wordless_prompt(&message));
}

#[test]
fn a_lines_origin_determines_its_author() {
    let line = |rest: &str, text: &str| {
        format!(
            r#"{{"type":"user",{rest}"message":{{"role":"user","content":{}}}}}"#,
            serde_json::json!(text)
        )
    };
    let report = "<task-notification>done</task-notification>";
    let cases = [
        (r#""origin":{"kind":"human"},"#, report, "user", true),
        (r#""origin":{"kind":"task-notification"},"#, report, "tool_result", false),
        (r#""origin":{"kind":"task-notification"},"#, "The build is done.", "tool_result", false),
        (r#""origin":{"kind":"peer"},"#, "Sort it.", "user", true),
        ("", "<teammate-message teammate_id=\"lead\">Sort it.</teammate-message>", "user", true),
        (r#""origin":{"kind":"human"},"isMeta":true,"#, "Base directory", "system", false),
        (r#""origin":{"kind":"human"},"#, "<command-name>/clear</command-name>", "command", false),
    ];
    for (rest, text, kind, is_request) in cases {
        let message = parse(Format::ClaudeCode, &line(rest, text)).unwrap();
        assert_eq!(message.kind.name(), kind, "{rest} {text}");
        assert_eq!(OwnWords::of(&message).is_request, is_request, "{rest} {text}");
    }
}
