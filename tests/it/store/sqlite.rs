//! SQLite alone: one daemon at a time, readers next to it, and the schema.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

use recapd_core::domain::{
    recall::{ArchiveSearch, Query},
    redaction::Redactor,
};
use recapd_store::{
    Forget, Forgettable, SqlStore, Store as _, StoreError,
    backup::take,
    examine,
    sqlite::{SqliteSettings, file_of, url_of},
};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use super::SqliteBackend;
use crate::support::{
    backend::{Backend as _, sqlite_settings},
    conversation::{T0, agent, append, minute, rules, said, turns},
};

fn refusal(opened: Result<SqlStore, StoreError>) -> StoreError {
    opened.err().expect("it opened")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_operations_keep_the_data_sound() {
    super::hammer::hammer(SqliteBackend::fresh().await.target()).await;
}

#[tokio::test]
async fn one_daemon_holds_a_database() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder);
    let first = SqlStore::open(&settings.clone().into()).await.unwrap();
    assert!(matches!(refusal(SqlStore::open(&settings.clone().into()).await), StoreError::InUse(_)));
    first.append(append(&agent("a"), turns(1..=3))).await.unwrap();
    // Others may read meanwhile, and write as far as SQLite lets them.
    let looker = SqlStore::look(&settings.clone().into()).await.unwrap();
    assert_eq!(looker.verify(&agent("a")).await.unwrap().messages, 6);
    looker.append(append(&agent("a"), turns(4..=4))).await.unwrap();
    assert_eq!(first.verify(&agent("a")).await.unwrap().messages, 8);
    looker.close().await;
    first.close().await;
    let again = SqlStore::open(&settings.clone().into()).await.unwrap();
    assert_eq!(again.verify(&agent("a")).await.unwrap().messages, 8);
}

/// By any name: a link leads to the same lock, and a file with two names would have two logs.
#[tokio::test]
async fn one_daemon_holds_a_file_whatever_its_names() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder);
    let at = |name: &str| SqliteSettings { url: url_of(&folder.path().join(name)), ..settings.clone() };
    let file = file_of(&settings.url).unwrap();
    let first = SqlStore::open(&settings.clone().into()).await.unwrap();
    first.append(append(&agent("a"), turns(1..=3))).await.unwrap();
    std::os::unix::fs::symlink(&file, folder.path().join("link.db")).unwrap();
    let held = refusal(SqlStore::open(&at("link.db").into()).await);
    assert!(matches!(held, StoreError::InUse(_)), "{held}");
    std::fs::hard_link(&file, folder.path().join("other.db")).unwrap();
    for opened in [SqlStore::open(&at("other.db").into()).await, SqlStore::look(&at("other.db").into()).await]
    {
        let refused = refusal(opened);
        assert!(refused.to_string().contains("has another name"), "{refused}");
    }
    let refused = first.append(append(&agent("a"), turns(4..=4))).await.unwrap_err();
    assert!(refused.to_string().contains("has another name"), "{refused}");
    assert!(first.ping().await.is_err());
    std::fs::remove_file(folder.path().join("other.db")).unwrap();
    first.append(append(&agent("a"), turns(4..=4))).await.unwrap();
    // The content of the log would be lost.
    let log = folder.path().join(format!("{}-wal", file.file_name().unwrap().display()));
    std::fs::rename(&log, folder.path().join("log")).unwrap();
    let refused = first.append(append(&agent("a"), turns(5..=5))).await.unwrap_err();
    assert!(refused.to_string().contains("isn't there any more"), "{refused}");
    assert!(first.ping().await.is_err());
    std::fs::rename(folder.path().join("log"), &log).unwrap();
    assert_eq!(first.verify(&agent("a")).await.unwrap().messages, 8);
    first.close().await;
    let again = SqlStore::open(&at("link.db").into()).await.unwrap();
    assert_eq!(again.verify(&agent("a")).await.unwrap().messages, 8);
}

#[tokio::test]
async fn a_file_can_be_examined_while_it_is_open() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder).into();
    let store = SqlStore::open(&settings).await.unwrap();
    store.append(append(&agent("a"), turns(1..=3))).await.unwrap();
    examine::can_be_written(&settings).await.unwrap();
    assert_eq!(examine::damage(&settings).await.unwrap(), None);
    store.append(append(&agent("a"), turns(4..=4))).await.unwrap();
    assert_eq!(store.verify(&agent("a")).await.unwrap().messages, 8);
    store.close().await;
}

#[tokio::test]
async fn a_partial_backup_is_deleted_unless_kept() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder).into();
    let store = SqlStore::open(&settings).await.unwrap();
    store.append(append(&agent("a"), turns(1..=3))).await.unwrap();
    let file = folder.path().join("backup");
    let part = take(&settings, &file).await.unwrap();
    let looker = SqlStore::look(&part.settings()).await.unwrap();
    assert_eq!(looker.verify(&agent("a")).await.unwrap().messages, 6);
    looker.close().await;
    drop(part);
    assert!(!folder.path().join("backup.part").exists() && !file.exists());
    let part = take(&settings, &file).await.unwrap();
    assert!(part.keep().await.unwrap() > 0 && file.exists());
    store.close().await;
}

/// SQLite gives the log and its index the database's mode, whatever the umask is.
#[tokio::test]
async fn an_open_database_is_its_owners_or_its_groups() {
    for (folder_mode, expected) in [(0o755, 0o600), (0o2770, 0o660)] {
        let folder = TempDir::new().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
        let store = SqlStore::open(&sqlite_settings(&folder).into()).await.unwrap();
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 4, "the database, its log, the log's index, the lock: {files:?}");
        for file in files {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{file:?}");
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_missing_database_is_not_opened_for_reading() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder);
    assert!(matches!(refusal(SqlStore::look(&settings.clone().into()).await), StoreError::Unavailable(_)));
    let nowhere = SqliteSettings { url: "sqlite:/nowhere/at/all.db".to_owned(), ..settings };
    assert!(matches!(refusal(SqlStore::open(&nowhere.into()).await), StoreError::Unavailable(_)));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = TempDir::new().unwrap();
    let settings = sqlite_settings(&folder);
    SqlStore::open(&settings.clone().into()).await.unwrap().close().await;
    let mut connection = SqliteConnection::connect(&settings.url).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'x', 1, x'00', 0)";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    assert!(matches!(refusal(SqlStore::open(&settings.clone().into()).await), StoreError::Schema(_)));
}

#[tokio::test]
async fn seeds_views_show_the_documents() {
    let db = SqliteBackend::fresh().await;
    super::with_pending(&db, "a", 1).await;
    let summary = "SELECT agent_id || ' ' || version || ' ' || covers_through || ' ' || first_exchange FROM agent_summary";
    assert_eq!(db.text(summary).await.as_deref(), Some("a 0 0 2"));
    assert_eq!(db.number("SELECT count(*) FROM summary_documents WHERE content = ''").await, Some(1));
    let processing = "SELECT processing FROM summary_update_queue";
    assert_eq!(db.number(processing).await, Some(0));
    super::the_lease(&db, minute(10)).await;
    assert_eq!(db.number(processing).await, Some(1));
}

/// Somebody who holds the write lock for too long makes writes fail, and nothing else: reads continue, and so do later writes.
#[tokio::test]
async fn a_locked_database_recovers() {
    let folder = TempDir::new().unwrap();
    let settings = SqliteSettings { busy_timeout_ms: 0, ..sqlite_settings(&folder) };
    let store = SqlStore::open(&settings.clone().into()).await.unwrap();
    store.append(append(&agent("a"), turns(1..=2))).await.unwrap();
    let mut other = SqliteConnection::connect(&settings.url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    for _ in 0..3 {
        let refused = store.append(append(&agent("a"), turns(3..=3))).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    }
    assert_eq!(store.verify(&agent("a")).await.unwrap().messages, 4);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.append(append(&agent("a"), turns(3..=3))).await.unwrap();
    assert_eq!(store.verify(&agent("a")).await.unwrap().messages, 6);
}

/// A failing operation leaves no trace in the commit that it shares with others.
#[tokio::test]
async fn a_failing_operation_affects_no_other() {
    let db = SqliteBackend::fresh().await;
    let store = db.store();
    let work = (0..30).map(|n| {
        let store = db.store();
        async move {
            if n % 3 == 0 {
                let nobody = store.end_session(&agent("nobody"), T0).await;
                assert!(matches!(nobody, Err(StoreError::UnknownAgent(_))));
            } else {
                store.append(append(&agent("a"), turns(n..=n))).await.unwrap();
            }
        }
    });
    futures::future::join_all(work).await;
    assert_eq!(store.verify(&agent("a")).await.unwrap().messages, 40);
    assert_eq!(db.number("SELECT count(*) FROM agents").await, Some(1));
}

/// All agents' messages share one index, but an agent's search isn't affected by the others' messages.
#[tokio::test]
async fn other_agents_messages_do_not_affect_a_search() {
    let db = SqliteBackend::fresh().await;
    let query = ArchiveSearch::new(Query::parse("question").unwrap(), 10);
    let searched = async || {
        let searched = db.store().search(&agent("a"), &query).await.unwrap().unwrap();
        (searched.found.len(), searched.unsearched)
    };
    db.store().append(append(&agent("a"), turns(1..=2))).await.unwrap();
    db.store().append(append(&agent("b"), turns(1..=2))).await.unwrap();
    assert_eq!(searched().await, (2, 0));
    // As if others had written thirty thousand messages since, none of them indexed.
    db.raw("UPDATE message_log SET id = id + 30000 WHERE agent_id = 'b'").await;
    assert_eq!(searched().await, (2, 0));
    assert_eq!(db.store().index_messages(3).await.unwrap(), 3);
    assert_eq!(searched().await, (2, 0));
}

/// PostgreSQL refuses such a time at the insert.
#[tokio::test]
async fn a_row_of_an_impossible_time_is_refused() {
    let db = SqliteBackend::fresh().await;
    let seconds =
        "INSERT INTO messages (agent_id, role, content, created_at) VALUES ('a', 'user', 'x', -90000000000)";
    db.raw(seconds).await;
    super::inbox::empty(&db, &super::inbox::ingestor(&db).0).await;
    let refused = db.text("SELECT reason FROM refused_messages").await.unwrap();
    assert!(refused.starts_with("created_at is no time between"), "{refused}");
    assert_eq!(db.number("SELECT count(*) FROM message_log").await, Some(0));
}

/// PostgreSQL has no such texts.
#[tokio::test]
async fn a_text_with_invalid_utf8_holds_nobody_up() {
    let db = SqliteBackend::fresh().await;
    for row in [
        "'a', 'user', CAST(x'68c3a9ff20e4' AS TEXT)",
        "CAST(x'61ff' AS TEXT), 'user', 'Hi'",
        "'b', 'user', 'Hello'",
    ] {
        db.raw(&format!("INSERT INTO messages (agent_id, role, content) VALUES ({row})")).await;
    }
    super::inbox::empty(&db, &super::inbox::ingestor(&db).0).await;
    assert_eq!(super::inbox::told(&db, "b").await, "user Hello");
    let refused = async |agent: &str| {
        let sql =
            format!("SELECT content || ': ' || reason FROM refused_messages WHERE agent_id = '{agent}'");
        db.text(&sql).await.unwrap_or_default()
    };
    let content = refused("a").await;
    assert!(content.starts_with("68C3A9FF20E4: content is no UTF-8"), "{content}");
    let name = refused("61FF").await;
    assert!(name.starts_with("4869: agent id ``"), "{name}");
}

/// True if any of the files in `folder` contains `words`.
fn holds(folder: &TempDir, words: &str) -> bool {
    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut contents = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    contents.any(|bytes| bytes.windows(words.len()).any(|window| window == words.as_bytes()))
}

#[tokio::test]
async fn forgotten_text_is_gone_from_the_files() {
    let folder = TempDir::new().unwrap();
    let store = SqlStore::open(&sqlite_settings(&folder).into()).await.unwrap();
    // Long texts are on pages of their own; the index stores words without common prefixes.
    let text = format!("qxylocopa {}", "zygomorph ".repeat(2_000));
    let messages = vec![said("user", &text, 40, minute(1)), said("assistant", "Yes", 60, minute(1))];
    store.append(append(&agent("a"), messages)).await.unwrap();
    store.append(append(&agent("a"), turns(2..=40))).await.unwrap();
    while store.index_messages(10).await.unwrap() > 0 {}
    for words in ["xylocopa", "ygomorph"] {
        assert!(holds(&folder, words), "{words}");
    }
    let wish = Forget {
        agent: agent("a"),
        what: Forgettable::Exchanges(vec![1]),
        rules: rules(),
        redactor: Redactor::standard(),
        now: minute(100),
    };
    assert!(store.forget(wish).await.unwrap().is_scrubbed);
    for words in ["xylocopa", "ygomorph"] {
        assert!(!holds(&folder, words), "{words}");
    }
    assert!(holds(&folder, "Question 30"));
    assert!(store.delete_agent(&agent("a"), T0).await.unwrap().is_scrubbed);
    assert!(!holds(&folder, "Question 30") && !holds(&folder, "uestion"));
}
