//! `recapd hook install` and `uninstall`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::super::{code, json, recapd, stderr, stdout};

const SETTINGS: &str = "{\n\t\"model\": \"opus\",\n\t\"permissions\": { \"allow\": [] }\n}\n";

/// Makes a folder for the `PATH` with a program that claims to be that version of Claude Code.
fn claude(home: &Path, version: &str) -> String {
    let folder = home.join(format!("claude-{version}"));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("claude");
    if !program.exists() {
        fs::write(&program, format!("#!/bin/sh\necho '{version} (Claude Code)'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn only_events_that_the_host_knows_are_written() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    let run = |path: &str, args: &[&str]| {
        let mut command = recapd();
        let command = command.arg("hook").args(args).current_dir(home.path());
        let output = command.env("HOME", home.path()).env("PATH", path).output().unwrap();
        (code(&output), stdout(&output), stderr(&output))
    };
    let install = ["install", "claude-code", "--user", "--yes"];
    let named = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        ["PostCompact", "StopFailure", "SessionEnd"].map(|event| text.contains(event))
    };
    let [new, old, older] = ["2.1.332", "2.1.50", "1.0.100"].map(|version| claude(home.path(), version));
    let (ended, _, told) = run(&older, &install);
    assert_eq!((ended, named()), (Some(2), [false; 3]), "{told}");
    assert!(told.contains("1.0.100") && told.contains("claude update"), "{told}");
    for (path, why) in [("/nowhere", "`claude` isn't in the PATH"), (&old, "Claude Code 2.1.50")] {
        let (ended, _, told) = run(path, &install);
        assert_eq!((ended, named()), (Some(0), [false, false, true]), "{told}");
        assert!(told.contains(why) && told.contains("StopFailure and PostCompact"), "{told}");
    }
    let (_, shown, _) = run(&new, &["status"]);
    assert!(shown.contains("hint: the host also knows StopFailure and PostCompact"), "{shown}");
    assert_eq!(run(&new, &install).0, Some(0));
    assert_eq!(named(), [true; 3]);
    // The host is downgraded.
    let (_, shown, _) = run(&old, &["status"]);
    assert!(shown.contains("problem: Claude Code 2.1.50 doesn't know StopFailure"), "{shown}");
    assert!(shown.contains("run `recapd hook install claude-code --user` now"), "{shown}");
    assert_eq!(run(&old, &install).0, Some(0));
    assert_eq!(named(), [false, false, true]);
}

#[test]
fn shared_settings_name_only_events_that_all_versions_know() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    let mut command = recapd();
    let command = command.args(["hook", "install", "claude-code", "--project", "--yes", "--json"]);
    let command = command.current_dir(project.path()).env("HOME", home.path());
    let output = command.env("PATH", claude(home.path(), "2.1.332")).output().unwrap();
    assert_eq!(json(&output)["left_out"], serde_json::json!(["StopFailure", "PostCompact"]));
    let text = fs::read_to_string(project.path().join(".claude/settings.json")).unwrap();
    assert!(!text.contains("StopFailure") && !text.contains("PostCompact"), "{text}");
    assert!(text.contains("command -v recapd >/dev/null 2>&1 && recapd hook Stop"), "{text}");
}

#[test]
fn hooks_are_installed_and_uninstalled() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".claude/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, SETTINGS).unwrap();
    let run = |args: &[&str]| {
        let output = recapd()
            .arg("hook")
            .args(args)
            .env("HOME", home.path())
            .env("PATH", claude(home.path(), "2.1.332"))
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let shown = run(&["install", "claude-code", "--dry-run"]);
    let taken: Vec<&str> = shown.lines().filter(|line| line.starts_with('-')).collect();
    // Only a comma differs.
    assert_eq!(taken, ["-\t\"permissions\": { \"allow\": [] }"], "{shown}");
    assert!(shown.contains("+\t\"hooks\": {"), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), SETTINGS);
    run(&["install", "claude-code", "--user", "--yes"]);
    let with = fs::read_to_string(&file).unwrap();
    assert!(with.contains("recapd hook SessionStart --host claude-code\""), "{with}");
    assert!(run(&["install", "claude-code", "--yes"]).contains("nothing to change"));
    // As earlier versions left it.
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
fn json_output_says_what_was_done() {
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
fn nothing_is_written_without_confirmation() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| recapd().arg("hook").args(args).current_dir(folder.path()).output().unwrap();
    for (args, why) in [(&[][..], "there is no terminal"), (&["--no-input"], "needs a confirmation")] {
        let output = run(&[&["install", "codex", "--project"], args].concat());
        assert_eq!(code(&output), Some(2));
        let told = stderr(&output);
        assert!(told.contains(why) && told.contains("add --yes"), "{told}");
    }
    assert!(!folder.path().join(".codex/hooks.json").exists());
    let output = run(&["install", "codex", "--project", "--yes", "--agent", "me-{session}"]);
    assert!(stdout(&output).contains("/hooks"), "{}", stderr(&output));
    let text = fs::read_to_string(folder.path().join(".codex/hooks.json")).unwrap();
    assert!(text.contains("recapd hook Stop --host codex --agent 'me-{session}'"), "{text}");
    fs::write(folder.path().join(".codex/hooks.json"), "{ broken").unwrap();
    let output = run(&["install", "codex", "--project", "--yes"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("correct them"), "{}", stderr(&output));
}
