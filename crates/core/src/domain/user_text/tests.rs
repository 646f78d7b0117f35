//! The rest of messages without programs' texts, for each format.

use super::*;
use crate::domain::context::last_n;

fn message(format: Format, texts: &[&str]) -> Message {
    let parts = texts.iter().map(|&text| Part::Text(text.to_owned()));
    Message { format, ..Message::new(Kind::User, parts.collect()) }
}

/// Compares the user's words in each message with the expected ones. A message without such words must be no request.
fn check(format: Format, cases: &[(&[&str], &str)]) {
    for (texts, expected) in cases {
        let message = message(format, texts);
        let own_words = OwnWords::of(&message);
        assert_eq!(own_words.text(), *expected, "{texts:?}");
        assert_eq!(own_words.is_request, !expected.is_empty(), "{texts:?}");
    }
}

#[test]
fn what_claude_code_writes_is_not_the_users() {
    let cases: &[(&[&str], &str)] = &[
        (&["Sort them."], "Sort them."),
        (&["<system-reminder>\nBe brief.\n</system-reminder>\n\nSort them."], "Sort them."),
        (&["Sort them.\n<system-reminder>Be brief.</system-reminder>"], "Sort them."),
        (
            &[
                "<ide_opened_file>The user opened a.rs.</ide_opened_file>\n<ide_selection>fn f()</ide_selection>\nSort it.",
            ],
            "Sort it.",
        ),
        (&["<ide_opened_file>The user opened a.rs.</ide_opened_file>", "Sort it."], "Sort it."),
        (&["<task-notification>\n<task-id>b1</task-id>\n</task-notification>"], ""),
        (&["<bash-input>ls src</bash-input>"], "ls src"),
        (&["<bash-stdout>a.rs</bash-stdout><bash-stderr></bash-stderr>"], ""),
        (
            &[
                "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>PR 12</command-args>",
            ],
            "/review PR 12",
        ),
        (
            &[
                "<session-start-hook>Notes.</session-start-hook>",
                "<user-prompt-submit-hook>ok</user-prompt-submit-hook> Go on.",
            ],
            "Go on.",
        ),
    ];
    check(Format::ClaudeCode, cases);
    check(Format::Anthropic, cases);
}

#[test]
fn a_skill_of_pi_is_what_the_user_typed() {
    let skill = "<skill name=\"water\" location=\"/skills/water.md\">\nFill the can.\n</skill>";
    let typed = format!("{skill}\n\nOnly the roses.");
    let cases: &[(&[&str], &str)] =
        &[(&[skill], "/skill:water"), (&[typed.as_str()], "/skill:water\n\nOnly the roses.")];
    check(Format::Anthropic, cases);
    check(Format::OpenAiChat, cases);
    let nameless = "<skill location=\"x\">Fill the can.</skill>";
    check(Format::Anthropic, &[(&[nameless], nameless)]);
}

#[test]
fn what_codex_writes_is_not_the_users() {
    let cases: &[(&[&str], &str)] = &[
        (&["<environment_context>\n<cwd>/garden</cwd>\n</environment_context>"], ""),
        (&["<environment_context>x</environment_context>", "Water it."], "Water it."),
        (&["# AGENTS.md instructions for /garden\n\n<INSTRUCTIONS>\nWater.\n</INSTRUCTIONS>"], ""),
        (&["<skill>\n<name>water</name>\nFill the can.\n</skill>"], ""),
        (&["<turn_aborted>\nStopped on purpose.\n</turn_aborted>"], ""),
        (&["<user_shell_command>\n<command>ls</command>\n</user_shell_command>"], ""),
        (
            &["# Context from my IDE setup:\n\n## Open tabs:\n- a.rs\n\n## My request for Codex:\nSort it."],
            "Sort it.",
        ),
        (&["<user_instructions>x</user_instructions>\n## My request for Codex:\nWater it."], "Water it."),
        (&["Write ## My request for Codex: into a.md"], "Write ## My request for Codex: into a.md"),
    ];
    check(Format::Codex, cases);
    check(Format::OpenAiResponses, cases);
    check(Format::OpenAiChat, cases);
}

#[test]
fn what_gemini_cli_writes_is_not_the_users() {
    check(
        Format::Gemini,
        &[
            (
                &[
                    "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>",
                ],
                "",
            ),
            (&["This is the Gemini CLI. We are setting up the context for our chat.\nToday is Monday."], ""),
            (&["<state_snapshot>\n<overall_goal>Rows</overall_goal>\n</state_snapshot>"], ""),
            (&["Count the rows.", "<hook_context>Count twice.</hook_context>"], "Count the rows."),
            (
                &[
                    "Count the rows of @a.csv.",
                    "\n--- Content from referenced files ---",
                    "\nContent from @a.csv:\n",
                    "1,2",
                    "\n--- End of content ---",
                    "And the columns.",
                ],
                "Count the rows of @a.csv.\nAnd the columns.",
            ),
            (
                &[
                    "Here is the user's editor context as a JSON object. This is for your information only.\n```json\n{}\n```",
                ],
                "",
            ),
            (&["User hints:\n<user_input>\n- Skip b.csv\n</user_input>\n\nGo on."], "- Skip b.csv"),
            (&["System: Potential loop detected. Details: rows."], ""),
            (&["Please continue."], "Please continue."),
        ],
    );
}

const SURROUNDINGS: &str = "<environment_details>\n# Current Mode\nACT MODE\n</environment_details>";

#[test]
fn what_cline_writes_is_not_the_users() {
    let cases: &[(&[&str], &str)] = &[
        (
            &[
                "<task>\nPaint the fence.\n</task>",
                "Files attached by the user:\n\nfence.md",
                "\n# task_progress RECOMMENDED\n",
                SURROUNDINGS,
            ],
            "Paint the fence.",
        ),
        (&["[read_file for 'fence.md'] Result:\nGreen.", SURROUNDINGS], ""),
        // Older versions put the result into a separate text.
        (&["[execute_command for 'ls\n-l'] Result:", "fence.md", SURROUNDINGS], ""),
        (
            &[
                "[ask_followup_question for 'Which colour?'] Result:\n<answer>\nGreen\n</answer>",
                SURROUNDINGS,
            ],
            "Green",
        ),
        (
            &[
                "[attempt_completion] Result: Done",
                "The user has provided feedback on the results. Consider their input to continue the task, and then attempt completion again.\n<feedback>\nThe gate, too.\n</feedback>",
                SURROUNDINGS,
            ],
            "The gate, too.",
        ),
        (
            &[
                "[execute_command for 'paint'] Result:\nCommand is still running.\n\nThe user provided the following feedback:\n<feedback>\nStop.\n</feedback>",
            ],
            "Stop.",
        ),
        (
            &[
                "[read_file for 'a.html'] Result:\n<task>Dig</task>\n<feedback>Nice fence</feedback>",
                SURROUNDINGS,
            ],
            "",
        ),
    ];
    check(Format::Anthropic, cases);
    check(Format::OpenAiChat, cases);
}

#[test]
fn what_cline_writes_between_requests_is_not_the_users() {
    let cases: &[(&[&str], &str)] = &[
        (&["[TASK RESUMPTION] This task was interrupted just now.", SURROUNDINGS], ""),
        (
            &[
                "[TASK RESUMPTION] This task was interrupted just now.\n\nNew instructions for task continuation:\n<user_message>\nPaint it red.\n</user_message>",
                SURROUNDINGS,
            ],
            "Paint it red.",
        ),
        (&["[ERROR] You did not use a tool in your previous response! Please retry.", SURROUNDINGS], ""),
        (&["Paint the fence.", SURROUNDINGS], "Paint the fence."),
        (
            &[
                "<mode_notice>The user switched.</mode_notice><user_input mode=\"act\">Paint the fence.</user_input>",
            ],
            "Paint the fence.",
        ),
    ];
    check(Format::Anthropic, cases);
    check(Format::OpenAiChat, cases);
}

#[test]
fn other_texts_are_the_users_own() {
    let cases: &[(&[&str], &str)] = &[
        (&["<task>\nPaint the fence.\n</task>"], "<task>\nPaint the fence.\n</task>"),
        (&["# task_progress\nWrite it."], "# task_progress\nWrite it."),
        (&["[Note] for you: [a] Result: b"], "[Note] for you: [a] Result: b"),
        (&["[a] Results"], "[a] Results"),
        (&["  a < b  "], "  a < b  "),
        (
            &["Put it into <system-reminder> and </system-reminder>."],
            "Put it into <system-reminder> and </system-reminder>.",
        ),
        (&["<system-reminder> has no end here"], "<system-reminder> has no end here"),
        (&["<system-reminders>x</system-reminders>"], "<system-reminders>x</system-reminders>"),
        (&["<div>\n<command-line> is broken"], "<div>\n<command-line> is broken"),
    ];
    check(Format::Anthropic, cases);
}

#[test]
fn a_shape_counts_only_in_formats_of_its_host() {
    let hosts = [
        ("<system-reminder>x</system-reminder>", [Format::ClaudeCode, Format::Anthropic].as_slice()),
        (
            "<environment_context>x</environment_context>",
            &[Format::Codex, Format::OpenAiResponses, Format::OpenAiChat],
        ),
        ("<session_context>x</session_context>", &[Format::Gemini]),
        ("[read_file for 'x'] Result:\nx", &[Format::Anthropic, Format::OpenAiChat]),
    ];
    for (text, formats) in hosts {
        for format in Format::ALL {
            let message = message(format, &[text]);
            let is_request = !formats.contains(&format);
            assert_eq!(OwnWords::of(&message).is_request, is_request, "{text} in {format:?}");
        }
    }
}

#[test]
fn images_and_blank_texts_are_requests_but_a_tools_images_are_not() {
    let picture = || Part::Attachment {
        media: "image/png".to_owned(),
        extent: crate::domain::attachment::Extent::Unknown,
    };
    let with_picture = |text: &str| {
        let mut message = message(Format::Anthropic, &[text]);
        message.parts.push(picture());
        message
    };
    let is_request = |message: &Message| OwnWords::of(message).is_request;
    assert!(is_request(&with_picture(SURROUNDINGS)));
    assert!(!is_request(&with_picture("[browser_action for 'launch'] Result:\nSeen.")));
    assert!(is_request(&message(Format::Anthropic, &[])));
    assert!(is_request(&message(Format::Anthropic, &["  "])));
}

/// The sliding window of a plain list begins with words of the user, and keeps the first ones as anchor.
#[test]
fn no_window_begins_with_a_programs_text() {
    let contents = [
        ("user", "<session_context>\nThis is the Gemini CLI.\n</session_context>"),
        ("user", "Count the rows."),
        ("model", "Nine."),
        ("user", "And the columns?"),
        ("model", "Four."),
        ("user", "<hook_context>Count twice.</hook_context>"),
        ("model", "Four again."),
    ];
    let messages = contents.map(|(role, text)| {
        let content = serde_json::json!({"role": role, "parts": [{"text": text}]});
        crate::formats::parse(Format::Gemini, &content.to_string()).unwrap()
    });
    let turns = last_n(&messages, 2, true);
    let texts: Vec<String> =
        turns.iter().flat_map(|turn| turn.parts().map(|part| format!("{part:?}"))).collect();
    assert!(texts[0].contains("Count the rows."), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("And the columns?")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("session_context")), "{texts:?}");
}

#[test]
fn the_author_of_a_message_overrides_its_text() {
    let text = "<task-notification>done</task-notification>";
    let by = |author| Message { author: Some(author), ..message(Format::ClaudeCode, &[text]) };
    let read = |author| {
        let message = by(author);
        let own_words = OwnWords::of(&message);
        (own_words.is_request, own_words.text())
    };
    assert_eq!(read(Author::User), (true, text.to_owned()));
    assert_eq!(read(Author::Agent), (true, String::new()));
    assert_eq!(read(Author::Program), (false, String::new()));
    let plain =
        Message { author: Some(Author::Program), ..message(Format::ClaudeCode, &["The build is done."]) };
    assert!(!OwnWords::of(&plain).is_request);
}

#[test]
fn many_unclosed_tags_take_little_time() {
    let long = "<system-reminder>\n x <system-reminder> ".repeat(40_000);
    let message = message(Format::ClaudeCode, &[&long]);
    assert_eq!(OwnWords::of(&message).texts[0].len(), long.len());
}
