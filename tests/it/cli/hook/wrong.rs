//! Wrong calls: a host gets exit code 0 and no output, a person gets the error.

use std::fs;

use assert_cmd::Command;
use serde_json::json;

use super::super::{code, recapd, stderr, stdout};

/// `recapd` without any state of this user's.
fn recapd_in(folder: &tempfile::TempDir) -> Command {
    let mut command = recapd();
    command.env("XDG_STATE_HOME", folder.path());
    command
}

/// Asserts that a call ends as if there were nothing to do.
fn assert_undisturbed(command: &mut Command, input: &str) {
    let output = command.write_stdin(input).output().unwrap();
    let printed = (code(&output), stdout(&output), stderr(&output));
    assert_eq!(printed, (Some(0), String::new(), String::new()), "{command:?}: {input}");
}

fn good() -> String {
    json!({ "session_id": "s", "source": "startup" }).to_string()
}

#[test]
fn a_host_is_never_disturbed_by_its_input() {
    let folder = tempfile::tempdir().unwrap();
    for (event, input) in [
        ("SessionStart", "no JSON"),
        ("SessionStart", ""),
        ("Stop", r#"{"session_id":"s","transcript_path":"/nowhere/x.jsonl"}"#),
        ("Stop", r#"{"session_id":"s","transcript_path":"/dev/zero"}"#),
    ] {
        assert_undisturbed(recapd_in(&folder).args(["hook", event]), input);
    }
}

#[test]
fn a_host_is_never_disturbed_by_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "hook",
        "hook --no-such-option",
        "hook SomethingNew",
        "hook something-new",
        "hook stop",
        "hook stop --no-such-option",
        "hook Stop --no-such-option",
        "hook Stop Stop",
        "hook Stop --host emacs",
        "hook Stop --agent",
        "hook --host codex Stop",
        "hook SessionStart --server no-address",
        "--no-such-option hook Stop",
        "-q -v hook Stop",
        "--server no-address hook stop",
    ] {
        assert_undisturbed(recapd_in(&folder).args(line.split(' ')), &good());
    }
}

#[test]
fn a_host_is_never_disturbed_by_settings() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.toml");
    fs::write(&broken, "[hook").unwrap();
    let broken = broken.to_str().unwrap();
    for options in [
        ["--config", "/nowhere/recapd.toml"],
        // Unreadable: it is a folder.
        ["--config", "/"],
        ["--config", broken],
        ["--token-file", "/nowhere/token"],
        ["--set", "http.listn=1"],
        ["--set", "hook.max_chars=many"],
    ] {
        assert_undisturbed(recapd_in(&folder).args(["hook", "Stop"]).args(options), &good());
        assert_undisturbed(recapd_in(&folder).args(options).args(["hook", "stop"]), &good());
    }
    for (name, value) in [("RECAPD__HOOK__MAX_CHARS", "many"), ("RECAPD__HOOK__NO_SUCH_KEY", "1")] {
        assert_undisturbed(recapd_in(&folder).args(["hook", "Stop"]).env(name, value), &good());
    }
}

#[test]
fn a_person_sees_errors() {
    let folder = tempfile::tempdir().unwrap();
    for line in
        ["hook install", "hook install emacs", "hook test --event Nothing", "hook status --no-such-option"]
    {
        let output = recapd_in(&folder).args(line.split(' ')).output().unwrap();
        assert_eq!(code(&output), Some(2), "{line}");
        assert!(stderr(&output).contains("--help"), "{line}: {}", stderr(&output));
    }
    for line in ["hook --help", "hook help", "hook Stop --help"] {
        let mut command = recapd_in(&folder);
        // A hook's time limit is short for a busy machine.
        command.env("RECAPD_HOOK_PATIENCE", "50");
        let output = command.args(line.split(' ')).output().unwrap();
        assert_eq!(code(&output), Some(0), "{line}");
        assert!(stdout(&output).contains("Usage:"), "{line}: {}", stdout(&output));
    }
}
