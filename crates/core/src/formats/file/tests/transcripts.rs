//! The Codex, Pidgin and aider fixtures as a whole.

use super::*;

fn listing_of(name: &str) -> String {
    listing(FileReader::open(&fixture(name), None).unwrap())
}

#[test]
fn a_codex_rollout() {
    insta::assert_snapshot!(listing_of("codex.jsonl"), @r##"
    codex | session_meta: at=2026-03-02T10:00:00Z
    codex | system: "<permissions instructions>ask first</permissions instructions>" at=2026-03-02T10:00:00.100Z
    codex | system: "<environment_context>\n  <cwd>/garden</cwd>\n</environment_context>" at=2026-03-02T10:00:00.200Z
    codex | task_started: at=2026-03-02T10:00:01Z
    codex | turn_context: at=2026-03-02T10:00:01.100Z
    codex | user: "Which beds are dry?" at=2026-03-02T10:00:01.200Z
    codex | user_message: at=2026-03-02T10:00:01.200Z
    codex | assistant: thinking("Read the gauge." OpenAi 8) at=2026-03-02T10:00:02Z
    codex | tool_call: call(call_1 shell {"command":["gauge"]}) at=2026-03-02T10:00:03Z
    codex | tool_result: result(call_1 - failed "{\"output\":\"no gauge\",\"metadata\":{\"exit_code\":127}}") at=2026-03-02T10:00:03Z
    codex | token_count: at=2026-03-02T10:00:04Z
    codex | user: "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>" at=2026-03-02T10:00:05Z interrupts
    codex | interrupted: at=2026-03-02T10:00:05.001Z interrupts
    codex | user: "# Context from my IDE setup:\n\n## My request for Codex:\nWater bed three." at=2026-03-02T10:00:06Z
    codex | assistant: "Bed three is watered." at=2026-03-02T10:00:07Z
    codex | turn_end: at=2026-03-02T10:00:07.100Z
    codex | compacted: "Bed three was watered." at=2026-03-02T10:00:08Z
    "##);
}

#[test]
fn an_old_codex_rollout_with_bare_items_and_crlf() {
    insta::assert_snapshot!(listing_of("codex_old.jsonl"), @r##"
    codex_old | session_meta: at=2025-07-01T09:00:00Z
    codex_old | state:
    codex_old | user: "Which beds are dry?"
    codex_old | state:
    codex_old | assistant: thinking("" OpenAi 8)
    codex_old | tool_call: call(call_1 shell {})
    codex_old | tool_result: result(call_1 - failed "no gauge")
    codex_old | assistant: "I can't tell."
    "##);
}

#[test]
fn a_pidgin_conversation_with_its_system_prompts_first() {
    insta::assert_snapshot!(listing_of("pidgin.jsonl"), @r##"
    conv_ab12 | system of agent_a: "You talk with another program." at=2026-03-02T10:00:00Z
    conv_ab12 | system of agent_b: "You talk with another program." at=2026-03-02T10:00:00Z
    conv_ab12 | user of human: "Talk about bridges." at=2026-03-02T10:00:00Z
    conv_ab12 | TurnStartEvent: at=2026-03-02T10:00:00Z
    conv_ab12 | MessageRequestEvent: at=2026-03-02T10:00:00Z
    conv_ab12 | ThinkingCompleteEvent of agent_a: thinking(Arches first.) at=2026-03-02T10:00:01Z
    conv_ab12 | user of agent_a: "Arches carry by pressing." at=2026-03-02T10:00:02Z
    conv_ab12 | assistant of agent_b: "And cables by pulling." at=2026-03-02T10:00:03Z
    conv_ab12 | turn_end: at=2026-03-02T10:00:03.100Z
    conv_ab12 | user of human: "And beams?" at=2026-03-02T10:00:04Z
    conv_ab12 | api_error of agent_a: "[API error: overloaded]" at=2026-03-02T10:00:05Z
    conv_ab12 | ConversationEndEvent: at=2026-03-02T10:00:06Z
    "##);
    insta::assert_snapshot!(listing_of("pidgin_old.jsonl"), @r#"
    100000_abcde | system of agent_a: "You talk with another program." at=2026-03-02T10:00:00Z
    100000_abcde | user of human: "Talk about bridges." at=2026-03-02T10:00:00Z
    100000_abcde | MessageChunkEvent: at=2026-03-02T10:00:01Z
    100000_abcde | user of agent_a: "Arches." at=2026-03-02T10:00:02Z
    100000_abcde | assistant of agent_b: "Cables." at=2026-03-02T10:00:03Z
    "#);
}

#[test]
fn an_aider_history() {
    insta::assert_snapshot!(listing_of("aider.md"), @r##"
    aider | aider_output: "Left over from before."
    aider-2026-03-02T10:00:00Z | aider_started: "# aider chat started at 2026-03-02 10:00:00" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | aider_output: "aider soup.py\nAdded soup.py to the chat." at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | user: "Make it serve four.\n\nAnd halve the salt." at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | assistant: "I'll change two lines:\n\nsoup.py\n```python\n    servings = 4\n\n    salt = 0.5\n```" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | aider_output: "Applied edit to soup.py" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | user: "/run pytest" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z | user: "Good." at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z-27 | aider_started: "# aider chat started at 2026-03-02 10:00:00" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z-27 | user: "Thanks!" at=2026-03-02T10:00:00Z
    aider-2026-03-02T10:00:00Z-27 | assistant: "You're welcome." at=2026-03-02T10:00:00Z
    "##);
}

#[test]
fn the_start_of_a_pidgin_conversation_is_never_lost() {
    let start = |n: u8| {
        format!(r#"{{"event_type":"ConversationStartEvent","conversation_id":"c","initial_prompt":"p{n}"}}"#)
    };
    let prompt = r#"{"event_type":"SystemPromptEvent","conversation_id":"c","prompt":"s"}"#.to_owned();
    let broken = "{".to_owned();
    for (lines, expected) in [
        (vec![start(1)], "p1"),
        (vec![start(1), start(2)], "p1 p2"),
        (vec![start(1), prompt.clone(), prompt.clone()], "s s p1"),
        (vec![start(1), start(2), prompt.clone(), start(3)], "p1 s p2 p3"),
        (vec![start(1), broken.clone(), prompt.clone()], "p1 ! s"),
    ] {
        let items = from_text(lines.join("\n")).unwrap();
        let texts: Vec<String> =
            items.map(|item| item.map_or_else(|_| "!".to_owned(), |record| record.message.text())).collect();
        assert_eq!(texts.join(" "), expected);
    }
}

#[test]
fn aider_marks_are_distinguished_from_markdown() {
    for (text, expected) in [
        ("####x\n", "assistant: \"####x\""),
        (">x\n> \n>\n", "assistant: \">x\"\nlog | aider_output:"),
        ("# Title\n## Part\n", "assistant: \"# Title\\n## Part\""),
        ("#### a  \n#### b\n\n#### c\n", "user: \"a\\nb\"\nlog | user: \"c\""),
        ("a\n\n  b  \n\n> o\n\n> p\n", "assistant: \"a\\n\\n  b\"\nlog | aider_output: \"o\\n\\np\""),
        ("#### \"\\ \u{e4}\n", r#"user: "\"\\ ä""#),
        (
            "> aider  \n#### a  \nI see:\n#### Step 1\n> quoted\n\n> one\ntwo\n\n#### three\nfour  \nDone.\n",
            "aider_output: \"aider\"\nlog | user: \"a\"\nlog | assistant: \"I see:\\n#### Step 1\\n> quoted\\n\\n> one\\ntwo\\n\\n#### three\\nfour  \\nDone.\"",
        ),
        (
            "> aider  \n> # 1 block failed\n\n#### a\nmatch it.  \nI see.\n",
            "aider_output: \"aider\\n# 1 block failed\\n\\n#### a\\nmatch it.\"\nlog | assistant: \"I see.\"",
        ),
    ] {
        let reader = FileReader::from_reader(io::Cursor::new(text), "log.md", Some(Format::Aider)).unwrap();
        assert_eq!(listing(reader), format!("log | {expected}"), "{text}");
    }
}

#[test]
fn a_markdown_file_without_aiders_heading_is_not_its_history() {
    assert!(matches!(from_text("# Notes\n\n#### Hi\n"), Err(ReadError::Unrecognised { .. })));
    let late = format!("{}# aider chat started at 2026-03-02 10:00:00\n", "> x\n".repeat(DETECT_LINES_MAX));
    assert!(matches!(from_text(late), Err(ReadError::Unrecognised { .. })));
}

#[test]
fn a_line_of_aider_that_isnt_utf8_is_skipped() {
    let text = b"# aider chat started at soon\n#### a\n\xff\n#### b\n";
    assert_eq!(
        listing(from_text(text.to_vec()).unwrap()),
        "log-1 | aider_started: \"# aider chat started at soon\"\nlog-1 | user: \"a\"\nskipped 3: byte 1 of the line isn't UTF-8; convert the file to UTF-8\nlog-1 | user: \"b\""
    );
}
