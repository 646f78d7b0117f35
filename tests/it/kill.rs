//! The daemon under load, killed with SIGKILL at random moments and restarted: nothing acknowledged is lost, nothing is
//! summarised twice or never.
//!
//! A long run: `RECAPD_TEST_SECONDS=600 RECAPD_TEST_KILLS=20 RECAPD_TEST_AGENTS=50 cargo test --release --test it kill
//! -- --nocapture`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use recapd_core::domain::agent::AgentId;
use recapd_store::{
    NoteQuery, SqlStore, Store as _,
    sqlite::{MissingFolder, SqliteSettings, Synchronous},
};
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};

use crate::support::port::Port;

/// Time limit for a turn with all its retries, the remaining kills, and the queue: far longer than any machine needs.
const PATIENCE: Duration = Duration::from_mins(5);

struct Plan {
    agents: u64,
    kills: u64,
    /// Turns per agent, unless `seconds` sets a duration.
    turns: u64,
    seconds: Option<u64>,
}

impl Plan {
    #[expect(clippy::disallowed_methods, reason = "a long run is asked for by the environment")]
    fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
        Self {
            agents: number("RECAPD_TEST_AGENTS").unwrap_or(6),
            kills: number("RECAPD_TEST_KILLS").unwrap_or(4),
            turns: 60,
            seconds: number("RECAPD_TEST_SECONDS"),
        }
    }
}

struct Daemon {
    database: PathBuf,
    listen: SocketAddr,
    child: Child,
}

impl Daemon {
    fn start(database: &Path, listen: SocketAddr) -> Self {
        let child = spawn(database, listen);
        Self { database: database.to_owned(), listen, child }
    }

    /// Kills the daemon with SIGKILL and starts it again.
    fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.database, self.listen);
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn(database: &Path, listen: SocketAddr) -> Child {
    let settings = [
        "window.budget_tokens=1500",
        "queue.batch_exchanges=2",
        "queue.debounce_ms=0",
        "queue.max_wait_ms=200",
        "queue.poll_ms=50",
        "queue.lease_ms=1000",
        // Rows aren't parked after crashes here: that has tests of its own.
        "queue.crashes_max=100",
        "queue.reconcile_ms=1000",
        "log.level=warn",
    ];
    Command::new(assert_cmd::cargo::cargo_bin("recapd"))
        .env_clear()
        .arg("serve")
        .args(["--listen", &listen.to_string()])
        .args(["--set", &format!("database.url=sqlite:{}", database.display())])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

struct Load {
    client: reqwest::Client,
    listen: SocketAddr,
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    /// Pushes turns of one agent until the plan is done; an unacknowledged turn is pushed again, as a client would
    /// do. Returns the number of acknowledged turns.
    async fn push(self: Arc<Self>, agent: u64, turns: u64) -> u64 {
        let url = format!("http://{}/v1/agents/agent-{agent}/messages?format=native", self.listen);
        for turn in 0..turns {
            if self.stop.load(Ordering::SeqCst) {
                return turn;
            }
            let end = Instant::now() + PATIENCE;
            while !self.push_turn(&url, agent, turn).await {
                assert!(Instant::now() < end, "turn {turn} of agent {agent} can't be pushed");
                // The daemon is down and will come back.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        turns
    }

    async fn push_turn(&self, url: &str, agent: u64, turn: u64) -> bool {
        let ask = format!(
            "Turn {turn}: please look at src/module_{turn}.rs and tell me about ticket T-{agent}{turn}."
        );
        let answer =
            format!("It defines handler_{turn}; the ticket is solved by retrying {turn} times. ").repeat(4);
        let messages = json!([
            {"kind": "user", "content": ask, "id": format!("{turn}-user")},
            {"kind": "tool_call", "content": "", "id": format!("{turn}-call"),
             "data": {"tool_call_id": "call", "name": "read_file", "arguments": {"path": format!("src/module_{turn}.rs")}}},
            {"kind": "tool_result", "content": "fn handler() {}", "id": format!("{turn}-result"), "data": {"tool_call_id": "call"}},
            {"kind": "assistant", "content": answer, "id": format!("{turn}-assistant")},
            {"kind": "note", "data": {"name": "progress", "text": format!("Turn {turn}")}, "id": format!("{turn}-note")},
        ]);
        let request =
            self.client.post(url).header("content-type", "application/json").body(messages.to_string());
        match request.send().await {
            Ok(response) if response.status().is_success() => true,
            Ok(response) if response.status().is_server_error() => false,
            Ok(response) => panic!("{}: {}", response.status(), response.text().await.unwrap_or_default()),
            Err(_) => false,
        }
    }

    async fn is_drained(&self) -> bool {
        let Ok(response) = self.client.get(format!("http://{}/v1/status", self.listen)).send().await else {
            return false;
        };
        let Ok(text) = response.text().await else {
            return false;
        };
        let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let rows = ["ready", "scheduled", "running"].map(|state| find_number(&status, state));
        rows.iter().all(|rows| *rows == Some(0))
    }
}

fn find_number(value: &serde_json::Value, key: &str) -> Option<i64> {
    let object = value.as_object()?;
    let own = object.get(key).and_then(serde_json::Value::as_i64);
    own.or_else(|| object.values().find_map(|inner| find_number(inner, key)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_daemons_lose_nothing_and_repeat_nothing() {
    let plan = Plan::from_environment();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kill.db");
    let port = Port::reserve();
    let listen = port.address();
    let mut daemon = Daemon::start(&database, listen);
    let client = recapd_llm::http::client(&recapd_llm::http::HttpSettings {
        timeout_ms: 10_000,
        connect_timeout_ms: 1_000,
        proxy_url: None,
    })
    .unwrap();
    let load =
        Arc::new(Load { client, listen, acknowledged: AtomicU64::new(0), stop: AtomicBool::new(false) });
    let mut pushers = JoinSet::new();
    let turns = if plan.seconds.is_some() { u64::MAX } else { plan.turns };
    for agent in 0..plan.agents {
        let load = Arc::clone(&load);
        pushers.spawn(async move { (agent, load.push(agent, turns).await) });
    }

    let mut random = fastrand::Rng::with_seed(11);
    let started = Instant::now();
    for kill in 1..=plan.kills {
        wait_for_moment(&plan, kill, &load, &mut random, started).await;
        daemon.restart();
        eprintln!("kill {kill} of {} after {} turns", plan.kills, load.acknowledged.load(Ordering::SeqCst));
    }
    if let Some(seconds) = plan.seconds {
        tokio::time::sleep_until(started + Duration::from_secs(seconds)).await;
        load.stop.store(true, Ordering::SeqCst);
    }
    let mut pushed = Vec::new();
    while let Some(done) = pushers.join_next().await {
        pushed.push(done.unwrap());
    }
    let end = Instant::now() + PATIENCE;
    while !load.is_drained().await {
        assert!(Instant::now() < end, "the queue doesn't run dry");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    daemon.kill();
    check(&database, &pushed).await;
}

/// Waits for the next kill: at a random turn, or at a random moment of a long run.
async fn wait_for_moment(plan: &Plan, kill: u64, load: &Load, random: &mut fastrand::Rng, started: Instant) {
    if let Some(seconds) = plan.seconds {
        let slot_ms = seconds * 1_000 / (plan.kills + 1);
        let at_ms = kill * slot_ms + random.u64(0..slot_ms / 2);
        tokio::time::sleep_until(started + Duration::from_millis(at_ms)).await;
        return;
    }
    let turns = kill * plan.turns * plan.agents / (plan.kills + 1) + random.u64(0..10);
    let end = Instant::now() + PATIENCE;
    while load.acknowledged.load(Ordering::SeqCst) < turns {
        assert!(Instant::now() < end, "{turns} turns aren't pushed");
        tokio::time::sleep(Duration::from_millis(random.u64(1..10))).await;
    }
}

async fn check(database: &Path, pushed: &[(u64, u64)]) {
    let store = SqlStore::look(
        &SqliteSettings {
            url: format!("sqlite:{}", database.display()),
            readers: 1,
            group_commit_max: 1,
            busy_timeout_ms: 5_000,
            synchronous: Synchronous::Full,
            missing_folder: MissingFolder::Refuse,
        }
        .into(),
    )
    .await
    .unwrap();
    let mut exchanges = 0;
    for (agent, turns) in pushed {
        let agent: AgentId = format!("agent-{agent}").parse().unwrap();
        let report = store.verify(&agent).await.unwrap();
        assert_eq!(report.breaches, [], "{agent}");
        assert_eq!(report.messages, i64::try_from(turns * 5).unwrap(), "{agent}: each message once");
        assert_eq!(report.pending, 0, "{agent}: everything evicted is summarised");
        assert!(report.covered > 0 || *turns < 10, "{agent}: something was evicted");
        let query = NoteQuery { texts: true, ..NoteQuery::default() };
        let notes = store.notes(&agent, &query).await.unwrap();
        let last = turns.checked_sub(1).map(|turn| format!("Turn {turn}"));
        assert_eq!(notes.first().map(|note| note.text.clone()), last, "{agent}: the last note");
        exchanges += report.exchanges;
    }
    eprintln!(
        "{} agents, {exchanges} exchanges: each message stored once, each exchange in one state",
        pushed.len()
    );
}
