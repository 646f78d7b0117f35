//! Lines that a conversation took back.

use serde_json::{Value, json};

use super::*;
use crate::formats::file::undone::undone as find;

fn reader(format: Format, lines: &[Value]) -> FileReader {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let source = io::Cursor::new(lines.join("\n"));
    FileReader::from_reader(source, "log.jsonl", Some(format)).unwrap()
}

fn undone(format: Format, lines: &[Value]) -> Vec<u64> {
    let mut found: Vec<u64> = find(reader(format, lines)).into_iter().collect();
    found.sort_unstable();
    found
}

/// A Claude Code line that follows the line `parent`.
fn line(role: &str, uuid: &str, parent: impl Into<Value>, content: impl Into<Value>) -> Value {
    let (parent, content): (Value, Value) = (parent.into(), content.into());
    let message = json!({ "role": role, "content": content });
    json!({ "type": role, "uuid": uuid, "parentUuid": parent, "message": message })
}

fn result(uuid: &str, parent: &str) -> Value {
    let content = json!([{ "type": "tool_result", "tool_use_id": uuid, "content": "ok" }]);
    line("user", uuid, parent, content)
}

/// A question and its answer, which has the id `a`.
fn beginning() -> Vec<Value> {
    vec![line("user", "u", Value::Null, "Hi"), line("assistant", "a", "u", "Hello")]
}

#[test]
fn undone_messages_are_left_out_and_counted() {
    let lines = [beginning(), beginning()].concat();
    let mut reader = reader(Format::ClaudeCode, &lines);
    reader.undone = HashSet::from([2, 3]);
    let read: Vec<u64> = reader.by_ref().flatten().map(|record| record.line).collect();
    assert_eq!((read, reader.undone()), (vec![1, 4], 2));
}

#[test]
fn an_empty_prompt_is_left_out_and_its_descendants_are_kept() {
    let rest = vec![
        line("user", "first", "a", "Fix it"),
        line("user", "wordless", "first", " "),
        line("assistant", "b", "wordless", "Fixed."),
        line("user", "second", "a", "Fix it well"),
        line("user", "too", "second", ""),
    ];
    let lines = [beginning(), rest].concat();
    let mut conversation = FileReader {
        undone: find(reader(Format::ClaudeCode, &lines)),
        skips_wordless: true,
        ..reader(Format::ClaudeCode, &lines)
    };
    let read: Vec<u64> = conversation.by_ref().map(|item| item.unwrap().line).collect();
    assert_eq!(read, [1, 2, 6]);
    assert_eq!((conversation.undone(), conversation.wordless()), (3, 1));
    // A plain reader of the file gets every line.
    let all = reader(Format::ClaudeCode, &lines);
    assert_eq!(all.map(Result::unwrap).count(), lines.len());
}

#[test]
fn an_edited_prompt_is_undone_with_all_that_followed() {
    let boundary = json!({
        "type": "system", "uuid": "c", "parentUuid": null, "logicalParentUuid": "r", "content": "Compacted",
    });
    let rest = vec![
        line("user", "first", "a", "Fix it"),
        line("assistant", "b", "first", "I'll look."),
        result("r", "b"),
        boundary,
        line("user", "more", "c", "And the other one"),
        line("user", "second", "a", "Fix it well"),
        line("assistant", "d", "second", "Fixed."),
        line("user", "third", "a", "Fix it better"),
    ];
    let mut lines = [beginning(), rest].concat();
    assert_eq!(undone(Format::ClaudeCode, &lines), [3, 4, 5, 6, 7, 8, 9]);
    // A copy of an undone line is undone, too.
    lines.push(lines[3].clone());
    assert_eq!(undone(Format::ClaudeCode, &lines), [3, 4, 5, 6, 7, 8, 9, 11]);
    lines.pop();
    // A line may be written before its parent.
    lines.swap(2, 3);
    assert_eq!(undone(Format::ClaudeCode, &lines), [3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn other_branches_are_kept() {
    let with = |mut line: Value, name: &str, value: Value| {
        line[name] = value;
        line
    };
    let prompt = |uuid| line("user", uuid, "a", "Go on");
    let origin = json!({ "kind": "task-notification" });
    for rest in [
        vec![result("r1", "a"), result("r2", "a")],
        vec![line("user", "i", "a", "[Request interrupted by user]"), prompt("p")],
        vec![with(prompt("m"), "isMeta", true.into()), prompt("p")],
        vec![with(prompt("n"), "origin", origin), prompt("p")],
        vec![with(prompt("s"), "isSidechain", true.into()), prompt("p")],
        vec![line("user", "anew", Value::Null, "Hi again")],
        // Both branches continue.
        vec![prompt("p"), prompt("q"), line("assistant", "b", "p", "Done.")],
    ] {
        let lines = [beginning(), rest].concat();
        assert_eq!(undone(Format::ClaudeCode, &lines), [0_u64; 0], "{lines:?}");
    }
}

#[test]
fn turns_of_codex_that_were_taken_back_are_undone() {
    let said = |role: &str, text: &str| {
        let content = json!([{ "type": "input_text", "text": text }]);
        json!({ "type": "response_item", "payload": { "type": "message", "role": role, "content": content } })
    };
    let back = |turns: u32| {
        let event = json!({ "type": "thread_rolled_back", "num_turns": turns });
        json!({ "type": "event_msg", "payload": event })
    };
    let mut lines = vec![
        said("user", "<environment_context>\n</environment_context>"),
        said("user", "Which beds are dry?"),
        said("assistant", "Bed three."),
        said("user", "Water it."),
        said("assistant", "Done."),
        back(1),
        said("user", "Water it by hand."),
    ];
    assert_eq!(undone(Format::Codex, &lines), [4, 5]);
    lines.push(back(9));
    assert_eq!(undone(Format::Codex, &lines), [2, 3, 4, 5, 6, 7]);
    assert_eq!(undone(Format::OpenAiResponses, &lines), [0_u64; 0]);
}
