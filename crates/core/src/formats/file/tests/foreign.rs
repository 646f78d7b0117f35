//! Conversations of other programs, in small made-up files of their shapes. Each test says where its shape is documented. Where it isn't
//! obvious, the test explains under *By hand* how the expected messages follow from the file.

mod agents;
mod exports;
mod frameworks;

use super::*;

fn open(text: &str) -> Result<FileReader, ReadError> {
    let source = FileSource { reads_foreign: true, ..FileSource::of(Path::new("log.json")) };
    FileReader::make(io::Cursor::new(text.to_owned()), source, None)
}

/// Returns the program, a line for each message, and what isn't read.
fn read(text: &str) -> String {
    let reader = open(text).unwrap();
    let left_out: Vec<String> =
        reader.left_out().iter().map(|(name, times)| format!("{times} × {name}")).collect();
    let program = reader.program().unwrap_or("none").to_owned();
    format!("{program}\n{}\nnot read: {}", listing(reader), left_out.join(", "))
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(read(text), expected.join("\n"));
}

#[test]
fn fixtures_of_recapds_formats_are_not_taken_for_another_programs() {
    let folder = fixture("native.jsonl");
    let mut files = 0;
    for entry in std::fs::read_dir(folder.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(reader) = FileReader::open_conversation(&path, None, None) {
            assert_eq!(reader.program(), None, "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 20, "{files}");
}

#[test]
fn a_reader_of_recapds_formats_reads_no_other_programs() {
    let text = r#"[{"role":"user","parts":[{"type":"text","text":"Hi"}]}]"#;
    assert_eq!(open(text).unwrap().program(), Some("ai-sdk-ui"));
    assert!(matches!(from_text(text), Err(ReadError::Unrecognised { .. })));
}

#[test]
fn a_session_without_messages_is_empty() {
    let result = open("{\"sessionId\":\"s\",\"projectHash\":\"p\"}\n");
    assert!(matches!(result, Err(ReadError::Empty { .. })));
}

#[test]
fn a_broken_line_among_others_is_skipped() {
    let text = "{\"sessionId\":\"s\",\"projectHash\":\"p\"}\n{\"id\":\"m1\",\"timestamp\":\"2026-03-02T10:00:00Z\",\"type\":\"user\",\"content\":\"Hi\"}\n{\"id\":\n";
    check(
        text,
        &[
            "gemini-cli",
            r#"log | user: "Hi" id=m1 at=2026-03-02T10:00:00Z"#,
            "skipped 3: broken JSON at column 6: EOF while parsing a value; give each message as one complete JSON object",
            "not read: ",
        ],
    );
}
