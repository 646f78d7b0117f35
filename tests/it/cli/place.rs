//! Runs commands through a daemon and on its database; the results must be equal.

use std::{path::Path, process::Output};

use recapd_config::Config;
use serde_json::Value;

use super::{code, json, recapd, stderr};
use crate::support::server::Server;

/// A daemon in this process with two agents: `coder`, whose exchanges wait to be summarised, and `planner`.
pub(super) async fn two_agents() -> Server {
    let server = Server::start(small).await;
    server.converse("coder", 1..=9).await;
    server.converse("planner", 1..=1).await;
    server
}

/// Sets a budget of a few exchanges.
pub(super) fn small(config: &mut Config) {
    config.window.budget_tokens = 200;
}

pub(super) fn ask(server: &Server, args: &[&str]) -> Output {
    let url = format!("http://{}", server.address);
    recapd().args(args).args(["--server", &url]).output().unwrap()
}

pub(super) fn look(database: &Path, args: &[&str]) -> Output {
    recapd().args(args).arg("--db").arg(database).output().unwrap()
}

/// Returns a reading command's JSON, which must be the same through the daemon and from the database.
pub(super) fn alike(server: &Server, args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    let [asked, looked] = [ask(server, &args), look(&server.database(), &args)].map(|output| {
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
        let mut value = json(&output);
        timeless(&mut value);
        value
    });
    assert_eq!(asked, looked, "{args:?}");
    asked
}

/// Removes members that depend on the current time, since the daemon's clock is a test's.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("age_ms");
            members.values_mut().for_each(timeless);
        }
        Value::Array(values) => values.iter_mut().for_each(timeless),
        _ => {}
    }
}

#[test]
fn commands_on_the_database_itself_ask_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let example = super::package_file("examples/two-weeks.jsonl");
    let example = example.to_str().unwrap();
    for command in [
        ["replay", example].as_slice(),
        &["export"],
        &["import", example],
        &["backup", "to.db"],
        &["restore", "to.db"],
        &["copy", "from.db", "to.db"],
        &["migrate", "up"],
        &["token", "list"],
        &["verify"],
    ] {
        let output = recapd()
            .args(command)
            .args(["--server", "http://127.0.0.1:9"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(2), "{command:?} {}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains("not through --server: name the database with --db"), "{told}");
    }
    let made = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(made, 0, "a file was made");
}
