//! The statements are checked when they run, not when they are compiled: so each has to run in the suite.
//!
//! `written` comes behind every other part of the suite: what ran before it in this process needn't run again.

use std::{collections::BTreeSet, path::Path, process::Command};

use crate::support::statements::{STATEMENT_LOG, labels, statements_that_ran};

/// Statements that no test of the suite waits for: a pulse after seconds of silence.
const LATER: [&str; 1] = ["postgres/member.is_alive"];

/// The labels of the statements in the sources that one of the databases gets.
fn written_statements(database: &str) -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut found = statements_below(&sources);
    found.retain(|label| label.starts_with("sql/") || label.split('/').next() == Some(database));
    found.retain(|label| !LATER.contains(&label.as_str()));
    found
}

fn statements_below(path: &Path) -> BTreeSet<String> {
    if path.is_dir() {
        let inside = std::fs::read_dir(path).unwrap();
        return inside
            .flat_map(|entry| statements_below(&entry.unwrap().path()))
            .collect();
    }
    labels(&std::fs::read_to_string(path).unwrap())
        .into_iter()
        .collect()
}

/// Runs the suite on one of the databases, with a case of each property, and tells the statements that ran.
fn statements_of_a_run(database: &str) -> BTreeSet<String> {
    let run = Command::new(std::env::current_exe().unwrap())
        .arg(format!("store::run::on_{database}::"))
        .arg(format!("store::{database}::"))
        .arg(format!("store::recall_{database}::"))
        .args(["store::schema::", "store::copy::"])
        .arg("--nocapture")
        .env(STATEMENT_LOG, "sqlx::query=debug")
        .env("PROPTEST_CASES", "1")
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&run.stderr);
    let ran: BTreeSet<String> = labels(&log).into_iter().collect();
    assert!(ran.len() > 50, "{}", String::from_utf8_lossy(&run.stdout));
    ran
}

fn every_statement_runs(database: &str) {
    let written = written_statements(database);
    assert!(written.len() > 50, "{written:?}");
    if !written.is_subset(&statements_that_ran()) {
        let ran = statements_of_a_run(database);
        assert_eq!(
            written.difference(&ran).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
    }
}

#[test]
fn every_statement_runs_on_sqlite() {
    every_statement_runs("sqlite");
}

#[test]
fn every_statement_runs_on_postgres() {
    every_statement_runs("postgres");
}
