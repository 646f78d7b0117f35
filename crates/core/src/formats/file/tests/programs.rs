//! Sessions that other programs wrote, in `tests/fixtures/programs`. The README there says which version of each program wrote them, and
//! how. The counts are those of the program's own loader, or by hand where it has none.

use super::*;
use crate::domain::message::{Kind, Part};

/// What a file has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Messages of the user.
    requests: usize,
    /// Texts and thoughts of the assistant.
    texts: usize,
    thoughts: usize,
    calls: usize,
    results: usize,
    failed_results: usize,
    attachments: usize,
    system_messages: usize,
}

fn count(reader: FileReader) -> Counts {
    let mut counts = Counts::default();
    for record in reader {
        let message = record.unwrap().message;
        counts.requests += usize::from(message.kind == Kind::User);
        counts.system_messages += usize::from(message.kind == Kind::System);
        let is_assistants = matches!(message.kind, Kind::Assistant | Kind::ToolCall);
        for part in &message.parts {
            match part {
                Part::Text(_) if is_assistants => counts.texts += 1,
                Part::Thinking(_) => counts.thoughts += 1,
                Part::ToolCall { .. } => counts.calls += 1,
                Part::Attachment { .. } => counts.attachments += 1,
                Part::ToolResult { is_error, .. } => {
                    counts.results += 1;
                    counts.failed_results += usize::from(*is_error);
                }
                _ => {}
            }
        }
    }
    counts
}

fn left_out(reader: &FileReader) -> String {
    let parts = reader.left_out().iter().map(|(name, times)| format!("{times} × {name}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// A session, the reader that reads it, and what it has.
struct Session {
    file: &'static str,
    program: Option<&'static str>,
    counts: Counts,
    left_out: &'static str,
}

const NOTHING: Counts = Counts {
    requests: 0,
    texts: 0,
    thoughts: 0,
    calls: 0,
    results: 0,
    failed_results: 0,
    attachments: 0,
    system_messages: 0,
};
/// Most sessions have the same conversation: four calls between two requests and two answers, and a text before the first call.
const USUAL: Counts =
    Counts { requests: 2, texts: 3, thoughts: 4, calls: 4, results: 4, failed_results: 1, ..NOTHING };

const SESSIONS: &[Session] = &[
    Session { file: "adk.json", program: Some("adk"), counts: Counts { thoughts: 2, ..USUAL }, left_out: "" },
    Session {
        file: "ai_sdk_4_ui.json",
        program: Some("ai-sdk-ui"),
        counts: Counts { thoughts: 2, calls: 3, results: 3, failed_results: 0, ..USUAL },
        left_out: "4 × step-start",
    },
    Session {
        file: "ai_sdk_7_ui.json",
        program: Some("ai-sdk-ui"),
        counts: Counts { thoughts: 2, calls: 5, results: 5, failed_results: 2, attachments: 1, ..USUAL },
        left_out: "5 × step-start",
    },
    Session {
        file: "ai_sdk_7_model.json",
        program: Some("ai-sdk"),
        counts: Counts { thoughts: 2, calls: 5, results: 5, failed_results: 2, attachments: 1, ..USUAL },
        left_out: "",
    },
    Session {
        file: "atif.json",
        program: Some("atif"),
        counts: Counts { failed_results: 0, ..USUAL },
        left_out: "",
    },
    Session {
        file: "atif_models.json",
        program: Some("atif"),
        counts: Counts {
            requests: 1,
            texts: 2,
            thoughts: 1,
            calls: 2,
            results: 3,
            failed_results: 0,
            system_messages: 1,
            ..USUAL
        },
        left_out: "2 × file beside the trajectory, 1 × sub-agent's trajectory",
    },
    Session {
        file: "autogen_task.json",
        program: Some("autogen"),
        counts: Counts { requests: 1, texts: 1, thoughts: 2, calls: 3, results: 3, ..USUAL },
        left_out: "",
    },
    Session {
        file: "autogen_team.json",
        program: Some("autogen"),
        counts: Counts { texts: 2, thoughts: 3, ..USUAL },
        left_out: "",
    },
    Session {
        file: "cline.json",
        program: Some("cline"),
        counts: Counts {
            requests: 1,
            texts: 2,
            thoughts: 2,
            calls: 3,
            results: 3,
            failed_results: 2,
            system_messages: 1,
            ..USUAL
        },
        left_out: "",
    },
    Session {
        file: "converse.json",
        program: Some("bedrock-converse"),
        counts: Counts { thoughts: 2, attachments: 1, system_messages: 1, ..USUAL },
        left_out: "",
    },
    Session {
        file: "copilot_cli.jsonl",
        program: Some("copilot-cli"),
        counts: Counts { system_messages: 1, ..USUAL },
        left_out: "5 × assistant.turn_end, 5 × assistant.turn_start, 1 × session.resume, 2 × session.shutdown, 1 × session.start, 5 × session.usage_record",
    },
    Session {
        file: "gemini_cli.jsonl",
        program: Some("gemini-cli"),
        counts: Counts { texts: 2, thoughts: 2, calls: 3, results: 3, ..USUAL },
        left_out: "3 × repeated result",
    },
    Session {
        file: "gemini_cli_resumed.jsonl",
        program: Some("gemini-cli"),
        counts: Counts { requests: 3, ..USUAL },
        left_out: "4 × repeated result",
    },
    Session {
        file: "gemini_cli_stream.jsonl",
        program: Some("gemini-cli-stream"),
        counts: Counts { requests: 1, texts: 2, thoughts: 0, calls: 3, results: 3, ..USUAL },
        left_out: "1 × init event, 1 × result event",
    },
    Session { file: "langchain_dumps.json", program: Some("langchain"), counts: USUAL, left_out: "" },
    Session {
        file: "langchain_messages_to_dict.json",
        program: Some("langchain"),
        counts: USUAL,
        left_out: "",
    },
    Session { file: "langgraph_checkpoint.json", program: Some("langchain"), counts: USUAL, left_out: "" },
    Session {
        file: "langgraph_state.json",
        program: Some("langchain"),
        counts: Counts { thoughts: 0, ..USUAL },
        left_out: "",
    },
    Session { file: "langgraph_values.json", program: Some("langchain"), counts: USUAL, left_out: "" },
    Session {
        file: "openai_agents.json",
        program: None,
        counts: Counts { failed_results: 0, ..USUAL },
        left_out: "",
    },
    Session {
        file: "opencode.json",
        program: Some("opencode"),
        counts: USUAL,
        left_out: "5 × step-finish, 5 × step-start",
    },
    Session {
        file: "opencode_files.json",
        program: Some("opencode"),
        counts: Counts {
            requests: 1,
            texts: 1,
            thoughts: 2,
            calls: 1,
            results: 1,
            failed_results: 0,
            attachments: 1,
            ..USUAL
        },
        left_out: "1 × local file, 2 × step-finish, 2 × step-start, 4 × synthetic text",
    },
    Session {
        file: "openhands/events",
        program: Some("openhands-1"),
        counts: Counts {
            texts: 2,
            thoughts: 3,
            calls: 6,
            results: 6,
            failed_results: 4,
            system_messages: 1,
            ..USUAL
        },
        left_out: "",
    },
    Session {
        file: "pi.jsonl",
        program: Some("pi"),
        counts: Counts { failed_results: 2, ..USUAL },
        left_out: "1 × model_change, 1 × session, 1 × thinking_level_change",
    },
    Session {
        file: "pydantic_ai.json",
        program: Some("pydantic-ai"),
        counts: Counts {
            thoughts: 2,
            calls: 5,
            results: 5,
            failed_results: 2,
            attachments: 1,
            system_messages: 2,
            ..USUAL
        },
        left_out: "1 × message without content",
    },
    Session {
        file: "pydantic_ai_parts.json",
        program: Some("pydantic-ai"),
        counts: Counts {
            texts: 2,
            thoughts: 0,
            calls: 3,
            results: 3,
            failed_results: 2,
            attachments: 2,
            system_messages: 1,
            ..USUAL
        },
        left_out: "1 × file",
    },
    Session {
        file: "qwen_code.jsonl",
        program: Some("qwen-code"),
        counts: Counts { failed_results: 2, ..USUAL },
        left_out: "2 × attribution_snapshot line, 9 × ui_telemetry line",
    },
    Session {
        file: "strands/messages",
        program: Some("bedrock-converse"),
        counts: Counts { thoughts: 2, attachments: 1, ..USUAL },
        left_out: "",
    },
];

#[test]
fn sessions_have_the_counts_of_their_programs() {
    for Session { file, program, counts, left_out: expected } in SESSIONS {
        let reader = FileReader::open_conversation(&fixture("programs").join(file), None, None).unwrap();
        assert_eq!((reader.program(), left_out(&reader).as_str()), (*program, *expected), "{file}");
        assert_eq!(count(reader), *counts, "{file}");
    }
}

#[test]
fn every_session_is_counted() {
    let mut files = Vec::new();
    let mut folders = vec![fixture("programs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !folder::is_conversation(&path) {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "md" && extension != "sqlite") {
                files.push(path);
            }
        }
    }
    for file in files {
        let is_counted = SESSIONS.iter().any(|session| file.ends_with(session.file));
        assert!(is_counted, "{} is missing in SESSIONS", file.display());
    }
}
