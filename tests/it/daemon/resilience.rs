//! The real binary with a provider that is down, with a second one, and with a spending limit.

use recapd_core::domain::{spend::next_day, time::HOUR_MS};
use recapd_platform::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::NamedTempFile;

use super::{AGENT, Daemon, started};
use crate::support::fake_provider::{FakeProvider, Planned, Shape};

/// Sets a daemon's clock to noon (UTC), since daily limits start again at midnight.
fn at_noon(file: &NamedTempFile) -> String {
    let now = SystemClock.now();
    let noon = next_day(now).plus_ms(-12 * HOUR_MS);
    std::fs::write(file.path(), noon.since_ms(now).to_string()).unwrap();
    format!("--clock-offset-file={}", file.path().display())
}

fn status(daemon: &Daemon) -> String {
    let mut command = assert_cmd::Command::cargo_bin("recapd").unwrap();
    let output = command.env_clear().args(["status", "--server", &daemon.url("")]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn stand_ins_for_a_provider_that_is_down_are_replaced_later() {
    let fake = FakeProvider::start();
    fake.otherwise(Planned::status(500, "down"));
    let settings = [
        "fallback.mode=offline",
        "model.breaker_failures=2",
        "model.breaker_rest_ms=600",
        "queue.reconcile_ms=1000",
    ];
    let daemon = started(&fake, &settings).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let summary = daemon.summary().await;
    let content = summary["content"].as_str().unwrap();
    assert!(content.contains("src/module_1.rs") && !content.contains("was served"), "{content}");
    assert_eq!(summary["pending_exchanges"], 0);
    let open = "recapd_provider_circuit_open{provider=\"openai\"}";
    assert_eq!(daemon.metric(open).await, 1);
    assert!(status(&daemon).contains("openai gpt-5.4-mini failing"), "{}", status(&daemon));
    assert_eq!(daemon.metric("recapd_retries_exhausted_total").await, 0);

    // No more messages come: the daemon notices the recovery after the provider's rest.
    fake.otherwise(Planned::Good);
    daemon
        .until("the model has told of what it missed", async |daemon: &Daemon| {
            let summary = daemon.summary().await;
            summary["content"].as_str().unwrap_or_default().contains("Exchange 1 was served")
        })
        .await;
    assert_eq!(daemon.metric(open).await, 0);
    assert!(status(&daemon).contains("openai gpt-5.4-mini ok"), "{}", status(&daemon));
}

#[tokio::test]
async fn a_second_provider_is_asked_when_the_first_refuses() {
    let fake = FakeProvider::start();
    fake.plan([Planned::Refusal]);
    let base_url = format!("fallback.base_url={}", fake.base_url(Shape::Anthropic));
    let settings = ["fallback.mode=anthropic", &base_url, "fallback.model=small-model"];
    let daemon = started(&fake, &settings).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let shapes: Vec<Shape> = fake.requests().iter().map(|request| request.shape).collect();
    assert_eq!(shapes, [Shape::OpenAi, Shape::Anthropic]);
    let answered =
        "recapd_provider_requests_total{provider=\"anthropic\",model=\"small-model\",outcome=\"success\"}";
    assert_eq!(daemon.metric(answered).await, 1);
    fake.assert_well_formed();
}

/// Waits until the agent's updates are paused by the limit of calls.
async fn until_paused(daemon: &Daemon) {
    daemon
        .until("updates are paused", async |daemon: &Daemon| {
            let agent = daemon.get(&format!("/v1/agents/{AGENT}")).await.unwrap_or_default();
            agent.contains("\"paused\":{\"limit\":\"calls\",\"until\":\"")
        })
        .await;
}

#[tokio::test]
async fn a_spending_limit_pauses_updates_and_shows_it() {
    let (fake, clock) = (FakeProvider::start(), NamedTempFile::new().unwrap());
    let settings = ["spend.calls_per_day=1", "spend.usd_per_day=5", &at_noon(&clock)];
    let daemon = started(&fake, &settings).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    daemon.turn(3).await;
    until_paused(&daemon).await;
    assert_eq!(fake.requests().len(), 1);
    let told = status(&daemon);
    for words in [" of $5.00, 1 of 1 call", "paused     1 agent: spend limit until", "parked             0"] {
        assert!(told.contains(words), "{told}");
    }
    daemon.until_pending(1).await;
    let summary = daemon.summary().await;
    assert_eq!((&summary["pending_exchanges"], &summary["version"]), (&1.into(), &1.into()));
    assert!(summary["content"].as_str().unwrap().contains("Just Left the Window"), "{summary}");
    assert!(daemon.metric("recapd_updates_postponed_total{reason=\"spend\"}").await >= 1);
}

/// As on a full disk, or while another program holds the lock: no second reload is needed.
#[tokio::test]
async fn a_resumption_that_a_reload_could_not_write_is_retried() {
    let (fake, clock) = (FakeProvider::start(), NamedTempFile::new().unwrap());
    let file = NamedTempFile::new().unwrap();
    let allow =
        |calls: i64| std::fs::write(file.path(), format!("[spend]\ncalls_per_day = {calls}\n")).unwrap();
    allow(1);
    let config = format!("--config={}", file.path().display());
    let daemon = started(&fake, &[&config, &at_noon(&clock)]).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    daemon.turn(3).await;
    until_paused(&daemon).await;

    let url = format!("sqlite:{}", daemon.folder.path().join("daemon.db").display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    let refuse = "CREATE TRIGGER refused BEFORE UPDATE ON summary_update_queue WHEN OLD.paused_until IS NOT NULL \
                  BEGIN SELECT RAISE(ABORT, 'not now'); END";
    sqlx::query(refuse).execute(&mut database).await.unwrap();
    allow(900);
    daemon.signal(Signal::HUP);
    daemon
        .until("it can't be resumed", async |daemon: &Daemon| {
            daemon.metric("recapd_db_errors_total{class=\"io\"}").await > 0
        })
        .await;
    sqlx::query("DROP TRIGGER refused").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    daemon.until_version(2).await;
}
