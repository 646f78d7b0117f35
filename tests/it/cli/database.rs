//! Commands against databases that aren't there, aren't recapd's, or are in use.

use super::{code, recapd, stderr};

#[test]
fn a_missing_database_is_unreachable_and_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("none.db");
    for command in [
        &["summary", "a"][..],
        &["context", "a", "--format", "gemini"],
        &["history", "a"],
        &["status"],
        &["verify"],
    ] {
        let output = recapd()
            .args(command)
            .arg("--db")
            .arg(&database)
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(69), "{command:?}");
        assert!(
            stderr(&output).contains("none.db") && stderr(&output).contains("--db"),
            "{}",
            stderr(&output)
        );
        assert!(!database.exists(), "looking makes no database");
    }
}

#[test]
fn another_programs_database_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("other.db");
    std::fs::write(
        &database,
        "this is not a database, but a text that is long enough to be taken for one",
    )
    .unwrap();
    let before = std::fs::read(&database).unwrap();
    let output = recapd().args(["verify", "--db"]).arg(&database).output().unwrap();
    assert_ne!(code(&output), Some(0));
    assert_eq!(std::fs::read(&database).unwrap(), before);
}
