//! The daemon with a misbehaving provider: the old summary stays, the queue recovers by itself, failures are counted.

mod batches;
mod egress;
mod fleet;
mod inbox;
mod interrupted;
mod logs;
mod memory;
mod providers;
mod resilience;
mod service;
mod silence;
mod traces;

use std::{
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    PATIENCE,
    fake_provider::{FakeProvider, Planned, Shape},
    port::Port,
    postgres::Database,
};

const AGENT: &str = "coder";
/// The time limit of a call to the model in tests about slow providers. In other tests calls may take as long as a busy machine needs.
const TIMEOUT_MS: u64 = 1_000;
const IMPATIENT: [&str; 1] = ["model.timeout_ms=1000"];
const TICK: Duration = Duration::from_millis(25);

/// The real binary on a database of its own.
struct Daemon {
    child: Child,
    settings: Vec<String>,
    environment: Vec<(String, String)>,
    port: Port,
    client: reqwest::Client,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start(fake: &FakeProvider, settings: &[&str]) -> Self {
        Self::start_with(fake, settings, &[], Stdio::inherit())
    }

    fn start_with(fake: &FakeProvider, settings: &[&str], environment: &[(&str, &str)], log: Stdio) -> Self {
        Self::start_on(None, fake, settings, environment, log)
    }

    /// Starts a daemon on a database that others may share.
    fn start_on(
        database: Option<&Database>,
        fake: &FakeProvider,
        settings: &[&str],
        environment: &[(&str, &str)],
        log: Stdio,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("daemon.db").display());
        let (url, password) = database.map_or((file, String::new()), Database::address);
        let port = Port::reserve();
        let own = [
            format!("http.listen={}", port.address()),
            format!("database.url={url}"),
            "model.mode=openai".to_owned(),
            format!("model.base_url={}", fake.base_url(Shape::OpenAi)),
            "model.timeout_ms=60000".to_owned(),
            "window.budget_tokens=200".to_owned(),
            "queue.batch_exchanges=1".to_owned(),
            "queue.batch_tokens_min=0".to_owned(),
            "queue.debounce_ms=0".to_owned(),
            "queue.max_wait_ms=100".to_owned(),
            "queue.poll_ms=50".to_owned(),
            "queue.backoff_base_ms=5".to_owned(),
            "queue.backoff_max_ms=100".to_owned(),
            "log.level=error".to_owned(),
            // Each test sets its own fallbacks, and when the circuit breaker opens.
            "fallback.mode=none".to_owned(),
            "model.breaker_failures=0".to_owned(),
        ];
        let all = own.into_iter().chain(settings.iter().copied().map(str::to_owned));
        let settings: Vec<String> = all.collect();
        let mut environment: Vec<(String, String)> =
            environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        environment.push(("PGPASSWORD".to_owned(), password));
        let child = spawn(&settings, &environment, log);
        let http = recapd_llm::http::HttpSettings {
            timeout_ms: 20_000,
            connect_timeout_ms: 10_000,
            proxy_url: None,
        };
        Self { child, settings, environment, port, client: recapd_llm::http::client(&http).unwrap(), folder }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it doesn't end");
            tokio::time::sleep(TICK).await;
        }
    }

    /// Asks the process to end, and checks that it ends successfully.
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.ended().await.success());
    }

    async fn revive(&mut self) {
        self.child = spawn(&self.settings, &self.environment, Stdio::inherit());
        self.until_ready().await;
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }

    async fn get(&self, path: &str) -> Option<String> {
        let response =
            self.client.get(self.url(path)).header("accept", "application/json").send().await.ok()?;
        response.status().is_success().then_some(())?;
        response.text().await.ok()
    }

    async fn summary(&self) -> Value {
        let text = self.get(&format!("/v1/agents/{AGENT}/summary")).await;
        serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
    }

    async fn metric(&self, series: &str) -> i64 {
        let text = self.get("/metrics").await.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(series)).map(str::trim);
        line.and_then(|value| value.parse().ok()).unwrap_or(-1)
    }

    /// Sends a turn long enough to push an older one out of the window.
    async fn turn(&self, number: u32) {
        self.turn_of(AGENT, number).await;
    }

    /// As [`Self::turn`], for another agent.
    async fn turn_of(&self, agent: &str, number: u32) {
        let ask =
            format!("Question {number} about src/module_{number}.rs: why does it fail with E{number}? ")
                .repeat(6);
        let messages = json!([{"kind": "user", "content": ask}, {"kind": "assistant", "content": "Because of the cache."}]);
        let request = self.client.post(self.url(&format!("/v1/agents/{agent}/messages?format=native")));
        let request = request.header("content-type", "application/json").body(messages.to_string());
        assert!(request.send().await.unwrap().status().is_success());
    }

    async fn until(&self, what: &str, mut is_seen: impl AsyncFnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if is_seen(self).await {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
        panic!("waited in vain until {what}; summary: {}", self.summary().await);
    }

    async fn until_ready(&self) {
        self.until("it is ready", async |daemon: &Self| daemon.get("/readyz").await.is_some()).await;
    }

    async fn until_version(&self, version: i64) {
        self.until(&format!("version {version}"), async |daemon: &Self| {
            daemon.summary().await["version"].as_i64().is_some_and(|found| found >= version)
        })
        .await;
    }

    /// Waits until readers see this many pending exchanges.
    async fn until_pending(&self, exchanges: i64) {
        self.until(&format!("{exchanges} pending"), async |daemon: &Self| {
            daemon.summary().await["pending_exchanges"] == exchanges
        })
        .await;
    }
}

fn spawn(settings: &[String], environment: &[(String, String)], log: Stdio) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("recapd"))
        .env_clear()
        .envs(environment.iter().cloned())
        .arg("serve")
        .args(settings.iter().flat_map(|setting| match setting.strip_prefix("--") {
            Some(option) => vec![format!("--{option}")],
            None => vec!["--set".to_owned(), setting.clone()],
        }))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn started(fake: &FakeProvider, settings: &[&str]) -> Daemon {
    let daemon = Daemon::start(fake, settings);
    daemon.until_ready().await;
    daemon
}

/// Makes an update fail in all planned ways, and checks that the old summary stays until the provider recovers. `failures` are the least
/// expected failures by metrics label.
async fn fails_and_recovers(
    settings: &[&str],
    planned: impl IntoIterator<Item = Planned>,
    failures: &[(&str, i64)],
) {
    let fake = FakeProvider::start();
    let daemon = started(&fake, &[settings, &["queue.attempts_max=100"]].concat()).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let old = daemon.summary().await;

    fake.plan(planned);
    // The provider stays down until this test has seen enough.
    fake.otherwise(Planned::status(503, "still down"));
    daemon.turn(3).await;
    daemon.until_pending(1).await;
    daemon
        .until("everything failed", async |daemon: &Daemon| {
            let summary = daemon.summary().await;
            // Whatever the provider does, the reader gets the old version, and a line for each pending exchange.
            assert_eq!(summary["version"], old["version"], "{summary}");
            assert!(summary["content"].as_str().unwrap().contains("Just Left the Window"), "{summary}");
            for (reason, at_least) in failures {
                let series = format!("recapd_update_failures_total{{reason=\"{reason}\"}}");
                if daemon.metric(&series).await < *at_least {
                    return false;
                }
            }
            true
        })
        .await;
    fake.otherwise(Planned::Good);
    daemon.until_version(2).await;

    let failed: i64 = failures.iter().map(|(_, at_least)| at_least).sum();
    daemon
        .until("the failed updates are counted", async |daemon: &Daemon| {
            daemon.metric("recapd_updates_total{outcome=\"failed\"}").await >= failed
        })
        .await;
    assert_eq!(daemon.metric("recapd_retries_exhausted_total").await, 0);
    let summary = daemon.summary().await;
    assert_eq!(summary["pending_exchanges"], 0);
    fake.assert_well_formed();
}

/// 429, 500, garbage, empty, wrong, oversize, or cut off.
#[tokio::test]
async fn the_old_summary_stays_while_the_provider_misbehaves_and_the_queue_recovers() {
    let refused = "{\"error\":{\"message\":\"slow down\",\"type\":\"rate_limit_error\",\"code\":\"rate_limit_exceeded\"}}";
    let planned = [
        Planned::status(429, refused),
        Planned::status(500, "oops"),
        // Each attempt asks once more after an unreadable answer, so these are planned twice.
        Planned::Garbage,
        Planned::Garbage,
        Planned::Empty,
        Planned::Empty,
        Planned::WrongExchanges,
        Planned::WrongExchanges,
        Planned::Flood,
        Planned::CutConnection,
    ];
    let failures = [
        ("provider_rate_limited", 1),
        // The 500 above, and the 503 after all planned answers.
        ("provider_server", 2),
        ("bad_output", 3),
        ("provider_network", 1),
    ];
    fails_and_recovers(&[], planned, &failures).await;
}

/// Late answers, or none. With a short time limit a busy machine may delay any answer, so this test tries nothing else.
#[tokio::test]
async fn the_old_summary_stays_while_the_provider_takes_too_long() {
    let late = Planned::Late(Duration::from_millis(3 * TIMEOUT_MS));
    let planned = [late, Planned::Hang, Planned::Hang];
    fails_and_recovers(&IMPATIENT, planned, &[("provider_timeout", 3)]).await;
}

#[tokio::test]
async fn after_the_last_attempt_digests_stand_in_and_are_condensed_when_the_provider_is_back() {
    let fake = FakeProvider::start();
    fake.otherwise(Planned::status(500, "down"));
    let daemon = started(&fake, &["queue.attempts_max=2", "queue.revive_after_ms=0"]).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let digests = daemon.summary().await;
    let content = digests["content"].as_str().unwrap();
    assert!(
        content.contains("Question 1 about src/module_1.rs") && content.contains("not yet condensed"),
        "{content}"
    );
    // The version appears before its metrics are counted.
    daemon
        .until("it is counted", async |daemon: &Daemon| {
            daemon.metric("recapd_retries_exhausted_total").await == 1
        })
        .await;
    // Counted as an alert, not as an ordinary error.
    let alerts = "recapd_log_events_total{level=\"alert\"}";
    assert_eq!(daemon.metric(alerts).await, 1);

    fake.otherwise(Planned::Good);
    daemon.turn(3).await;
    daemon
        .until("nothing is provisional any more", async |daemon: &Daemon| {
            let summary = daemon.summary().await;
            summary["pending_exchanges"] == 0
                && !summary["content"].as_str().unwrap_or("not yet").contains("not yet")
        })
        .await;
}

/// A wrong key isn't tried again: only an operator can help.
#[tokio::test]
async fn a_refused_key_is_not_tried_again() {
    let fake = FakeProvider::start();
    fake.otherwise(Planned::status(401, "{\"error\":{\"message\":\"no\",\"code\":\"invalid_api_key\"}}"));
    let daemon = started(&fake, &[]).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    assert_eq!(daemon.metric("recapd_provider_errors_total{provider=\"openai\",class=\"auth\"}").await, 1);
    assert_eq!(fake.requests().len(), 1);
}

/// The commands ask the daemon, and report when it isn't there.
#[tokio::test]
async fn the_commands_ask_a_running_daemon() {
    let fake = FakeProvider::start();
    let mut daemon = started(&fake, &[]).await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    let server = daemon.url("");
    let ask = |args: &[&str]| {
        let mut command = assert_cmd::Command::cargo_bin("recapd").unwrap();
        let output = command.env_clear().args(args).args(["--server", &server]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, summary, _) = ask(&["summary", AGENT]);
    assert_eq!(code, Some(0));
    assert!(summary.contains("## Previously in This Session"), "{summary}");
    let (_, history, _) = ask(&["history", AGENT]);
    assert!(history.contains("the model sees from here"), "{history}");
    let (_, status, _) = ask(&["status"]);
    assert!(status.contains("1 agent, 1 summary"), "{status}");
    for (args, words) in [
        (&["mark", AGENT, "here"][..], "`here` at #2"),
        (&["rewind", AGENT, "here"], "0 exchanges set aside"),
        (&["fork", AGENT, "scout"], "forked scout"),
        (&["clear", "scout", "--json"], "\"session\": 2"),
    ] {
        let (code, told, error) = ask(args);
        assert_eq!(code, Some(0), "{error}");
        assert!(told.contains(words), "{told}");
    }
    for (args, status) in [
        (&["rewind", AGENT, "nowhere"][..], 3),
        (&["fork", AGENT, "scout"], 1),
        (&["context", AGENT, "--format", "openai", "--as", "no body"], 3),
    ] {
        assert_eq!(ask(args).0, Some(status), "{args:?}");
    }
    let (code, _, unknown) = ask(&["summary", "nobody"]);
    assert_eq!(code, Some(3));
    assert!(unknown.contains("nobody"), "{unknown}");
    // The port stays reserved, so that nothing else answers there.
    daemon.kill();
    let (code, _, gone) = ask(&["status"]);
    assert_eq!(code, Some(69));
    assert!(gone.contains("is the daemon running there?"), "{gone}");
}
