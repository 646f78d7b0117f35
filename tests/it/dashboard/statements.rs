//! The queries of pages: rows by their keys, and nothing that gets slower the longer agents talk.

use std::{io, process::Command};

use sqlx::{Connection as _, Row as _, SqliteConnection};
use tracing_subscriber::EnvFilter;

use super::page;
use crate::support::server::Server;

/// The environment variable with the filter that makes the child process log its statements.
const STATEMENT_LOG: &str = "RECAPD_TEST_STATEMENT_LOG";

/// The pages. The agent has a summary in two versions.
const PAGES: [&str; 18] = [
    "/ui/",
    "/ui/agents",
    "/ui/agents/coder",
    "/ui/agents/coder/context",
    "/ui/agents/coder/exchanges",
    "/ui/agents/coder/exchanges?before=9",
    "/ui/agents/coder/exchanges/3",
    "/ui/agents/coder/versions",
    "/ui/agents/coder/versions/1",
    "/ui/agents/coder/diff?from=1&to=2",
    "/ui/agents/coder/proxy",
    "/ui/agents/coder/search?q=bug",
    "/ui/queue",
    "/ui/queue?q=state:parked",
    "/ui/runs",
    "/ui/runs?q=agent:coder%20state:failed",
    "/ui/runs/1",
    "/ui/system",
];
/// Tables that grow as long as agents talk.
const GROWING: [&str; 10] = [
    "message_log",
    "exchange_log",
    "evictions",
    "summaries",
    "summary_versions",
    "summary_items",
    "summary_item_ranges",
    "summary_facts",
    "update_runs",
    "agents",
];
/// Statements that read a table from one end and stop, after a number of rows or at the first match.
const BOUNDED: [&str; 2] = ["sqlite/stock.first_rows", "sql/spending.last_run"];
/// Statements that count rows found by an index: runs of a day, and pending rows of one agent.
const COUNTED: [&str; 4] = [
    "sql/schedule.sample_runs",
    "sql/operate.run_hours",
    "sql/operate.run_percentiles",
    "sql/summary.count_pending",
];
const BEGIN: &str = "pages begin";
const END: &str = "pages end";

async fn server() -> Server {
    let server = Server::summarised().await;
    server.converse("coder", 9..=16).await;
    server.summarise().await;
    server
}

#[tokio::test]
async fn each_page_answers() {
    if let Ok(filter) = EnvFilter::try_from_env(STATEMENT_LOG) {
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        log.with_writer(io::stderr).init();
    }
    let server = server().await;
    eprintln!("{BEGIN}");
    for path in PAGES {
        page(&server, path).await;
    }
    eprintln!("{END}");
}

/// Returns the distinct statements in a log.
fn statements(log: &str) -> Vec<String> {
    let pages = log.split(BEGIN).nth(1).unwrap().split(END).next().unwrap();
    let texts = pages.split("db.statement=\"").skip(1);
    let texts = texts.map(|text| text.split("\" rows_affected").next().unwrap());
    let mut found: Vec<String> =
        texts.map(|text| text.replace("\\n", "\n").replace("\\\"", "\"").trim().to_owned()).collect();
    found.sort();
    found.dedup();
    found
}

fn label(statement: &str) -> &str {
    let first = statement.lines().next().unwrap_or_default();
    first.trim_start_matches("-- ").trim()
}

/// Returns the lines of a statement's plan.
async fn plan(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let explained = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
    let rows = explained.fetch_all(connection).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(3)).collect()
}

#[tokio::test]
async fn no_page_reads_a_table_that_grows_from_end_to_end() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["dashboard::statements::each_page_answers", "--exact", "--nocapture"])
        .env(STATEMENT_LOG, "sqlx::query=debug")
        .output()
        .unwrap();
    let statements = statements(&String::from_utf8_lossy(&run.stderr));
    assert!(statements.len() > 15, "{statements:#?}");
    let server = server().await;
    let url = format!("sqlite:{}", server.database().display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let mut findings = Vec::new();
    for statement in statements.iter().filter(|statement| statement.starts_with("-- ")) {
        let label = label(statement);
        if !BOUNDED.contains(&label) {
            let plan = plan(&mut connection, statement).await;
            let may_count = COUNTED.contains(&label) || !statement.contains("count(");
            findings.extend(faults(&plan, may_count).map(|fault| format!("{label}: {fault}")));
        }
    }
    assert_eq!(findings, Vec::<String>::new());
}

/// Returns the lines of a plan that read a growing table from end to end, or count the rows found in one.
fn faults(plan: &[String], may_count: bool) -> impl Iterator<Item = &String> {
    let is_growing = |line: &str| {
        let mut words = line.split(' ');
        words.nth(1).is_some_and(|table| GROWING.contains(&table))
    };
    plan.iter().filter(move |line| is_growing(line) && (line.starts_with("SCAN ") || !may_count))
}
