//! `recapd pin`, `unpin` and `pins`.

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn messages_are_pinned_listed_and_unpinned() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("pins.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let replay = package_file("tests/fixtures/native.jsonl");
    let output = run(&["replay", "--agent", "coder", replay.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&run(&["pins", "coder"])).contains("(nothing"));
    let output = run(&["pin", "coder", "2"]);
    assert_eq!(stdout(&output), "pinned message 2 of coder\n", "{}", stderr(&output));
    let listed = stdout(&run(&["pins", "coder"]));
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..2], ["2", "#1"], "{listed}");
    assert!(listed.contains("pinned, in the window"), "{listed}");
    assert_eq!(json(&run(&["pins", "coder", "--json"]))["pins"][0]["seq"], 2);
    assert_eq!(code(&run(&["verify"])), Some(0));
    assert_eq!(code(&run(&["unpin", "coder", "2"])), Some(0));
    for (args, status, words) in [
        (&["pin", "coder", "99"][..], 3, "no message 99"),
        (&["unpin", "coder", "2"], 3, "isn't pinned"),
        (&["pin", "nobody", "1"], 3, "coder"),
        (&["pins", "nobody"], 3, "coder"),
        (&["pin", "coder"], 2, "SEQ"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(status), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
