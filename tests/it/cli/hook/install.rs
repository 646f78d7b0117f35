//! `recapd hook install` and `uninstall`.

use std::fs;

use super::super::{code, json, recapd, stderr, stdout};

const SETTINGS: &str = "{\n\t\"model\": \"opus\",\n\t\"permissions\": { \"allow\": [] }\n}\n";

#[test]
fn hooks_are_put_in_and_taken_out_again() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, SETTINGS).unwrap();
    let run = |args: &[&str]| {
        let output = recapd()
            .arg("hook")
            .args(args)
            .env("HOME", home.path())
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let shown = run(&["install", "claude-code", "--dry-run"]);
    let taken: Vec<&str> = shown.lines().filter(|line| line.starts_with('-')).collect();
    // Another comma.
    assert_eq!(taken, ["-\t\"permissions\": { \"allow\": [] }"], "{shown}");
    assert!(shown.contains("+\t\"hooks\": {"), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), SETTINGS);
    run(&["install", "claude-code", "--user", "--yes"]);
    let with = fs::read_to_string(&file).unwrap();
    assert!(
        with.contains("recapd hook SessionStart --host claude-code\""),
        "{with}"
    );
    assert!(run(&["install", "claude-code", "--yes"]).contains("nothing to change"));
    // As versions before left it.
    fs::write(&file, with.replace("|fork\"", "\"")).unwrap();
    let shown = run(&["install", "claude-code", "--yes"]);
    let mut put_in = shown.lines().filter(|line| line.starts_with('+'));
    assert!(put_in.any(|line| line.contains("compact|fork\"")), "{shown}");
    let again = fs::read_to_string(&file).unwrap();
    assert_eq!(again.matches("recapd hook SessionStart").count(), 1, "{again}");
    assert!(run(&["install", "claude-code", "--yes"]).contains("nothing to change"));
    run(&["uninstall", "claude-code", "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), SETTINGS);
}

#[test]
fn programs_are_told_what_was_done_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.current_dir(folder.path()).arg("hook").args(args);
        let output = command.args(["codex", "--project", "--json"]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let told = json(&output);
        assert_eq!(told["file"], "./.codex/hooks.json");
        [told["diff"].is_string(), told["written"] == true]
    };
    assert_eq!(run(&["install", "--dry-run"]), [true, false]);
    assert_eq!(run(&["install", "--yes"]), [true, true]);
    assert_eq!(run(&["install", "--yes"]), [false, false]);
    assert_eq!(run(&["uninstall", "--yes"]), [true, true]);
}

#[test]
fn nothing_is_written_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        recapd()
            .arg("hook")
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    for (args, why) in [
        (&[][..], "isn't a terminal"),
        (&["--no-input"], "would be asked about"),
    ] {
        let output = run(&[&["install", "codex", "--project"], args].concat());
        assert_eq!(code(&output), Some(2));
        let told = stderr(&output);
        assert!(told.contains(why) && told.contains("say --yes"), "{told}");
    }
    assert!(!folder.path().join(".codex/hooks.json").exists());
    let output = run(&[
        "install",
        "codex",
        "--project",
        "--yes",
        "--agent",
        "me-{session}",
    ]);
    assert!(stdout(&output).contains("/hooks"), "{}", stderr(&output));
    let text = fs::read_to_string(folder.path().join(".codex/hooks.json")).unwrap();
    assert!(
        text.contains("recapd hook Stop --host codex --agent 'me-{session}'"),
        "{text}"
    );
    fs::write(folder.path().join(".codex/hooks.json"), "{ broken").unwrap();
    let output = run(&["install", "codex", "--project", "--yes"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("mend them"), "{}", stderr(&output));
}
