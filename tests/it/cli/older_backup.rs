//! Backups of earlier versions: whatever their schema was, a restore migrates them and loses nothing.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Connection as _, SqliteConnection, migrate::Migrator, sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;

use super::{code, json, package_file, recapd, stderr, stdout};

/// Tables that are derived from messages or that the database maintains.
const DERIVED: [&str; 2] = ["recall_", "counters"];

/// Makes a database with two weeks of history, by this version.
fn lived(folder: &Path) -> String {
    let database = folder.join("lived.db").display().to_string();
    let output = recapd()
        .args(["replay", "--db", &database, "--budget", "30000"])
        .arg(package_file("examples/two-weeks.jsonl"))
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    database
}

async fn connect(database: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(true).foreign_keys(false);
    SqliteConnection::connect_with(&options).await.unwrap()
}

async fn texts(connection: &mut SqliteConnection, sql: String) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection).await.unwrap()
}

async fn run(connection: &mut SqliteConnection, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

async fn columns(connection: &mut SqliteConnection, schema: &str, table: &str) -> BTreeSet<String> {
    let sql = format!("SELECT name FROM pragma_table_xinfo('{table}', '{schema}') WHERE hidden = 0");
    texts(connection, sql).await.into_iter().collect()
}

/// Makes a database with only the first `migrations`, and copies as much of `lived` into it as they can hold.
async fn as_of(migrations: &[sqlx::migrate::Migration], lived: &str, database: &Path) {
    let mut connection = connect(database).await;
    let migrator = Migrator::with_migrations(migrations.to_vec());
    migrator.run(&mut connection).await.unwrap();
    run(&mut connection, format!("ATTACH '{lived}' AS lived")).await;
    let tables = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for table in texts(&mut connection, tables.to_owned()).await {
        if table.starts_with("_sqlx") || DERIVED.iter().any(|derived| table.starts_with(derived)) {
            continue;
        }
        let (here, there) =
            (columns(&mut connection, "main", &table).await, columns(&mut connection, "lived", &table).await);
        let both: Vec<&str> = here.intersection(&there).map(String::as_str).collect();
        let both = both.join(", ");
        let copy = format!("INSERT INTO main.{table} ({both}) SELECT {both} FROM lived.{table}");
        run(&mut connection, copy).await;
    }
    let token = "UPDATE main.counters SET value = (SELECT value FROM lived.counters WHERE name = 'lease_token') \
                 WHERE name = 'lease_token'";
    run(&mut connection, token.to_owned()).await;
    run(&mut connection, "DETACH lived".to_owned()).await;
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_any_earlier_version_comes_back_whole_and_up_to_date() {
    let folder = TempDir::new().unwrap();
    let lived = lived(folder.path());
    let expected = told(&lived);
    let all = Migrator::new(package_file("migrations/sqlite")).await.unwrap();
    let all: Vec<_> = all.iter().cloned().collect();
    for known in 1..=all.len() {
        let place = |name: &str| folder.path().join(format!("{known}-{name}.db"));
        let (backup, restored) = (place("backup"), place("restored"));
        as_of(&all[..known], &lived, &backup).await;
        let before = fs::read(&backup).unwrap();

        let output =
            recapd().args(["restore", "--json", "--db"]).args([&restored, &backup]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{known}: {}", stderr(&output));
        assert_eq!(json(&output)["is_clean"], true, "{known}");
        assert!(fs::read(&backup).unwrap() == before, "{known}: the backup is as it was");
        let status = recapd().args(["migrate", "status", "--json", "--db"]).arg(&restored).output().unwrap();
        assert_eq!(json(&status)["pending"], 0, "{known}");
        assert!(told(&restored.display().to_string()) == expected, "{known}: something is missing");
    }
}

/// Returns the content of a database: histories, windows and the document. The first version had no marks.
fn told(database: &str) -> (Vec<Value>, String) {
    let lines = export(database);
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[0].as_object_mut().unwrap().remove("marks").unwrap();
    let output = recapd().args(["summary", "two-weeks", "--db", database]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    (lines, stdout(&output))
}

/// Exports the histories of a database, with token counts and window boundaries.
fn export(database: &str) -> String {
    let output = recapd().args(["export", "--db", database]).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn an_export_adds_what_a_backup_lacks() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (database, backup, restored) = (path("recapd.db"), path("backup.db"), path("restored.db"));
    let run_well = |args: &[&str]| {
        let output = recapd().args(args).output().unwrap();
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        output
    };
    let say = |text: &str| {
        let message = format!("{{\"role\": \"user\", \"content\": \"{text}\"}}");
        let file = path("said.json");
        fs::write(&file, message).unwrap();
        run_well(&["push", "coder", &file, "--db", &database]);
    };
    say("before");
    run_well(&["backup", &backup, "--db", &database]);
    say("since");

    let since = path("since.jsonl");
    run_well(&["export", "-o", &since, "--db", &database]);
    run_well(&["restore", &backup, "--db", &restored]);
    run_well(&["import", &since, "--db", &restored]);
    let history = stdout(&run_well(&["history", "coder", "--db", &restored]));
    assert!(history.contains("before") && history.contains("since"), "{history}");
    assert!(export(&restored) == export(&database));
}
