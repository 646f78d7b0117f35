//! The default place of the database, and the permissions of files that commands make.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Output};

use super::{code, json, package_file, recapd, stderr, stdout};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Lists the files in a folder that others than their owner can read.
fn exposed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let exposed = entries.filter(|entry| mode(&entry.path()) & 0o077 != 0);
    exposed.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn files_made_by_commands_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let example = package_file("examples/two-weeks.jsonl");
    let run = |args: &[&str]| {
        let output = recapd().current_dir(folder.path()).args(args).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
    };
    run(&["replay", example.to_str().unwrap(), "--agent", "a", "--db", "replay.db"]);
    run(&["export", "-o", "export.jsonl", "--db", "replay.db"]);
    run(&["backup", "backup.db", "--db", "replay.db"]);
    run(&["restore", "backup.db", "--db", "restored.db"]);
    run(&["copy", "replay.db", "copy.db"]);
    run(&["import", "export.jsonl", "--db", "import.db"]);
    run(&["migrate", "up", "--db", "migrate.db"]);
    run(&["token", "create", "me", "--scope", "admin", "--db", "migrate.db"]);
    assert!(fs::read_dir(folder.path()).unwrap().count() >= 8);
    assert_eq!(exposed(folder.path()), Vec::<String>::new());
}

#[test]
fn databases_in_a_groups_folder_are_open_to_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).unwrap();
    let run = |args: &[&str]| {
        let output = recapd().current_dir(folder.path()).args(args).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
    };
    run(&["migrate", "up", "--db", "one.db"]);
    run(&["backup", "shared/backup.db", "--db", "one.db"]);
    run(&["restore", "shared/backup.db", "--db", "shared/restored.db"]);
    run(&["migrate", "up", "--db", "shared/new.db"]);
    let modes = ["backup.db", "restored.db", "new.db"].map(|name| mode(&shared.join(name)));
    assert_eq!(modes, [0o600, 0o660, 0o660]);
}

/// Runs a command as a user with that home, in `folder`, where no daemon listens.
fn run_in(folder: &Path, home: &Path, args: &[&str]) -> Output {
    let mut command = recapd();
    command.current_dir(folder).env("HOME", home);
    command.args(args).args(["--set", "http.listen=127.0.0.1:1"]).output().unwrap()
}

#[test]
fn the_default_database_is_in_the_users_state_folder() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| run_in(elsewhere.path(), home.path(), args);
    let made = run(&["migrate", "up"]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let folder = home.path().join(".local/state/recapd");
    assert_eq!((mode(&folder), mode(&folder.join("recapd.db"))), (0o700, 0o600));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    let shown = stdout(&run(&["config", "show"]));
    assert!(shown.contains(&format!("sqlite:{}", folder.join("recapd.db").display())), "{shown}");
    let of_state = recapd()
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", elsewhere.path().join("state"))
        .args(["migrate", "up"])
        .output()
        .unwrap();
    assert_eq!(code(&of_state), Some(0), "{}", stderr(&of_state));
    assert!(elsewhere.path().join("state/recapd/recapd.db").exists());
}

#[test]
fn a_database_in_the_working_directory_is_not_used_by_default() {
    let home = tempfile::tempdir().unwrap();
    let foreign = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| run_in(foreign.path(), home.path(), args);
    let example = package_file("examples/two-weeks.jsonl");
    let planted = run(&["replay", example.to_str().unwrap(), "--agent", "planted", "--db", "recapd.db"]);
    assert_eq!(code(&planted), Some(0), "{}", stderr(&planted));
    let output = run(&["summary", "planted"]);
    assert_eq!(code(&output), Some(69), "{}", stdout(&output));
    assert!(stderr(&output).contains("isn't used unless you name it: --db recapd.db"), "{}", stderr(&output));
    assert_eq!(code(&run(&["summary", "planted", "--db", "recapd.db"])), Some(0));
}

#[test]
fn without_a_home_a_database_must_be_named() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["verify"][..], &["migrate", "up"], &["backup", "to.db"]] {
        let output = recapd().current_dir(folder.path()).args(args).output().unwrap();
        assert_ne!(code(&output), Some(0), "{args:?}");
        assert!(stderr(&output).contains("no database is named"), "{args:?} {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn files_that_others_can_read_give_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("one.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    assert_eq!(code(&run(&["migrate", "up"])), Some(0));
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    let report = json(&run(&["doctor", "--offline", "--json", "--set", "http.listen=127.0.0.1:1"]));
    let checks = report["checks"].as_array().unwrap();
    let files = checks.iter().find(|check| check["name"] == "files").unwrap();
    assert_eq!(files["verdict"], "warn", "{files}");
    assert!(files["fix"].as_str().unwrap().contains("chmod go= "), "{files}");
}
