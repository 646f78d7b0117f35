//! The fixtures: the format of each is detected from its content, and no message of it is certainly of another format.

use super::*;

/// Files in `tests/fixtures`: name, format, conversations (sorted), number of messages.
const FIXTURES: &[(&str, Format, &[&str], usize)] = &[
    ("native.jsonl", Format::Native, &["native"], 13),
    ("openai.jsonl", Format::OpenAiChat, &["openai"], 8),
    ("openai.json", Format::OpenAiChat, &["openai"], 8),
    ("openai_training.jsonl", Format::OpenAiChat, &["openai_training-1", "openai_training-2"], 5),
    ("anthropic.jsonl", Format::Anthropic, &["anthropic"], 6),
    ("anthropic_request.json", Format::Anthropic, &["anthropic_request"], 7),
    ("responses.jsonl", Format::OpenAiResponses, &["responses"], 13),
    ("responses_request.json", Format::OpenAiResponses, &["responses_request"], 5),
    (
        "responses_answers.jsonl",
        Format::OpenAiResponses,
        &["responses_answers-2", "responses_answers-resp_a"],
        5,
    ),
    ("gemini.json", Format::Gemini, &["gemini"], 6),
    ("gemini_request.json", Format::Gemini, &["gemini_request-1"], 2),
    ("gemini_history.json", Format::Gemini, &["gemini_history-1"], 2),
    ("claude_code.jsonl", Format::ClaudeCode, &["claude_code", "claude_code-b7"], 21),
    ("codex.jsonl", Format::Codex, &["codex"], 17),
    ("codex_old.jsonl", Format::Codex, &["codex_old"], 8),
    ("pidgin.jsonl", Format::Pidgin, &["conv_ab12"], 12),
    ("pidgin_old.jsonl", Format::Pidgin, &["100000_abcde"], 5),
    (
        "aider.md",
        Format::Aider,
        &["aider", "aider-2026-03-02T10:00:00Z", "aider-2026-03-02T10:00:00Z-27"],
        11,
    ),
    ("tau_bench.json", Format::OpenAiChat, &["tau_bench-1", "tau_bench-2"], 7),
    ("tau2_bench.json", Format::OpenAiChat, &["tau2_bench-sim-a", "tau2_bench-sim-b"], 7),
    ("swe_agent.traj", Format::OpenAiChat, &["swe_agent"], 4),
    ("mini_swe_agent.traj.json", Format::OpenAiChat, &["mini_swe_agent.traj"], 5),
];

#[test]
fn the_format_of_each_fixture_is_detected() {
    for &(name, format, conversations, messages) in FIXTURES {
        let mut reader = FileReader::open(&fixture(name), None).unwrap();
        assert_eq!(reader.format(), format, "{name}");
        let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        let mut names: Vec<&str> = records.iter().map(|record| record.conversation.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.as_slice(), records.len()), (conversations, messages), "{name}");
        let size = std::fs::metadata(fixture(name)).unwrap().len();
        assert_eq!((reader.bytes_read(), reader.bytes_total()), (size, Some(size)), "{name}");
    }
}

#[test]
fn no_message_of_a_fixture_is_certainly_of_another_format() {
    for &(name, format, ..) in FIXTURES {
        let records = FileReader::open(&fixture(name), None).unwrap().map(Result::unwrap);
        for message in records.map(|record| record.message) {
            assert_eq!(message.format, format, "{name}: {}", message.payload);
            let detected = crate::formats::detect(&message.payload);
            assert!(
                detected.is_none_or(|detected| format_within(format, detected) == format),
                "{name}: {}",
                message.payload
            );
            assert_eq!(crate::formats::parse(format, &message.payload).unwrap(), message, "{name}");
        }
    }
}
