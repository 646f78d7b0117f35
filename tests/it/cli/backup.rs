//! `recapd backup` and `recapd restore`

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use recapd_store::{SqlStore, Store as _, sqlite::SqliteSettings};
use tempfile::TempDir;

use super::{code, json, recapd, stderr};
use crate::support::{
    backend::sqlite_settings,
    conversation::{agent, append, turns},
};

struct Place {
    folder: TempDir,
    database: PathBuf,
    settings: SqliteSettings,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("recapd.db");
        let settings =
            SqliteSettings { url: format!("sqlite:{}", database.display()), ..sqlite_settings(&folder) };
        Self { folder, database, settings }
    }

    async fn open(&self) -> SqlStore {
        SqlStore::open(&self.settings.clone().into()).await.unwrap()
    }

    /// Fills the database with some exchanges and backs it up.
    async fn with_backup(&self) -> PathBuf {
        let store = self.open().await;
        store.append(append(&agent("a"), turns(1..=5))).await.unwrap();
        store.close().await;
        let backup = self.folder.path().join("backup.db");
        let output = run("backup", &backup, &self.database);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        backup
    }
}

fn run(command: &str, file: &Path, database: &Path) -> Output {
    recapd().arg(command).arg(file).arg("--json").arg("--db").arg(database).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_taken_during_writes_is_complete() {
    let place = Place::new();
    let store = place.open().await;
    let mut written = 40;
    store.append(append(&agent("a"), turns(1..=written))).await.unwrap();
    let (backups, restored) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (backup, database) = (backups.path().join("b.db"), restored.path().join("r.db"));

    let (file, from) = (backup.clone(), place.database.clone());
    let backing_up = tokio::task::spawn_blocking(move || run("backup", &file, &from));
    while !backing_up.is_finished() {
        written += 1;
        store.append(append(&agent("a"), turns(written..=written))).await.unwrap();
    }
    let output = backing_up.await.unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["is_clean"], true);
    let kept = json(&output)["verified"]["messages"].as_i64().unwrap();
    assert!((80..=written * 2).contains(&kept) && kept % 2 == 0, "{kept} of {written}");
    assert_eq!(names(backups.path()), ["b.db"]);

    let before = fs::read(&backup).unwrap();
    let output = run("restore", &backup, &database);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["verified"]["messages"], kept);
    assert!(fs::read(&backup).unwrap() == before, "the backup is as it was");
    assert_eq!(names(restored.path()), ["r.db", "r.db.lock"]);
    let verified = recapd().args(["verify", "--db"]).arg(&database).output().unwrap();
    assert_eq!(code(&verified), Some(0), "{}", stderr(&verified));
}

/// A planted trigger would run with each write of the daemon.
#[tokio::test]
async fn a_planted_trigger_fails_verify_and_restore() {
    let place = Place::new();
    let backup = place.with_backup().await;
    for file in [&backup, &place.database] {
        let planted = rusqlite::Connection::open(file).unwrap();
        let trigger = "CREATE TRIGGER spy AFTER INSERT ON message_log BEGIN DELETE FROM agents; END";
        planted.execute_batch(trigger).unwrap();
    }
    let verified = recapd().args(["verify", "--db"]).arg(&place.database).output().unwrap();
    assert_eq!(code(&verified), Some(1), "{}", stderr(&verified));
    let text = String::from_utf8(verified.stdout).unwrap();
    let expected = "  schema: as the migrations make it          BROKEN, 1 time\n        trigger spy isn't one of recapd's\n";
    assert!(text.contains(expected), "{text}");
    let folder = TempDir::new().unwrap();
    let restored = folder.path().join("restored.db");
    let output = run("restore", &backup, &restored);
    assert_eq!(code(&output), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("trigger spy isn't one of recapd's"), "{}", stderr(&output));
    assert!(!restored.exists(), "nothing was restored");
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_a_backup() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let backup = place.with_backup().await;
    assert_eq!(fs::metadata(backup).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn any_file_name_works() {
    let place = Place::new();
    place.with_backup().await;
    let folder = TempDir::new().unwrap();
    let (backup, database) = (folder.path().join("a%20b.db"), folder.path().join("r%20?# x.db"));
    for (command, file, database) in [("backup", &backup, &place.database), ("restore", &backup, &database)] {
        let output = run(command, file, database);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
    assert_eq!(names(folder.path()), ["a%20b.db", "r%20?# x.db", "r%20?# x.db.lock"]);
    let verified = recapd().args(["verify", "--db"]).arg(&database).output().unwrap();
    assert_eq!(code(&verified), Some(0), "{}", stderr(&verified));
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let place = Place::new();
    let backup = place.with_backup().await;
    let before = names(place.folder.path());
    let output = run("backup", &backup, &place.database);
    assert_eq!(code(&output), Some(1));
    assert!(
        stderr(&output).contains("backup.db is there already; move it away first"),
        "{}",
        stderr(&output)
    );
    let output = run("restore", &backup, &place.database);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("recapd.db is there already"), "{}", stderr(&output));
    assert_eq!(names(place.folder.path()), before);
}

#[tokio::test]
async fn a_database_that_a_daemon_holds_is_not_restored() {
    let place = Place::new();
    let backup = place.with_backup().await;
    let store = place.open().await;
    fs::rename(&place.database, place.folder.path().join("moved.db")).unwrap();
    let output = run("restore", &backup, &place.database);
    assert_eq!(code(&output), Some(69));
    assert!(stderr(&output).contains("stop it first"), "{}", stderr(&output));
    assert!(!place.database.exists());
    store.close().await;
}

#[tokio::test]
async fn an_append_to_a_moved_database_is_refused() {
    let place = Place::new();
    let store = place.open().await;
    store.append(append(&agent("a"), turns(1..=2))).await.unwrap();
    store.ping().await.unwrap();
    let moved = place.folder.path().join("moved.db");
    fs::rename(&place.database, &moved).unwrap();
    let refused = store.append(append(&agent("a"), turns(3..=3))).await.unwrap_err();
    assert_eq!(refused.class(), Some("io"));
    assert!(refused.to_string().contains("was moved away"), "{refused}");
    assert!(store.ping().await.is_err());
    fs::rename(&moved, &place.database).unwrap();
    store.append(append(&agent("a"), turns(3..=3))).await.unwrap();
    store.ping().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_restore_refuses_a_left_over_log() {
    let place = Place::new();
    let backup = place.with_backup().await;
    fs::remove_file(&place.database).unwrap();
    fs::write(place.folder.path().join("recapd.db-wal"), "of another").unwrap();
    let output = run("restore", &backup, &place.database);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("recapd.db-wal is there already"));
    assert!(!place.database.exists());
}

#[tokio::test]
async fn a_file_that_is_no_backup_is_refused() {
    let place = Place::new();
    for (content, expected) in [
        (None, "none.db"),
        (
            Some("this is not a database, but a text that is long enough to be taken for one"),
            "not a database",
        ),
    ] {
        let file = place.folder.path().join("none.db");
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let output = run("restore", &file, &place.database);
        assert_ne!(code(&output), Some(0));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert!(
            names(place.folder.path())
                .iter()
                .all(|name| !name.starts_with("recapd.db") || name == "recapd.db.lock")
        );
    }
}

#[test]
fn backups_of_postgres_are_refused_with_a_hint() {
    let folder = TempDir::new().unwrap();
    let output = recapd()
        .args(["backup", "b.db", "--db", "postgres://nobody@127.0.0.1:1/none"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("pg_dump"), "{}", stderr(&output));
    assert!(names(folder.path()).is_empty());
}
