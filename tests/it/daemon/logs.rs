//! What the real binary logs: one JSON object per event, with known names, and no conversations or keys.

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use super::Daemon;
use crate::support::fake_provider::{FakeProvider, Planned, Trouble, Wait};

/// A user's word, a model's word, and the provider's key.
const CANARIES: [&str; 3] = ["cagedcanary", "singingcanary", "sk-canary0123456789abcdef"];

async fn say(daemon: &Daemon, number: u32) {
    let ask =
        format!("Question {number} of the {} about src/module_{number}.rs: why? ", CANARIES[0]).repeat(8);
    let messages = json!([{"kind": "user", "content": ask}, {"kind": "assistant", "content": CANARIES[1]}]);
    let request = daemon.client.post(daemon.url("/v1/agents/coder/messages?format=native"));
    let request = request.header("content-type", "application/json").body(messages.to_string());
    assert!(request.send().await.unwrap().status().is_success());
}

#[tokio::test]
async fn logs_at_info_hold_no_conversations_and_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = Stdio::from(fs::File::create(&path).unwrap());
    let fake = FakeProvider::start();
    let settings = ["log.level=info", "log.format=json", "queue.attempts_max=100"];
    let environment = [("OPENAI_API_KEY", CANARIES[2])];
    let mut daemon = Daemon::start_with(&fake, &settings, &environment, log);
    daemon.until_ready().await;
    for number in 1..=2 {
        say(&daemon, number).await;
    }
    daemon.until_version(1).await;
    // The refusal quotes the key, as some providers do.
    let refusal = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {}\"}}}}", CANARIES[2]);
    // The last failure is final: digests stand in, in a new version.
    fake.plan([
        Planned::Trouble(Trouble::Server, Wait::Unsaid),
        Planned::Content(format!("The {} sings, and this is no JSON", CANARIES[1])),
        Planned::Garbage,
        Planned::status(401, &refusal),
    ]);
    for number in 3..=6 {
        say(&daemon, number).await;
        daemon.get("/v1/agents/coder/context?format=openai").await;
        daemon.get("/v1/agents/nobody/summary").await;
    }
    daemon.until_version(2).await;
    daemon.end().await;

    let text = fs::read_to_string(&path).unwrap();
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in\n{text}");
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &str| events.iter().filter(|event| event["message"] == name).count();
    assert_eq!((named("daemon.ready"), named("daemon.stopping"), named("daemon.stopped")), (1, 1, 1));
    let first = |name: &str| events.iter().find(|event| event["message"] == name).unwrap();
    assert_eq!(first("daemon.stopping")["signal"], "SIGTERM");
    assert_eq!(first("daemon.stopped")["manner"], "drained");
    assert!(named("update.failed") > 0 && named("update.completed") > 0, "{text}");
    let is_name =
        |name: &str| name.contains('.') && name.chars().all(|c| c.is_ascii_lowercase() || ".:_".contains(c));
    for event in events.iter().filter(|event| event["target"].as_str().unwrap().starts_with("recapd")) {
        assert!(is_name(event["message"].as_str().unwrap()), "{event}");
    }
    assert!(events.iter().all(|event| event["timestamp"].is_string()));
}
