//! `recapd migrate` and `recapd copy`.

use std::path::Path;

use super::{code, json, recapd, replay_example, stderr, stdout};
use crate::support::postgres::Database;

#[test]
fn a_database_is_migrated_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("new.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    assert_eq!(code(&run(&["migrate", "status"])), Some(69), "looking makes no database");
    let manual = run(&["import", "--set", "database.migrate=manual", package_readme()]);
    assert_eq!(code(&manual), Some(69), "{}", stderr(&manual));
    let planned = run(&["migrate", "up", "--dry-run"]);
    assert_eq!(code(&planned), Some(0), "{}", stderr(&planned));
    assert!(
        stdout(&planned).contains("schema       would be applied\n")
            && stdout(&planned).ends_with("`recapd migrate up` creates them\n"),
        "{}",
        stdout(&planned)
    );
    let planned = json(&run(&["migrate", "up", "--dry-run", "--json"]));
    assert!(!database.exists(), "nothing is made");
    let up = run(&["migrate", "up"]);
    assert_eq!(code(&up), Some(0), "{}", stderr(&up));
    assert!(stdout(&up).contains("schema") && stdout(&up).contains("applied"), "{}", stdout(&up));
    let applied = stdout(&up).matches(" applied\n").count();
    assert_eq!(planned["would_apply"].as_array().unwrap().len(), applied);
    assert!(stdout(&run(&["migrate", "up"])).contains("nothing to do"));
    assert!(stdout(&run(&["migrate", "up", "--dry-run"])).ends_with(": up to date\n"));
    let status = run(&["migrate", "status", "--json"]);
    assert_eq!((code(&status), &json(&status)["pending"]), (Some(0), &0.into()));
}

/// A backup has another journal mode than a database in use, and must keep it.
#[test]
fn reading_the_schema_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let [database, kept] = ["one.db", "kept.db"].map(|name| folder.path().join(name));
    let run =
        |args: &[&str], database: &Path| recapd().args(args).arg("--db").arg(database).output().unwrap();
    assert_eq!(code(&run(&["migrate", "up"], &database)), Some(0));
    let kept_as = kept.display().to_string();
    assert_eq!(code(&run(&["backup", &kept_as], &database)), Some(0));
    let before = std::fs::read(&kept).unwrap();
    for look in [&["migrate", "status"][..], &["migrate", "up", "--dry-run"]] {
        let looked = run(look, &kept);
        assert_eq!(code(&looked), Some(0), "{look:?} {}", stderr(&looked));
        assert!(std::fs::read(&kept).unwrap() == before, "{look:?}");
    }
}

fn package_readme() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_copied_to_a_server_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, back) = (path("lived.db"), path("back.db"));
    replay_example("two-weeks", Path::new(&file));

    let server = Database::empty().await;
    let (address, password) = without_password(&server.url());
    let run = |args: &[&str]| recapd().env("PGPASSWORD", &password).args(args).output().unwrap();
    let to = run(&["copy", &file, &address]);
    assert_eq!(code(&to), Some(0), "{}", stderr(&to));
    assert!(stdout(&to).contains("read back and identical"), "{}", stdout(&to));
    assert!(!stdout(&to).contains(&password) && !stderr(&to).contains(&password));
    let again = run(&["copy", &file, &address]);
    assert_eq!(code(&again), Some(1));
    assert!(stderr(&again).contains("isn't empty"), "{}", stderr(&again));
    let from = run(&["copy", &address, &back, "--json"]);
    assert_eq!((code(&from), &json(&from)["is_clean"]), (Some(0), &true.into()));

    // Commands print the same from either database.
    let agents = run(&["export", "--db", &file]);
    assert!(!agents.stdout.is_empty());
    for args in [&["export"][..], &["verify"], &["migrate", "status"], &["migrate", "up", "--dry-run"]] {
        let on = |database: &str| run(&[args, &["--db", database]].concat());
        let (one, other) = (on(&file), on(&address));
        assert_eq!((code(&one), code(&other)), (Some(0), Some(0)), "{args:?}: {}", stderr(&other));
        assert!(args[0] == "migrate" || stdout(&one) == stdout(&other), "{args:?}");
    }
}

#[test]
fn an_address_with_a_password_is_refused_and_not_repeated() {
    let output = recapd().args(["copy", "a.db", "postgres://me:geheim@host/db"]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(
        stderr(&output).contains("PGPASSFILE") && !stderr(&output).contains("geheim"),
        "{}",
        stderr(&output)
    );
    let same = recapd().args(["copy", "a.db", "sqlite:a.db"]).output().unwrap();
    assert_eq!(code(&same), Some(2));
}

/// Splits an address into the address without its password, and the password.
fn without_password(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (login, place) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    (format!("{scheme}://{user}@{place}"), password.to_owned())
}
