//! PostgreSQL without a store: the schema, and the databases for tests.

mod roles;

use std::collections::BTreeMap;

use sqlx::{Connection as _, PgConnection, Row as _, SqliteConnection};
use tempfile::TempDir;

use crate::support::{
    backend::sqlite_settings,
    postgres::{self, Database, execute, exists},
};

/// An agent with a summary, and rows that refer to both.
const AN_AGENT: &str = "
    INSERT INTO agents (agent_id, created_at, updated_at, first_exchange, summarized_through, pending_since)
      VALUES ('a', now(), now(), 5, 3, now());
    INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at)
      VALUES ('a', 1, 1, 'user', 'native', '{}', 1, 'exact', now(), now());
    INSERT INTO summaries (agent_id, version, content, token_count, updated_at) VALUES ('a', 4, 'Once.', 2, now());
    INSERT INTO summary_items (agent_id, item, added_version, importance, origin, provisional, started_at, ended_at,
                               source_tokens, text, brief, gist)
      VALUES ('a', 1, 1, 'normal', 'model', false, now(), now(), 1, 'Once.', 'Once.', 'Once.');
    INSERT INTO summary_item_ranges VALUES ('a', 1, 1, 3);
    INSERT INTO recall_blocks VALUES ('a', 0, 1, 1, '');
    INSERT INTO recall_words VALUES ('a', 0, 'onc', 1, '');";

#[tokio::test]
async fn a_test_database_has_the_schema_and_is_dropped_with_its_value() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    assert_eq!(count(&mut connection, "SELECT count(*) FROM agents").await, 0);

    let mut server = postgres::connect().await;
    let name = database.name().to_owned();
    assert!(exists(&mut server, &name).await);
    assert!(database.url().contains(&name));
    drop(database);
    assert!(!exists(&mut server, &name).await, "with a connection still open");
}

#[tokio::test]
async fn a_test_database_is_dropped_when_its_test_fails() {
    let (named, name) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let database = Database::empty().await;
            named.send(database.name().to_owned()).unwrap();
            panic!("on purpose");
        });
    });
    let name = name.recv().unwrap();
    assert!(test.join().is_err());
    assert!(!exists(&mut postgres::connect().await, &name).await);
}

#[tokio::test]
async fn test_databases_share_nothing() {
    let (one, other) = tokio::join!(Database::create(), Database::create());
    execute(&mut one.connect().await, AN_AGENT).await;
    let agents = count(&mut other.connect().await, "SELECT count(*) FROM agents").await;
    assert_eq!(agents, 0);
}

#[tokio::test]
async fn concurrent_migrations_run_once() {
    let database = Database::empty().await;
    let migrations = postgres::migrations().await;
    let (mut one, mut other) = tokio::join!(database.connect(), database.connect());
    let (first, second) = tokio::join!(migrations.run(&mut one), migrations.run(&mut other));
    first.unwrap();
    second.unwrap();
    migrations.run(&mut one).await.unwrap();
    let applied = count(&mut one, "SELECT count(*) FROM _sqlx_migrations WHERE success").await;
    assert_eq!(applied, i64::try_from(migrations.iter().count()).unwrap());
}

#[tokio::test]
async fn the_schema_fits_into_any_schema() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    execute(&mut connection, "CREATE SCHEMA other; SET search_path = other").await;
    postgres::migrations().await.run(&mut connection).await.unwrap();
    execute(&mut connection, AN_AGENT).await;
    let there = count(&mut connection, "SELECT count(*) FROM public.agents").await;
    assert_eq!(there, 0);
}

#[tokio::test]
async fn views_show_the_current_document() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    execute(&mut connection, AN_AGENT).await;
    let sql =
        "SELECT agent_id || ' ' || content || ' ' || version || ' ' || token_count || ' ' || covers_through
                 || ' ' || first_exchange || ' ' || (pending_since IS NOT NULL) FROM agent_summary";
    assert_eq!(text(&mut connection, sql).await, "a Once. 4 2 3 5 true");
    let documents = "SELECT agent_id || ' ' || content FROM summary_documents WHERE updated_at IS NOT NULL";
    assert_eq!(text(&mut connection, documents).await, "a Once.");

    execute(&mut connection, "UPDATE summaries SET held_version = 2, held_through = 1").await;
    assert_eq!(text(&mut connection, sql).await, "a Once. 2 2 1 5 true");
}

#[tokio::test]
async fn texts_are_ordered_by_bytes() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    let sql = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'
               AND column_name IN ('agent_id', 'project_id', 'parent_agent_id', 'source_agent_id', 'label', 'name',
                                   'provider', 'model', 'client_id', 'journal_key')
               AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'public')
               AND collation_name IS DISTINCT FROM 'C'";
    assert_eq!(count(&mut connection, sql).await, 0);
}

#[tokio::test]
async fn a_token_is_never_given_twice() {
    let database = Database::create().await;
    let (mut one, mut other) = tokio::join!(database.connect(), database.connect());
    let sql = "SELECT nextval('lease_token')";
    execute(&mut one, "BEGIN").await;
    let taken = count(&mut one, sql).await;
    execute(&mut one, "ROLLBACK").await;
    assert!(count(&mut other, sql).await > taken);
}

#[tokio::test]
async fn an_agent_is_deleted_with_its_rows_in_any_order() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    execute(&mut connection, AN_AGENT).await;
    let sql = "SELECT string_agg(format('DELETE FROM %I', tablename), ';' ORDER BY tablename) FROM pg_tables
               WHERE schemaname = 'public' AND tablename <> '_sqlx_migrations'";
    let deletes = text(&mut connection, sql).await;
    let all = format!("BEGIN; SET CONSTRAINTS ALL DEFERRED; {deletes}; COMMIT");
    execute(&mut connection, all).await;
    assert_eq!(count(&mut connection, "SELECT count(*) FROM agents").await, 0);
}

#[tokio::test]
async fn both_schemas_have_the_same_columns() {
    let database = Database::create().await;
    let sql = "SELECT table_name || '.' || column_name, data_type, is_nullable = 'YES'
               FROM information_schema.columns JOIN pg_tables ON schemaname = table_schema AND tablename = table_name
               WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'";
    let rows = sqlx::query(sql).fetch_all(&mut database.connect().await).await.unwrap();
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    for row in rows {
        let native: String = row.get(1);
        let kind = match native.as_str() {
            "bigint" | "timestamp with time zone" | "boolean" => "INTEGER",
            "text" | "json" | "jsonb" => "TEXT",
            _ => continue,
        };
        columns.insert(row.get(0), (kind.to_owned(), row.get(2)));
    }
    // How they know what is still to be indexed differs between the databases.
    columns.retain(|name, _| !name.starts_with("recall_"));
    let sqlite = sqlite_columns().await;
    let only_here = columns.iter().filter(|&(name, column)| sqlite.get(name) != Some(column));
    let besides = sqlite.iter().filter(|&(name, column)| columns.get(name) != Some(column));
    let different: Vec<_> = only_here.chain(besides).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[tokio::test]
async fn both_schemas_have_the_same_indexes() {
    let database = Database::create().await;
    let sql = "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'";
    let rows = sqlx::query(sql).fetch_all(&mut database.connect().await).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let (mut sqlite, _folder) = sqlite().await;
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
    let rows = sqlx::query(sql).fetch_all(&mut sqlite).await.unwrap();
    let missing: Vec<String> =
        rows.iter().map(|row| row.get(0)).filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "only SQLite has {missing:?}");
}

/// The column's type on SQLite, and whether it may be NULL.
type Column = (String, bool);

async fn sqlite_columns() -> BTreeMap<String, Column> {
    let (mut connection, _folder) = sqlite().await;
    let sql = "SELECT m.name || '.' || c.name, c.type, NOT (c.\"notnull\" OR c.pk)
               FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'
               AND m.name NOT LIKE 'recall_%' AND m.name NOT IN ('counters', '_sqlx_migrations', 'sqlite_sequence')
               AND NOT (m.name = 'message_log' AND c.name = 'id')";
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

/// A SQLite database with the current schema.
async fn sqlite() -> (SqliteConnection, TempDir) {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder);
    recapd_store::SqlStore::open(&settings.clone().into()).await.unwrap();
    (SqliteConnection::connect(&settings.url).await.unwrap(), folder)
}

async fn count(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(connection).await.unwrap().get(0)
}

async fn text(connection: &mut PgConnection, sql: &'static str) -> String {
    sqlx::query(sql).fetch_one(connection).await.unwrap().get(0)
}
