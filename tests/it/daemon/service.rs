//! The real binary under a service manager: its notifications, and when they stop.

use std::{
    fs::Permissions,
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use recapd_platform::threads;
use rustix::process::Signal;
use serde_json::Value;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{
        Mutex,
        mpsc::{UnboundedReceiver, unbounded_channel},
    },
    time::Instant,
};

use super::{AGENT, Daemon};
use crate::support::{
    PATIENCE,
    fake_provider::{FakeProvider, Planned, Trouble, Wait},
    port::Port,
};

const WATCHDOG: Duration = Duration::from_millis(400);
/// Intervals without a sign of life that no busy machine causes.
const SILENCE: u32 = 3;
/// How long a model takes that is asked across a reload.
const LATE: Duration = Duration::from_secs(1);

/// Delays work long enough that a test can take the lock before it is due.
const DUE_LATER: &str = "queue.debounce_ms=2000";
const WAIT_LATER: &str = "queue.max_wait_ms=2000";
/// A test's message to its own manager, which marks the end of what was sent before.
const NOTHING_MORE: &str = "TEST=1";

/// A service manager. It reads all the time: its socket holds ten messages, and a daemon doesn't wait long to send one.
struct Manager {
    told: Mutex<UnboundedReceiver<String>>,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(socket_in(folder.path())).unwrap();
        let (tell, told) = unbounded_channel();
        thread::spawn(move || {
            let mut bytes = [0; 1_024];
            while let Ok(length @ 1..) = socket.recv(&mut bytes) {
                let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
                // Fails when the receiver is gone.
                tell.send(message).ok();
            }
        });
        let told = Mutex::new(told);
        Self { told, folder }
    }

    /// Sends a message of its own, after all earlier ones.
    fn say(&self, message: &str) -> io::Result<usize> {
        UnixDatagram::unbound()?.send_to(message.as_bytes(), socket_in(self.folder.path()))
    }

    /// Starts a daemon that notifies this manager.
    fn start(&self, fake: &FakeProvider, settings: &[&str]) -> Daemon {
        let path = socket_in(self.folder.path()).display().to_string();
        let interval = WATCHDOG.as_micros().to_string();
        let environment = [
            ("NOTIFY_SOCKET", path.as_str()),
            ("WATCHDOG_USEC", interval.as_str()),
            ("OPENAI_API_KEY", "key"),
        ];
        Daemon::start_with(fake, settings, &environment, Stdio::inherit())
    }

    async fn next(&self, wait: Duration) -> Option<String> {
        let mut told = self.told.lock().await;
        tokio::time::timeout(wait, told.recv()).await.ok()?
    }

    /// All messages up to the first that starts with `begin`, which is included.
    async fn until(&self, begin: &str) -> Vec<String> {
        // A deadline for all of them: signs of life never stop.
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

    /// All messages that weren't read yet.
    async fn told(&self) -> Vec<String> {
        self.say(NOTHING_MORE).unwrap();
        let mut told = self.until(NOTHING_MORE).await;
        told.pop();
        told
    }

    /// Waits for several new signs of life.
    async fn until_fed(&self) {
        self.told().await;
        for _ in 0..4 {
            self.until("WATCHDOG=1").await;
        }
    }

    async fn signs_of_life(&self, span: Duration) -> usize {
        let (end, mut signs) = (Instant::now() + span, 0);
        while let Some(message) = self.next(end.saturating_duration_since(Instant::now())).await {
            signs += usize::from(message == "WATCHDOG=1");
        }
        signs
    }
}

impl Drop for Manager {
    /// An empty message ends the reading thread.
    fn drop(&mut self) {
        self.say("").ok();
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("notify")
}

/// Another program's connection to the database.
async fn beside(daemon: &Daemon) -> SqliteConnection {
    let file = daemon.folder.path().join("daemon.db");
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(PATIENCE);
    options.connect().await.unwrap()
}

/// The database's lock, held by another program.
async fn lock(daemon: &Daemon) -> SqliteConnection {
    let mut connection = beside(daemon).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    connection
}

/// Takes the database's lock as work falls due, until `is_seen`. If the work was done before the lock, tries again with other work.
async fn held_up(daemon: &Daemon, mut is_seen: impl AsyncFnMut() -> bool) -> SqliteConnection {
    daemon.turn(1).await;
    for turn in 2..8 {
        daemon.turn(turn).await;
        let lock = lock(daemon).await;
        for _ in 0..6 {
            if is_seen().await {
                return lock;
            }
        }
        lock.close().await.unwrap();
    }
    panic!("nothing holds it up");
}

#[tokio::test]
async fn ready_is_sent_when_it_serves_and_stopping_before_it_ends() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = manager.start(&fake, &[]);
    let told = manager.until("READY=1").await;
    assert_eq!(told[0], "STATUS=opening the database");
    assert!(daemon.get("/readyz").await.is_some());
    let told = manager.until("STATUS=ready").await;
    assert!(told.last().unwrap().contains("ready 0 · running 0 · parked 0"), "{told:?}");

    daemon.signal(Signal::TERM);
    manager.until("STOPPING=1").await;
    assert!(daemon.ended().await.success());
}

#[tokio::test]
async fn ready_is_never_sent_if_it_can_not_serve() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    let mut daemon = manager.start(&fake, &[&listen]);
    assert_eq!(daemon.ended().await.code(), Some(1));
    let told = manager.told().await;
    assert_eq!(told[0], "STATUS=opening the database");
    assert!(!told.iter().any(|message| message.starts_with("READY")), "{told:?}");
    let mut daemon = manager.start(&fake, &["window.budget_tokens=-1"]);
    assert_eq!(daemon.ended().await.code(), Some(78));
    assert_eq!(manager.told().await, [""; 0]);
}

/// Whatever it waits for: here a server that isn't running.
#[tokio::test]
async fn a_waiting_start_can_be_stopped_and_reports_it() {
    let (fake, manager, nobody) = (FakeProvider::start(), Manager::new(), Port::reserve());
    let url = format!("database.url=postgres://recapd@{}/recapd", nobody.address());
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = manager.start(&fake, &[&url]);
        manager.until("STATUS=opening the database").await;
        daemon.signal(signal);
        manager.until("STOPPING=1").await;
        assert!(daemon.ended().await.success());
    }
}

/// The runtime takes this variable's value for the number of processors.
#[tokio::test]
async fn threads_stay_within_the_services_limit_on_many_processors() {
    let fake = FakeProvider::start();
    let processors = (threads::ALL_MAX * 2).to_string();
    let environment = [("TOKIO_WORKER_THREADS", processors.as_str())];
    let mut daemon = Daemon::start_with(&fake, &[], &environment, Stdio::inherit());
    daemon.until_ready().await;
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap();
    let count = tasks.count();
    assert!(count <= threads::ALL_MAX, "{count} threads");
    daemon.end().await;
}

#[tokio::test]
async fn the_watchdog_starves_when_the_worker_is_stuck_though_http_answers() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = manager.start(&fake, &["database.busy_timeout_ms=600000", DUE_LATER, WAIT_LATER]);
    manager.until("READY=1").await;
    manager.until_fed().await;

    // Work is due in a moment, so that there is something to claim.
    let is_silent = async || manager.signs_of_life(WATCHDOG * SILENCE).await == 0;
    let lock = held_up(&daemon, is_silent).await;
    assert_eq!(daemon.get("/livez").await.as_deref(), Some("ok\n"));
    assert!(daemon.get("/metrics").await.is_some());

    // The holder lets go.
    lock.close().await.unwrap();
    manager.until("WATCHDOG=1").await;
    daemon.end().await;
}

#[tokio::test]
async fn a_failing_database_does_not_starve_the_watchdog() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let daemon = manager.start(&fake, &["database.busy_timeout_ms=20", DUE_LATER, WAIT_LATER]);
    manager.until("READY=1").await;
    let claims_fail = async || {
        manager.signs_of_life(WATCHDOG * SILENCE).await;
        let failed = "recapd_queue_claims_total{result=\"failed\"}";
        daemon.metric(failed).await > 3
    };
    let _lock = held_up(&daemon, claims_fail).await;
    manager.until_fed().await;
    assert!(daemon.metric("recapd_db_errors_total{class=\"busy\"}").await > 3);
}

#[tokio::test]
async fn a_reload_applies_what_it_can_and_drops_no_work() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let file = manager.folder.path().join("recapd.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("");
    let config = format!("--config={}", file.display());
    let daemon = manager.start(&fake, &[&config, "schedule.sample_ms=100"]);
    manager.until("READY=1").await;
    assert_eq!(daemon.metric("recapd_workers ").await, 4);
    daemon.turn(1).await;
    fake.otherwise(Planned::Late(LATE));
    daemon.turn(2).await;
    daemon.until("the model is asked", async |_: &Daemon| !fake.requests().is_empty()).await;

    write("[worker]\nconcurrency = 2\n[window]\nmax_messages = 500\n[spend]\ncalls_per_day = 900\n");
    daemon.signal(Signal::HUP);
    let told = manager.until("RELOADING=1").await;
    let usec = told.last().unwrap().strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(usec.parse::<u64>().unwrap() > 0);
    manager.until("READY=1").await;
    assert_eq!(daemon.metric("recapd_workers ").await, 2);
    let status: Value = serde_json::from_str(&daemon.get("/v1/status").await.unwrap()).unwrap();
    assert_eq!(status["spend_limits"]["calls"], 900);
    // Work under way is finished with one call, and the new worker goes on.
    daemon.until_version(1).await;
    assert_eq!(fake.requests().len(), 1);
    fake.otherwise(Planned::Good);
    daemon.turn(3).await;
    daemon.until_version(2).await;
    assert_eq!(daemon.metric("recapd_leases_expired_total").await, 0);

    write("[worker]\nconcurrency = 0\n");
    daemon.signal(Signal::HUP);
    manager.until("RELOADING=1").await;
    let told = manager.until("READY=1").await;
    assert!(
        told.iter().any(|message| message.starts_with("STATUS=the new configuration is invalid")),
        "{told:?}"
    );
    assert_eq!(daemon.metric("recapd_config_last_reload_successful").await, 0);
    assert_eq!(daemon.metric("recapd_workers ").await, 2);
    daemon.turn(4).await;
    daemon.until_version(3).await;

    // This stays in front of the queue's state until a configuration is valid again.
    let queue = "ready 0 · running 1";
    fake.otherwise(Planned::Hang);
    daemon.turn(5).await;
    let wrong = "STATUS=the new configuration is invalid: the former one stays in force";
    manager.until(&format!("{wrong} · {queue}")).await;
    write("");
    daemon.signal(Signal::HUP);
    manager.until(&format!("STATUS={queue}")).await;
}

/// Only its owner may read it.
fn write_key(file: &Path, key: &str) {
    std::fs::write(file, key).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn a_new_key_in_the_same_file_is_used_after_a_reload() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let path = |name: &str| manager.folder.path().join(name);
    let key = path("key");
    let text = format!("[model]\napi_key_file = {:?}\n", key.display().to_string());
    std::fs::write(path("recapd.toml"), text).unwrap();
    write_key(&key, "the-old-key\n");
    let daemon = manager.start(&fake, &[&format!("--config={}", path("recapd.toml").display())]);
    let last_key = || fake.requests().pop().unwrap().header("authorization").to_owned();
    manager.until("READY=1").await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    assert_eq!(last_key(), "Bearer the-old-key");

    std::fs::write(&key, "the-new-key\n").unwrap();
    daemon.signal(Signal::HUP);
    manager.until("RELOADING=1").await;
    manager.until("READY=1").await;
    daemon.turn(3).await;
    daemon.until_version(2).await;
    assert_eq!(last_key(), "Bearer the-new-key");
}

/// Agents that were refused with the old key, or wait for the provider since, go on at once; but only with another key.
#[tokio::test]
async fn a_new_key_ends_the_wait_for_the_provider() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let path = |name: &str| manager.folder.path().join(name);
    let key = path("key");
    let text = format!("[model]\napi_key_file = {:?}\n", key.display().to_string());
    std::fs::write(path("recapd.toml"), text).unwrap();
    write_key(&key, "the-old-key\n");
    let config = format!("--config={}", path("recapd.toml").display());
    let breaker = ["model.breaker_failures=2", "model.breaker_rest_ms=3600000"];
    let daemon = manager.start(&fake, &[&config, breaker[0], breaker[1]]);
    manager.until("READY=1").await;
    fake.otherwise(Planned::Trouble(Trouble::BadKey, Wait::Unsaid));
    let open = "recapd_provider_circuit_open{provider=\"openai\"}";
    daemon.turn_of("refused", 1).await;
    daemon.turn_of("refused", 2).await;
    daemon.until("it rests", async |daemon: &Daemon| daemon.metric(open).await == 1).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon
        .until("an update waits for it", async |daemon: &Daemon| {
            let row = daemon.get(&format!("/v1/queue/{AGENT}")).await;
            row.unwrap_or_default().contains("\"waits_for\":\"provider\"")
        })
        .await;

    let is_parked = async |daemon: &Daemon| {
        let row = daemon.get("/v1/queue/refused").await;
        row.unwrap_or_default().contains("\"state\":\"parked\"")
    };
    daemon.until("the first one is parked", is_parked).await;

    fake.otherwise(Planned::Good);
    std::fs::write(&key, "the-new-key\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.until_version(1).await;
    daemon.until("that one is tried, too", async |_: &Daemon| fake.requests().len() > 2).await;
    let keys = fake.requests().into_iter().map(|request| request.header("authorization").to_owned());
    assert_eq!(keys.collect::<Vec<_>>(), ["Bearer the-old-key", "Bearer the-new-key", "Bearer the-new-key"]);
    assert_eq!(daemon.metric(open).await, 0);
}

/// A daemon that is told to end while it waits for a model that never answers.
async fn draining(fake: &FakeProvider, manager: &Manager, drain: &str) -> Daemon {
    fake.otherwise(Planned::Hang);
    let daemon = manager.start(fake, &[drain, "model.timeout_ms=600000"]);
    manager.until("READY=1").await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until("the model is asked", async |_: &Daemon| !fake.requests().is_empty()).await;
    daemon.signal(Signal::TERM);
    manager.until("STOPPING=1").await;
    daemon
}

#[tokio::test]
async fn readers_are_answered_until_the_work_has_ended() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = draining(&fake, &manager, "worker.drain_ms=600000").await;
    assert!(daemon.get("/readyz").await.is_none());
    assert_eq!(daemon.get("/livez").await.as_deref(), Some("ok\n"));
    assert!(daemon.get("/v1/agents/coder/window").await.is_some());
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().await.success());
}

#[tokio::test]
async fn work_under_way_at_the_end_is_given_back() {
    let (fake, manager) = (FakeProvider::start(), Manager::new());
    let mut daemon = draining(&fake, &manager, "worker.drain_ms=200").await;
    // Signs of life go on until it has ended, long before the model's time limit.
    manager.until("WATCHDOG=1").await;
    assert!(daemon.ended().await.success());
    let free = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NULL AND attempts = 0 AND crashes = 0";
    let mut database = beside(&daemon).await;
    let free: i64 = sqlx::query_scalar(free).fetch_one(&mut database).await.unwrap();
    assert_eq!(free, 1);
    database.close().await.unwrap();

    fake.otherwise(Planned::Good);
    daemon.revive().await;
    daemon.until_version(1).await;
    assert_eq!(daemon.metric("recapd_leases_expired_total").await, 0);
}
