//! `database.read_url` with a streaming standby: what it answers, and who answers when it can't.

use std::sync::Arc;

use recapd_core::domain::{agent::AgentId, time::HOUR_MS};
use recapd_store::{
    MessageRange, MessageScope, SqlStore, Store as _, VersionQuery,
    postgres::{PostgresSettings, READ_PATIENCE_MS},
};
use sqlx::AssertSqlSafe;
use tokio::{task::JoinSet, time::Instant};

use super::scrub::{is_scrubbed, until_scrubbed};
use crate::support::{
    PATIENCE,
    backend::postgres_settings,
    conversation::{T0, agent, append, said, turns},
    postgres::execute,
    standby::{
        Server::{self, Primary, Standby},
        Servers, insist,
    },
};

/// Longer than any test takes.
const PATIENT_MS: u64 = 3_600_000;

/// Opens a store that waits for the standby as long as necessary: the machine may be busy with other tests.
async fn store(servers: &Servers, lag_ms_max: u64) -> SqlStore {
    open(servers, lag_ms_max, PATIENT_MS).await
}

/// Opens a store that soon gives up on a standby.
async fn impatient(servers: &Servers) -> SqlStore {
    open(servers, PATIENT_MS, READ_PATIENCE_MS).await
}

async fn open(servers: &Servers, lag_ms_max: u64, read_patience_ms: u64) -> SqlStore {
    let settings = PostgresSettings {
        read_url: Some(servers.url(Standby)),
        read_lag_ms_max: lag_ms_max,
        read_patience_ms,
        ..postgres_settings(servers.url(Primary))
    };
    SqlStore::open(&settings.into()).await.unwrap()
}

/// Returns how many messages of the exchange a reader sees, if it sees the exchange.
async fn seen(store: &SqlStore, agent: &AgentId, exchange: i64, is_current: bool) -> Option<usize> {
    let range = MessageRange {
        after_seq: 0,
        messages_max: 10,
        bytes_max: 10_000,
        is_current,
        scope: MessageScope::All,
    };
    let expanded = store.expand(agent, exchange, range).await.unwrap();
    expanded.map(|expanded| expanded.messages.len())
}

/// True if a reader sees the exchange.
async fn sees(store: &SqlStore, agent: &AgentId, exchange: i64) -> bool {
    seen(store, agent, exchange, false).await.is_some()
}

/// Returns how many agents a sample counts, which tells the standby's answer from the primary's.
async fn agents(store: &SqlStore) -> i64 {
    store.sample(T0, HOUR_MS).await.unwrap().agents
}

async fn join(store: &SqlStore, name: &str) -> AgentId {
    let agent = agent(name);
    store.append(append(&agent, turns(1..=2))).await.unwrap();
    agent
}

/// Waits until the condition holds.
async fn until(servers: &Servers, server: Server, condition: &str) {
    let end = Instant::now() + PATIENCE;
    while !holds(servers, server, condition).await {
        assert!(Instant::now() < end, "it never is so: {condition}");
    }
}

/// Connects anew each time: a standby whose replay conflicts with a query may close the connection for good.
async fn holds(servers: &Servers, server: Server, condition: &str) -> bool {
    insist(async || {
        let sql = AssertSqlSafe(format!("SELECT {condition}"));
        let mut connection = servers.connect(server).await;
        sqlx::query_scalar(sql).fetch_one(&mut connection).await
    })
    .await
}

/// Waits until the standby has replayed everything written.
async fn until_replayed(servers: &Servers) {
    let position: String = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text")
        .fetch_one(&mut servers.connect(Primary).await)
        .await
        .unwrap();
    // The server sends commits that aren't durable in its own time; switching the file makes it send them.
    execute(&mut servers.connect(Primary).await, "SELECT pg_switch_wal()").await;
    let replayed = format!("pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
    until(servers, Standby, &replayed).await;
}

/// Pauses the standby's replay.
async fn pause(servers: &Servers) {
    tell_standby(servers, "SELECT pg_wal_replay_pause()").await;
    until(servers, Standby, "pg_get_wal_replay_pause_state() = 'paused'").await;
}

#[tokio::test]
async fn a_standby_only_answers_reads_that_may_be_stale() {
    let servers = Servers::start().await;
    let store = store(&servers, PATIENT_MS).await;
    let a = join(&store, "a").await;
    until_replayed(&servers).await;
    assert!(sees(&store, &a, 1).await);
    assert_eq!(agents(&store).await, 1);

    pause(&servers).await;
    let b = join(&store, "b").await;
    assert_eq!(agents(&store).await, 1, "the standby's answer");
    // An agent sees its own messages.
    assert!(store.agent(&b).await.unwrap().is_some());
    assert!(store.summary(&b).await.unwrap().is_some());
    // If the standby doesn't know an exchange, it may be new.
    assert!(sees(&store, &b, 1).await);
    // A model must see everything that was said.
    let late = said("assistant", "one more thing", 1, T0);
    store.append(append(&a, vec![late])).await.unwrap();
    let (old, new) = (seen(&store, &a, 2, false).await, seen(&store, &a, 2, true).await);
    assert_eq!(old.map(|messages| messages + 1), new);
    let query = VersionQuery { before: None, limit: 10 };
    assert_eq!(store.versions(&b, query).await.unwrap().len(), 0);
    // A store that allows no lag doesn't use a paused standby.
    assert_eq!(agents(&self::store(&servers, 0).await).await, 2);

    execute(&mut servers.connect(Standby).await, "SELECT pg_wal_replay_resume()").await;
    until_replayed(&servers).await;
    assert_eq!(agents(&store).await, 2);
    let none_written = "sum(n_tup_ins + n_tup_upd + n_tup_del) = 0 FROM pg_stat_user_tables";
    assert!(holds(&servers, Standby, none_written).await);
}

/// A read may end half-way in two ways: its connection is cut, or replay goes first.
#[tokio::test]
async fn the_primary_answers_reads_that_a_standby_breaks_off() {
    let servers = Servers::start().await;
    for (name, is_cut) in [("a", true), ("b", false)] {
        let store = Arc::new(store(&servers, PATIENT_MS).await);
        let a = join(&store, name).await;
        until_replayed(&servers).await;
        // The standby has the lock, too, so that the read stops half-way.
        let (mut first, mut second) = (servers.connect(Primary).await, servers.connect(Primary).await);
        execute(&mut first, "BEGIN; LOCK TABLE message_log IN ACCESS EXCLUSIVE MODE").await;
        until_replayed(&servers).await;
        let mut reading = JoinSet::new();
        reading.spawn({
            let (store, a) = (Arc::clone(&store), a.clone());
            async move { sees(&store, &a, 1).await }
        });
        let waits = "count(*) = 1 FROM pg_stat_activity WHERE application_name = 'recapd' AND wait_event_type = 'Lock'";
        let (mut primary, mut standby) = (servers.connect(Primary).await, servers.connect(Standby).await);
        until(&servers, Standby, waits).await;
        if is_cut {
            let cut =
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'recapd'";
            execute(&mut standby, cut).await;
        } else {
            execute(&mut second, "BEGIN; LOCK TABLE exchange_log IN ACCESS EXCLUSIVE MODE").await;
            execute(&mut primary, "SELECT pg_switch_wal()").await;
        }
        until(&servers, Primary, waits).await;
        execute(&mut second, "ROLLBACK").await;
        execute(&mut first, "ROLLBACK").await;
        assert_eq!(reading.join_all().await, [true]);
    }
    let conflict = "sum(confl_lock) > 0 FROM pg_stat_database_conflicts";
    until(&servers, Standby, conflict).await;
}

#[tokio::test]
async fn the_primary_replaces_a_standby_that_is_down_or_promoted() {
    let servers = Servers::start().await;
    let before = impatient(&servers).await;
    let a = join(&before, "a").await;
    until_replayed(&servers).await;
    assert_eq!(agents(&before).await, 1);
    servers.stop(Standby);
    join(&before, "b").await;
    assert_eq!(agents(&before).await, 2, "a connection that is gone");
    let without = impatient(&servers).await;
    assert_eq!(agents(&without).await, 2, "none to connect to");

    servers.start_one(Standby);
    until_replayed(&servers).await;
    let after = impatient(&servers).await;
    assert_eq!(agents(&after).await, 2);
    // A promoted standby doesn't get later writes, and would accept writes itself.
    servers.promote();
    join(&after, "c").await;
    assert_eq!(agents(&after).await, 3, "a connection from before");
    assert_eq!(agents(&impatient(&servers).await).await, 3);
    assert!(sees(&after, &a, 1).await);
    assert!(holds(&servers, Standby, "NOT pg_is_in_recovery()").await);
    let none_written = "sum(n_tup_ins + n_tup_upd + n_tup_del) = 0 FROM pg_stat_user_tables";
    assert!(holds(&servers, Standby, none_written).await);
    assert!(holds(&servers, Standby, "count(*) = 2 FROM agents").await);
}

/// A standby may make the server keep what the standby's readers see (`hot_standby_feedback`).
#[tokio::test]
async fn scrubbing_is_not_confirmed_while_a_standby_may_see_the_rows() {
    let servers = Servers::start().await;
    let store = SqlStore::open(&postgres_settings(servers.url(Primary)).into()).await.unwrap();
    set_feedback(&servers, "on").await;
    until(&servers, Primary, "count(xmin) = 1 FROM pg_replication_slots").await;
    // Cleanups from before the server knew of the reader, and not replayed yet, would cancel the read.
    until_replayed(&servers).await;
    let read = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    let scrubbed = insist(async || {
        let mut standby = servers.connect(Standby).await;
        sqlx::raw_sql(read).execute(&mut standby).await?;
        let scrubbed = is_scrubbed(&store).await;
        sqlx::raw_sql("ROLLBACK").execute(&mut standby).await?;
        Ok(scrubbed)
    })
    .await;
    assert!(!scrubbed);
    set_feedback(&servers, "off").await;
    until(&servers, Primary, "count(xmin) = 0 FROM pg_replication_slots").await;
    until_scrubbed(&store, read).await;
}

/// Two statements: a server setting can't be changed in a transaction.
async fn set_feedback(servers: &Servers, to: &str) {
    tell_standby(servers, &format!("ALTER SYSTEM SET hot_standby_feedback = {to}")).await;
    tell_standby(servers, "SELECT pg_reload_conf()").await;
}

/// Runs a statement on the standby, however often replay goes first.
async fn tell_standby(servers: &Servers, sql: &str) {
    insist(async || {
        let mut standby = servers.connect(Standby).await;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut standby).await
    })
    .await;
}
