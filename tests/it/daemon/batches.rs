//! Batches through the real binary: deferred, sent and shown, also across a SIGKILL. Urgent work bypasses them.

use recapd_platform::clock::{Clock as _, SystemClock};
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};

use super::{AGENT, Daemon};
use crate::support::fake_provider::{
    FakeProvider, Shape,
    batches::{BatchCall, Fate, Hitch},
};

async fn started(fake: &FakeProvider) -> Daemon {
    let base_url = format!("model.base_url={}", fake.base_url(Shape::Anthropic));
    let settings = [
        "model.mode=anthropic",
        &base_url,
        "model.model=small-model",
        "model.batch=true",
        "batch.gather_ms=0",
    ];
    fake.batches().set_clock(SystemClock.now());
    let daemon = super::started(fake, &settings).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon
}

async fn until_open(daemon: &Daemon, state: &str) {
    daemon
        .until(state, async |daemon: &Daemon| {
            let text = daemon.get("/v1/status").await.unwrap_or_default();
            let status: Value = serde_json::from_str(&text).unwrap_or_default();
            let batches = &status["batches"];
            batches[state] == 1 && batches["out"] == 1 && batches["oldest_at"].is_string()
        })
        .await;
}

async fn hurry(daemon: &Daemon) {
    let url = format!("sqlite:{}", daemon.folder.path().join("daemon.db").display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("UPDATE provider_batches SET next_at = 0").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test]
async fn only_questions_that_may_wait_are_sent_in_a_batch() {
    let fake = FakeProvider::start();
    let daemon = started(&fake).await;
    until_open(&daemon, "submitted").await;
    fake.batches().assert_well_formed();
    assert_eq!(fake.batches().sizes(), [1]);
    assert_eq!(fake.requests().len(), 0, "nothing was asked directly");

    let url = daemon.url(&format!("/v1/agents/{AGENT}/sessions/end"));
    let ended = daemon.client.post(url).send().await.unwrap();
    assert!(ended.status().is_success());
    daemon.until_version(1).await;
    assert_eq!((fake.requests().len(), fake.batches().made()), (1, 1));
}

/// Killed while it isn't known whether the batch was created, and again while the provider works on it.
#[tokio::test]
async fn a_killed_daemon_finds_its_batch_again() {
    let fake = FakeProvider::start();
    fake.batches().hitch(BatchCall::Create, Hitch::Lost);
    let mut daemon = started(&fake).await;
    until_open(&daemon, "intents").await;
    daemon.until("the batch is made", async |_: &Daemon| fake.batches().made() == 1).await;
    daemon.kill();
    hurry(&daemon).await;
    daemon.revive().await;
    until_open(&daemon, "submitted").await;
    assert_eq!(fake.batches().made(), 1, "it isn't sent again");
    daemon.kill();
    fake.batches().end(&[Fate::Good]);
    hurry(&daemon).await;
    daemon.revive().await;
    daemon.until_version(1).await;
    let summary = daemon.summary().await;
    assert!(summary["content"].as_str().unwrap().contains("Exchange 1 was served"), "{summary}");
    assert_eq!(fake.requests().len(), 0, "nothing was asked directly");
}
