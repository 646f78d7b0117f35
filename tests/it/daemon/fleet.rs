//! Several daemons of the real binary on one PostgreSQL database.

use std::{process::Stdio, sync::Arc, time::Duration};

use futures::future::join_all;
use recapd_config::Config;
use recapd_core::domain::time::{DAY_MS, Timestamp};
use recapd_engine::assembly::Parts;
use recapd_llm::offline::OfflineModel;
use recapd_platform::clock::{Clock, ManualClock};
use recapd_store::SqlStore;
use serde_json::Value;
use tokio::time::Instant;

use super::Daemon;
use crate::support::{
    backend::postgres_settings,
    fake_provider::{FakeProvider, Planned},
    postgres::{Database, connect, execute},
};

/// Longer than any test, so that no lease runs out.
const LONG_LEASE: &str = "queue.lease_ms=600000";
/// A call to a model that outlasts the test.
const SLOW: Duration = Duration::from_mins(5);

async fn started(database: &Database, fake: &FakeProvider, settings: &[&str]) -> Daemon {
    let daemon = Daemon::start_on(Some(database), fake, settings, &[], Stdio::inherit());
    daemon.until_ready().await;
    daemon
}

/// Sends two turns, of which the first leaves the window.
async fn evict(daemon: &Daemon) {
    daemon.turn(1).await;
    daemon.turn(2).await;
}

#[tokio::test]
async fn a_daemon_on_a_server_shows_no_password() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = ["log.level=info"];
    let to = Stdio::from(log.reopen().unwrap());
    let mut daemon = Daemon::start_on(Some(&database), &fake, &settings, &[], to);
    daemon.until_ready().await;
    evict(&daemon).await;
    daemon.until_version(1).await;
    assert_eq!(daemon.summary().await["pending_exchanges"], 0);
    daemon.kill();
    let told = std::fs::read_to_string(log.path()).unwrap();
    let (_, password) = database.address();
    assert!(told.contains(database.name()) && !told.contains(&password), "{told}");
}

#[tokio::test]
async fn a_daemon_shows_what_another_one_wrote() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let one = started(&database, &fake, &[]).await;
    // It does no work that would show it anything.
    let other = started(&database, &fake, &["queue.poll_ms=60000", "worker.concurrency=1"]).await;
    evict(&one).await;
    one.until_version(1).await;
    other.until_version(1).await;
    let known = other.summary().await;
    one.turn(3).await;
    one.until_version(2).await;
    other.until_version(2).await;
    assert_ne!(other.summary().await["content"], known["content"]);
    assert_eq!(one.summary().await["content"], other.summary().await["content"]);
}

#[tokio::test]
async fn a_restarted_daemon_resumes_its_work_at_once() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let mut daemon = started(&database, &fake, &[LONG_LEASE, "model.timeout_ms=600000"]).await;
    fake.plan([Planned::Late(SLOW)]);
    evict(&daemon).await;
    fake.arrived(1).await;
    daemon.kill();
    let killed = Instant::now();
    daemon.revive().await;
    // Soon, while neither the lease nor the call would have ended.
    daemon.until_version(1).await;
    eprintln!("summarised {} ms after kill -9 in a call to the model", killed.elapsed().as_millis());
}

#[tokio::test]
async fn a_daemon_that_ends_gives_its_work_to_others() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let settings = [LONG_LEASE, "model.timeout_ms=600000", "worker.drain_ms=0"];
    let mut ending = started(&database, &fake, &settings).await;
    fake.plan([Planned::Late(SLOW)]);
    evict(&ending).await;
    fake.arrived(1).await;
    let other = started(&database, &fake, &settings).await;
    ending.end().await;
    other.until_version(1).await;
}

/// As when the address leads to a standby: reads are answered, writes are refused.
#[tokio::test]
async fn a_daemon_whose_server_only_reads_is_not_ready() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let daemon = started(&database, &fake, &[]).await;
    let set = async |setting: &str| {
        let sql = format!("ALTER DATABASE {} {setting}", database.name());
        execute(&mut connect().await, sql).await;
        database.cut("").await;
    };
    set("SET default_transaction_read_only = on").await;
    let told = async |daemon: &Daemon| {
        let ready = daemon.client.get(daemon.url("/readyz")).send().await.unwrap();
        ready.status() == 503 && ready.text().await.unwrap().contains("its server only reads")
    };
    daemon.until("it says that nothing can be written", told).await;
    set("RESET default_transaction_read_only").await;
    daemon.until_ready().await;
}

/// As after a crash of the machine: the server doesn't know yet that the holder of the name is gone.
#[tokio::test]
async fn a_start_waits_for_a_name_that_is_taken() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let settings = ["queue.owner=left", "log.level=warn"];
    let mut one = started(&database, &fake, &settings).await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let to = Stdio::from(log.reopen().unwrap());
    let other = Daemon::start_on(Some(&database), &fake, &settings, &[], to);
    let told = || std::fs::read_to_string(log.path()).unwrap();
    let waits = async |_: &Daemon| told().contains("name.awaited");
    other.until("it waits for its name", waits).await;
    assert!(other.get("/readyz").await.is_none(), "two can't have one name: {}", told());
    one.kill();
    other.until_ready().await;
    let told = told();
    assert_eq!(told.matches("name.awaited").count(), 1, "{told}");
    assert!(told.contains("the name `left` (queue.owner)"), "{told}");
}

#[tokio::test]
async fn a_start_that_waits_for_its_name_ends_when_asked() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let settings = ["queue.owner=taken", "log.level=info"];
    let mut one = started(&database, &fake, &settings).await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let to = Stdio::from(log.reopen().unwrap());
    let mut other = Daemon::start_on(Some(&database), &fake, &settings, &[], to);
    let told = || std::fs::read_to_string(log.path()).unwrap();
    let waits = async |_: &Daemon| told().contains("name.awaited");
    other.until("it waits for its name", waits).await;
    other.end().await;
    let told = told();
    let count = |event: &str| told.matches(event).count();
    let events = ["daemon.ready", "daemon.stopping", "daemon.stopped"];
    assert_eq!(events.map(count), [0, 1, 1], "{told}");
    one.end().await;
}

/// While the server is away, readers get the last copy at once; when it is back, everything goes on.
#[tokio::test]
async fn a_server_that_was_away_is_found_again() {
    let (database, fake) = (Database::create().await, FakeProvider::start());
    let mut daemon = started(&database, &fake, &["database.busy_timeout_ms=2000"]).await;
    evict(&daemon).await;
    daemon.until_version(1).await;
    let before = daemon.summary().await;
    database.away().await;
    let is_stale = async |daemon: &Daemon| daemon.summary().await["stale_since"] != Value::Null;
    daemon.until("the copy is called stale", is_stale).await;
    // Delays by a busy machine come and go; a wait for the server would appear every time.
    let mut soonest = Duration::MAX;
    for _ in 0..5 {
        let asked = Instant::now();
        assert_eq!(daemon.summary().await["content"], before["content"]);
        soonest = soonest.min(asked.elapsed());
    }
    assert!(soonest < Duration::from_secs(1), "readers never wait");
    assert!(daemon.get("/readyz").await.is_none());
    database.back().await;
    let back = Instant::now();
    daemon.until_ready().await;
    daemon.turn(3).await;
    daemon.until_version(2).await;
    eprintln!("summarised {} ms after the server was back", back.elapsed().as_millis());
    // The notices of other daemons come back a little later than the server, and each copy may be old until then.
    daemon
        .until("the copy is right again", async |daemon: &Daemon| {
            let summary = daemon.summary().await;
            summary["version"] == 2 && summary["stale_since"].is_null()
        })
        .await;
    assert!(daemon.child.try_wait().unwrap().is_none(), "it is the same process");
}

/// The parts of a daemon; the test fires their schedules itself.
async fn parts(database: &Database, clock: &Arc<ManualClock>, owner: usize) -> Parts {
    let settings = postgres_settings(database.url());
    let store = Arc::new(SqlStore::open(&settings.into()).await.unwrap());
    let (model, clock) = (Arc::new(OfflineModel), Arc::clone(clock) as Arc<dyn Clock>);
    let config = Config::default();
    Parts::new((&config, config.spend.prices().unwrap()), store, model, clock, &format!("daemon {owner}"), 7)
}

/// How often all of them together aged documents.
fn aged(fleet: &[Parts]) -> i64 {
    let line = "recapd_aging_runs_total{outcome=\"completed\"} ";
    let counts = fleet.iter().map(|parts| {
        let (_, text) = parts.metrics.encode(None);
        let count = text.lines().find_map(|found| found.strip_prefix(line));
        count.map_or(0, |count| count.parse().unwrap())
    });
    counts.sum()
}

#[tokio::test]
async fn a_schedule_fires_once_in_a_fleet_and_makes_up_for_a_pause() {
    let database = Database::create().await;
    let clock = Arc::new(ManualClock::new(Timestamp::parse("2026-11-20T12:00:00Z").unwrap()));
    let fleet = join_all((0..5).map(|owner| parts(&database, &clock, owner))).await;
    let fire = async || drop(join_all(fleet.iter().map(|parts| parts.schedule.fire_due())).await);
    // Nothing ran for a long time: one of the five makes up for the latest firing.
    fire().await;
    assert_eq!(aged(&fleet), 1);
    fire().await;
    assert_eq!(aged(&fleet), 1, "it was fired");
    for day in 1..=3 {
        clock.advance_ms(DAY_MS);
        fire().await;
        assert_eq!(aged(&fleet), 1 + day);
    }
    // After a week away: once, not seven times.
    clock.advance_ms(7 * DAY_MS);
    fire().await;
    assert_eq!(aged(&fleet), 5);
    assert_eq!(fleet[0].store.agents(None, 1).await.unwrap(), []);
}
