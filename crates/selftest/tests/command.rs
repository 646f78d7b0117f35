//! The command line of `recapd-selftest`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "support functions belong to tests, where a failure should stop at once; clippy knows test functions only"
)]

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use assert_cmd::Command;
use serde_json::Value;

fn selftest() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recapd-selftest"));
    command.env_clear();
    command
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn windows_of_any_budget_keep_every_promise() {
    let mut command = selftest();
    command.args(["window", "--json", "--budgets", "12"]);
    let output = command.arg(file("examples")).arg(file("tests/fixtures")).output().unwrap();
    let findings = json(&output);
    assert_eq!(code(&output), Some(0), "{findings}");
    for (what, at_least) in [("windows", 100), ("evicted", 500), ("requests", 500)] {
        assert!(findings[what].as_u64().unwrap() >= at_least, "{what}: {findings}");
    }
    for what in ["refused", "split", "over_budget", "newest_lost"] {
        assert_eq!(findings[what], 0, "{findings}");
    }
}

#[test]
fn updates_by_an_adversarial_model_keep_every_promise_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("progress.json");
    let run = || {
        let mut command = selftest();
        command.args(["updates", "--json", "--updates", "6_0", "--seed", "3", "--resume"]);
        let output = command.arg(&progress).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        json(&output)
    };
    let found = run();
    assert_eq!(found["updates"], 60);
    for what in ["over_ceiling", "uncovered", "decisions_lost", "malformed"] {
        assert_eq!(found[what], 0, "{found}");
    }
    assert_eq!(run(), found, "nothing is left to do");
    let mut command = selftest();
    command.args(["updates", "--updates", "70", "--seed", "3", "--resume"]);
    assert_eq!(code(&command.arg(&progress).output().unwrap()), Some(2));
}

#[test]
fn the_same_seed_makes_the_same_choices_and_no_work_is_a_failure() {
    let run = |seed: &str| {
        let mut command = selftest();
        command.args(["window", "--budgets", "3", "--seed", seed]);
        stdout(&command.arg(file("tests/fixtures/native.jsonl")).output().unwrap())
    };
    assert_eq!(run("5"), run("5"));
    let output = selftest().args(["window"]).arg(file("tests/fixtures/empty.jsonl")).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("empty.jsonl"), "{}", stderr(&output));
}

#[test]
fn simulated_daemons_keep_every_promise_and_break_one_without_a_guard() {
    let run = |more: &[&str]| {
        let mut command = selftest();
        command.args(["simulation", "--runs", "1_0", "--seed", "7"]);
        command.args(more).output().unwrap()
    };
    let sound = run(&["--json"]);
    let found = json(&sound);
    assert_eq!(code(&sound), Some(0), "{found}");
    assert_eq!((&found["runs"], &found["failed"]), (&10.into(), &serde_json::json!([])));
    assert!(found["counts"]["steps"].as_u64().unwrap() > 1_000, "{found}");
    let broken = run(&["--without", "rearm,void"]);
    assert_eq!(code(&broken), Some(1));
    let told = stdout(&broken);
    assert!(told.contains("wake-up lost") && told.contains("the last steps of seed"), "{told}");
    let unknown = run(&["--without", "locks"]);
    assert_eq!(code(&unknown), Some(2));
    assert!(stderr(&unknown).contains("lease, version, watermark"), "{}", stderr(&unknown));
}
