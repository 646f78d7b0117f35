//! Batches through the real binary: put off, sent, shown; and what is urgent goes past them.

use serde_json::Value;

use super::{AGENT, Daemon};
use crate::support::fake_provider::{FakeProvider, Shape};

async fn status(daemon: &Daemon) -> Value {
    let text = daemon.get("/v1/status").await.unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[tokio::test]
async fn what_may_wait_is_sent_in_a_batch_and_what_is_urgent_is_not() {
    let fake = FakeProvider::start();
    let base_url = format!("model.base_url={}", fake.base_url(Shape::Anthropic));
    let settings = [
        "model.mode=anthropic",
        &base_url,
        "model.model=small-model",
        "model.batch=true",
        "batch.gather_ms=0",
    ];
    let daemon = super::started(&fake, &settings).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon
        .until("a batch is open", async |daemon: &Daemon| {
            let batches = &status(daemon).await["batches"];
            batches["submitted"] == 1 && batches["out"] == 1 && batches["oldest_at"].is_string()
        })
        .await;
    fake.batches().assert_well_formed();
    assert_eq!(fake.batches().sizes(), [1]);
    assert_eq!(fake.requests().len(), 0, "nothing was asked directly");

    let url = daemon.url(&format!("/v1/agents/{AGENT}/sessions/end"));
    let ended = daemon.client.post(url).send().await.unwrap();
    assert!(ended.status().is_success());
    daemon.until_version(1).await;
    assert_eq!((fake.requests().len(), fake.batches().made()), (1, 1));
}
