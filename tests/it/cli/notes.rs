//! `recapd notes`, and what notes survive.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use tempfile::TempDir;

use super::{code, json, package_file, recapd, stderr, stdout};

/// A database with an agent, and room for others.
struct Databases {
    folder: TempDir,
}

impl Databases {
    fn new() -> Self {
        let databases = Self { folder: tempfile::tempdir().unwrap() };
        let replay = package_file("tests/fixtures/native.jsonl");
        let output = databases.run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        databases
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        on(&self.file("notes.db"), args)
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
        stdout(&output)
    }
}

fn on(database: &Path, args: &[&str]) -> Output {
    recapd().args(args).arg("--db").arg(database).output().unwrap()
}

#[test]
fn notes_are_written_read_searched_and_deleted() {
    let databases = Databases::new();
    assert_eq!(databases.told(&["notes", "list", "coder"]), "(no notes)\n");
    let wrote = databases.told(&["notes", "write", "coder", "a/plan.md", "One\ntwo"]);
    assert!(wrote.starts_with("wrote a/plan.md of coder: version "), "{wrote}");
    let read = databases.run(&["notes", "read", "coder", "a/plan.md", "--json"]);
    let version = json(&read)["version"].to_string();
    let added = recapd()
        .args(["notes", "append", "coder", "a/plan.md", "--replaces", &version, "--db"])
        .arg(databases.file("notes.db"))
        .write_stdin("\nthree")
        .output()
        .unwrap();
    assert_eq!(code(&added), Some(0), "{}", stderr(&added));
    let read = |more: &[&str]| databases.told(&[&["notes", "read", "coder", "a/plan.md"], more].concat());
    assert_eq!(read(&[]), "One\ntwo\nthree\n");
    assert_eq!(read(&["--at", &version]), "One\ntwo\n");
    let listed = databases.told(&["notes", "list", "coder"]);
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..2], ["a/plan.md", "13"], "{listed}");
    assert_eq!(databases.told(&["notes", "search", "coder", "TWO"]), "a/plan.md:2: two\n");
    assert_eq!(databases.told(&["notes", "search", "coder", "zzz"]), "(nothing found)\n");
    for (args, status, words) in [
        (&["notes", "write", "coder", "a/plan.md", "x", "--replaces", "0"][..], 1, "is at version"),
        (&["notes", "read", "coder", "b"], 3, "no note `b`"),
        (&["notes", "write", "coder", "../b", "x"], 2, "note name `../b`"),
        (&["notes", "list", "nobody"], 3, "coder"),
    ] {
        let output = databases.run(args);
        assert_eq!(code(&output), Some(status), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let deleted = databases.told(&["notes", "delete", "coder", "a/plan.md"]);
    assert_eq!(deleted, "deleted a/plan.md of coder\n");
    assert_eq!(databases.told(&["notes", "list", "coder"]), "(no notes)\n");
}

#[test]
fn notes_survive_backup_and_export() {
    let databases = Databases::new();
    databases.told(&["notes", "write", "coder", "a/plan.md", "One\ntwo"]);
    databases.told(&["verify"]);
    let (backup, other, journal) =
        (databases.file("backup.db"), databases.file("other.db"), databases.file("journal.jsonl"));
    let read = |database: &Path| stdout(&on(database, &["notes", "read", "coder", "a/plan.md"]));
    databases.told(&["backup", backup.to_str().unwrap()]);
    assert_eq!(read(&backup), "One\ntwo\n");
    databases.told(&["export", "-o", journal.to_str().unwrap()]);
    let imported = on(&other, &["import", journal.to_str().unwrap()]);
    assert_eq!(code(&imported), Some(0), "{}", stderr(&imported));
    assert_eq!(read(&other), "One\ntwo\n");
}
