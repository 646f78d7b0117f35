//! `recapd versions`, `diff`, `rollback`, `rebuild` and `items`, over a database.

use super::{code, json, recapd, stderr, stdout};

#[test]
fn a_document_is_compared_corrected_and_gone_back_from() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("versions.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let told = |args: &[&str]| {
        let output = run(args);
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    };
    let conversation = super::package_file("examples/two-weeks.jsonl");
    told(&["replay", "--agent", "coder", conversation.to_str().unwrap()]);
    let newest = &json(&run(&["versions", "coder", "--limit", "1", "--json"]))["versions"][0];
    let covers = newest["covers_through"].to_string();
    let newest = newest["version"].as_i64().unwrap();
    assert!(newest > 2, "{newest}");
    let listed = told(&["versions", "coder"]);
    assert_eq!(listed.lines().count().to_string(), newest.to_string());
    let first = listed.lines().next().unwrap();
    assert!(
        first.contains(&format!("covers through #{covers} (+")),
        "{listed}"
    );

    let (before, newest) = ((newest - 1).to_string(), newest.to_string());
    let changed = told(&["diff", "coder", &before]);
    let head = format!("coder: version {before} -> {newest} (update), ");
    assert!(changed.starts_with(&head), "{changed}");
    assert!(changed.contains("\nadded #"), "{changed}");
    assert!(!changed.contains("added #1\n"), "{changed}");
    assert_eq!(told(&["diff", "coder"]), changed);
    assert!(told(&["diff", "coder", "0", "1"]).contains("\nadded #1"));
    assert_eq!(
        told(&["diff", "coder", &newest, &newest]).lines().last(),
        Some("no line changed")
    );
    let changes = json(&run(&["diff", "coder", &before, "--json"]));
    let mut kinds = changes["changes"].as_array().unwrap().iter();
    assert!(kinds.any(|change| change["kind"] == "added"), "{changes}");
    assert!(told(&["versions", "coder", "1"]).starts_with("## "));

    let items = told(&["items", "list", "coder"]);
    let number = items.split_whitespace().next().unwrap().to_owned();
    let pinned = told(&["items", "pin", "coder", &number]);
    assert!(
        pinned.starts_with(&format!("changed item {number} of coder: version ")),
        "{pinned}"
    );
    let pinned = newest.parse::<i64>().unwrap() + 1;
    let edit = [
        "items",
        "edit",
        "coder",
        &number,
        "--text",
        "Chose RS256",
        "--importance",
        "decision",
    ];
    let edited = told(&edit);
    assert!(
        edited.starts_with(&format!("changed item {number} of coder, now item ")),
        "{edited}"
    );
    let items = told(&["items", "list", "coder"]);
    assert!(
        items.contains("(decision, edited, pinned): Chose RS256"),
        "{items}"
    );
    assert!(told(&["summary", "coder"]).contains("Chose RS256 ("));

    let back = told(&["rollback", "coder", &pinned.to_string()]);
    assert!(
        back.starts_with(&format!("rolled coder back to version {pinned}, as version ")),
        "{back}"
    );
    assert!(back.ends_with(": 1 items came back, 1 went"), "{back}");
    let document = told(&["summary", "coder"]);
    assert!(!document.contains("Chose RS256"), "{document}");
    let rebuilt = told(&["rebuild", "coder"]);
    assert!(
        rebuilt.starts_with("rebuilding coder as of version "),
        "{rebuilt}"
    );
    assert!(
        rebuilt.contains("1 of them were edited or pinned: `recapd rollback coder "),
        "{rebuilt}"
    );
    assert_eq!(
        told(&["summary", "coder"]),
        document,
        "the old document until then"
    );
    told(&["verify"]);
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("versions.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let conversation = super::package_file("tests/fixtures/pidgin.jsonl");
    let output = run(&["replay", "--agent", "coder", conversation.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for (args, status, words) in [
        (&["versions", "coder"][..], 0, ""),
        (&["diff", "coder"], 0, ""),
        (&["items", "list", "coder"], 0, ""),
        (&["diff", "nobody"], 3, "coder"),
        (&["diff", "coder", "99"], 3, "there is none yet"),
        (&["rollback", "coder", "99"], 3, "there is none yet"),
        (&["rollback", "coder"], 2, "VERSION"),
        (&["rebuild", "nobody"], 3, "coder"),
        (&["items", "pin", "coder", "99"], 3, "no item 99"),
        (&["items", "edit", "coder", "1"], 2, "give at least one of"),
        (
            &["items", "edit", "coder", "1", "--importance", "high"],
            2,
            "one of trivial",
        ),
        (&["versions", "nobody"], 3, "coder"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
