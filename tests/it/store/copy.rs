//! A database and its copy are the same, whichever kinds they are.

use std::{
    sync::{Mutex, Once},
    time::Duration,
};

use recapd_store::{
    SqlStore, Store as _, StoreError,
    copy::{CopyError, CopyProgress, CopyReport, copy},
    schema,
};
use sqlx::{Connection as _, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{runtime::Handle, task::block_in_place};
use tokio_util::task::TaskTracker;

use super::schema::Place;
use crate::support::{
    backend::{Backend, PostgresBackend, SqliteBackend, TABLES, assert_same, sqlite_settings},
    conversation::{agent, append, claim, minute, said, turns},
};

/// What an agent that uses SQL does.
const INSERT: &str = "INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', 'Hello')";

async fn copied(from: &Place, to: &Place) -> Result<CopyReport, CopyError> {
    copy(&from.settings(), &to.settings(), &|_| {}).await
}

/// Works like [`copied`], and does `what` while the source is being read.
async fn copied_while(
    from: &Place,
    to: &Place,
    what: impl AsyncFn() + Send + Sync,
) -> Result<CopyReport, CopyError> {
    let once = Once::new();
    let told = |_: CopyProgress<'_>| once.call_once(|| block_in_place(|| Handle::current().block_on(what())));
    copy(&from.settings(), &to.settings(), &told).await
}

async fn over(place: Place) -> Box<dyn Backend> {
    match place {
        Place::Sqlite(folder) => Box::new(SqliteBackend::over(folder).await),
        Place::Postgres(database) => Box::new(PostgresBackend::over(*database).await),
    }
}

/// Runs random lives of agents, and some events that chance doesn't think of.
async fn live(db: &dyn Backend) {
    super::hands::an_operator_may_act_at_any_time(db).await;
    let store = db.store();
    store.append(append(&agent("held"), turns(1..=6))).await.unwrap();
    let held = store.claim(claim("daemon", 10, minute(1_000_000))).await.unwrap();
    assert!(!held.is_empty());
    store.take_slot("ageing", minute(1), minute(2)).await.unwrap();
    store.begin_recount(&agent("held")).await.unwrap();
}

/// Dumps a database, with leases released as after a copy.
async fn state(db: &dyn Backend) -> String {
    db.raw(
        "UPDATE summary_update_queue SET visible_at = queued_at, lease_owner = NULL, leased_at = NULL, \
         attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END, lease_token = NULL \
         WHERE lease_token IS NOT NULL",
    )
    .await;
    // SQLite numbers messages itself; only the copy's checksums compare those numbers.
    let tables: Vec<&str> = TABLES.into_iter().filter(|&table| table != "message_log").collect();
    db.dump(&tables).await
}

async fn there_and_back(from: Place, there: Place, back: Place) {
    let went = copied(&from, &there).await.unwrap();
    assert!(went.rows() > 100 && went.leases_released > 0 && went.lease_token > 0, "{went:?}");
    let store = SqlStore::look(&there.settings()).await.unwrap();
    for row in store.agents(None, 1_000).await.unwrap() {
        assert_eq!(store.verify(&row.agent).await.unwrap().breaches, []);
    }
    store.close().await;

    let came = copied(&there, &back).await.unwrap();
    assert_eq!(went.tables.len(), came.tables.len());
    assert!(went.lease_token <= came.lease_token);
    for (went, came) in went.tables.iter().zip(&came.tables) {
        // Leases were held there and are free here.
        assert!(went == came || went.table == "summary_update_queue", "{went:?}, {came:?}");
    }
    let (before, after) = (over(from).await, over(back).await);
    assert_same(&state(before.as_ref()).await, &state(after.as_ref()).await, "there and back");
    work_goes_on(after.as_ref()).await;
}

/// Automatic numbers continue after the copied ones, and recall finds the messages again.
async fn work_goes_on(db: &dyn Backend) {
    let store = db.store();
    let most = "SELECT max(lease_token) FROM summary_versions";
    let last = db.number(most).await.unwrap_or(0);
    let leases = store.claim(claim("another", 1, minute(2_000_000))).await.unwrap();
    assert!(leases.first().is_some_and(|lease| lease.token > last));
    let said = vec![said("user", "a zebra in the garden", 5, minute(2_000_001))];
    store.append(append(&agent("held"), said)).await.unwrap();
    assert_eq!(store.verify(&agent("held")).await.unwrap().breaches, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn any_life_survives_a_copy_to_postgres_and_back() {
    let db = SqliteBackend::fresh().await;
    live(&db).await;
    let from = Place::Sqlite(db.closed().await);
    there_and_back(from, Place::postgres().await, Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn any_life_survives_a_copy_to_sqlite_and_back() {
    let db = PostgresBackend::fresh().await;
    live(&db).await;
    let from = Place::Postgres(Box::new(db.closed().await));
    there_and_back(from, Place::sqlite(), Place::postgres().await).await;
}

#[tokio::test]
async fn the_same_kind_of_database_is_copied_too() {
    let from = with_turns(Place::sqlite()).await;
    let (file, one, other) = (Place::sqlite(), Place::postgres().await, Place::postgres().await);
    let sums = |mut copied: CopyReport| {
        copied.tables.sort_by(|one, other| one.table.cmp(&other.table));
        copied.tables
    };
    let first = sums(copied(&from, &file).await.unwrap());
    assert_eq!(sums(copied(&file, &one).await.unwrap()), first);
    assert_eq!(sums(copied(&one, &other).await.unwrap()), first);
}

async fn with_turns(place: Place) -> Place {
    let store = SqlStore::open(&place.settings()).await.unwrap();
    store.append(append(&agent("a"), turns(1..=3))).await.unwrap();
    store.close().await;
    place
}

#[tokio::test]
async fn a_target_with_anything_in_it_is_refused() {
    for to in [Place::sqlite(), Place::postgres().await] {
        let (from, to) = (with_turns(Place::sqlite()).await, with_turns(to).await);
        let refused = copied(&from, &to).await.unwrap_err();
        assert!(matches!(refused, CopyError::NotEmpty(_)), "{refused}");
        assert_eq!(over(to).await.number("SELECT count(*) FROM message_log").await, Some(6));
    }
}

#[tokio::test]
async fn neither_database_may_be_in_use() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::postgres().await);
    let daemon = SqlStore::open(&from.settings()).await.unwrap();
    let refused = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refused, CopyError::Source(StoreError::InUse(_))), "{refused}");
    daemon.close().await;
    let daemon = SqlStore::open(&to.settings()).await.unwrap();
    let refused = copied(&from, &to).await.unwrap_err();
    assert!(matches!(refused, CopyError::InUse("target")), "{refused}");
    daemon.close().await;
    copied(&from, &to).await.unwrap();
}

/// Counts the sessions that wait for a lock in this database.
async fn waiting(look: &mut PgConnection) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(sql).fetch_one(look).await.unwrap()
}

/// A message inserted now would be in the source only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_into_a_server_meanwhile_ends_the_copy() {
    let (from, to) = (with_turns(Place::postgres().await).await, Place::sqlite());
    let Place::Postgres(source) = &from else { unreachable!() };
    let tasks = TaskTracker::new();
    let insert = async || {
        let (mut agent, mut look) = (source.connect().await, source.connect().await);
        let inserting = tasks.spawn(async move {
            sqlx::query(INSERT).execute(&mut agent).await.unwrap();
        });
        while !inserting.is_finished() && waiting(&mut look).await == 0 {}
    };
    let refused = copied_while(&from, &to, insert).await.unwrap_err();
    assert!(matches!(refused, CopyError::Inserts), "{refused}");
    tasks.close();
    tasks.wait().await;
    // By now the message is stored there, and the next copy has it.
    copied(&from, &to).await.unwrap();
    let inserted = "SELECT count(*) FROM message_inbox";
    assert_eq!(over(to).await.number(inserted).await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_takes_no_inserts_meanwhile() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::postgres().await);
    let Place::Sqlite(folder) = &from else { unreachable!() };
    let refused = Mutex::new(String::new());
    let insert = async || {
        let options: SqliteConnectOptions = sqlite_settings(folder).url.parse().unwrap();
        let options = options.busy_timeout(Duration::ZERO);
        let mut agent = SqliteConnection::connect_with(&options).await.unwrap();
        let inserted = sqlx::query(INSERT).execute(&mut agent).await;
        *refused.lock().unwrap() = inserted.unwrap_err().to_string();
    };
    copied_while(&from, &to, insert).await.unwrap();
    let refused = refused.into_inner().unwrap();
    assert!(refused.contains("locked"), "{refused}");
}

/// True if the copy from this source has just asked for other connections.
async fn has_asked(look: &mut PgConnection) -> bool {
    let sql = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() \
               AND query LIKE '-- postgres/copy.others%'";
    sqlx::query_scalar(sql).fetch_one(look).await.unwrap()
}

/// A `recapd status` may happen to run when the copy finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_brief_reader_of_the_source_does_not_fail_the_copy() {
    let (from, to) = (with_turns(Place::postgres().await).await, Place::sqlite());
    let tasks = TaskTracker::new();
    let Place::Postgres(source) = &from else { unreachable!() };
    let look = async || {
        let store = SqlStore::look(&from.settings()).await.unwrap();
        let mut look = source.connect().await;
        tasks.spawn(async move {
            while !has_asked(&mut look).await {}
            store.close().await;
        });
    };
    copied_while(&from, &to, look).await.unwrap();
}

#[tokio::test]
async fn a_failed_write_leaves_nothing() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::postgres().await);
    schema::up(&to.settings()).await.unwrap();
    to.raw("ALTER TABLE message_log ADD CHECK (seq < 6)").await;
    let failed = copied(&from, &to).await.unwrap_err();
    assert!(matches!(failed, CopyError::Target(StoreError::Refused(_))), "{failed}");
    let to = over(to).await;
    assert_eq!(to.number("SELECT count(*) FROM agents").await, Some(0));
}

#[tokio::test]
async fn a_source_must_exist_and_be_up_to_date() {
    let to = Place::postgres().await;
    let missing = copied(&Place::sqlite(), &to).await.unwrap_err();
    assert!(matches!(missing, CopyError::Source(StoreError::Unavailable(_))), "{missing}");
    let empty = copied(&to, &Place::sqlite()).await.unwrap_err();
    assert!(matches!(empty, CopyError::Source(StoreError::Schema(_))), "{empty}");
}

#[tokio::test]
async fn databases_with_different_tables_are_refused() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::postgres().await);
    schema::up(&to.settings()).await.unwrap();
    to.raw("ALTER TABLE agents ADD COLUMN mood text").await;
    let unlike = copied(&from, &to).await.unwrap_err();
    assert!(unlike.to_string().contains("column agents.mood"), "{unlike}");
}

#[tokio::test]
async fn the_target_file_alone_has_everything() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::sqlite());
    copied(&from, &to).await.unwrap();
    let Place::Sqlite(folder) = &to else { unreachable!() };
    let log = std::fs::metadata(folder.path().join("recapd.db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0);
}

#[tokio::test]
async fn a_time_outside_postgresqls_range_is_clamped() {
    let (from, to) = (with_turns(Place::sqlite()).await, Place::postgres().await);
    from.raw("UPDATE message_log SET said_at = -300000000000000 WHERE seq = 2").await;
    from.raw("UPDATE message_log SET said_at = 9000000000000000000 WHERE seq = 3").await;
    assert_eq!(copied(&from, &to).await.unwrap().texts_changed, 0);
}

#[tokio::test]
async fn a_nul_is_replaced_and_counted() {
    let (from, to, back) = (with_turns(Place::sqlite()).await, Place::postgres().await, Place::sqlite());
    from.raw("UPDATE message_log SET payload = payload || char(0), speaker = 'a' || char(0) WHERE seq = 2")
        .await;
    assert_eq!(copied(&from, &to).await.unwrap().texts_changed, 2);
    assert_eq!(copied(&to, &back).await.unwrap().texts_changed, 0);
    let speaker = "SELECT speaker FROM message_log WHERE seq = 2";
    assert_eq!(over(back).await.text(speaker).await.as_deref(), Some("a\u{fffd}"));
}
