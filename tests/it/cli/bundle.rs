//! `recapd support bundle`.

use std::fs;

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
    let output = command
        .arg("--db")
        .arg(folder.path().join("none.db"))
        .output()
        .unwrap();
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(bundle["version"]["version"], env!("CARGO_PKG_VERSION"));
    let value = |key: &str| {
        let mut entries = bundle["config"].as_array().unwrap().iter();
        let entry = entries.find(|entry| entry["key"] == key);
        entry.unwrap_or_else(|| panic!("{key}: {bundle}"))["value"].clone()
    };
    assert_eq!(value("http.listen"), "\"127.0.0.1:1\"");
    assert_eq!(value("journal.dir"), "\"/nowhere/[redacted: anthropic key]\"");
    assert_eq!(value("queue.owner"), "\"[redacted: own pattern]\"");
    assert_eq!(value("summary.redact_patterns"), "(kept back)");
    assert!(!stdout(&output).contains("hidden-"), "{bundle}");
    let mut checks = bundle["checks"].as_array().unwrap().iter();
    let database = checks.find(|check| check["name"] == "database").unwrap();
    assert_eq!(database["verdict"], "fail", "{bundle}");
    assert!(bundle["status"]["error"].is_string(), "{bundle}");
    assert!(bundle["metrics"].is_null(), "{bundle}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_tells_of_the_daemon_and_nothing_that_was_said() {
    let server = two_agents().await;
    let database = format!("database.url=sqlite:{}", server.database().display());
    let output = ask(&server, &["support", "bundle", "--set", &database]);
    let bundle = json(&output);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(bundle["status"]["agents"], 2, "{bundle}");
    let mut series = bundle["metrics"].as_array().unwrap().iter();
    assert!(
        series.any(|line| line.as_str().unwrap().starts_with("recapd_queue_depth{")),
        "{bundle}"
    );
    for word in ["coder", "planner", "parser.rs", "please"] {
        assert!(!stdout(&output).contains(word), "{word}: {bundle}");
    }
    server.end().await;
}
