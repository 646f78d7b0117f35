//! Commands with databases that are missing, another program's, or of another version.

use std::path::Path;

use sqlx::{Connection as _, Executor as _};

use super::{code, recapd, stderr, stdout};

#[test]
fn a_missing_database_is_named_as_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("none.db");
    for command in [
        &["summary", "a"][..],
        &["context", "a", "--format", "gemini"],
        &["history", "a"],
        &["status"],
        &["verify"],
    ] {
        let output = recapd().args(command).arg("--db").arg(&database).output().unwrap();
        assert_eq!(code(&output), Some(69), "{command:?}");
        assert!(
            stderr(&output).contains("none.db") && stderr(&output).contains("--db"),
            "{}",
            stderr(&output)
        );
        assert!(!database.exists(), "looking makes no database");
    }
}

/// A copy of the file alone is complete if nobody has it open.
#[test]
fn a_command_checkpoints_all_that_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let [database, copied] = ["one.db", "copied.db"].map(|name| folder.path().join(name));
    let said = r#"{"role":"user","content":"Fix the parser"}"#;
    let push = recapd().args(["push", "coder", "--db"]).arg(&database).write_stdin(said).output().unwrap();
    assert_eq!(code(&push), Some(0), "{}", stderr(&push));
    std::fs::copy(&database, &copied).unwrap();
    let window = recapd().args(["window", "coder", "--db"]).arg(&copied).output().unwrap();
    assert!(stdout(&window).contains("Fix the parser"), "{}{}", stdout(&window), stderr(&window));
}

#[test]
fn another_programs_database_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("other.db");
    std::fs::write(&database, "this is not a database, but a text that is long enough to be taken for one")
        .unwrap();
    let before = std::fs::read(&database).unwrap();
    let output = recapd().args(["verify", "--db"]).arg(&database).output().unwrap();
    assert_ne!(code(&output), Some(0));
    assert_eq!(std::fs::read(&database).unwrap(), before);
}

/// Makes another program's SQLite database with `sql`.
async fn database(path: &Path, sql: &'static str) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute(sql).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_schema_that_is_not_this_recapds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join("strange.db");
    database(&strange, "CREATE TABLE invoices (id INTEGER)").await;
    let newer = folder.path().join("newer.db");
    database(
        &newer,
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
         installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, checksum BLOB NOT NULL, \
         execution_time BIGINT NOT NULL); \
         INSERT INTO _sqlx_migrations VALUES (999, 'future', '2030-01-01', TRUE, x'00', 1)",
    )
    .await;
    for (path, command, word) in [
        (&strange, "status", "not a database of recapd"),
        (&newer, "status", "use the newer recapd"),
        (&newer, "serve", "999"),
    ] {
        let output = recapd().args([command, "--db"]).arg(path).output().unwrap();
        assert_eq!(code(&output), Some(78), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{command}: {}", stderr(&output));
    }
}
