//! Messages that `codex fork` copies are stored once, from the original rollout. Sub-agents' messages aren't stored.

use super::*;
use recapd_core::domain::message::Kind;

const BEFORE: &str = "2026-07-13T10:00:00.000Z";
const LATER: &str = "2026-07-14T10:00:00.000Z";

fn codex() -> Hooks {
    Hooks { host: Host::Codex, ..Hooks::new() }
}

fn envelope(at: &str, kind: &str, payload: &str) -> String {
    format!("{{\"timestamp\":\"{at}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

fn header(session: &str, parent: &str) -> String {
    let payload = format!(r#"{{"id":"{session}","forked_from_id":"{parent}","source":"cli"}}"#);
    envelope(LATER, "session_meta", &payload)
}

/// The lines of a turn with a message of the user and one of the model. `more` are fields that newer versions of Codex add.
fn turn(name: &str, asked: &str, at: &str, more: &str) -> String {
    let said = |role: &str, kind: &str, text: &str| {
        let content = format!(r#"[{{"type":"{kind}","text":"{text}"}}]"#);
        let payload = format!(r#"{{"type":"message"{more},"role":"{role}","content":{content}}}"#);
        envelope(at, "response_item", &payload)
    };
    [
        envelope(at, "turn_context", &format!(r#"{{"turn_id":"{name}"}}"#)),
        said("user", "input_text", asked),
        said("assistant", "output_text", &format!("{name} is done")),
        envelope(at, "event_msg", &format!(r#"{{"type":"task_complete","turn_id":"{name}"}}"#)),
    ]
    .concat()
}

fn turns(names: &[&str], at: &str, more: &str) -> String {
    names.iter().map(|name| turn(name, name, at, more)).collect()
}

fn parent(names: &[&str]) -> String {
    header("parent", "") + &turns(names, BEFORE, "")
}

/// A fork with copied turns and turns of its own.
fn fork(copied: &[&str], own: &[&str]) -> String {
    let more = r#","id":"msg_1","phase":null"#;
    let headers = header("fork", "parent") + &header("parent", "");
    headers + &turns(copied, LATER, more) + &turns(own, LATER, more)
}

impl Hooks {
    fn write(&self, session: &str, text: &str) {
        fs::write(self.transcript(session), text).unwrap();
    }

    fn see(&self, session: &str, text: &str) {
        self.write(session, text);
        self.gather(session, None);
        self.drain();
    }

    fn asked(&self) -> Vec<String> {
        let messages = self.stored().into_iter();
        let messages = messages.map(|line| formats::parse(Format::Codex, &line).unwrap());
        messages.filter(|message| message.kind == Kind::User).map(|message| message.text()).collect()
    }
}

#[test]
fn a_fork_is_gathered_from_the_end_of_its_copied_lines() {
    let hooks = codex();
    // The hook may be called with another name, but the file identifies the session.
    let rollout = "rollout-2026-07-13-parent";
    hooks.see(rollout, &parent(&["one", "two"]));
    hooks.see("fork", &fork(&["one", "two"], &["three"]));
    assert_eq!(hooks.asked(), ["one", "two", "three"]);
    hooks.see("fork", &fork(&["one", "two"], &["three", "four"]));
    hooks.see(rollout, &parent(&["one", "two", "five"]));
    assert_eq!(hooks.asked(), ["one", "two", "three", "four", "five"]);
    // A fork from an earlier place.
    hooks.see("other fork", &fork(&["one"], &["six"]));
    assert_eq!(hooks.asked().len(), 6);
}

#[test]
fn a_forks_own_compaction_is_gathered() {
    let hooks = codex();
    hooks.see("parent", &parent(&["one"]));
    let compacted = envelope(LATER, "compacted", r#"{"message":"the short of it"}"#);
    hooks.see("fork", &(fork(&["one"], &[]) + &compacted));
    assert_eq!(hooks.asked(), ["one"]);
    let stored = hooks.stored();
    assert!(stored.iter().any(|line| line.contains("the short of it")));
}

#[test]
fn a_turn_with_the_same_words_is_not_a_copy() {
    let hooks = codex();
    hooks.see("parent", &(parent(&["one"]) + &turn("two", "again", BEFORE, "")));
    let own = turn("three", "again", LATER, "") + &turn("four", "fine", LATER, "");
    hooks.see("fork", &(fork(&["one"], &[]) + &own));
    assert_eq!(hooks.asked(), ["one", "again", "again", "fine"]);
}

#[test]
fn a_fork_of_an_original_that_was_not_gathered_is_gathered_as_a_whole() {
    let forked = fork(&["one"], &["two"]);
    let hooks = codex();
    hooks.see("fork", &forked);
    assert_eq!(hooks.asked(), ["one", "two"]);
    // Each session has its own agent.
    let mut hooks = codex();
    hooks.project = Some(project());
    hooks.see("parent", &parent(&["one"]));
    hooks.see("fork", &forked);
    assert_eq!(hooks.asked(), ["one", "one", "two"]);
    // The original is deleted.
    let hooks = codex();
    hooks.see("parent", &parent(&["one"]));
    fs::remove_file(hooks.transcript("parent")).unwrap();
    hooks.see("fork", &forked);
    assert_eq!(hooks.asked(), ["one", "one", "two"]);
}

#[test]
fn a_fork_of_a_truncated_original_loses_nothing() {
    let hooks = codex();
    hooks.see("parent", &parent(&["one", "two"]));
    hooks.write("parent", &parent(&["one"]));
    hooks.see("fork", &fork(&["one", "two"], &["three"]));
    assert_eq!(hooks.asked(), ["one", "two", "two", "three"]);
}

#[test]
fn a_fork_that_only_refers_to_its_original_is_gathered_as_a_whole() {
    let hooks = codex();
    hooks.see("parent", &parent(&["one", "two"]));
    let own = header("fork", "parent") + &turns(&["one"], LATER, "");
    hooks.see("fork", &own);
    assert_eq!(hooks.asked(), ["one", "two", "one"]);
}

#[test]
fn a_fork_waits_for_time_and_for_its_original() {
    let names: Vec<String> = (0..200).map(|number| format!("turn {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hooks = codex();
    hooks.see("parent", &parent(&names[..100]));
    hooks.write("parent", &parent(&names));
    hooks.write("fork", &fork(&names, &["own"]));
    for _ in 0..20 {
        hooks.gather_within(Duration::ZERO, "fork", None);
    }
    hooks.drain();
    assert_eq!(hooks.asked(), names[..100]);
    // By then the original is read to its end.
    hooks.gather("fork", None);
    hooks.drain();
    let all: Vec<&str> = names.into_iter().chain(["own"]).collect();
    assert_eq!(hooks.asked(), all);
}

#[test]
fn messages_of_sub_agents_are_left_out() {
    let hooks = codex();
    hooks.see("parent", &parent(&["one"]));
    let source = r#""source":{"subagent":{"thread_spawn":{"parent_thread_id":"parent","depth":1}}}"#;
    let header = header("called", "parent").replace(r#""source":"cli""#, source);
    hooks.write("called", &(header + &turns(&["two"], LATER, "")));
    hooks.gather("called", Some(SessionMark::Clear));
    hooks.drain();
    assert_eq!(hooks.asked(), ["one"]);
    assert!(files(&hooks.files().marks()).is_empty());
}
