//! Codex and Pidgin lines that the fixtures don't cover.

use super::*;

#[test]
fn lines_of_codex_that_cannot_be_read() {
    check(
        Format::Codex,
        &[
            (
                r#"{"type":"response_item","payload":"x"}"#,
                "refused: `payload` of this response_item line is no object; give lines as Codex writes them, or specify the format of the messages",
            ),
            (
                r#"{"timestamp":"2026-03-02T10:00:00Z"}"#,
                "refused: item has no `type` and no `role`; give its type (message, function_call, function_call_output, …), or specify the format of the messages",
            ),
        ],
    );
}

#[test]
fn texts_that_codex_writes_in_the_users_name_are_no_requests() {
    for (text, expected) in [
        ("<environment_context>x</environment_context>", "system:"),
        ("# AGENTS.md instructions for /garden", "system:"),
        ("# Context from my IDE setup:\n## My request for Codex:\nWater it.", "user:"),
        ("<user_instructions>x</user_instructions>\n## My request for Codex:\nWater it.", "user:"),
        ("<user_shell_command>\n<command>ls</command>\n</user_shell_command>", "tool_result:"),
        ("<skill>\n<name>water</name>\n</skill>", "system:"),
        ("Look at <environment_context>.", "user:"),
    ] {
        let content = serde_json::to_string(text).unwrap();
        let bare = format!(r#"{{"type":"message","role":"user","content":{content}}}"#);
        let line = format!(r#"{{"type":"response_item","payload":{bare}}}"#);
        for json in [bare, line] {
            let message = parse(Format::Codex, &json).unwrap();
            assert!(brief(&message).starts_with(expected), "{json}");
            assert!(!message.interrupts);
        }
    }
}

#[test]
fn pidgin_events_with_little_content() {
    check(
        Format::Pidgin,
        &[
            (
                r#"{"event_type":"MessageCompleteEvent","conversation_id":"c","message":"x"}"#,
                "refused: `message` of this MessageCompleteEvent is no object; give the message with its `content` and `agent_id`",
            ),
            (
                r#"{"conversation_id":"c"}"#,
                "refused: event has no `event_type`; give lines as Pidgin writes them, or specify the format of the messages",
            ),
            (r#"{"event_type":"ConversationStartEvent","conversation_id":"c"}"#, "ConversationStartEvent:"),
            (
                r#"{"event_type":"MessageCompleteEvent","message":{"role":"user","content":"[HUMAN]: Hi"}}"#,
                r#"user of human: "Hi""#,
            ),
            (
                r#"{"event_type":"MessageCompleteEvent","message":{"role":"system","content":"Names.","agent_id":"system"}}"#,
                r#"system of system: "Names.""#,
            ),
            (
                r#"{"event_type":"MessageCompleteEvent","agent_id":"agent_b","message":{"role":"assistant","content":"[API Error: 529]"}}"#,
                r#"api_error of agent_b: "[API Error: 529]""#,
            ),
            (
                r#"{"event_type":"MessageCompleteEvent","agent_id":"agent_a","message":{"role":"assistant","content":"[HUMAN]: is a mark."}}"#,
                r#"user of agent_a: "[HUMAN]: is a mark.""#,
            ),
            (r#"{"event_type":"clear","data":{}}"#, "other_clear:"),
        ],
    );
}

#[test]
fn transcript_formats_are_detected_by_their_lines() {
    for (json, expected) in [
        (r#"{"timestamp":"t","type":"event_msg","payload":{}}"#, Some(Format::Codex)),
        (r#"{"timestamp":"t","type":"event_msg","payload":"x"}"#, None),
        (r#"{"record_type":"state"}"#, Some(Format::Codex)),
        (r#"{"id":"s","timestamp":"t","instructions":null}"#, Some(Format::Codex)),
        (r#"{"id":"s","timestamp":"t"}"#, None),
        (r#"{"event_type":"TurnStartEvent","conversation_id":"c"}"#, Some(Format::Pidgin)),
        (r#"{"event_type":"TurnStartEvent"}"#, None),
        (r#"{"event_type":"TurnStart","conversation_id":"c"}"#, None),
        (r#"{"kind":"user","event_type":"TurnStartEvent","data":{}}"#, Some(Format::Native)),
        (r#"{"seq":1,"kind":"user","count_method":"o200k","payload":{"role":"user","content":"x"}}"#, None),
        (r#"{"type":"user","message":{"role":"user","content":"x"}}"#, Some(Format::ClaudeCode)),
        (r#"{"type":"message","id":"a","message":{"role":"user","content":"x"}}"#, None),
    ] {
        assert_eq!(detect(json), expected, "{json}");
    }
}
