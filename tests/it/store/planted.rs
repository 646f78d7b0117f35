//! A schema in which somebody has planted or changed something, on both databases.

use recapd_store::{
    DatabaseSettings,
    schema::catalogue::{faults, listing},
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{
    backend::{Backend as _, PostgresBackend, SqliteBackend, postgres_settings, sqlite_settings},
    postgres::{Database, execute},
};

async fn told(settings: &DatabaseSettings) -> Vec<String> {
    let found = faults(settings).await.unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn objects_planted_in_a_file_are_named() {
    let folder: TempDir = SqliteBackend::fresh().await.closed().await;
    let settings = sqlite_settings(&folder);
    let file = recapd_store::sqlite::file_of(&settings.url).unwrap();
    let settings: DatabaseSettings = settings.into();
    assert_eq!(told(&settings).await, [""; 0]);
    let plants = [
        (
            "CREATE TRIGGER spy AFTER INSERT ON message_log BEGIN UPDATE summaries SET content = new.payload; END",
            "DROP TRIGGER spy",
            "trigger spy isn't one of recapd's",
        ),
        (
            "CREATE VIEW leak AS SELECT * FROM message_log",
            "DROP VIEW leak",
            "view leak isn't one of recapd's",
        ),
        ("CREATE TABLE loot (text)", "DROP TABLE loot", "table loot isn't one of recapd's"),
        (
            "ALTER TABLE agents ADD COLUMN owner TEXT",
            "ALTER TABLE agents DROP COLUMN owner",
            "table agents isn't as recapd made it",
        ),
    ];
    let database = Connection::open(file).unwrap();
    for (plant, undo, expected) in plants {
        database.execute_batch(plant).unwrap();
        assert_eq!(told(&settings).await, [expected]);
        database.execute_batch(undo).unwrap();
        assert_eq!(told(&settings).await, [""; 0], "{undo}");
    }
}

#[tokio::test]
async fn objects_planted_on_a_server_are_named() {
    let database = Database::create().await;
    let settings: DatabaseSettings = postgres_settings(database.url()).into();
    let mut connection = database.connect().await;
    assert_eq!(told(&settings).await, [""; 0]);
    execute(
        &mut connection,
        "CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    )
    .await;
    assert_eq!(told(&settings).await, [""; 0], "nothing calls it");
    let plants = [
        (
            "CREATE TRIGGER spy BEFORE INSERT ON message_log FOR EACH ROW EXECUTE FUNCTION spy()",
            "DROP TRIGGER spy ON message_log",
            "trigger message_log.spy isn't one of recapd's",
        ),
        (
            "ALTER TABLE agents DISABLE TRIGGER agents_made",
            "ALTER TABLE agents ENABLE TRIGGER agents_made",
            "trigger agents.agents_made isn't as recapd made it",
        ),
        (
            "ALTER TABLE agents ADD COLUMN owner text",
            "ALTER TABLE agents DROP COLUMN owner",
            "column agents.owner isn't one of recapd's",
        ),
        (
            "CREATE RULE hush AS ON DELETE TO message_log DO INSTEAD NOTHING",
            "DROP RULE hush ON message_log",
            "rule message_log.hush isn't one of recapd's",
        ),
        (
            "CREATE FUNCTION hashtextextended(text, integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
            "DROP FUNCTION hashtextextended(text, integer)",
            "function hashtextextended(text, integer) isn't one of recapd's",
        ),
        (
            "ALTER FUNCTION recapd_scope() SECURITY DEFINER",
            "ALTER FUNCTION recapd_scope() SECURITY INVOKER",
            "function recapd_scope() isn't as recapd made it",
        ),
    ];
    for (plant, undo, expected) in plants {
        execute(&mut connection, plant).await;
        assert_eq!(told(&settings).await, [expected]);
        execute(&mut connection, undo).await;
        assert_eq!(told(&settings).await, [""; 0], "{undo}");
    }
}

/// As described in `docs/scaling.md`.
#[tokio::test]
async fn a_partitioned_table_is_as_recapd_makes_it() {
    let backend = PostgresBackend::partitioned().await;
    let settings = postgres_settings(backend.url()).into();
    assert_eq!(told(&settings).await, [""; 0]);
    assert!(backend.number("SELECT count(*) FROM message_log").await.is_some());
}

/// After a new migration the list must be regenerated: `migrations/postgres/catalogue.tsv` is what this prints.
#[tokio::test]
async fn the_list_of_what_the_migrations_make_is_up_to_date() {
    let database = Database::create().await;
    let made = listing(&postgres_settings(database.url()).into()).await.unwrap();
    let listed = include_str!("../../../migrations/postgres/catalogue.tsv");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (made, listed) = (lines(&made), lines(listed));
    let new: Vec<&String> = made.iter().filter(|line| !listed.contains(line)).collect();
    let gone: Vec<&String> = listed.iter().filter(|line| !made.contains(line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
}
