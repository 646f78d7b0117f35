//! The summary of the example, and the context that an agent gets, contain what `examples/README.md` announces, and
//! the rules of the first message, which hold for good.

use super::{code, recapd, replay_example, stderr, stdout};

/// Words of the conversation that must appear.
const PROMISES: [&str; 7] = [
    // The rules of the first message.
    "never touch anything under legacy/ without asking me first",
    "please don't suggest containers again",
    // Why RS256 was chosen.
    "must be able to verify and must not be able to issue",
    // The incident, and its return a week later.
    "INC-2291",
    "on the same weekday",
    // The flaky test that wasn't.
    "the test isn't flaky, the code is",
    // The move of all amounts to integers.
    "minor_units",
];

#[test]
fn the_example_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("example.db");
    let run = |args: &[&str]| {
        let output = recapd().args(args).arg("--db").arg(&database).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    replay_example("two-weeks", &database);
    let summary = run(&["summary", "two-weeks", "--raw"]);
    let context = run(&["context", "two-weeks", "--format", "openai"]);
    for words in PROMISES {
        assert!(summary.contains(words), "{words}: {summary}");
        assert!(context.contains(words), "{words}");
    }
    let state = summary.split("\n\n").next().unwrap_or_default();
    for rule in ["never touch anything under legacy/", "we deploy with systemd, not Docker"] {
        assert!(state.starts_with("## Where Things Stand") && state.contains(rule), "{rule}: {state}");
    }
}
