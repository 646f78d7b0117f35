//! The real binary under a service manager: what it tells, and when it stops telling.

use std::{process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{net::UnixDatagram, time::Instant};

use super::{AGENT, Daemon, TIMEOUT_MS};
use crate::support::fake_provider::{FakeProvider, Planned};

/// The watchdog's interval.
const WATCHDOG: Duration = Duration::from_millis(400);
/// What a daemon tells comes within this time, or not at all.
const PATIENCE: Duration = Duration::from_mins(1);

/// Work is due so long after it came up that a test can hold the lock by then.
const DUE_LATER: &str = "queue.debounce_ms=2000";
const WAIT_LATER: &str = "queue.max_wait_ms=2000";

/// A service manager: the socket that it listens at.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        Self { socket, folder }
    }

    /// A daemon that it started.
    fn start(&self, fake: &FakeProvider, settings: &[&str]) -> Daemon {
        let path = self.folder.path().join("notify").display().to_string();
        let interval = WATCHDOG.as_micros().to_string();
        let environment = [
            ("NOTIFY_SOCKET", path.as_str()),
            ("WATCHDOG_USEC", interval.as_str()),
            ("OPENAI_API_KEY", "key"),
        ];
        Daemon::start_with(fake, settings, &environment, Stdio::inherit())
    }

    /// What comes next within `wait`.
    async fn next(&self, wait: Duration) -> Option<String> {
        let mut bytes = [0; 1_024];
        let length = tokio::time::timeout(wait, self.socket.recv(&mut bytes))
            .await
            .ok()?
            .unwrap();
        Some(String::from_utf8(bytes[..length].to_vec()).unwrap())
    }

    /// Everything up to the message that begins so, that one included.
    async fn until(&self, begin: &str) -> Vec<String> {
        // Of all of them together: signs of life come for ever.
        let (end, mut messages) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let message = self
                .next(end.saturating_duration_since(Instant::now()))
                .await
                .unwrap_or_else(|| panic!("no {begin} after {messages:?}"));
            messages.push(message.clone());
            if message.starts_with(begin) {
                return messages;
            }
        }
    }

    /// How many signs of life come within `span`.
    async fn signs_of_life(&self, span: Duration) -> usize {
        let (end, mut signs) = (Instant::now() + span, 0);
        while let Some(message) = self.next(end.saturating_duration_since(Instant::now())).await {
            signs += usize::from(message == "WATCHDOG=1");
        }
        signs
    }
}

fn signal(daemon: &Daemon, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(daemon.child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The database's lock, held as another program may hold it.
async fn lock(daemon: &Daemon) -> SqliteConnection {
    let file = daemon.folder.path().join("daemon.db");
    let mut connection = SqliteConnectOptions::new()
        .filename(file)
        .connect()
        .await
        .unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut connection)
        .await
        .unwrap();
    connection
}

#[tokio::test]
async fn ready_is_said_once_it_serves_and_stopping_before_it_ends() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = manager.start(&fake, &[]);
    let told = manager.until("READY=1").await;
    assert_eq!(told[0], "STATUS=opening the database");
    assert!(daemon.get("/readyz").await.is_some());
    let told = manager.until("STATUS=ready").await;
    assert!(
        told.last().unwrap().contains("ready 0 · running 0 · parked 0"),
        "{told:?}"
    );

    signal(&daemon, Signal::TERM);
    manager.until("STOPPING=1").await;
    assert!(daemon.child.wait().unwrap().success());
}

#[tokio::test]
async fn ready_is_never_said_when_it_can_not_serve() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    let mut daemon = manager.start(&fake, &[&listen]);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(1));
    while let Some(message) = manager.next(Duration::ZERO).await {
        assert!(!message.starts_with("READY"), "{message}");
    }
    let mut daemon = manager.start(&fake, &["window.budget_tokens=-1"]);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(78));
    assert_eq!(manager.next(Duration::ZERO).await, None);
}

#[tokio::test]
async fn the_watchdog_starves_when_the_worker_is_stuck_though_http_answers() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = manager.start(&fake, &["database.busy_timeout_ms=600000", DUE_LATER, WAIT_LATER]);
    manager.until("READY=1").await;
    assert!(manager.signs_of_life(WATCHDOG * 4).await >= 4);

    // Work that is due in a moment: there has to be something to claim.
    daemon.turn(1).await;
    daemon.turn(2).await;
    let lock = lock(&daemon).await;
    let mut tries = 20;
    while manager.signs_of_life(WATCHDOG * 2).await > 0 {
        tries -= 1;
        assert!(tries > 0, "it goes on giving signs of life");
    }
    assert_eq!(manager.signs_of_life(WATCHDOG * 2).await, 0);
    assert_eq!(daemon.get("/livez").await.as_deref(), Some("ok\n"));
    assert!(daemon.get("/metrics").await.is_some());

    // Whoever held it lets go.
    lock.close().await.unwrap();
    manager.until("WATCHDOG=1").await;
    signal(&daemon, Signal::TERM);
    assert!(daemon.child.wait().unwrap().success());
}

#[tokio::test]
async fn a_database_that_fails_is_no_reason_to_be_restarted() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let daemon = manager.start(&fake, &["database.busy_timeout_ms=20", DUE_LATER, WAIT_LATER]);
    manager.until("READY=1").await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    let _lock = lock(&daemon).await;
    daemon
        .until("claims fail", async |daemon: &Daemon| {
            daemon
                .metric("recapd_queue_claims_total{result=\"failed\"}")
                .await
                > 3
        })
        .await;
    assert!(manager.signs_of_life(WATCHDOG * 4).await >= 4);
    assert!(daemon.metric("recapd_db_errors_total{class=\"busy\"}").await > 3);
}

#[tokio::test]
async fn a_reload_takes_over_what_it_can_and_drops_no_work() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let file = manager.folder.path().join("recapd.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("");
    let daemon = manager.start(&fake, &[&format!("--config={}", file.display())]);
    manager.until("READY=1").await;
    assert_eq!(daemon.metric("recapd_workers ").await, 4);
    daemon.turn(1).await;
    fake.otherwise(Planned::Late(Duration::from_millis(TIMEOUT_MS / 2)));
    daemon.turn(2).await;
    daemon
        .until("the model is asked", async |_: &Daemon| {
            !fake.requests().is_empty()
        })
        .await;

    write("[worker]\nconcurrency = 2\n[window]\nmax_messages = 500\n[spend]\ncalls_per_day = 900\n");
    signal(&daemon, Signal::HUP);
    let told = manager.until("RELOADING=1").await;
    let usec = told
        .last()
        .unwrap()
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .unwrap();
    assert!(usec.parse::<u64>().unwrap() > 0);
    manager.until("READY=1").await;
    assert_eq!(daemon.metric("recapd_workers ").await, 2);
    let status: Value = serde_json::from_str(&daemon.get("/v1/status").await.unwrap()).unwrap();
    assert_eq!(status["spend_limits"]["calls"], 900);
    // What was under way is finished, by one call, and the new worker goes on.
    daemon.until_version(1).await;
    assert_eq!(fake.requests().len(), 1);
    fake.otherwise(Planned::Good);
    daemon.turn(3).await;
    daemon.until_version(2).await;
    assert_eq!(daemon.metric("recapd_leases_expired_total").await, 0);

    write("[worker]\nconcurrency = 0\n");
    signal(&daemon, Signal::HUP);
    manager.until("RELOADING=1").await;
    let told = manager.until("READY=1").await;
    assert!(
        told.iter()
            .any(|message| message.starts_with("STATUS=the configuration is wrong")),
        "{told:?}"
    );
    assert_eq!(daemon.metric("recapd_config_last_reload_successful").await, 0);
    assert_eq!(daemon.metric("recapd_workers ").await, 2);
    daemon.turn(4).await;
    daemon.until_version(3).await;
}

#[tokio::test]
async fn a_new_key_in_the_same_file_is_used_after_a_reload() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let path = |name: &str| manager.folder.path().join(name);
    let key = path("key");
    let text = format!("[model]\napi_key_file = {:?}\n", key.display().to_string());
    std::fs::write(path("recapd.toml"), text).unwrap();
    std::fs::write(&key, "the-old-key\n").unwrap();
    let daemon = manager.start(&fake, &[&format!("--config={}", path("recapd.toml").display())]);
    let last_key = || fake.requests().pop().unwrap().header("authorization").to_owned();
    manager.until("READY=1").await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    assert_eq!(last_key(), "Bearer the-old-key");

    std::fs::write(&key, "the-new-key\n").unwrap();
    signal(&daemon, Signal::HUP);
    manager.until("RELOADING=1").await;
    manager.until("READY=1").await;
    daemon.turn(3).await;
    daemon.until_version(2).await;
    assert_eq!(last_key(), "Bearer the-new-key");
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_is_given_back() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    fake.otherwise(Planned::Hang);
    let settings = ["worker.drain_ms=200", "model.timeout_ms=600000"];
    let mut daemon = manager.start(&fake, &settings);
    manager.until("READY=1").await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon
        .until("the model is asked", async |_: &Daemon| {
            !fake.requests().is_empty()
        })
        .await;
    let asked = Instant::now();
    signal(&daemon, Signal::TERM);
    manager.until("STOPPING=1").await;
    // Signs of life go on until it has ended.
    manager.until("WATCHDOG=1").await;
    assert!(daemon.child.wait().unwrap().success());
    assert!(asked.elapsed() < Duration::from_secs(8));

    fake.otherwise(Planned::Good);
    daemon.revive().await;
    daemon.until_version(1).await;
    let queue: Value = serde_json::from_str(&daemon.get("/v1/queue").await.unwrap()).unwrap();
    assert!(!queue.to_string().contains("crash\":1"), "{queue}");
    assert_eq!(daemon.metric("recapd_leases_expired_total").await, 0, "{AGENT}");
}
