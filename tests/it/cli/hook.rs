//! `recapd hook` as hosts call it, with the daemon up, down, slow, and with hooks killed at work.

mod install;
mod long;
mod sessions;
mod wrong;

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{task::block_in_place, time::Instant};

use super::{code, recapd, stderr, stdout};
use crate::support::{
    port::Port,
    server::{Reply, Server},
};

const AGENT: &str = "coder";
/// Limit for a hook that takes 300 ms, times a small factor here, and its start on a busy machine. A daemon that
/// never answers would block for ever.
const SLOW_TIME_MAX: Duration = Duration::from_secs(20);
/// Factor of hooks' time limits where the daemon answers, for busy machines.
const PATIENCE: &str = "50";
/// The factor where the daemon doesn't answer: enough time to read the transcript, but each hook uses all of it.
const LITTLE_PATIENCE: &str = "5";

/// A session of a coding agent with a transcript, and hooks that know a daemon.
struct Session {
    folder: tempfile::TempDir,
    id: &'static str,
    server: String,
    patience: &'static str,
}

impl Session {
    fn new(server: SocketAddr) -> Self {
        let session = Self {
            folder: tempfile::tempdir().unwrap(),
            id: "5e55-10",
            server: format!("http://{server}"),
            patience: PATIENCE,
        };
        fs::write(session.transcript(), "").unwrap();
        session
    }

    /// Makes a session whose hooks have little time.
    fn impatient(server: SocketAddr) -> Self {
        Self { patience: LITTLE_PATIENCE, ..Self::new(server) }
    }

    fn transcript(&self) -> PathBuf {
        self.folder.path().join(format!("{}.jsonl", self.id))
    }

    /// Adds turns of two messages each to the transcript, numbered from `first`.
    fn say(&self, first: usize, turns: usize) {
        let mut text = fs::read_to_string(self.transcript()).unwrap();
        for turn in first..first + turns {
            let id = self.id;
            let question = format!("Mend parser {turn}, {}", "please ".repeat(30));
            let lines = [
                json!({ "type": "user", "uuid": format!("{id}-u{turn}"), "sessionId": id, "message": { "role": "user", "content": question } }),
                json!({ "type": "assistant", "uuid": format!("{id}-a{turn}"), "sessionId": id, "message": { "role": "assistant", "content": [{ "type": "text", "text": format!("Parser {turn} is mended.") }] } }),
            ];
            text.extend(lines.map(|line| format!("{line}\n")));
        }
        fs::write(self.transcript(), text).unwrap();
    }

    fn input(&self, more: &Value) -> String {
        let mut input = json!({
            "session_id": self.id, "transcript_path": self.transcript(), "cwd": self.folder.path(),
            "permission_mode": "default",
        });
        let fields = input.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        input.to_string()
    }

    fn arguments(&self, event: &str) -> Vec<String> {
        let words = ["hook", event, "--host", "claude-code", "--agent", AGENT, "--server", &self.server];
        words.map(str::to_owned).to_vec()
    }

    /// Calls a hook, which must succeed.
    fn call(&self, event: &str, more: &Value) -> String {
        let output = block_in_place(|| self.run(&self.arguments(event), self.input(more)));
        assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""), "{event}");
        stdout(&output)
    }

    fn run(&self, arguments: &[String], input: String) -> Output {
        recapd()
            .args(arguments)
            .env("XDG_STATE_HOME", self.folder.path())
            .env("RECAPD_HOOK_PATIENCE", self.patience)
            .write_stdin(input)
            .output()
            .unwrap()
    }

    /// Returns what a session receives when it starts.
    fn start(&self, source: &str) -> Option<String> {
        let printed = self.call("SessionStart", &json!({ "source": source }));
        if printed.is_empty() {
            return None;
        }
        assert!(printed.chars().count() <= 10_000, "{printed}");
        let output: Value = serde_json::from_str(&printed).unwrap();
        let output = &output["hookSpecificOutput"];
        assert_eq!(output["hookEventName"], "SessionStart");
        Some(output["additionalContext"].as_str().unwrap().to_owned())
    }

    fn stop(&self) {
        assert_eq!(self.call("Stop", &json!({})), "");
    }

    /// Starts a hook without waiting for it.
    fn spawn(&self, event: &str) -> Child {
        let file = self.folder.path().join("input.json");
        fs::write(&file, self.input(&json!({}))).unwrap();
        Command::new(assert_cmd::cargo::cargo_bin("recapd"))
            .args(self.arguments(event))
            .env_clear()
            .env("XDG_STATE_HOME", self.folder.path())
            .env("RECAPD_HOOK_PATIENCE", self.patience)
            .stdin(fs::File::open(file).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn status(&self) -> Value {
        let arguments = ["hook", "status", "--json"].map(str::to_owned);
        let output = block_in_place(|| self.run(&arguments, String::new()));
        let statuses: Value = serde_json::from_slice(&output.stdout).unwrap();
        statuses["agents"][0].clone()
    }
}

async fn server() -> Server {
    Server::start(|_| {}).await
}

async fn messages(server: &Server) -> i64 {
    let agents = server.get("/v1/agents").await.json();
    agents["agents"][0]["messages"].as_i64().unwrap_or_default()
}

/// Has the first version written, and waits until readers get it.
async fn summarise(server: &Server) {
    server.summarise().await;
    let path = format!("/v1/agents/{AGENT}/summary");
    let is_written = |reply: &Reply| reply.header("recapd-version") == "1";
    server.get_until(&path, is_written).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_with_the_daemon_up() {
    let server = server().await;
    let session = Session::new(server.address);
    assert_eq!(session.start("startup"), None);
    session.say(1, 3);
    session.stop();
    session.stop();
    assert_eq!(messages(&server).await, 6);
    session.say(4, 1);
    assert_eq!(session.call("SubagentStop", &json!({ "agent_id": "sub" })), "");
    assert_eq!(session.call("PreCompact", &json!({ "trigger": "auto" })), "");
    assert_eq!(session.call("PostCompact", &json!({ "trigger": "auto" })), "");
    // Four turns, and the mark of the emptied context.
    assert_eq!(messages(&server).await, 9);

    let given = session.start("compact").expect("there is something to tell");
    assert!(given.starts_with("<summary agent=\"coder\"") && given.ends_with("</summary>"), "{given}");
    assert!(given.contains("Mend parser 4") && !given.contains("stale="), "{given}");
    assert!(given.chars().count() <= 6_000);
    assert_eq!(session.start("startup"), None, "it was told already");
    assert!(session.start("compact").is_some(), "but its context was emptied");
    summarise(&server).await;
    let summarised = session.start("compact").expect("it is another brief by now");
    assert!(summarised.contains("version=\"1\""), "{summarised}");
    assert_eq!(session.call("SessionStart", &json!({ "source": "startup", "agent_id": "sub" })), "");
    assert_eq!(session.start("resume"), None);
    let status = session.status();
    assert_eq!((&status["agent_id"], &status["spool_segments"]), (&json!(AGENT), &json!(0)));
    assert!(status["last_push_at"].is_string() && status["last_injection_at"].is_string(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_is_marked_and_a_session_ends_once() {
    let server = server().await;
    let session = Session::new(server.address);
    session.call("SessionEnd", &json!({ "reason": "other" }));
    assert_eq!(messages(&server).await, 0);
    session.say(1, 1);
    session.call("StopFailure", &json!({ "error": "rate_limit" }));
    session.call("StopFailure", &json!({ "error": "rate_limit" }));
    assert_eq!(messages(&server).await, 3);
    session.call("SessionEnd", &json!({ "reason": "other" }));
    session.call("SessionEnd", &json!({ "reason": "other" }));
    assert_eq!(messages(&server).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_an_agent_clears_its_hooks_files() {
    let server = server().await;
    let mut session = Session::new(server.address);
    session.say(1, 2);
    session.call("SessionEnd", &json!({ "reason": "other" }));
    session.start("startup").expect("there is a brief");
    let forget = |session: &Session, what: &[&str]| {
        let arguments = [&["forget", AGENT], what, &["--server", &session.server]].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let output = block_in_place(|| session.run(&arguments, String::new()));
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    };

    let nobody = Port::reserve();
    let up = std::mem::replace(&mut session.server, format!("http://{}", nobody.address()));
    session.say(3, 2);
    session.stop();
    assert!(session.start("compact").is_some(), "of the copy");
    assert_eq!(session.status()["spool_segments"], 1);

    session.server = up;
    forget(&session, &["1"]);
    session.server = format!("http://{}", nobody.address());
    assert_eq!(session.start("compact"), None, "the copy may say what was forgotten");
    assert_eq!(session.status()["spool_segments"], 1, "what waits was never said");

    session.server = format!("http://{}", server.address);
    forget(&session, &["--all", "--yes", AGENT]);
    assert_eq!(session.status()["spool_segments"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_daemon_messages_wait_and_the_cached_brief_is_used() {
    let server = server().await;
    let mut session = Session::new(server.address);
    session.say(1, 2);
    session.call("SessionEnd", &json!({ "reason": "other" }));
    let given = session.start("startup").expect("it is up");

    let nobody = Port::reserve();
    session.server = format!("http://{}", nobody.address());
    let other = Session { id: "other", ..session };
    fs::write(other.transcript(), "").unwrap();
    let copy = other.start("startup").expect("there is a copy");
    assert!(copy.contains("stale=\"true\" as_of=\"20"), "{copy}");
    let body = |text: &str| text.split_once(">\n").unwrap().1.to_owned();
    assert_eq!(body(&copy), body(&given));
    other.say(1, 3);
    other.stop();
    other.say(4, 1);
    other.stop();
    let status = other.status();
    assert_eq!(status["spool_segments"], 2, "{status}");
    assert!(status["last_error"].is_string(), "{status}");
    assert_eq!(messages(&server).await, 5);

    let back = Session { server: format!("http://{}", server.address), ..other };
    back.stop();
    assert_eq!(messages(&server).await, 13);
    assert_eq!(back.status()["spool_segments"], 0);
    let history = server.get_as(&format!("/v1/agents/{AGENT}/history"), "text/markdown").await.body;
    assert!(!history.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_daemon_does_not_delay_a_hook() {
    // It accepts connections, and never answers.
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let session = Session::impatient(slow.local_addr().unwrap());
    session.say(1, 2);
    for (event, more) in [
        ("Stop", json!({})),
        ("PreCompact", json!({ "trigger": "manual" })),
        ("SessionStart", json!({ "source": "compact" })),
    ] {
        let began = Instant::now();
        assert_eq!(session.call(event, &more), "");
        assert!(began.elapsed() < SLOW_TIME_MAX, "{event}: {:?}", began.elapsed());
    }
    // What goes on after these hooks ends with its connection.
    drop(slow);
    let server = server().await;
    let back = Session { server: format!("http://{}", server.address), patience: PATIENCE, ..session };
    // `drain` has no hook's time limit.
    let drain = ["hook", "drain", "--server", &back.server, "--json"].map(str::to_owned);
    let output = block_in_place(|| back.run(&drain, String::new()));
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(messages(&server).await, 5);
    assert_eq!(back.status()["spool_segments"], 0);
    back.stop();
    assert_eq!(messages(&server).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_hooks_store_each_message_once() {
    let server = server().await;
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut session = Session::new(server.address);
    for round in 0..8_usize {
        session.say(round, 1);
        session.server =
            format!("http://{}", if round % 2 == 0 { slow.local_addr().unwrap() } else { server.address });
        let mut hook = session.spawn("Stop");
        tokio::time::timeout(
            Duration::from_millis(5 + 9 * u64::try_from(round).unwrap()),
            std::future::pending::<()>(),
        )
        .await
        .unwrap_err();
        hook.kill().unwrap();
        hook.wait().unwrap();
    }
    session.server = format!("http://{}", server.address);
    // The daemon may still be storing what a killed hook sent.
    session.stop();
    session.stop();
    assert_eq!(messages(&server).await, 16);
    assert_eq!(session.status()["refused"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_hooks_store_each_message_once() {
    let server = server().await;
    let session = Session::new(server.address);
    for round in 0..4 {
        session.say(round, 1);
        let hooks: Vec<Child> = (0..4).map(|_| session.spawn("Stop")).collect();
        for mut hook in hooks {
            assert!(block_in_place(|| hook.wait()).unwrap().success());
        }
    }
    session.stop();
    session.stop();
    assert_eq!(messages(&server).await, 8);
    assert_eq!(session.status()["refused"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_known_in_any_spelling() {
    let server = server().await;
    let session = Session::new(server.address);
    for (turn, event) in (1..).zip(["stop", "STOP", "sessionEnd"]) {
        session.say(turn, 1);
        assert_eq!(session.call(event, &json!({})), "");
    }
    // Three turns, and the mark of the emptied context.
    assert_eq!(messages(&server).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_can_be_switched_off() {
    let server = server().await;
    let session = Session::new(server.address);
    session.say(1, 1);
    let output = block_in_place(|| {
        recapd()
            .args(session.arguments("Stop"))
            .env("XDG_STATE_HOME", session.folder.path())
            .env("RECAPD_HOOK", "off")
            .write_stdin(session.input(&json!({})))
            .output()
            .unwrap()
    });
    assert_eq!(code(&output), Some(0));
    assert_eq!(messages(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_is_announced_if_configured() {
    let server = server().await;
    let session = Session::new(server.address);
    session.say(1, 2);
    session.call("PreCompact", &json!({}));
    session.start("compact").expect("there are digests");
    summarise(&server).await;
    assert_eq!(session.call("UserPromptSubmit", &json!({ "prompt": "x" })), "");
    let mut arguments = session.arguments("UserPromptSubmit");
    arguments.extend(["--set", "hook.announce=true"].map(str::to_owned));
    let announce = || stdout(&block_in_place(|| session.run(&arguments, session.input(&json!({})))));
    let said = announce();
    assert!(said.contains("version 1") && said.contains("UserPromptSubmit"), "{said}");
    assert_eq!(announce(), "", "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_test_shows_what_a_session_would_get() {
    let server = server().await;
    let session = Session::new(server.address);
    session.say(1, 60);
    session.call("SessionEnd", &json!({}));
    for (limit, host) in [("6000", "claude-code"), ("1000", "codex"), ("9000", "codex")] {
        let mut arguments = session.arguments("test");
        arguments.retain(|word| word != "--host" && word != "claude-code");
        let limit_set = format!("hook.max_chars={limit}");
        arguments.extend(["--host", host, "--set", &limit_set, "--json"].map(str::to_owned));
        let output =
            block_in_place(|| session.run(&arguments, session.input(&json!({ "source": "startup" }))));
        let told: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        let (chars, tokens) = (told["chars"].as_u64().unwrap(), told["tokens"].as_u64().unwrap());
        assert!(chars > 400 && chars <= limit.parse().unwrap(), "{told}");
        assert!(tokens <= 2_500, "{told}");
        assert!(told["text"].as_str().unwrap().contains("parser 60"), "the newest are told: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_works_as_well() {
    let server = server().await;
    let session = Session::new(server.address);
    let call = |event: &str| {
        let mut arguments = session.arguments(event);
        arguments.retain(|word| word != "--host" && word != "claude-code");
        let input = session.input(&json!({ "turn_id": "t", "model": "gpt-5.4", "source": "compact" }));
        let output = block_in_place(|| session.run(&arguments, input));
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let item = |role: &str, kind: &str, text: &str| {
        let content = json!([{ "type": kind, "text": text }]);
        let payload = json!({ "type": "message", "role": role, "content": content });
        let line =
            json!({ "timestamp": "2026-11-20T08:40:00.000Z", "type": "response_item", "payload": payload });
        format!("{line}\n")
    };
    // Lines without ids, some of them equal.
    let turn = item("user", "input_text", "again") + &item("assistant", "output_text", "done");
    fs::write(session.transcript(), &turn).unwrap();
    assert_eq!(call("Stop"), "");
    fs::write(session.transcript(), turn.repeat(3)).unwrap();
    assert_eq!(call("Stop"), "");
    assert_eq!(call("PreCompact"), "");
    assert_eq!(messages(&server).await, 7);
    let given = call("SessionStart");
    assert!(given.contains("again") && given.len() <= 10_000, "{given}");
}
