//! Upgrades from each schema without legs, with one open exchange that is far bigger than the window. It is cut from its next round on.

use std::path::Path;

use recapd_core::domain::window::Budget;
use recapd_store::AppendOutcome;
use sqlx::{
    AssertSqlSafe, Connection as _, SqliteConnection, migrate::Migrator, sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;

use super::clean;
use crate::support::{
    backend::{Backend, PostgresBackend, SqliteBackend},
    conversation::{agent, append, minute, said},
    postgres::{self, Database},
};

/// The first schemas with legs.
const SQLITE_LEGS: i64 = 22;
const POSTGRES_LEGS: i64 = 14;
/// The first SQLite schema in which an exchange's row counts its messages.
const SQLITE_COUNTS: i64 = 3;
/// Rounds of the exchange before the upgrade, with a call and its result each.
const ROUNDS: i64 = 120;
const REQUEST: &str = "Migrate all modules";
const REQUEST_TOKENS: i64 = 50;
const CALL_TOKENS: i64 = 10;
const RESULT_TOKENS: i64 = 90;
/// The window holds ten rounds, a leg three.
const BUDGET: Budget = Budget::new(1_000, 0.8);
const LEG_TOKENS: i64 = 300;

/// Returns the schemas before `legs`, each as its migrations.
fn earlier(all: &Migrator, legs: i64) -> Vec<(i64, Migrator)> {
    let before: Vec<_> = all.iter().filter(|migration| migration.version < legs).cloned().collect();
    let schemas = (1..=before.len()).map(|known| before[..known].to_vec());
    schemas.map(|known| (known.last().unwrap().version, Migrator::with_migrations(known))).collect()
}

/// Returns the statements that a version without legs used to write the exchange. `now` is a time in the database's form.
fn lived(now: &str) -> String {
    let last = 2 * ROUNDS + 1;
    let tokens = REQUEST_TOKENS + ROUNDS * (CALL_TOKENS + RESULT_TOKENS);
    let call = r#"{"kind":"tool_call","name":"run","arguments":{}}"#;
    let headline = format!(r#"{{"title":"{REQUEST}","tools":[["run",{ROUNDS}]],"answer":""}}"#);
    format!(
        r#"
        INSERT INTO agents (agent_id, created_at, updated_at, last_seq, last_exchange, newest_exchange, budget_tokens)
            VALUES ('a', {now}, {now}, {last}, 1, 1, 1000);
        INSERT INTO summaries (agent_id, updated_at) VALUES ('a', {now});
        INSERT INTO sessions (agent_id, session, first_exchange, opened_at) VALUES ('a', 1, 1, {now});
        INSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, first_seq, last_seq, tokens,
                tokens_before, state, opened_at, last_at, headline)
            VALUES ('a', 1, 'exchange', 1, 'a', 1, {last}, {tokens}, 0, 'open', {now}, {now}, '{headline}');
        INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at)
            VALUES ('a', 1, 1, 'user', 'native', '{{"kind":"user","content":"{REQUEST}"}}', {REQUEST_TOKENS}, 'test', {now}, {now});
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROUNDS})
            INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at)
            SELECT 'a', 2 * i, 1, 'tool_call', 'native', '{call}', {CALL_TOKENS}, 'test', {now}, {now} FROM n UNION ALL
            SELECT 'a', 2 * i + 1, 1, 'tool_result', 'native', '{{"kind":"tool_result","content":"Result ' || i || '"}}',
                {RESULT_TOKENS}, 'test', {now}, {now} FROM n;
        "#
    )
}

/// Returns the statement by which an exchange's row counts its messages.
fn counted() -> String {
    format!("UPDATE exchange_log SET messages = {}", 2 * ROUNDS + 1)
}

#[tokio::test]
async fn an_open_exchange_of_any_earlier_file_is_cut_from_its_next_round() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
    let all = Migrator::new(folder).await.unwrap();
    for (version, schema) in earlier(&all, SQLITE_LEGS) {
        let folder = TempDir::new().unwrap();
        let options =
            SqliteConnectOptions::new().filename(folder.path().join("recapd.db")).create_if_missing(true);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        schema.run(&mut connection).await.unwrap();
        let mut sql = lived("1795000000000");
        if version >= SQLITE_COUNTS {
            sql.push_str(&counted());
        }
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        is_cut(&SqliteBackend::over(folder).await, version).await;
    }
}

#[tokio::test]
async fn an_open_exchange_of_any_earlier_server_is_cut_from_its_next_round() {
    let all = postgres::migrations().await;
    for (version, schema) in earlier(&all, POSTGRES_LEGS) {
        let database = Database::empty().await;
        let mut connection = database.connect().await;
        schema.run(&mut connection).await.unwrap();
        let sql = lived("to_timestamp(1795000000)") + &counted();
        postgres::execute(&mut connection, sql).await;
        connection.close().await.unwrap();
        is_cut(&PostgresBackend::over(database).await, version).await;
    }
}

async fn next_round(db: &dyn Backend, number: i64) -> AppendOutcome {
    let round = vec![
        said("tool_call", "run", CALL_TOKENS, minute(number)),
        said("tool_result", &format!("Result {number}"), RESULT_TOKENS, minute(number)),
    ];
    let mut request = append(&agent("a"), round);
    request.rules.budget = BUDGET.with_leg_tokens(LEG_TOKENS);
    db.store().append(request).await.unwrap()
}

/// Opening the store has brought the database up to date.
async fn is_cut(db: &dyn Backend, version: i64) {
    while db.store().seal_rows(100).await.unwrap() > 0 {}
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.messages, report.exchanges), (2 * ROUNDS + 1, 1), "{version}");
    // The first call may belong to an answer that began before the upgrade.
    let joined = next_round(db, ROUNDS + 1).await;
    assert_eq!((joined.exchange, joined.first_exchange), (1, 1), "{version}");
    clean(db, &agent("a")).await;
    let cut = next_round(db, ROUNDS + 2).await;
    clean(db, &agent("a")).await;
    assert_eq!((cut.exchange, cut.first_exchange), (2, 2), "{version}");
    for number in ROUNDS + 3..ROUNDS + 40 {
        let outcome = next_round(db, number).await;
        assert!(outcome.window_tokens <= BUDGET.budget_tokens(), "{version}: {outcome:?}");
    }
    clean(db, &agent("a")).await;
    let legs = db.store().legs(&agent("a"), 1).await.unwrap();
    let tokens: Vec<i64> = legs.iter().map(|leg| leg.tokens).collect();
    let round = CALL_TOKENS + RESULT_TOKENS;
    let giant = REQUEST_TOKENS + (ROUNDS + 1) * round;
    assert_eq!(tokens, [&[giant][..], &[3 * round; 12], &[2 * round]].concat(), "{version}");
    let request = db.store().request_of(&agent("a"), 1).await.unwrap().unwrap();
    assert_eq!(request.message.text(), REQUEST, "{version}");
}
