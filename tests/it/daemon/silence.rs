//! A daemon whose server falls silent, or another daemon that stops within a transaction: nobody waits unnecessarily.

use std::{process::Stdio, time::Duration};

use reqwest::{Response, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::Daemon;
use crate::support::{PATIENCE, fake_provider::FakeProvider, line::Line, postgres::Database};

/// The longest that readers of a summary in the daemon's memory wait.
const KNOWN_TIME_MAX: Duration = Duration::from_millis(300);
/// The longest that other readers wait.
const NONE_TIME_MAX: Duration = Duration::from_secs(2);
/// Nothing leaves the window.
const ROOMY: [&str; 1] = ["window.budget_tokens=100000"];
const CLIENTS: usize = 24;
const HELD_AGENTS: usize = 8;
const WRITES: u32 = 100;

/// A daemon with the database's default settings and without a provider.
async fn started(database: &Database, settings: &[&str]) -> Daemon {
    let settings = [settings, &["model.mode=offline", "queue.poll_ms=1000"]].concat();
    let daemon = Daemon::start_on(Some(database), &FakeProvider::start(), &settings, &[], Stdio::inherit());
    daemon.until_ready().await;
    daemon
}

async fn read(daemon: &Daemon, agent: &str, view: &str) -> (Response, Duration) {
    let began = Instant::now();
    let path = format!("/v1/agents/{agent}/summary{view}");
    let request = daemon.client.get(daemon.url(&path)).header("accept", "text/markdown");
    let response = request.send().await.unwrap();
    (response, began.elapsed())
}

async fn stale_age(daemon: &Daemon, agent: &str) -> Option<String> {
    let (response, _) = read(daemon, agent, "").await;
    assert_eq!(response.status(), StatusCode::OK);
    let age = response.headers().get("recapd-stale");
    age.map(|age| age.to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn known_summaries_are_read_at_once_while_the_server_is_silent() {
    let database = Database::create().await;
    let line = Line::to(&database).await;
    let (url, _) = database.address();
    let url = format!("database.url={}", line.instead_of(&url));
    let daemon = started(&database, &[&url]).await;
    for agent in ["known", "asked", "unread"] {
        daemon.turn_of(agent, 1).await;
        daemon.turn_of(agent, 2).await;
    }
    for agent in ["known", "asked"] {
        assert_eq!(read(&daemon, agent, "").await.0.status(), StatusCode::OK);
    }
    // After it is connected again, everything in memory may be outdated.
    database.away().await;
    daemon.until("it has noticed", async |daemon| stale_age(daemon, "asked").await.is_some()).await;
    database.back().await;
    daemon.until("it is back", async |daemon| stale_age(daemon, "asked").await.is_none()).await;
    line.fall_silent();
    let silent = Instant::now();
    let mut slowest = Duration::ZERO;
    while silent.elapsed() < Duration::from_secs(8) {
        for view in ["", "?view=brief"] {
            for agent in ["known", "asked"] {
                let (response, took) = read(&daemon, agent, view).await;
                assert_eq!(response.status(), StatusCode::OK);
                slowest = slowest.max(took);
            }
        }
        tokio::time::sleep(super::TICK).await;
    }
    assert!(slowest <= KNOWN_TIME_MAX, "{slowest:?}");
    assert!(stale_age(&daemon, "known").await.is_some());

    let (response, took) = read(&daemon, "unread", "").await;
    assert!(took <= NONE_TIME_MAX, "{took:?}");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(response.text().await.unwrap(), "[Summary temporarily unavailable]");
    let server = format!("http://{}", daemon.port.address());
    let command = ["summary", "unread", "--server", &server];
    let said = assert_cmd::Command::cargo_bin("recapd").unwrap().args(command).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "[Summary temporarily unavailable]\n");
    assert_eq!(said.status.code(), Some(69));
}

async fn say(client: &reqwest::Client, url: String) -> StatusCode {
    let messages = json!([{"kind": "user", "content": "Go on"}, {"kind": "assistant", "content": "Done."}]);
    let request = client.post(url).header("content-type", "application/json");
    request.body(messages.to_string()).send().await.unwrap().status()
}

fn messages_of(daemon: &Daemon, agent: &str) -> String {
    daemon.url(&format!("/v1/agents/{agent}/messages?format=native"))
}

/// Stops the daemon while the server waits for the next statement of one of its transactions.
async fn stop_within_a_transaction(daemon: &Daemon, database: &Database) {
    let within = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'recapd' \
                  AND state = 'idle in transaction' AND backend_xid IS NOT NULL";
    let mut look = database.connect().await;
    let end = Instant::now() + PATIENCE;
    loop {
        daemon.signal(Signal::STOP);
        // Statements sent before are done by then.
        tokio::time::sleep(super::TICK).await;
        let within: i64 = sqlx::query_scalar(within).fetch_one(&mut look).await.unwrap();
        if within > 0 {
            return;
        }
        daemon.signal(Signal::CONT);
        assert!(Instant::now() < end, "it is never within one");
        tokio::time::sleep(super::TICK / 5).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_stopped_in_a_transaction_holds_up_no_other() {
    let database = Database::create().await;
    let (stopped, one, other) =
        tokio::join!(started(&database, &ROOMY), started(&database, &ROOMY), started(&database, &ROOMY));
    // The first message loads the tokenizer's tables.
    for (daemon, agent) in [(&one, "free"), (&other, "free-too")] {
        assert_eq!(say(&daemon.client, messages_of(daemon, agent)).await, StatusCode::OK);
    }
    let tasks = TaskTracker::new();
    let clients: Vec<_> = (0..HELD_AGENTS)
        .map(|number| {
            let (client, url) = (stopped.client.clone(), messages_of(&stopped, &format!("held-{number}")));
            tasks.spawn(async move {
                loop {
                    say(&client, url.clone()).await;
                }
            })
        })
        .collect();
    stop_within_a_transaction(&stopped, &database).await;
    for client in clients {
        client.abort();
    }
    let moved: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let agent = format!("held-{}", number % HELD_AGENTS);
            let (client, url) = (one.client.clone(), messages_of(&one, &agent));
            tasks.spawn(async move { say(&client, url).await })
        })
        .collect();
    let mut took = Vec::new();
    for _ in 0..WRITES {
        for (daemon, agent) in [(&one, "free"), (&other, "free-too")] {
            let began = Instant::now();
            let status = say(&daemon.client, messages_of(daemon, agent)).await;
            took.push(began.elapsed());
            assert_eq!(status, StatusCode::OK);
        }
        let ready = one.client.get(one.url("/readyz")).send().await.unwrap();
        assert_eq!(ready.status(), StatusCode::OK);
    }
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    let (median, slowest) = (took[took.len() / 2], &took[took.len() - 5..]);
    eprintln!("writes of other agents: median {median:?}, p99 {p99:?}, slowest {slowest:?}");
    // Below 100 ms on an idle machine.
    assert!(p99 < Duration::from_secs(1), "{slowest:?}");
    // The server has ended the transaction by then, and the clients that moved are served.
    for said in moved {
        assert_eq!(said.await.unwrap(), StatusCode::OK);
    }
    stopped.signal(Signal::CONT);
    stopped.until_ready().await;
}
