//! The real binary appends what agents insert by plain SQL.

use std::{process::Stdio, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::{AGENT, Daemon, started};
use crate::support::{fake_provider::FakeProvider, postgres::Database};

/// Without a model, and without evictions.
const SETTINGS: [&str; 2] = ["model.mode=offline", "window.budget_tokens=0"];
const COUNT: u32 = 40;
/// The messages as the view shows them, in order.
const SAID: &str = "SELECT content FROM messages WHERE agent_id = 'coder' ORDER BY id";

fn insert(round: u32) -> String {
    let first = round * COUNT + 1;
    let rows = (first..first + COUNT).map(|number| format!("('{AGENT}', 'user', 'Message {number}')"));
    let rows: Vec<String> = rows.collect();
    format!("INSERT INTO messages (agent_id, role, content) VALUES {}", rows.join(", "))
}

fn expected(rounds: u32) -> Vec<String> {
    (1..=rounds * COUNT).map(|number| format!("Message {number}")).collect()
}

async fn agent(daemon: &Daemon) -> SqliteConnection {
    let url = format!("sqlite:{}", daemon.folder.path().join("daemon.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let patience = "PRAGMA busy_timeout = 10000";
    sqlx::query(patience).execute(&mut connection).await.unwrap();
    connection
}

async fn said(daemon: &Daemon) -> Vec<String> {
    let rows = sqlx::query(SAID).fetch_all(&mut agent(daemon).await).await;
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn until_taken_in(daemon: &Daemon) {
    daemon
        .until("the inbox is empty", async |daemon: &Daemon| {
            let mut connection = agent(daemon).await;
            let sql = "SELECT count(*) FROM message_inbox WHERE refused_at IS NULL";
            let waiting = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
            waiting.get::<i64, _>(0) == 0
        })
        .await;
}

#[tokio::test]
async fn inserts_into_sqlite_survive_kills_of_the_daemon() {
    let fake = FakeProvider::start();
    let mut daemon = started(&fake, &SETTINGS).await;
    let mut agent = agent(&daemon).await;
    for round in 0..10 {
        let sql = insert(round);
        sqlx::query(AssertSqlSafe(sql)).execute(&mut agent).await.unwrap();
        if round % 3 == 1 {
            // Somewhere between the notice, the append and the deletion.
            tokio::time::sleep(Duration::from_millis(u64::from(round) * 40)).await;
            daemon.kill();
            daemon.revive().await;
        }
    }
    until_taken_in(&daemon).await;
    assert_eq!(said(&daemon).await, expected(10));
}

#[tokio::test]
async fn a_bad_insert_holds_up_no_other() {
    let fake = FakeProvider::start();
    let daemon = started(&fake, &SETTINGS).await;
    let mut agent = agent(&daemon).await;
    for (agent_id, content) in [("no agent", "x"), ("coder", "Once"), ("coder", "Once")] {
        let sql = format!(
            "INSERT INTO messages (agent_id, role, content, client_id) VALUES ('{agent_id}', 'user', '{content}', 'x-1')"
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&mut agent).await.unwrap();
    }
    until_taken_in(&daemon).await;
    assert_eq!(said(&daemon).await, ["Once"]);
    let refused = "recapd_inbox_refused_total{reason=\"agent\"}";
    daemon
        .until("what waits is counted", async |daemon: &Daemon| {
            daemon.metric("recapd_inbox_waiting").await == 0
                && daemon.metric("recapd_inbox_refused_rows").await == 1
                && daemon.metric(refused).await == 1
        })
        .await;
}

#[tokio::test]
async fn inserts_into_postgres_survive_kills_of_the_daemon() {
    let fake = FakeProvider::start();
    let database = Database::create().await;
    let mut daemon = Daemon::start_on(Some(&database), &fake, &SETTINGS, &[], Stdio::inherit());
    daemon.until_ready().await;
    let said = async || {
        let rows = sqlx::query(SAID).fetch_all(&mut database.connect().await).await;
        let said: Vec<String> = rows.unwrap().iter().map(|row| row.get(0)).collect();
        said
    };
    let mut agent = database.connect().await;
    for round in 0..6 {
        let sql = insert(round);
        sqlx::query(AssertSqlSafe(sql)).execute(&mut agent).await.unwrap();
        if round % 3 == 1 {
            daemon.kill();
            daemon.child = super::spawn(&daemon.settings, &daemon.environment, Stdio::inherit());
            daemon.until_ready().await;
        }
    }
    let all = expected(6);
    daemon.until("all is taken in", async |_: &Daemon| said().await.len() >= all.len()).await;
    assert_eq!(said().await, all);
}
