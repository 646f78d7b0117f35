use super::{
    Printing, code, json,
    place::{alike, ask, look, two_agents},
    recapd, stderr, stdout,
};
use crate::support::troubled_store::Trouble;

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_that_a_daemon_cannot_write() {
    let server = two_agents().await;
    assert_eq!(json(&ask(&server, &["status", "--json"])).get("not_ready"), None);
    server.store.trouble("ping", Trouble::Unavailable);
    let block = stdout(&ask(&server, &["status"]));
    assert!(block.contains("the daemon isn't ready: "), "{block}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_block_is_the_same_from_the_daemon_and_from_the_database() {
    let server = two_agents().await;
    server.summarise().await;
    let mut asked = json(&ask(&server, &["status", "--json"]));
    let mut looked = json(&look(&server.database(), &["status", "--json"]));
    assert_eq!(asked["updates"]["completed"], 1, "{asked}");
    assert_eq!(asked["window_hours"], 24);
    for told in [&mut asked, &mut looked] {
        let told = told.as_object_mut().unwrap();
        // Members that only the daemon knows, or that depend on the current day.
        for name in ["circuits", "today"] {
            told.remove(name);
        }
        let names = ["completed", "mean_duration_ms", "mean_document_tokens", "model_calls", "updates"];
        for name in names.into_iter().chain(["input_tokens", "output_tokens"]) {
            told.remove(name);
        }
    }
    assert_eq!(asked, looked);
    let block = stdout(&ask(&server, &["status", "--window", "7d"]));
    assert!(block.starts_with("Summary updates, last 7d"), "{block}");
    assert!(block.contains("2 agents, 1 summary"), "{block}");
    let one = alike(&server, &["status", "coder"]);
    assert_eq!((&one["agent_id"], &one["summary_version"]), (&"coder".into(), &1.into()));
    let line = stdout(&ask(&server, &["status", "planner"]));
    assert!(line.starts_with("planner: 2 messages in 1 exchange, window "), "{line}");
    assert_eq!(code(&ask(&server, &["status", "plannr"])), Some(3));
    for wrong in ["0h", "7", "h", "10000d"] {
        let output = ask(&server, &["status", "--window", wrong]);
        assert_eq!(code(&output), Some(2), "{wrong}");
        assert!(stderr(&output).contains("such as 24h or 7d"), "{}", stderr(&output));
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_status_says_what_the_proxy_did() {
    let server = two_agents().await;
    let traffic = serde_json::json!({"requests": 12, "request_bytes": 81_000, "answer_bytes": 900, "compactions_answered": 2, "answering_ms": 80, "unstored": 1});
    let report = serde_json::json!({"report": "a-1", "traffic": traffic}).to_string();
    assert_eq!(server.post("/v1/agents/coder/proxy", report).await.status, 200);
    let text = stdout(&ask(&server, &["status", "coder", "planner"]));
    let lines: Vec<&str> = text.lines().collect();
    let line = "  proxy: 12 requests, 81.0k bytes up, 900 down, 2 compactions answered in 40ms each, 1 unstored, last ";
    assert!(lines.len() == 3 && lines[1].starts_with(line), "{text}");
    let one = alike(&server, &["status", "coder"]);
    assert_eq!(one["proxy"]["traffic"]["requests"], 12);
    assert_eq!(alike(&server, &["status", "planner"]).get("proxy"), None);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_can_be_watched() {
    let server = two_agents().await;
    let mut watching = std::process::Command::new(assert_cmd::cargo::cargo_bin("recapd"));
    watching.env_clear().args(["status", "--watch", "1", "--db"]).arg(server.database());
    let watching = Printing::by(&mut watching);
    for _ in 0..2 {
        watching.until("Summary updates, ");
    }
    drop(watching);
    server.end().await;
}

#[test]
fn an_empty_database_has_a_block_too() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("empty.db");
    look(&database, &["migrate", "up"]);
    let output = recapd().args(["status", "--db"]).arg(&database).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    Summary updates, last 24h                         queue  0 ready · 0 running
      completed         0                             oldest wait        none
      failed            0                             stalest agent      none
      avg duration    0ms  p95 0ms    limit 30.0s     parked             0
      avg size        0/10.0k      limit 9.0k         spend  $0.00
      emergency truncations  0                        provider  not called yet
      model      0 calls, 0 tokens in, 0 out
    0 agents, 0 summaries of 0 tokens, 0 updates scheduled
    ");
}
