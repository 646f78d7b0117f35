//! Tables of messages in each format, with their expected readings.

mod block;
mod chat;
mod claude_code;
mod gemini;
mod native;
mod properties;
mod responses;
mod role;
mod spelling;
mod transcripts;

use super::*;
use crate::domain::thought::Thought;

/// A message in one line: kind, speaker, parts, and other fields.
pub(super) fn brief(message: &Message) -> String {
    let speaker = message.speaker.iter().map(|speaker| format!(" of {speaker}"));
    let head = format!("{}{}:", message.kind.name(), speaker.collect::<String>());
    let id = message.client_id.iter().map(|id| format!("id={id}"));
    let at = message.at.iter().map(|at| format!("at={at}"));
    let words: Vec<String> = std::iter::once(head)
        .chain(message.parts.iter().map(brief_part))
        .chain(id)
        .chain(at)
        .chain(message.interrupts.then(|| "interrupts".to_owned()))
        .collect();
    words.join(" ")
}

fn brief_part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("{text:?}"),
        Part::Thinking(Thought { text, seal: None }) => format!("thinking({text})"),
        Part::Thinking(Thought { text, seal: Some(seal) }) => {
            format!("thinking({text:?} {:?} {})", seal.sealer, seal.chars)
        }
        Part::Attachment { media, .. } => format!("attachment({media})"),
        Part::Opaque { kind, json } => format!("opaque({kind} {json})"),
        Part::ToolCall { id, name, arguments } => {
            format!("call({} {name} {arguments})", id.as_deref().unwrap_or("-"))
        }
        Part::ToolResult { call_id, name, text, is_error } => {
            let (id, name) = (call_id.as_deref().unwrap_or("-"), name.as_deref().unwrap_or("-"));
            let failed = if *is_error { " failed" } else { "" };
            format!("result({id} {name}{failed} {text:?})")
        }
    }
}

/// Reads each JSON text, and compares the message in one line, or the error, with what is expected.
fn check(format: Format, cases: &[(&str, &str)]) {
    for (json, expected) in cases {
        let read = match parse(format, json) {
            Ok(message) => {
                assert_eq!((message.payload.as_str(), message.format), (*json, format));
                brief(&message)
            }
            Err(error) => format!("refused: {error}"),
        };
        assert_eq!(read, *expected, "{json}");
    }
}

#[test]
fn every_format_refuses_a_value_that_is_no_object() {
    for format in Format::ALL {
        for (json, reason) in [
            ("42", "message is a JSON number, not an object"),
            ("\"massive error\"", "message is a JSON string, not an object"),
            ("[1]", "message is a JSON array, not an object"),
            ("null", "message is a JSON null, not an object"),
            ("true", "message is a JSON boolean, not an object"),
            ("", "broken JSON at column 0: EOF while parsing a value"),
            ("{\"role\":\"user\"", "broken JSON at column 14: EOF while parsing an object"),
            ("{} {}", "broken JSON at column 4: trailing characters"),
            (
                "{\"a\":\"\u{1}\"}",
                "broken JSON at column 6: control character (\\u0000-\\u001F) found while parsing a string",
            ),
        ] {
            let error = parse(format, json).unwrap_err();
            assert_eq!(error.reason, reason, "{json}");
            assert!(!error.cure.is_empty());
        }
    }
}

#[test]
fn times_and_ids_are_found_where_each_format_has_them() {
    let extras =
        r#""id":"i","uuid":"u","client_id":"c","at":"2026-01-05T08:00:07Z","speaker":"Ada","content":"x""#;
    for (format, head, expected) in [
        (Format::Native, r#""kind":"user""#, "i"),
        (Format::OpenAiChat, r#""role":"user""#, "c"),
        (Format::Anthropic, r#""role":"user""#, "c"),
        (Format::OpenAiResponses, r#""role":"user""#, "c"),
        (Format::Codex, r#""role":"user""#, "c"),
        (Format::Aider, r#""kind":"user""#, "i"),
        (Format::ClaudeCode, r#""type":"user","message":{"content":"x"}"#, "u"),
    ] {
        let message = parse(format, &format!("{{{head},{extras}}}")).unwrap();
        assert_eq!(brief(&message), format!(r#"user of Ada: "x" id={expected} at=2026-01-05T08:00:07Z"#));
    }
}

/// The clients are tested against the same table.
#[test]
fn a_message_is_known_by_its_own_id() {
    let rows = include_str!("../../../../tests/fixtures/message_ids.json");
    let rows: Vec<serde_json::Value> = serde_json::from_str(rows).unwrap();
    for row in rows {
        let (json, known_by) = (row["message"].to_string(), row["known_by"].as_str());
        let named_format = row["format"].as_str().map(|name| Format::from_name(name).unwrap());
        let format = named_format.or_else(|| detect(&json)).unwrap_or(Format::OpenAiChat);
        let read = parse_strict(format, &json).unwrap();
        assert_eq!(read.client_id.as_deref(), known_by, "{row}");
        if named_format.is_none() {
            assert_eq!(own_id(&json).as_deref(), known_by, "{row}");
        }
    }
}

#[test]
fn the_documentation_lists_every_format() {
    let page = include_str!("../../../../docs/integration.md");
    let lines = Format::ALL.map(|format| format!("\n| `{}` | ", format.name()));
    let missing: Vec<&String> = lines.iter().filter(|line| !page.contains(*line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn times_are_read_as_text_and_as_numbers() {
    for (field, expected) in [
        (r#""at":"2026-01-05T08:00:07.250Z""#, Some("2026-01-05T08:00:07.250Z")),
        (r#""created_at":"2026-01-05T08:00:07""#, Some("2026-01-05T08:00:07Z")),
        (r#""timestamp":"2026-01-05T09:00:07+01:00""#, Some("2026-01-05T08:00:07Z")),
        (r#""timestamp":1767600007"#, Some("2026-01-05T08:00:07Z")),
        (r#""timestamp":1767600007.25"#, Some("2026-01-05T08:00:07.250Z")),
        (r#""timestamp":1767600007250"#, Some("2026-01-05T08:00:07.250Z")),
        (r#""at":null,"timestamp":"2026-01-05T08:00:07Z""#, Some("2026-01-05T08:00:07Z")),
        (r#""at":"1:56 pm on 8 May, 2023""#, None),
        (r#""at":1e999"#, None),
        // These times are outside of the years 1 to 9999.
        (r#""at":-1e12"#, None),
        (r#""at":1e300"#, None),
        (r#""at":"-29700-01-01T00:00:00""#, None),
        (r#""at":-62135596800"#, Some("0001-01-01T00:00:00Z")),
        (r#""at":-1e12,"timestamp":1767600007"#, Some("2026-01-05T08:00:07Z")),
        (r#""at":{}"#, None),
    ] {
        let message = parse(Format::OpenAiChat, &format!(r#"{{"role":"user",{field}}}"#)).unwrap();
        assert_eq!(message.at.map(|at| at.to_string()).as_deref(), expected, "{field}");
    }
}

#[test]
fn names_and_ids_have_a_limit() {
    let long = "x".repeat(10_000);
    let message = |head: &str| {
        parse(Format::Native, &format!(r#"{{{head},"id":"{long}","speaker":"{long}"}}"#)).unwrap()
    };
    let user = message(r#""kind":"user""#);
    assert_eq!(user.client_id, None);
    assert_eq!(user.speaker.unwrap().chars().count(), NAME_CHARS_MAX);
    assert_eq!(message(&format!(r#""kind":"{long}""#)).kind.name().chars().count(), NAME_CHARS_MAX);
}
