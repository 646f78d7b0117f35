use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use serde_json::Value;

use super::{
    code, json,
    place::{ask, two_agents},
    recapd, stderr, stdout,
};

#[test]
fn a_bundle_says_what_is_wrong_and_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    fs::write(
        &file,
        "[journal]\ndir = \"/nowhere/sk-ant-api03-0123456789abcdefghij\"\n\
         [queue]\nowner = \"hidden-42\"\n\
         [summary]\nredact_patterns = [\"hidden-[0-9]+\"]\n\
         [http]\nlisten = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    let mut command = recapd();
    command.args(["support", "bundle", "--config"]).arg(&file);
    let output = command.arg("--db").arg(folder.path().join("none.db")).output().unwrap();
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(bundle["version"]["version"], env!("CARGO_PKG_VERSION"));
    let value = |key: &str| {
        let mut entries = bundle["config"].as_array().unwrap().iter();
        let entry = entries.find(|entry| entry["key"] == key);
        entry.unwrap_or_else(|| panic!("{key}: {bundle}"))["value"].clone()
    };
    assert_eq!(value("http.listen"), "\"127.0.0.1:1\"");
    assert_eq!(value("journal.dir"), "\"/…\"");
    assert_eq!(value("queue.owner"), "\"[redacted: own pattern]\"");
    assert_eq!(value("summary.redact_patterns"), "(kept back)");
    assert!(!stdout(&output).contains("hidden-"), "{bundle}");
    let mut checks = bundle["checks"].as_array().unwrap().iter();
    let database = checks.find(|check| check["name"] == "database").unwrap();
    assert_eq!(database["verdict"], "fail", "{bundle}");
    assert!(bundle["status"]["error"].is_string(), "{bundle}");
    assert!(bundle["metrics"].is_null(), "{bundle}");
}

/// Values that may identify their owner; the price list must exist.
const PLANTED: &str = r#"
[database]
url = "sqlite:/nowhere/planted folder/planted.db"
[perspective]
participants = "planted-ann, planted-bob"
human_tag = "[planted]"
[summary]
redact_patterns = ["planted[0-9]{9}"]
[model]
mode = "openai"
base_url = "http://127.0.0.1:1/planted-path/v1?key=planted-query"
api_key_file = "planted keys/model"
proxy = "http://127.0.0.1:3128/planted-proxy"
[fallback]
mode = "anthropic"
base_url = "https://gateway.invalid/planted-path"
api_key_file = "/home/planted ann/key"
proxy = "unix:/run/planted folder/egress.sock"
[journal]
dir = "/srv/planted/journal"
[http]
listen = "unix:/nowhere/planted folder/recapd.sock"
tokens_file = "planted/tokens"
[trace]
otlp_url = "http://127.0.0.1:4318/planted-path"
otlp_headers_file = "/etc/planted/headers"
attributes = "deployment.environment.name=planted"
[spend]
prices_file = "#;

fn planted_folder(within: &Path) -> PathBuf {
    let folder = within.join("planted folder");
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_bundle_shows_only_hosts_and_first_folders() {
    let within = tempfile::tempdir().unwrap();
    let folder = planted_folder(within.path());
    let prices = folder.join("prices.toml");
    fs::write(&prices, "as_of = \"2026-12-01\"\nsource = \"a contract\"\n").unwrap();
    let file = folder.join("own.toml");
    fs::write(&file, format!("{PLANTED}\"{}\"\n", prices.display())).unwrap();
    let mut command = recapd();
    command.env("NOTIFY_SOCKET", "/run/planted/notify");
    command.args(["support", "bundle", "--config"]).arg(&file);
    let output = command.output().unwrap();
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains("planted"), "{bundle}");
    for (key, told) in [
        ("database.url", "\"sqlite:/…\""),
        ("fallback.proxy", "\"unix:/run/…\""),
        ("journal.dir", "\"/srv/…\""),
        ("model.api_key_file", "\"…\""),
        ("model.base_url", "\"http://127.0.0.1:1/…\""),
        ("model.mode", "\"openai\""),
        ("trace.otlp_url", "(kept back)"),
    ] {
        let mut entries = bundle["config"].as_array().unwrap().iter();
        let entry = entries.find(|entry| entry["key"] == key).unwrap();
        assert_eq!(entry["value"], told, "{key}");
    }
    assert!(bundle["status"]["error"].is_string(), "{bundle}");
}

/// Returns the bundle of a configuration that can't be used.
fn unusable(command: &mut Command) -> Value {
    let output = command.args(["support", "bundle"]).output().unwrap();
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains("planted"), "{bundle}");
    assert_eq!(bundle["version"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(bundle["checks"][0]["name"], "config", "{bundle}");
    assert_eq!(bundle["checks"][0]["verdict"], "fail", "{bundle}");
    assert!(bundle["status"]["error"].is_string(), "{bundle}");
    bundle["config"]["error"].clone()
}

#[test]
fn a_bundle_reports_an_unusable_configuration() {
    let within = tempfile::tempdir().unwrap();
    let file = planted_folder(within.path()).join("own.toml");
    for (toml, told) in [
        ("[model]\napi_key = planted", ":2: not TOML: string values must be quoted"),
        ("[model]\nbase_url = \"https://planted@host\"", ":2: model.base_url must not carry a user"),
        ("[database]\nurl = \"postgres://me:planted@host/db\"", ":2: database.url must not hold a password"),
        ("[http]\nlisten = \"planted\"", ":2: http.listen: …"),
        ("[window]\nbudget_tokens = \"planted\"", ":2: window.budget_tokens must be an integer…"),
    ] {
        fs::write(&file, toml).unwrap();
        let error = unusable(recapd().arg("--config").arg(&file));
        assert!(error.as_str().unwrap().contains(told), "{error}");
    }
    let missing = unusable(recapd().args(["--config", "/home/planted/own.toml"]));
    assert!(missing.as_str().unwrap().starts_with("/home/…: "), "{missing}");
    let variable = unusable(recapd().env("RECAPD__MODEL__MODE", "planted"));
    assert_eq!(variable, "env RECAPD__MODEL__MODE: model.mode: unknown variant …");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_named_needs_no_configuration() {
    let server = two_agents().await;
    let output = ask(&server, &["support", "bundle", "--set", "window.budget_tokens=many"]);
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(bundle["config"]["error"], "--set: window.budget_tokens must be an integer…");
    assert_eq!(bundle["status"]["agents"], 2, "{bundle}");
    assert!(bundle["metrics"].is_array(), "{bundle}");
    let mut checks = bundle["checks"].as_array().unwrap().iter();
    let daemon = checks.find(|check| check["name"] == "daemon").unwrap();
    assert_eq!(daemon["verdict"], "ok", "{bundle}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_describes_the_daemon_without_conversation_text() {
    let server = two_agents().await;
    let database = format!("database.url=sqlite:{}", server.database().display());
    let output = ask(&server, &["support", "bundle", "--set", &database]);
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(bundle["status"]["agents"], 2, "{bundle}");
    let mut series = bundle["metrics"].as_array().unwrap().iter();
    assert!(series.any(|line| line.as_str().unwrap().starts_with("recapd_queue_depth{")), "{bundle}");
    for word in ["coder", "planner", "parser.rs", "please"] {
        assert!(!stdout(&output).contains(word), "{word}: {bundle}");
    }
    server.end().await;
}
