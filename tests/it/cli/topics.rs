//! Help topics: `recapd help` about what all commands share.

use super::{code, recapd, stderr, stdout};

#[test]
fn topics_are_shown_by_help() {
    let run = |args: &[&str]| {
        let output = recapd().args(args).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    let root = run(&["--help"]);
    for (topic, about, words) in [
        ("exit-codes", "What the exit codes mean", "\n  75  not done yet: try again later\n"),
        ("environment", "Which variables recapd reads", "\n  RECAPD_TOKEN  "),
        ("hooks", "What the hooks of Claude Code and Codex do", "\n  StopFailure  "),
    ] {
        let told = run(&["help", topic]);
        assert!(told.contains(words), "{told}");
        assert_eq!(told, format!("{about}\n\n{}", run(&[topic])), "nothing else is told");
        assert_eq!(told, run(&[topic, "--help"]));
        assert!(root.contains(&format!("recapd help {topic}")), "{root}");
        assert!(!root.contains(about), "a topic is no command");
    }
    let unknown = recapd().args(["help", "topics"]).output().unwrap();
    assert_eq!(code(&unknown), Some(2), "{}", stdout(&unknown));
}
