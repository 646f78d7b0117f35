use super::{code, json, package_file, recapd, replay_example, stderr, stdout};

#[test]
fn exchanges_messages_and_agents_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("forget.db");
    let journals = folder.path().join("journals");
    let journal = format!("journal.dir={}", journals.display());
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.args(args).arg("--db").arg(&database).args(["--set", &journal]);
        command.output().unwrap()
    };
    let replay = package_file("tests/fixtures/native.jsonl");
    let output = run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let shown = stdout(&run(&["expand", "coder", "1"]));
    assert!(!shown.contains("(forgotten)"), "{shown}");
    let output = run(&["forget", "coder", "#1"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("forgot ") && stdout(&output).contains("#1 in coder"),
        "{}",
        stdout(&output)
    );
    let shown = stdout(&run(&["expand", "coder", "1"]));
    assert!(shown.contains("(forgotten)"), "{shown}");
    assert!(stdout(&run(&["forget", "coder", "1"])).contains("there was nothing to forget"));
    assert_eq!(code(&run(&["verify"])), Some(0));
    let again = json(&run(&["forget", "coder", "--message", "2", "--json"]));
    assert_eq!((&again["messages"], &again["scrubbed"]), (&0.into(), &true.into()), "{again}");
    for (args, status, words) in [
        (&["forget", "coder"][..], 2, "--message"),
        (&["forget", "coder", "999"], 3, "#999"),
        (&["forget", "coder", "--message", "999"], 3, "999"),
        (&["forget", "nobody", "1"], 3, "coder"),
        (&["forget", "coder", "--all"], 2, "--yes"),
        (&["forget", "coder", "--all", "--yes", "code"], 2, "--all --yes coder"),
        (&["forget", "coder", "1", "--message", "2"], 2, "--message"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let output = run(&["forget", "coder", "--all", "--yes", "coder"]);
    assert!(stdout(&output).starts_with("deleted coder with "), "{} {}", stdout(&output), stderr(&output));
    assert_eq!(code(&run(&["expand", "coder", "1"])), Some(3));
}

#[test]
fn a_version_whose_text_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("forget.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    replay_example("coder", &database);
    assert_eq!(code(&run(&["forget", "coder", "#1"])), Some(0));
    let listed = stdout(&run(&["versions", "coder"]));
    assert!(listed.contains("text forgotten"), "{listed}");
    for args in [&["versions", "coder", "1"][..], &["diff", "coder", "1", "2"]] {
        let output = run(args);
        assert_eq!(code(&output), Some(3), "{args:?}");
        assert!(stderr(&output).contains("it contained what was forgotten"), "{}", stderr(&output));
    }
}
