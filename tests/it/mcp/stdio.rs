//! `recapd mcp`: the binary, line by line.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
};

use axum::http::StatusCode;
use recapd_api::mcp::MESSAGE_BYTES_MAX;
use recapd_config::Environment;
use recapd_core::hash::session_agent;
use reqwest::Method;
use serde_json::{Value, json};

use super::{EARLIER, LATER, PATIENCE, SUMMARY, message, meta, text};
use crate::support::{
    monotone,
    server::{Reply, Server},
    slow,
};

/// The host that started the binary.
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Host {
    fn start(arguments: &[&str], folder: &Path) -> Self {
        Self::start_in(arguments, folder, None)
    }

    /// Starts it as Claude Code does in a session.
    fn start_in(arguments: &[&str], folder: &Path, session: Option<&str>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_recapd"))
            .env_remove("CLAUDE_PROJECT_DIR")
            .env_remove("CLAUDE_CODE_SESSION_ID")
            .envs(session.map(|session| ("CLAUDE_CODE_SESSION_ID", session)))
            .arg("mcp")
            .args(arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines() {
                // A line that isn't a message would be a defect.
                sender.send(serde_json::from_str(&line.unwrap()).unwrap()).ok();
            }
        });
        Self { input: child.stdin.take(), child, lines }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&message(method, params));
        self.next()
    }

    /// Starts it with a configuration that names a daemon and a [`database`], and initializes it as in the earlier era.
    fn beside(daemon: SocketAddr, folder: &Path) -> Self {
        let (listen, url) =
            (format!("http.listen={daemon}"), format!("database.url=sqlite:{}", database(folder)));
        let mut host = Self::start(&["--set", &listen, "--set", &url], folder);
        host.initialize();
        host
    }

    /// Returns the only agent that it finds.
    fn first_agent(&mut self) -> String {
        let status = self.call("status", &json!({}));
        let first = text(&status).lines().next().unwrap();
        first.strip_prefix("agent: ").unwrap_or_default().to_owned()
    }

    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": EARLIER,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = self.ask("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], EARLIER, "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Sends a request of the later era.
    fn ask_alone(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta(LATER);
        self.ask(method, params)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    /// Closes its input, and waits until it ends.
    fn end(mut self) {
        drop(self.input.take());
        let end = loop {
            if let Err(end) = self.lines.recv_timeout(PATIENCE) {
                break end;
            }
        };
        assert_eq!(end, RecvTimeoutError::Disconnected, "it goes on");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().ok();
    }
}

/// Makes a database with one agent, `chat`, of which a part is summarised.
fn database(folder: &Path) -> String {
    let lines: Vec<String> = (0..30)
        .map(|number| {
            let at = format!("2026-03-02T08:{number:02}:00Z");
            let asked = json!({ "kind": "user", "content": format!("Fix bug {number}\n{}", "please ".repeat(30)), "created_at": at });
            let answered = json!({ "kind": "assistant", "content": format!("Fixed bug {number}."), "created_at": at });
            format!("{asked}\n{answered}\n")
        })
        .collect();
    std::fs::write(folder.join("chat.jsonl"), lines.concat()).unwrap();
    let replay = Command::new(env!("CARGO_BIN_EXE_recapd"))
        .args(["replay", "chat.jsonl", "--db", "chat.db", "--set", "window.budget_tokens=300"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    "chat.db".to_owned()
}

#[test]
fn a_host_of_the_earlier_era_reads_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::start(&["--db", &database(folder.path())], folder.path());
    host.initialize();
    let listed = host.ask("resources/list", Value::Null);
    let uri = &listed["result"]["resources"][0]["uri"];
    assert_eq!(uri, "recapd://agents/chat/summary.md", "{listed}");
    let read = host.ask("resources/read", json!({ "uri": uri }));
    let document = read["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(document.contains("Fix bug 1"), "{read}");
    assert_eq!(text(&host.call("summary_get", &json!({ "agent": "chat" }))), document.trim_end());
    let found = host.call("recall", &json!({ "agent": "chat", "query": "bug 7" }));
    assert!(text(&found).contains("Fix bug 7"), "{found}");
    let shown = host.call("expand", &json!({ "agent": "chat", "exchanges": "8" }));
    assert!(text(&shown).contains("Fixed bug 7."), "{shown}");
    let wrong = host.call("expand", &json!({ "agent": "nobody", "exchanges": "8" }));
    assert_eq!(wrong["isError"], true, "{wrong}");
    assert_eq!(host.first_agent(), "chat");
    host.end();
}

#[test]
fn an_oversized_line_is_dropped_and_the_next_one_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::start(&["--db", &database(folder.path())], folder.path());
    host.initialize();
    host.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": "x".repeat(MESSAGE_BYTES_MAX) }));
    host.send(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/list" }));
    let mut answer = host.next();
    if answer["id"] != 8 {
        assert_ne!(answer["error"], Value::Null, "{answer}");
        answer = host.next();
    }
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 4, "{answer}");
    host.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_the_later_era_asks_a_daemon_and_is_notified() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    let folder = tempfile::tempdir().unwrap();
    let address = format!("http://{}", server.address);
    let mut host = Host::start(&["--server", &address], folder.path());
    let found = host.ask_alone("server/discover", json!({}));
    assert_eq!(found["result"]["capabilities"]["resources"]["subscribe"], true, "{found}");
    let wrong = host.ask_alone("resources/read", json!({ "uri": "recapd://agents/nobody/summary.md" }));
    assert_eq!(wrong["error"]["code"], -32_602, "{wrong}");
    let listened = host.ask_alone(
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": [SUMMARY] } }),
    );
    assert_eq!(listened["method"], "notifications/subscriptions/acknowledged", "{listened}");
    server.converse("coder", 3..=8).await;
    let notice = host.next();
    assert_eq!(notice["method"], "notifications/resources/updated", "{notice}");
    assert_eq!(notice["params"]["uri"], SUMMARY, "{notice}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_finds_the_daemon_by_itself_and_the_database_when_it_is_gone() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::beside(server.address, folder.path());
    assert_eq!(host.first_agent(), "coder");
    for (tool, arguments) in [
        ("summary_get", json!({ "agent": "coder" })),
        ("status", json!({ "agent": "coder" })),
        ("recall", json!({ "agent": "coder", "query": "bug" })),
        ("expand", json!({ "agent": "coder", "exchanges": "1" })),
    ] {
        let answer = host.call(tool, &arguments);
        assert_eq!(answer["isError"], false, "{tool}: {answer}");
    }
    for uri in ["recapd://agents/coder/history.md", "recapd://agents/coder/window.json"] {
        let read = host.ask("resources/read", json!({ "uri": uri }));
        assert!(read["result"]["contents"][0]["text"].to_string().contains("Fix bug 2"), "{read}");
    }
    let unknown = host.call("expand", &json!({ "agent": "coder", "exchanges": "99" }));
    assert!(text(&unknown).starts_with("`exchanges`: agent `coder` has no exchange #99"), "{unknown}");
    server.end().await;
    assert_eq!(host.first_agent(), "chat");
}

/// The daemon knows another agent than the database that is found without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_daemon_is_preferred_to_the_database() {
    let server = Server::small().await;
    server.converse("coder", 1..=2).await;
    let folder = tempfile::tempdir().unwrap();
    let slow = slow::at(server.address, "/version", PATIENCE).await;
    let mut host = Host::beside(slow, folder.path());
    assert_eq!(host.first_agent(), "coder");
    host.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_at_the_address_is_not_used() {
    for (status, body) in [(StatusCode::SERVICE_UNAVAILABLE, "busy"), (StatusCode::OK, "{}")] {
        let folder = tempfile::tempdir().unwrap();
        let address = monotone::at(status, body).await;
        let mut host = Host::beside(address, folder.path());
        assert_eq!(host.first_agent(), "chat", "{status}");
        host.end();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_agent_or_the_newest_of_the_folder_is_meant_by_default() {
    let server = Server::small().await;
    let folder = tempfile::tempdir().unwrap();
    let here = recapd::hook::project_id(folder.path(), &Environment::default());
    let agents = [
        session_agent("claude-code", "s-2").to_string(),
        session_agent("codex", "s-1").to_string(),
        session_agent("claude-code", "s-3").to_string(),
    ];
    for (agent, number) in agents.iter().zip(1..) {
        server.clock.advance_ms(1_000);
        server.converse(agent, number..=number).await;
    }
    for agent in &agents[..2] {
        let path = format!("/v1/projects/{here}/agents/{agent}");
        let join = Reply::of(server.request(Method::PUT, &path)).await;
        assert_eq!(join.status, 200);
    }
    let address = format!("http://{}", server.address);
    for (arguments, session, agent) in [
        (vec!["--agent", &agents[2]], Some("s-2"), &agents[2]),
        (vec![], Some("s-2"), &agents[0]),
        (vec![], Some("s-9"), &agents[1]),
        (vec![], None, &agents[1]),
    ] {
        let arguments = [vec!["--server", &address], arguments].concat();
        let mut host = Host::start_in(&arguments, folder.path(), session);
        host.initialize();
        assert_eq!(host.first_agent(), *agent, "{session:?}");
        host.end();
    }
}

#[test]
fn a_host_is_told_if_there_is_neither_daemon_nor_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::start(&["--set", "http.listen=127.0.0.1:9"], folder.path());
    host.initialize();
    let status = host.call("status", &json!({}));
    assert_eq!(status["isError"], true, "{status}");
    assert!(text(&status).contains("recapd migrate up"), "{status}");
    host.end();
}
