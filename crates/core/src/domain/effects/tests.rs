use serde_json::json;

use super::*;
use crate::domain::message::Part;

fn ran(calls: &[(&str, serde_json::Value, &str, bool)]) -> Effects {
    let mut messages = Vec::new();
    for (at, (name, arguments, result, is_error)) in calls.iter().enumerate() {
        let id = Some(format!("call {at}"));
        let arguments = match arguments {
            serde_json::Value::String(text) => text.clone(),
            json => json.to_string(),
        };
        messages.push(Message::new(
            Kind::ToolCall,
            vec![Part::ToolCall { id: id.clone(), name: (*name).to_owned(), arguments }],
        ));
        messages.push(Message::new(
            Kind::ToolResult,
            vec![Part::ToolResult {
                call_id: id,
                name: None,
                text: (*result).to_owned(),
                is_error: *is_error,
            }],
        ));
    }
    Effects::of(&messages)
}

#[test]
fn files_are_known_by_edit_tools_patches_and_redirections() {
    let patch = "*** Begin Patch\n*** Update File: src/garden.rs\n@@\n-a\n+b\n*** Add File: docs/beds.md\n+x\n*** End Patch";
    let effects = ran(&[
        (
            "Edit",
            json!({"file_path": "/home/ida/garden/src/main.rs", "old_string": "a", "new_string": "b"}),
            "ok",
            false,
        ),
        ("apply_patch", json!(patch), "Success", false),
        (
            "shell",
            json!({"command": ["bash", "-lc", "cat > notes/plan.md <<'EOF'\na > b\nEOF\nls > /dev/null 2> err.log"]}),
            "",
            false,
        ),
        ("bash", json!({"command": "sed -i 's/a > b/c/' src/seed.rs && make | tee -a build.log"}), "", false),
        ("Write", json!({"file_path": "lost.rs", "content": ""}), "no such directory", true),
        ("str_replace_editor", json!({"command": "view", "path": "/looked/at.rs"}), "", false),
        ("Read", json!({"file_path": "read.rs"}), "", false),
    ]);
    assert_eq!(
        effects.files,
        ["garden/src/main.rs", "src/garden.rs", "docs/beds.md", "notes/plan.md", "build.log", "src/seed.rs"]
    );
    assert_eq!(effects.unchanged, ["lost.rs"]);
}

#[test]
fn files_are_named_from_the_working_directory() {
    let effects = ran(&[
        ("exec_command", json!({"cmd": "ls", "workdir": "/home/ida/garden/web"}), "", false),
        ("exec_command", json!({"cmd": "ls", "workdir": "/home/ida/garden"}), "", false),
        ("write_file", json!({"path": "/home/ida/garden/web/app.ts"}), "", false),
    ]);
    assert_eq!(effects.files, ["web/app.ts"]);
}

#[test]
fn the_directory_that_a_command_enters_is_the_working_directory() {
    for command in ["cd /home/ida/my-garden && ls", "cd '/home/ida/my garden' && ls"] {
        let path = command.contains("my garden").then_some("/home/ida/my garden/web/app.ts");
        let path = path.unwrap_or("/home/ida/my-garden/web/app.ts");
        let effects = ran(&[
            ("bash", json!({"command": command}), "", false),
            ("write", json!({"path": path}), "", false),
        ]);
        assert_eq!(effects.files, ["web/app.ts"]);
    }
}

#[test]
fn a_failure_is_outdated_once_files_were_edited() {
    let test = ("bash", json!({"command": "cargo test"}), "1 failed", true);
    let log = ("bash", json!({"command": "cargo test > test.log"}), "1 failed", true);
    let edit = ("edit", json!({"path": "src/gate.rs"}), "", false);
    let sed = ("bash", json!({"command": "sed -i s/a/b/ src/gate.rs"}), "", false);
    let words = |calls: &[(&str, serde_json::Value, &str, bool)]| ran(calls).verdicts[0].words();
    assert_eq!(words(&[test.clone(), log]), "failed (1 failed)");
    for change in [edit, sed] {
        assert_eq!(words(&[test.clone(), change]), "failed (1 failed); files were edited since");
    }
}

#[test]
fn paths_of_windows_are_named_from_the_working_directory_with_slashes() {
    let effects = ran(&[
        ("bash", json!({"command": "git status", "workdir": r"C:\Users\ida\garden"}), "", false),
        ("write", json!({"filePath": r"C:\Users\ida\garden\src\main.rs"}), "ok", false),
        ("write", json!({"filePath": r"src\main.rs"}), "ok", false),
        ("write", json!({"filePath": r"D:\notes\2026\may\beds.md"}), "ok", false),
    ]);
    assert_eq!(effects.files, ["src/main.rs", "2026/may/beds.md"]);
    assert!(effects.runs_commands);
}

#[test]
fn commits_have_their_subjects_and_hashes() {
    let effects = ran(&[
        (
            "Bash",
            json!({"command": "git add -A && git commit -m \"$(cat <<'EOF'\nAdd beds to the plan\n\nMore.\nEOF\n)\""}),
            "[main 1a2b3c4d] Add beds to the plan\n 2 files changed",
            false,
        ),
        (
            "Bash",
            json!({"command": "git -C web commit -am 'Fix the gate'"}),
            "[web 9f8e7d6] Fix the gate",
            false,
        ),
        ("Bash", json!({"command": "git commit -m \"Nothing\""}), "nothing to commit", true),
        (
            "Bash",
            json!({"command": "gh pr create --title x"}),
            "https://github.com/ida/garden/pull/7\n",
            false,
        ),
    ]);
    let commits: Vec<(&str, &str)> =
        effects.commits.iter().map(|commit| (commit.hash.as_str(), commit.subject.as_str())).collect();
    assert_eq!(commits, [("1a2b3c4", "Add beds to the plan"), ("9f8e7d6", "Fix the gate")]);
    assert_eq!(effects.links, ["https://github.com/ida/garden/pull/7"]);
}

#[test]
fn the_last_run_of_a_check_is_its_verdict() {
    let effects = ran(&[
        (
            "Bash",
            json!({"command": "cd /garden && cargo test --lib"}),
            "test result: FAILED. 1 passed; 2 failed",
            false,
        ),
        (
            "Bash",
            json!({"command": "cargo test --lib 2>&1 | tail -5"}),
            "test result: ok. 3 passed; 0 failed",
            false,
        ),
        ("Bash", json!({"command": "npm run build"}), "sh: 1: tsc: command not found", true),
        ("Bash", json!({"command": "ls"}), "", true),
    ]);
    let verdicts: Vec<(&str, bool)> =
        effects.verdicts.iter().map(|verdict| (verdict.command.as_str(), verdict.has_passed)).collect();
    assert_eq!(verdicts, [("cargo test", true), ("npm run build", false)]);
}

#[test]
fn a_plan_has_the_state_after_its_last_change() {
    let effects = ran(&[
        (
            "TodoWrite",
            json!({"todos": [{"content": "Dig", "status": "in_progress"}, {"content": "Sow", "status": "pending"}]}),
            "",
            false,
        ),
        (
            "TodoWrite",
            json!({"todos": [{"content": "Dig", "status": "completed"}, {"content": "Sow", "status": "pending"}]}),
            "",
            false,
        ),
    ]);
    let left = |effects: &Effects| {
        effects
            .plan
            .iter()
            .filter(|entry| entry.is_left())
            .map(|entry| entry.text.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&effects), ["Sow"]);
    let tasks = ran(&[
        ("TaskCreate", json!({"subject": "Dig"}), "Task #1 created", false),
        ("TaskCreate", json!({"subject": "Sow"}), "Task #2 created", false),
        ("TaskUpdate", json!({"taskId": "1", "status": "completed"}), "", false),
        ("update_plan", json!({"explanation": "none"}), "", false),
    ]);
    assert_eq!(left(&tasks), ["Sow"]);
}

#[test]
fn a_checklist_of_cline_is_a_plan() {
    let effects = ran(&[(
        "write_to_file",
        json!({"absolutePath": r"c:\garden\beds.md", "content": "", "task_progress": "- [x] Dig\n- [ ] Sow\n"}),
        "",
        false,
    )]);
    let left: Vec<&PlanEntry> = effects.plan.iter().filter(|entry| entry.is_left()).collect();
    assert_eq!((left.len(), left[0].text.as_str()), (1, "Sow"));
    assert_eq!(effects.files, ["c:/garden/beds.md"]);
}

#[test]
fn files_are_known_by_the_edit_blocks_of_an_answer() {
    let text = "I'll oil it.\n\nsrc/gate.rs\n```rust\n<<<<<<< SEARCH\nfn dry() {}\n=======\nfn oiled() {}\n>>>>>>> REPLACE\n```";
    let answer = Message::new(Kind::Assistant, vec![Part::Text(text.to_owned())]);
    assert_eq!(Effects::of(&[answer]).files, ["src/gate.rs"]);
}

#[test]
fn an_undo_command_is_recorded() {
    let undo = Message::new(Kind::User, vec![Part::Text("/undo\n".to_owned())]);
    assert!(Effects::of(&[undo]).undoes);
    assert!(Effects::of(&[]).is_empty());
}

#[test]
fn files_that_are_only_named_were_looked_at() {
    let looked = ran(&[
        ("Read", json!({"file_path": "/home/ida/garden/src/gate.rs"}), "", false),
        (
            "exec",
            json!({"cmd": ["bash", "-lc", "nl -ba src/hinge.rs | sed -n '1,180p' > /dev/null"]}),
            "",
            false,
        ),
        ("shell", json!("rg oil ./docs/care.md https://ida.example/a.html --glob=*/b.rs"), "", false),
        ("Edit", json!({"file_path": "src/hinge.rs", "old_string": "see src/other.rs"}), "", false),
        ("Read", json!({"file_path": "src/lost.rs"}), "no such file", true),
        ("note", json!({"text": "x/y.rs ".repeat(400)}), "", false),
        ("note", json!({"text": "see x/y.rs"}), "", false),
        ("bash", json!({"command": "git rm --cached old/a.rs; grep -n reflow.window plan/b.rs"}), "", false),
        ("str_replace_editor", json!({"command": "view", "path": "seen/c.rs"}), "", false),
    ]);
    assert_eq!(looked.looked_at, ["garden/src/gate.rs", "docs/care.md", "plan/b.rs", "seen/c.rs"]);
    assert_eq!(looked.files, ["src/hinge.rs"]);
    let only_read = ran(&[("Read", json!({"file_path": "src/gate.rs"}), "", false)]);
    assert!(only_read.is_empty() && !looked.is_empty());
}

#[test]
fn the_calls_of_a_script_have_effects_of_their_own() {
    let patch = r#"const p = "*** Begin Patch\n*** Update File: src/bed.rs\n*** End Patch"; text(await tools.apply_patch(p));"#;
    let test =
        r#"const r = await tools.exec_command({"cmd":"cargo test","workdir":"/garden"}); text(r.output);"#;
    let plan = r#"await tools.update_plan({plan: [{step: "Water the beds", status: "pending"}]})"#;
    let lost = r#"text(await tools.apply_patch("*** Begin Patch\n*** Add File: lost.rs\n*** End Patch"));"#;
    let running = "Script running with cell ID 7\nWall time 10.0 seconds\nOutput:\n";
    let done = "Script completed\nWall time 3.0 seconds\nOutput:\n\ntest result: FAILED. 1 passed; 1 failed";
    let effects = ran(&[
        ("exec", json!(patch), "Script completed\nWall time 0.1 seconds\nOutput:\n\n{}", false),
        ("exec", json!(test), running, false),
        ("wait", json!({"cell_id": "7"}), done, false),
        ("exec", json!(plan), "Script completed\nWall time 0.0 seconds\nOutput:\n", false),
        ("exec", json!(lost), "Script failed\nWall time 0.0 seconds\nOutput:\n\nScript error:\nno", false),
    ]);
    assert_eq!(effects.files, ["src/bed.rs"]);
    assert_eq!(effects.unchanged, ["lost.rs"]);
    assert!(effects.runs_commands);
    assert_eq!(effects.plan[0].text, "Water the beds");
    let [verdict] = effects.verdicts.as_slice() else { panic!("{:?}", effects.verdicts) };
    assert_eq!((verdict.command.as_str(), verdict.has_passed), ("cargo test", false));
}

#[test]
fn a_command_that_is_still_running_has_no_verdict() {
    let running = "Chunk ID: a1\nWall time: 10.0 seconds\nProcess running with session ID 42\nOutput:\n";
    let passed = "Chunk ID: a2\nWall time: 1.0 seconds\nProcess exited with code 0\nOutput:\n3 passed";
    let start = ("exec_command", json!({"cmd": "pytest"}), running, false);
    assert_eq!(ran(std::slice::from_ref(&start)).verdicts, []);
    let poll = ("write_stdin", json!({"session_id": 42, "chars": ""}), passed, false);
    assert!(ran(&[start, poll]).verdicts[0].has_passed);
}

#[test]
fn a_verdict_needs_a_result_that_says_something() {
    let failed = "error[E0425]: cannot find value\nerror: could not compile `gate` (lib)";
    let suites =
        "test result: ok. 8 passed; 0 failed; 0 ignored\nDoc-tests\ntest result: ok. 0 passed; 0 failed";
    let unanswered = Message::new(
        Kind::ToolCall,
        vec![Part::ToolCall {
            id: None,
            name: "Bash".to_owned(),
            arguments: r#"{"command":"cargo test"}"#.to_owned(),
        }],
    );
    assert_eq!(Effects::of(&[unanswered]).verdicts, []);
    let verdicts = |command: &str, result: &str, is_error: bool| -> String {
        let effects = ran(&[("Bash", json!({ "command": command }), result, is_error)]);
        let verdict =
            |verdict: &TestVerdict| format!("{} {} {}", verdict.command, verdict.has_passed, verdict.summary);
        effects.verdicts.iter().map(verdict).collect::<Vec<_>>().join("; ").trim().to_owned()
    };
    for (command, result, is_error, expected) in [
        (
            "cargo check 2>&1 | tail -3",
            failed,
            false,
            "cargo check false error: could not compile `gate` (lib)",
        ),
        ("cargo check | tail -1", "    Finished `dev` profile in 2s", false, "cargo check true"),
        ("npx tsc | grep error", "", true, ""),
        ("npx tsc", "", false, "npx tsc true"),
        ("pytest -v", "tests/gate.py::test_oil", false, ""),
        (
            "pytest -v",
            &format!("{0} 6 failed in 2.1s {0}", "=".repeat(300)),
            true,
            "pytest false 6 failed in 2.1s",
        ),
        ("go test ./...", "ok  \tgarden/gate\t0.1s", false, "go test true"),
        ("python -m unittest", "Ran 2 tests in 0.1s\n\nOK", false, "unittest true"),
        ("npx tsc | findstr \"error TS\"", "src/a.ts(1,2): error TS2304: No x", false, "npx tsc false"),
        ("cargo test", suites, false, "cargo test true 8 passed, 0 failed"),
        ("cargo fmt --check && cargo test", suites, false, "cargo fmt && cargo test true 8 passed, 0 failed"),
        ("cargo fmt --check && cargo test", "Diff in src", true, "cargo fmt && cargo test false"),
    ] {
        assert_eq!(verdicts(command, result, is_error), expected, "{command}");
    }
}

#[test]
fn the_reports_of_aider_say_which_edits_were_applied() {
    let answer = "src/gate.rs\n```rust\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\nsrc/bed.rs\n```rust\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```";
    let report = "Applied edit to src/gate.rs\nCommit 1a2b3c4 feat: Oil the gate\nCommit to it";
    let effects = Effects::of(&[
        Message::new(Kind::Assistant, vec![Part::Text(answer.to_owned())]),
        Message::new(Kind::from_name("aider_output"), vec![Part::Text(report.to_owned())]),
    ]);
    assert_eq!(
        (effects.files, effects.unchanged),
        (vec!["src/gate.rs".to_owned()], vec!["src/bed.rs".to_owned()])
    );
    assert_eq!(
        effects.commits,
        [Commit { hash: "1a2b3c4".to_owned(), subject: "feat: Oil the gate".to_owned() }]
    );
}
