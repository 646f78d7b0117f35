//! Output on a terminal, including when stdout goes to a program.

use std::{
    fs::File,
    io::Read as _,
    process::{Command, Output, Stdio},
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
};

use super::{code, json};

/// Runs `recapd` with a terminal as its stdin and stderr. Also returns what the terminal shows.
fn shown(args: &[&str]) -> (Output, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::<u8>::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let stderr = open(name, flags, Mode::empty()).unwrap();
    let child = Command::new(assert_cmd::cargo::cargo_bin("recapd"))
        .env_clear()
        .env("TERM", "xterm")
        .env("RECAPD_HOOK_PATIENCE", "50")
        .args(args)
        .stdin(stderr.try_clone().unwrap())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut text = Vec::new();
    // Reading ends with an error once the other end is closed.
    File::from(terminal).read_to_end(&mut text).ok();
    let output = child.wait_with_output().unwrap();
    (output, String::from_utf8(text).unwrap())
}

#[test]
fn progress_is_shown_on_the_terminal_whatever_stdout_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (chat, one, other) = (path("chat.jsonl"), path("one.db"), path("other.db"));
    let lines =
        "{\"role\":\"user\",\"content\":\"Fix the parser\"}\n{\"role\":\"assistant\",\"content\":\"Done\"}\n";
    std::fs::write(&chat, lines).unwrap();

    let (imported, text) = shown(&["import", &chat, "--db", &one, "--json"]);
    assert_eq!(code(&imported), Some(0), "{text}");
    assert_eq!(json(&imported)["accepted"], 2);
    for wanted in ["importing  1/1 sessions", "indexing  2 messages"] {
        assert!(text.contains(wanted), "no {wanted}: {text}");
    }

    let (copied, text) = shown(&["copy", &one, &other, "--json"]);
    assert_eq!(code(&copied), Some(0), "{text}");
    assert_eq!(json(&copied)["is_clean"], true);
    assert!(text.contains("% ") && text.contains(" elapsed"), "{text}");

    let (quiet, text) = shown(&["import", &chat, "--db", &one, "--quiet"]);
    assert_eq!((code(&quiet), text.as_str()), (Some(0), ""));
}

#[test]
fn hook_errors_are_shown_on_a_terminal_only() {
    for (args, wanted) in [
        (&["hook"][..], "drain"),
        (&["hook", "statsu"], "status"),
        (&["hook", "Stop", "--hots", "codex"], "--host"),
    ] {
        let (output, text) = shown(args);
        assert_eq!(code(&output), Some(0), "{args:?}");
        assert!(text.contains(wanted), "{args:?}: {text}");
    }
}
