//! The binary from outside: the output and exit codes of its commands.

mod agents;
mod alerts;
mod backup;
mod bad_input;
mod begin;
mod bundle;
mod check_request;
mod config;
mod count;
mod database;
mod doctor;
mod forget;
mod history;
mod hook;
mod journal;
mod legs;
mod lineage;
mod metrics;
mod migrate;
mod notes;
mod older_backup;
mod operate;
mod pins;
mod place;
mod private;
mod project;
mod promises;
mod push;
mod recall;
mod reference;
mod replay;
mod socket;
mod status;
mod summary;
mod terminal;
mod token;
mod topics;
mod versions;
mod wrong_input;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, channel},
    },
    thread,
};

use assert_cmd::Command;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::PATIENCE;

/// `recapd` with an environment that contains only what a test sets.
pub(crate) fn recapd() -> Command {
    let mut command = Command::cargo_bin("recapd").unwrap();
    command.env_clear();
    command
}

/// A command that prints until it is dropped.
struct Printing {
    child: Child,
    lines: Receiver<String>,
}

impl Printing {
    fn by(command: &mut std::process::Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in output.lines() {
                // The test may have stopped reading.
                tell.send(line.unwrap()).ok();
            }
        });
        Self { child, lines }
    }

    /// Waits for the next line that contains these words.
    fn until(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            if line.unwrap_or_else(|_| panic!("no {words}")).contains(words) {
                return;
            }
        }
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The example as `recapd replay` stores it, by agent.
static REPLAYED_EXAMPLES: Mutex<BTreeMap<String, TempDir>> = Mutex::new(BTreeMap::new());

/// Makes `database` as `recapd replay --agent AGENT` makes it of the example. A replay takes seconds, so each agent's is made once, and copied.
fn replay_example(agent: &str, database: &Path) {
    let mut replayed = REPLAYED_EXAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = replayed.entry(agent.to_owned()).or_insert_with(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut replay = recapd();
        replay.arg("replay").arg(package_file("examples/two-weeks.jsonl")).args(["--agent", agent, "--db"]);
        let output = replay.arg(folder.path().join("example.db")).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        folder
    });
    let example = folder.path().join("example.db");
    assert!(!example.with_extension("db-wal").exists(), "the log would have to be copied, too");
    std::fs::copy(example, database).unwrap();
}

fn package_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[test]
fn help_has_examples() {
    let output = recapd().arg("--help").output().unwrap();
    assert_eq!(code(&output), Some(0));
    for word in [
        "serve",
        "replay",
        "summary",
        "context",
        "mark",
        "rewind",
        "clear",
        "fork",
        "history",
        "recall",
        "expand",
        "forget",
        "export",
        "import",
        "status",
        "migrate",
        "copy",
        "verify",
        "check-request",
        "hook",
        "count",
        "alerts",
        "support",
        "Examples:",
        "Exit codes:",
    ] {
        assert!(stdout(&output).contains(word), "{word}");
    }
}

#[test]
fn a_misspelt_command_is_answered_with_the_nearest_one() {
    let output = recapd().arg("sumary").output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("summary"), "{}", stderr(&output));
}

#[test]
fn a_misspelt_key_is_answered_with_the_nearest_one() {
    for args in [["--set", "window.budget_token=5"], ["--set", "windows.budget_tokens=5"]] {
        let output = recapd().arg("status").args(args).output().unwrap();
        assert_eq!(code(&output), Some(78));
        assert!(stderr(&output).contains("window.budget_tokens"), "{}", stderr(&output));
    }
    let output = recapd().arg("status").env("RECAPD__WINDOW__BUDGET_TOKEN", "5").output().unwrap();
    assert_eq!(code(&output), Some(78));
    assert!(stderr(&output).contains("RECAPD__WINDOW__BUDGET_TOKEN"), "{}", stderr(&output));
}
