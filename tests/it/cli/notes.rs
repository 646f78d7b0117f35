//! `recapd notes`, and what notes survive.

use std::process::Output;

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn notes_are_kept_by_name_and_survive_backup_and_export() {
    let folder = tempfile::tempdir().unwrap();
    let (database, backup, other) = (
        folder.path().join("notes.db"),
        folder.path().join("backup.db"),
        folder.path().join("other.db"),
    );
    let on = |database: &std::path::Path, args: &[&str]| -> Output {
        recapd().args(args).arg("--db").arg(database).output().unwrap()
    };
    let run = |args: &[&str]| on(&database, args);
    let replay = package_file("tests/fixtures/native.jsonl");
    let output = run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&run(&["notes", "list", "coder"])), "(no notes)\n");
    let wrote = run(&["notes", "write", "coder", "a/plan.md", "One\ntwo"]);
    assert!(
        stdout(&wrote).starts_with("wrote a/plan.md of coder: version "),
        "{}",
        stderr(&wrote)
    );
    let version = json(&run(&["notes", "read", "coder", "a/plan.md", "--json"]))["version"].to_string();
    let added = recapd()
        .args([
            "notes",
            "append",
            "coder",
            "a/plan.md",
            "--replaces",
            &version,
            "--db",
        ])
        .arg(&database)
        .write_stdin("\nthree")
        .output()
        .unwrap();
    assert_eq!(code(&added), Some(0), "{}", stderr(&added));
    assert_eq!(
        stdout(&run(&["notes", "read", "coder", "a/plan.md"])),
        "One\ntwo\nthree\n"
    );
    assert_eq!(
        stdout(&run(&[
            "notes",
            "read",
            "coder",
            "a/plan.md",
            "--version",
            &version
        ])),
        "One\ntwo\n"
    );
    assert!(stdout(&run(&["notes", "list", "coder"])).starts_with("a/plan.md  (13 bytes, version "));
    assert_eq!(
        stdout(&run(&["notes", "search", "coder", "TWO"])),
        "a/plan.md:2: two\n"
    );
    assert_eq!(
        stdout(&run(&["notes", "search", "coder", "zzz"])),
        "(nothing found)\n"
    );
    assert_eq!(code(&run(&["verify"])), Some(0));

    assert_eq!(code(&run(&["backup", backup.to_str().unwrap()])), Some(0));
    assert_eq!(
        stdout(&on(&backup, &["notes", "read", "coder", "a/plan.md"])),
        "One\ntwo\nthree\n"
    );
    let journal = folder.path().join("journal.jsonl");
    let exported = run(&["export", "-o", journal.to_str().unwrap()]);
    assert_eq!(code(&exported), Some(0), "{}", stderr(&exported));
    let imported = on(&other, &["import", journal.to_str().unwrap()]);
    assert_eq!(code(&imported), Some(0), "{}", stderr(&imported));
    assert_eq!(
        stdout(&on(&other, &["notes", "read", "coder", "a/plan.md"])),
        "One\ntwo\nthree\n"
    );

    for (args, status, words) in [
        (
            &["notes", "write", "coder", "a/plan.md", "x", "--replaces", "0"][..],
            1,
            "is at version",
        ),
        (&["notes", "read", "coder", "b"], 3, "no note `b`"),
        (&["notes", "write", "coder", "../b", "x"], 2, "note name `../b`"),
        (&["notes", "list", "nobody"], 3, "coder"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(
        stdout(&run(&["notes", "delete", "coder", "a/plan.md"])),
        "deleted a/plan.md of coder\n"
    );
    assert_eq!(stdout(&run(&["notes", "list", "coder"])), "(no notes)\n");
}
