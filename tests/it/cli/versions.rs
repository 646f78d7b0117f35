//! `recapd versions`, `diff`, `rollback`, `rebuild` and `items`, over a database.

use std::process::Output;

use tempfile::TempDir;

use super::{code, json, recapd, stderr, stdout};

/// A database with an agent `coder` that has the messages of `conversation`.
struct Database {
    folder: TempDir,
}

impl Database {
    fn of_example() -> Self {
        let database = Self { folder: tempfile::tempdir().unwrap() };
        super::replay_example("coder", &database.folder.path().join("versions.db"));
        database
    }

    fn of(conversation: &str) -> Self {
        let database = Self { folder: tempfile::tempdir().unwrap() };
        let file = super::package_file(conversation);
        database.told(&["replay", "--agent", "coder", file.to_str().unwrap()]);
        database
    }

    fn run(&self, args: &[&str]) -> Output {
        let path = self.folder.path().join("versions.db");
        recapd().args(args).arg("--db").arg(path).output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    fn told(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    }

    /// Returns the newest version, and the last exchange it covers.
    fn newest(&self) -> (i64, i64) {
        let found = json(&self.run(&["versions", "coder", "--limit", "1", "--json"]));
        let number = |name: &str| found["versions"][0][name].as_i64().unwrap();
        (number("version"), number("covers_through"))
    }
}

/// Lists with at least two rows, and the member of their answers with the rows.
const LISTS: [(&[&str], &str); 6] = [
    (&["versions", "coder"], "versions"),
    (&["items", "list", "coder"], "items"),
    (&["facts", "coder"], "facts"),
    (&["notes", "list", "coder"], "notes"),
    (&["pins", "coder"], "pins"),
    (&["window", "coder"], "exchanges"),
];

#[test]
fn versions_are_listed_and_compared() {
    let database = Database::of_example();
    let (newest, covers) = database.newest();
    assert!(newest > 2, "{newest}");
    let listed = database.told(&["versions", "coder"]);
    assert_eq!((listed.lines().count() - 1).to_string(), newest.to_string());
    let first = listed.lines().nth(1).unwrap();
    assert!(first.contains(&format!("  through #{covers} (+")), "{listed}");
    let one = database.told(&["versions", "coder", "1"]);
    assert!(one.starts_with("## "), "{one}");
    assert_eq!(database.told(&["summary", "coder", "--rev", "1"]), one);
    assert_eq!(database.told(&["show", "coder", "--rev", "1", "--raw"]), one);
    assert_eq!(database.told(&["show", "coder"]), database.told(&["summary", "coder"]));

    let (before, newest) = ((newest - 1).to_string(), newest.to_string());
    let told = database.told(&["diff", "coder", &before]);
    let head = format!("coder: version {before} -> {newest} (update), ");
    assert!(told.starts_with(&head), "{told}");
    assert!(told.contains("\nadded #"), "{told}");
    assert!(!told.contains("added #1\n"), "{told}");
    assert_eq!(database.told(&["diff", "coder"]), told);
    assert!(database.told(&["diff", "coder", "0", "1"]).contains("\nadded #1"));
    let none = database.told(&["diff", "coder", &newest, &newest]);
    assert_eq!(none.lines().last(), Some("no line changed"));
    let found = json(&database.run(&["diff", "coder", &before, "--json"]));
    let mut kinds = found["changes"].as_array().unwrap().iter();
    assert!(kinds.any(|change| change["kind"] == "added"), "{found}");
}

#[test]
fn a_document_is_corrected_rolled_back_and_rebuilt() {
    let database = Database::of_example();
    let items = database.told(&["items", "list", "coder"]);
    let number = items.lines().nth(1).and_then(|line| line.split_whitespace().next());
    let number = number.unwrap().to_owned();
    let pinned = database.told(&["items", "pin", "coder", &number]);
    let head = format!("changed item {number} of coder");
    assert!(pinned.starts_with(&format!("{head}: version ")), "{pinned}");
    let version = database.newest().0.to_string();
    let edited = database.told(&[
        "items",
        "edit",
        "coder",
        &number,
        "--text",
        "Chose RS256",
        "--importance",
        "decision",
    ]);
    assert!(edited.starts_with(&format!("{head}, now item ")), "{edited}");
    let items = database.told(&["items", "list", "coder"]);
    assert!(
        items
            .lines()
            .any(|line| line.contains("  decision, edited, pinned ") && line.ends_with("  Chose RS256")),
        "{items}"
    );
    assert!(database.told(&["summary", "coder"]).contains("Chose RS256 ("));

    let back = database.told(&["rollback", "coder", &version]);
    let head = format!("rolled coder back to version {version}, as version ");
    assert!(back.starts_with(&head), "{back}");
    assert!(back.ends_with(": 1 item restored, 1 removed"), "{back}");
    let document = database.told(&["summary", "coder"]);
    assert!(!document.contains("Chose RS256"), "{document}");
    let rebuilt = database.told(&["rebuild", "coder"]);
    assert!(rebuilt.starts_with("rebuilding coder as of version "), "{rebuilt}");
    assert!(rebuilt.contains("1 of them were edited or pinned: `recapd rollback coder "), "{rebuilt}");
    let meanwhile = database.told(&["summary", "coder"]);
    assert_eq!(meanwhile, document, "the old document until the new one is there");
    database.told(&["verify"]);
}

#[test]
fn a_missing_version_is_reported_with_those_that_exist() {
    let database = Database::of("tests/fixtures/pidgin.jsonl");
    for (args, status, words) in [
        (&["versions", "coder"][..], 0, ""),
        (&["diff", "coder"], 0, ""),
        (&["items", "list", "coder"], 0, ""),
        (&["diff", "nobody"], 3, "coder"),
        (&["diff", "coder", "99"], 3, "there is none yet"),
        (&["summary", "coder", "--rev", "99"], 3, "there is none yet"),
        (&["summary", "coder", "coder", "--rev", "1"], 2, "only with one agent"),
        (&["summary", "coder", "--rev", "1", "--brief"], 2, "--brief"),
        (&["summary", "coder", "--rev", "0"], 2, "--rev"),
        (&["rollback", "coder", "99"], 3, "there is none yet"),
        (&["rollback", "coder"], 2, "VERSION"),
        (&["rebuild", "nobody"], 3, "coder"),
        (&["items", "pin", "coder", "99"], 3, "no item 99"),
        (&["items", "edit", "coder", "1"], 2, "use at least one of"),
        (&["items", "edit", "coder", "1", "--importance", "high"], 2, "one of trivial"),
        (&["versions", "nobody"], 3, "coder"),
    ] {
        let output = database.run(args);
        assert_eq!(code(&output), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn facts_are_listed_and_changed() {
    let database = Database::of_example();
    let added = database.told(&["facts", "add", "coder", "demand", "never push to main"]);
    assert!(added.starts_with("added fact "), "{added}");
    let number = added.split_whitespace().nth(2).unwrap().to_owned();
    database.told(&["facts", "pin", "coder", &number]);
    let listed = database.told(&["facts", "coder"]);
    assert!(
        listed
            .lines()
            .any(|line| line.contains("  by hand  demand, pinned ") && line.ends_with("  never push to main")),
        "{listed}"
    );
    let facts = json(&database.run(&["facts", "coder", "--json"]));
    let facts = facts["facts"].as_array().unwrap();
    assert!(facts.iter().any(|fact| fact["text"] == "never push to main"));
    assert!(database.told(&["summary", "coder"]).contains("“never push to main”"));
    let changed = database.told(&["facts", "edit", "coder", &number, "never force-push"]);
    assert!(changed.contains(", now fact "), "{changed}");
    let all = database.told(&["facts", "coder", "--past"]);
    assert!(all.contains("until version"), "{all}");
    for (args, status, words) in [
        (["facts", "close", "coder", "999"].as_slice(), 3, "no fact 999"),
        (&["facts", "add", "coder", "mood", "fine"], 2, "one of goal, demand"),
        (&["facts"], 2, "AGENT"),
        (&["facts", "nobody"], 3, "nobody"),
    ] {
        let output = database.run(args);
        assert_eq!(code(&output), Some(status), "{args:?}");
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn lists_are_printed_in_pages_or_whole() {
    let database = Database::of_example();
    for text in ["one", "two"] {
        database.told(&["facts", "add", "coder", "demand", text]);
        database.told(&["notes", "write", "coder", text, text]);
    }
    for message in ["2", "3"] {
        database.told(&["pin", "coder", message]);
    }
    for (list, rows) in LISTS {
        let page = |options: &[&str]| {
            let output = database.run(&[list, options, &["--json"]].concat());
            assert_eq!(code(&output), Some(0), "{list:?}: {}", stderr(&output));
            let mut page = json(&output);
            let next = page["next_cursor"].as_str().map(str::to_owned);
            let mut rows = page[rows].as_array_mut().unwrap().clone();
            if list[0] == "window" {
                // Its newest exchanges come first, but each page is in order.
                rows.reverse();
            }
            (rows, next)
        };
        let (all, end) = page(&["--all"]);
        assert!(all.len() >= 2 && end.is_none(), "{list:?} {end:?}");
        let (first, next) = page(&["--limit", "1"]);
        let next = next.unwrap();
        let (second, _) = page(&["--limit", "1", "--cursor", &next]);
        assert_eq!([first, second].concat(), all[..2], "{list:?}");
        let told = stderr(&database.run(&[list, &["--limit", "1"]].concat()));
        assert_eq!(told, format!("more follow: --cursor {next}, or --all\n"), "{list:?}");
    }
}
