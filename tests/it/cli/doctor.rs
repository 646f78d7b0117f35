//! `recapd doctor` and `health`.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::FileExt as _,
    path::Path,
};

use recapd_core::domain::time::Timestamp;
use recapd_store::operate::OperatorStore as _;
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};

use super::{
    code, json,
    place::{ask, two_agents},
    recapd, stderr, stdout,
};
use crate::support::troubled_store::Trouble;

/// A provider that answers every request with this status, one request per connection.
fn provider(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut head = [0; 4_096];
            let _read = connection.read(&mut head);
            let answer =
                format!("HTTP/1.1 {status} Told\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            connection.write_all(answer.as_bytes()).ok();
        }
    });
    format!("model.base_url=http://{address}/v1")
}

fn check<'c>(report: &'c Value, name: &str) -> &'c Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn doctor_gives_first_steps_on_a_fresh_machine() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("none.db");
    let listen = ["--set", "http.listen=127.0.0.1:1", "--set", "proxy.listen=127.0.0.1:1"];
    let mut command = recapd();
    let output = command.args(["doctor", "--json"]).args(listen).arg("--db").arg(&database).output().unwrap();
    let report = json(&output);
    assert_eq!((code(&output), &report["ok"]), (Some(1), &false.into()), "{}", stderr(&output));
    let failing = check(&report, "database");
    assert_eq!(failing["verdict"], "fail");
    assert!(failing["fix"].as_str().unwrap().contains("recapd migrate up"), "{failing}");
    for (name, verdict) in [
        ("config", "ok"),
        ("disk", "ok"),
        ("files", "ok"),
        ("clock", "skip"),
        ("window", "ok"),
        ("time zone", "ok"),
        ("provider", "ok"),
        ("daemon", "warn"),
        ("proxy", "warn"),
        ("notify", "skip"),
        ("backlog", "skip"),
    ] {
        assert_eq!(check(&report, name)["verdict"], verdict, "{report}");
    }
    let checks = report["checks"].as_array().unwrap();
    for found in checks.iter().filter(|found| found["verdict"] == "fail" || found["verdict"] == "warn") {
        assert!(found["fix"].is_string(), "{found}");
    }
    assert!(!database.exists(), "looking makes no database");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_works_passes() {
    let server = two_agents().await;
    let listen = format!("http.listen={}", server.address);
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.args(["doctor", "--set", &listen]).args(args);
        command.arg("--db").arg(server.database()).output().unwrap()
    };
    let output = run(&[]);
    let told = stdout(&output);
    assert_eq!(code(&output), Some(0), "{told}");
    assert!(told.contains("ok   schema") && told.contains("ok   daemon"), "{told}");
    assert!(stderr(&output).contains("nothing fails"), "{}", stderr(&output));
    assert_eq!(stderr(&run(&["--quiet"])), "");
    server.target.pause_queue(Timestamp(0)).await.unwrap();
    let report = json(&run(&["--json"]));
    assert_eq!(check(&report, "paused")["verdict"], "warn", "{report}");
    assert_eq!(check(&report, "paused")["fix"], "recapd queue resume");
    server.end().await;
}

/// Like a daemon that hangs, but without the wait.
#[test]
fn a_silent_listener_fails() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("own.db");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let listen = format!("http.listen={address}");
    let run = |args: &[&str]| {
        let mut command = recapd();
        command.args(args).args(["--set", &listen]).arg("--db").arg(&database);
        command.output().unwrap()
    };
    assert_eq!(code(&run(&["migrate", "up"])), Some(0));
    let output = run(&["doctor", "--json"]);
    let report = json(&output);
    assert_eq!(code(&output), Some(1), "{report}");
    assert_eq!(check(&report, "database")["verdict"], "ok", "{report}");
    let daemon = check(&report, "daemon");
    assert_eq!(daemon["verdict"], "fail", "{daemon}");
    assert!(daemon["detail"].as_str().unwrap().contains("doesn't answer"), "{daemon}");
    assert_eq!(code(&run(&["health"])), Some(69));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_daemon_is_not_judged_by_this_host() {
    let server = two_agents().await;
    let nowhere = ["--set", "database.url=sqlite:/nowhere/at/all.db"];
    let output = ask(&server, &[&["doctor", "--json"][..], &nowhere].concat());
    let report = json(&output);
    assert_eq!(code(&output), Some(0), "{report}");
    assert_eq!(check(&report, "daemon")["verdict"], "ok", "{report}");
    assert_eq!(report["checks"].as_array().unwrap().len(), 2, "{report}");
    server.end().await;
}

#[test]
fn doctor_checks_that_a_provider_answers_and_accepts_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("doctor.db");
    let made = recapd().args(["migrate", "up", "--db"]).arg(&database).output().unwrap();
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let run = |settings: &[&str], args: &[&str]| {
        let mut command = recapd();
        command.env("OPENAI_API_KEY", "sk-canary-canary").args([
            "doctor",
            "--json",
            "--set",
            "model.mode=openai",
        ]);
        command.args(settings.iter().flat_map(|setting| ["--set", setting])).args(args);
        let output = command.arg("--db").arg(&database).output().unwrap();
        assert!(!stdout(&output).contains("canary"), "{}", stdout(&output));
        json(&output)
    };
    for (status, verdict, fix) in [
        (200, "ok", ""),
        (404, "ok", ""),
        (401, "fail", "model.api_key_file"),
        (429, "warn", "wait"),
        (500, "fail", "model.base_url"),
    ] {
        let report = run(&[&provider(status)], &[]);
        let found = check(&report, "provider");
        assert_eq!(found["verdict"], verdict, "{status} {report}");
        assert!(found["fix"].as_str().unwrap_or_default().contains(fix), "{status} {report}");
    }
    let gone = "model.base_url=http://127.0.0.1:1/v1";
    assert_eq!(check(&run(&[gone], &[]), "provider")["verdict"], "fail");
    assert_eq!(check(&run(&[gone], &["--offline"]), "provider")["verdict"], "skip");
    let output = recapd()
        .args(["doctor", "--json", "--set", "model.mode=anthropic", "--db"])
        .arg(&database)
        .output()
        .unwrap();
    let found = json(&output);
    assert_eq!(code(&output), Some(1));
    assert!(check(&found, "provider")["detail"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{found}");
}

#[test]
fn an_older_schema_fails_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("old.db");
    std::fs::write(&database, "").unwrap();
    let output = recapd().args(["doctor", "--json", "--db"]).arg(&database).output().unwrap();
    let report = json(&output);
    assert_eq!(code(&output), Some(1));
    assert_eq!(check(&report, "schema")["fix"], "recapd migrate up", "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_shown_by_the_exit_code() {
    let server = two_agents().await;
    for (args, word) in
        [(&["health"][..], "ready\n"), (&["health", "--live"], "live\n"), (&["health", "--ready"], "ready\n")]
    {
        let output = ask(&server, args);
        assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), word), "{}", stderr(&output));
    }
    assert_eq!(json(&ask(&server, &["health", "--json"])), serde_json::json!({"ok": true, "check": "ready"}));
    server.store.trouble("ping", Trouble::Unavailable);
    let output = ask(&server, &["health"]);
    assert_eq!(code(&output), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("not ready: "), "{}", stderr(&output));
    assert_eq!(code(&ask(&server, &["health", "--live"])), Some(0));
    server.end().await;
    let output = ask(&server, &["health"]);
    assert_eq!(code(&output), Some(69), "{}", stderr(&output));
    let nowhere = recapd().args(["health", "--server", "nowhere"]).output().unwrap();
    assert_eq!(code(&nowhere), Some(2), "{}", stderr(&nowhere));
    let output = recapd().args(["health", "--set", "http.listen=127.0.0.1:1"]).output().unwrap();
    assert_eq!(code(&output), Some(69));
    assert!(stderr(&output).contains("http://127.0.0.1:1"), "{}", stderr(&output));
}

/// Returns the offset of the first page of the message table in the file.
async fn messages(database: &Path) -> u64 {
    let url = format!("sqlite:{}", database.display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let sql =
        "SELECT (rootpage - 1) * page_size FROM sqlite_schema, pragma_page_size WHERE name = 'message_log'";
    let begins: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    u64::try_from(begins).unwrap()
}

#[tokio::test]
async fn a_damaged_file_fails_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("damaged.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    let doctor = || json(&run(&["doctor", "--offline", "--json"]));
    let cure = |report: &Value, name: &str| check(report, name)["fix"].to_string();
    assert_eq!(code(&run(&["migrate", "up"])), Some(0));
    let well = doctor();
    assert_eq!(check(&well, "writing")["verdict"], "ok", "{well}");
    assert_eq!(check(&well, "pages")["verdict"], "ok", "{well}");

    let begins = messages(&database).await;
    let file = std::fs::OpenOptions::new().write(true).open(&database).unwrap();
    file.write_all_at(&[0xA5; 512], begins).unwrap();
    let damaged = doctor();
    assert_eq!(check(&damaged, "pages")["verdict"], "fail", "{damaged}");
    assert!(cure(&damaged, "pages").contains("restore a backup"), "{damaged}");

    file.write_all_at(b"no database at all", 0).unwrap();
    let unreadable = doctor();
    let told = cure(&unreadable, "database");
    assert!(told.contains("restore a backup"), "{unreadable}");
    let served = run(&["serve"]);
    assert_eq!(code(&served), Some(69));
    let said = stderr(&served);
    assert!(said.contains("damaged.db"), "{said}");
    assert!(said.contains("restore a backup"), "{said}");
}
