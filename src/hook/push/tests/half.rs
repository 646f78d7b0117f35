//! An incomplete line at the end of a transcript waits for its rest, and blocks nothing else.

use super::*;

impl Hooks {
    /// Runs a hook of another session, which gathers the rest of all sessions.
    fn gather_by_another(&self) {
        fs::write(self.transcript("another"), "").unwrap();
        self.gather("another", None);
        self.drain();
    }
}

#[test]
fn transcripts_with_an_incomplete_last_line_do_not_block_others() {
    let hooks = Hooks::new();
    let late = format!("{}\n", line(1_000, "late"));
    let halves: Vec<String> = (0..4 * STRAGGLERS_MAX).map(|number| format!("half {number}")).collect();
    for half in &halves {
        fs::write(hooks.transcript(half), &late.as_bytes()[..late.len() / 2]).unwrap();
        hooks.gather(half, None);
    }
    fs::write(hooks.transcript("s"), "").unwrap();
    hooks.gather("s", None);
    fs::write(hooks.transcript("s"), transcript(&texts(6))).unwrap();
    hooks.gather_by_another();
    let mut expected = at_once(&transcript(&texts(6)));
    expected.pop();
    assert_eq!(hooks.stored(), expected);
    // The host finishes one of the incomplete lines after all, in two steps.
    for bytes in [&late.as_bytes()[..late.len() - 1], late.as_bytes()] {
        fs::write(hooks.transcript(&halves[7]), bytes).unwrap();
        hooks.gather_by_another();
    }
    expected.push(line(1_000, "late"));
    assert_eq!(hooks.stored(), expected);
}

#[test]
fn an_incomplete_line_is_read_again_after_it_has_grown() {
    let hooks = Hooks::new();
    let bytes = transcript(&texts(7));
    let behind = |length: usize| {
        let cursor: Cursor = read_json(&files(&hooks.files().cursors())[0]).unwrap();
        cursor.is_behind(length as u64)
    };
    fs::write(hooks.transcript("s"), &bytes[..bytes.len() - 9]).unwrap();
    hooks.gather("s", None);
    assert!(!behind(bytes.len() - 9));
    assert!(behind(bytes.len() - 8) && behind(bytes.len() - 10) && behind(bytes.len()));
    fs::write(hooks.transcript("s"), &bytes).unwrap();
    hooks.gather("s", None);
    assert!(!behind(bytes.len()) && behind(bytes.len() + 1));
}

#[test]
fn a_message_directly_after_an_incomplete_line_is_not_lost() {
    let messages = [5, 10, 11].map(|number| line(number, "ä {\\\"type\\\":1}"));
    let more = r#""usage":{"input_tokens":1,"cache":{}},"list":[{"a":1},{}]"#;
    let lines = messages.each_ref().map(|line| line.replacen('{', &format!("{{{more},"), 1) + "\n");
    let half = line(0, "lost ä").into_bytes();
    let cuts = (1..half.len()).map(|at| half[..at].to_vec());
    // After a power cut a file may contain bytes that were never written.
    let long = format!("{{\"type\":\"user\",\"content\":\"{}", "x".repeat(2 << 20));
    for before in cuts.chain([vec![0; 300], b"}".to_vec(), long.into_bytes()]) {
        let hooks = Hooks::new();
        let [first, behind, last] = lines.each_ref().map(String::as_bytes);
        fs::write(hooks.transcript("s"), [first, &before].concat()).unwrap();
        hooks.gather("s", None);
        fs::write(hooks.transcript("s"), [first, &before, behind, last].concat()).unwrap();
        hooks.gather("s", None);
        hooks.drain();
        let before = String::from_utf8_lossy(&before);
        assert_eq!(hooks.stored(), messages, "{before:.300}");
    }
}

#[test]
fn no_message_is_read_from_inside_a_broken_line() {
    let fine = line(5, "fine");
    let (within, other) = (r#"{"type":"text","text":"x"}"#, line(10, "other"));
    for broken in [
        format!("{{\"type\":\"user\" {other}}}\n"),
        format!("{{\"type\":\"user\",\"message\":{{\"content\":[{within}\n"),
        format!("{other} and more\n"),
        "{\"".repeat(100_000) + "\n",
        format!("{{\"a\":\"{}\"{other}}}\n", "x".repeat(1 << 20)),
    ] {
        let hooks = Hooks::new();
        fs::write(hooks.transcript("s"), format!("{broken}{fine}\n")).unwrap();
        hooks.gather("s", None);
        hooks.drain();
        assert_eq!(hooks.stored(), [fine.as_str()], "{}", broken.len());
    }
}
