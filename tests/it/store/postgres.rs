//! PostgreSQL alone: several daemons on one database, and a standby for reads.

mod inbox;
mod replica;
mod scrub;
mod silence;

use std::sync::Arc;

use futures::FutureExt as _;
use recapd_core::domain::{
    time::{HOUR_MS, Timestamp},
    work::{Lease, Reason},
};
use recapd_store::{
    ClaimRequest, SqlStore, Store as _, StoreError,
    postgres::{Clock, Member, PeerMessage, PostgresSettings},
};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::support::{
    PATIENCE,
    backend::postgres_settings,
    conversation::{ALL, LEASE_MS, T0, agent, append, claim, items, minute, patch, said, turns},
    postgres::{Database, execute},
};

/// Long enough on a busy machine, and far less than the server waits for a locked row.
const SOON: std::time::Duration = std::time::Duration::from_secs(2);
/// How often a write is polled while the test looks where it stands.
const STEPS_MAX: usize = 200;

/// Opens a daemon's store with the server's clock.
async fn daemon(database: &Database) -> Arc<SqlStore> {
    let settings = PostgresSettings { clock: Clock::Database, ..postgres_settings(database.url()) };
    Arc::new(SqlStore::open(&settings.into()).await.unwrap())
}

async fn member(store: &SqlStore, owner: &str) -> Member {
    store.join(owner).await.unwrap().expect("it is a server")
}

fn at(owner: &str, lease_ms: i64, now: Timestamp) -> ClaimRequest {
    ClaimRequest { lease_ms, ..claim(owner, 10, now) }
}

async fn wake(store: &SqlStore, name: &str, now: Timestamp) {
    let agent = agent(name);
    store.append(append(&agent, Vec::new())).await.unwrap();
    store.enqueue(&agent, Reason::Manual, 0, now).await.unwrap();
}

/// Claims until there is something.
async fn claim_soon(store: &SqlStore, request: ClaimRequest) -> Vec<Lease> {
    let end = Instant::now() + PATIENCE;
    loop {
        let leases = store.claim(request.clone()).await.unwrap();
        if !leases.is_empty() {
            return leases;
        }
        assert!(Instant::now() < end, "nothing can be claimed");
    }
}

/// Returns the next announcement, which must come soon.
async fn heard(ears: &mut Member) -> PeerMessage {
    let heard = timeout(PATIENCE, ears.hear()).await;
    heard.expect("something is heard")
}

/// T0 is hours before the server's time; another daemon's clock is `HOUR_MS` further off.
#[tokio::test]
async fn a_wrong_clock_neither_loses_nor_steals_a_lease() {
    let database = Database::create().await;
    let (slow, fast) = (daemon(&database).await, daemon(&database).await);
    let (early, late) = (T0, T0.plus_ms(48 * HOUR_MS));
    wake(&slow, "a", early).await;
    // A daemon whose clock is behind still sees that the row is due.
    let held = slow.claim(at("slow", 60_000, early)).await.unwrap();
    assert_eq!(held.len(), 1);
    // A daemon whose clock is far ahead thinks that the lease expired long ago, and still doesn't get it.
    assert_eq!(fast.claim(at("fast", 60_000, late)).await.unwrap(), []);
    let tokens: Vec<i64> = held.iter().map(|lease| lease.token).collect();
    assert_eq!(slow.renew(&held, early, 60_000).await.unwrap(), tokens);
    assert_eq!(fast.claim(at("fast", 60_000, late)).await.unwrap(), []);
    slow.release(&held, early).await.unwrap();
    // The server's clock also ends the lease of a daemon whose clock is ahead.
    let held = fast.claim(at("fast", 200, late)).await.unwrap();
    assert_eq!((held.len(), held[0].attempt), (1, 1));
    let taken = claim_soon(&slow, at("slow", 60_000, early)).await;
    assert_eq!((taken[0].attempt, taken[0].crashes), (2, 1));
    assert_eq!(fast.renew(&held, late, 60_000).await.unwrap(), [0; 0], "it is lost");
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_cancelled() {
    let database = Database::create().await;
    let settings = PostgresSettings { statement_timeout_ms: 100, ..postgres_settings(database.url()) };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let mut other = database.connect().await;
    execute(&mut other, "BEGIN; LOCK TABLE agents").await;
    let answer = timeout(PATIENCE, store.agent(&agent("a"))).await;
    let given_up = answer.expect("it is given up").expect_err("the table is locked");
    assert!(given_up.to_string().contains("statement timeout"), "{given_up}");
}

/// A transaction that it began is rolled back before the connection is used again.
#[tokio::test]
async fn giving_up_while_a_transaction_begins_leaves_none_open() {
    let database = Database::create().await;
    let settings = PostgresSettings { connections: 1, ..postgres_settings(database.url()) };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let a = agent("a");
    store.append(append(&a, turns(1..=1))).await.unwrap();
    let end = Instant::now() + PATIENCE;
    // The server is asked to begin, and nobody waits for the answer: on a busy machine it may be there already.
    loop {
        while store.connections().idle == 0 {
            assert!(Instant::now() < end, "the connection isn't given back");
            tokio::task::yield_now().await;
        }
        if store.summary(&a).now_or_never().is_none() {
            break;
        }
    }
    store.append(append(&a, turns(2..=2))).await.unwrap();
    let mut past = database.connect().await;
    let kept = "SELECT count(*) FROM message_log";
    let kept: i64 = sqlx::query_scalar(kept).fetch_one(&mut past).await.unwrap();
    assert_eq!(kept, 4);
}

#[tokio::test]
async fn only_one_daemon_holds_a_name() {
    let database = Database::create().await;
    let (one, other) = (daemon(&database).await, daemon(&database).await);
    let held = member(&one, "left").await;
    let refused = other.join("left").await.err().expect("it has the name");
    assert_eq!(refused.to_string(), "the name `left` (queue.owner) is in use by another recapd");
    assert!(matches!(refused, StoreError::InUse(_)));
    drop(member(&other, "right").await);
    drop(held);
    // The server notices it in its own time.
    let end = Instant::now() + PATIENCE;
    while let Err(refused) = other.join("left").await {
        assert!(matches!(refused, StoreError::InUse(_)), "{refused}");
        assert!(Instant::now() < end, "{refused}");
    }
}

#[tokio::test]
async fn daemons_hear_only_of_writes_that_concern_them() {
    let database = Database::create().await;
    let (one, other) = (daemon(&database).await, daemon(&database).await);
    let mut ears = member(&other, "other").await;
    let a = agent("a");
    // Announcements come only for turns that leave the window, not for those that fit.
    one.append(append(&a, turns(1..=1))).await.unwrap();
    one.append(append(&a, turns(2..=4))).await.unwrap();
    assert_eq!(heard(&mut ears).await, PeerMessage::Agent(a.clone()));
    one.enqueue(&a, Reason::Manual, 0, T0).await.unwrap();
    assert_eq!(heard(&mut ears).await, PeerMessage::Queue);
    let lease = claim_soon(&one, claim("one", 10, T0)).await.remove(0);
    assert_eq!(lease.agent, a);
    let material = one.material(&lease, ALL).await.unwrap();
    one.complete(&lease, patch(&material, items(&material), minute(2))).await.unwrap();
    assert_eq!(heard(&mut ears).await, PeerMessage::Agent(a.clone()), "once for all that one commit changes");
    one.delete_agent(&a, T0).await.unwrap();
    assert_eq!(heard(&mut ears).await, PeerMessage::Agent(a));
}

#[tokio::test]
async fn a_cut_connection_is_noticed_and_mended() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let mut ears = member(&store, "left").await;
    database.cut("recapd member").await;
    assert!(matches!(heard(&mut ears).await, PeerMessage::Lost(_)));
    assert_eq!(heard(&mut ears).await, PeerMessage::Back { has_name: true });
    wake(&store, "a", T0).await;
    assert_eq!(heard(&mut ears).await, PeerMessage::Queue);
}

/// After a partition the lost connection holds the name until the server notices; here another connection has it.
#[tokio::test]
async fn a_lost_name_is_retried_until_it_is_free() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let mut ears = member(&store, "left").await;
    let (mut past, mut look) = (database.connect().await, database.connect().await);
    let cut = async {
        until_waiting(&mut look, 1).await;
        database.cut("recapd member").await;
    };
    // It waits for the name, so it gets it before the daemon is back.
    let take = "SELECT pg_advisory_lock(hashtextextended('recapd left', 0))";
    tokio::join!(execute(&mut past, take), cut);
    assert!(matches!(heard(&mut ears).await, PeerMessage::Lost(_)));
    assert_eq!(heard(&mut ears).await, PeerMessage::Back { has_name: false });
    wake(&store, "a", T0).await;
    assert_eq!(heard(&mut ears).await, PeerMessage::Queue, "it hears without it, too");
    let free = "SELECT pg_advisory_unlock(hashtextextended('recapd left', 0))";
    execute(&mut past, free).await;
    assert_eq!(heard(&mut ears).await, PeerMessage::Named);
    let again = "SELECT pg_try_advisory_lock(hashtextextended('recapd left', 0))";
    let taken = sqlx::query_scalar::<_, bool>(again).fetch_one(&mut past).await;
    assert!(!taken.unwrap(), "the name is its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_operations_do_not_deadlock() {
    let database = Database::create().await;
    super::hammer::hammer(daemon(&database).await).await;
}

/// A long lock on an agent (by a large `forget`) holds up no other lease, and doesn't cost that agent its own.
#[tokio::test]
async fn a_locked_row_does_not_block_the_heartbeat() {
    let database = Database::create().await;
    let store = SqlStore::open(&postgres_settings(database.url()).into()).await.unwrap();
    for name in ["a", "b", "c"] {
        wake(&store, name, T0).await;
    }
    let leases = store.claim(at("daemon", LEASE_MS, T0)).await.unwrap();
    let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
    let mut past = database.connect().await;
    execute(&mut past, "BEGIN; SELECT 1 FROM summary_update_queue WHERE agent_id = 'b' FOR UPDATE").await;
    assert_eq!(store.renew(&leases, minute(1), LEASE_MS).await.unwrap(), tokens);
    // The others are extended; the locked one can't be claimed either.
    let later = minute(1).plus_ms(LEASE_MS - 1);
    assert_eq!(store.claim(at("other", LEASE_MS, later)).await.unwrap(), []);
    execute(&mut past, "ROLLBACK").await;
    assert_eq!(store.renew(&leases, minute(1), LEASE_MS).await.unwrap(), tokens);
    assert_eq!(store.claim(at("other", LEASE_MS, later)).await.unwrap(), []);
    // A lease that was lost while its row was locked is reported at the next beat.
    let lost = "BEGIN; UPDATE summary_update_queue SET lease_token = NULL WHERE agent_id = 'b'";
    execute(&mut past, lost).await;
    assert_eq!(store.renew(&leases, minute(2), LEASE_MS).await.unwrap(), tokens);
    execute(&mut past, "COMMIT").await;
    assert_eq!(store.renew(&leases, minute(2), LEASE_MS).await.unwrap(), [tokens[0], tokens[2]]);
}

/// A deadlock: the store gives way, and tries again.
#[tokio::test]
async fn a_transaction_that_gave_way_is_retried() {
    let database = Database::create().await;
    let store = SqlStore::open(&postgres_settings(database.url()).into()).await.unwrap();
    let a = agent("a");
    store.append(append(&a, turns(1..=2))).await.unwrap();
    let (mut past, mut look) = (database.connect().await, database.connect().await);
    execute(&mut past, "SET deadlock_timeout = '60s'; BEGIN; SELECT 1 FROM summary_update_queue WHERE agent_id = 'a' FOR UPDATE").await;
    let other = async {
        // The append has locked the agent, and waits for its row of the queue.
        until_waiting(&mut look, 1).await;
        let agent = "SELECT 1 FROM agents WHERE agent_id = 'a' FOR UPDATE; COMMIT";
        execute(&mut past, agent).await;
    };
    let (outcome, ()) = tokio::join!(store.append(append(&a, turns(3..=3))), other);
    assert_eq!(outcome.unwrap().first_exchange, 3);
    assert!(store.verify(&a).await.unwrap().breaches.is_empty());
}

/// Another daemon has stopped in the middle of a transaction, and its clients came here.
#[tokio::test]
async fn writes_of_locked_agents_hold_up_nothing_else() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let held: Vec<String> = (0..8).map(|number| format!("held-{number}")).collect();
    for name in held.iter().map(String::as_str).chain(["free"]) {
        wake(&store, name, T0).await;
    }
    let mut other = database.connect().await;
    execute(&mut other, "BEGIN; SELECT 1 FROM agents WHERE agent_id LIKE 'held-%' FOR UPDATE").await;
    let blocked = TaskTracker::new();
    let appends: Vec<_> = (0..24)
        .map(|number| {
            let (store, held) = (Arc::clone(&store), agent(&held[number % held.len()]));
            blocked.spawn(async move { store.append(append(&held, turns(1..=1))).await })
        })
        .collect();
    until_waiting(&mut database.connect().await, 1).await;
    for number in 1..=20 {
        let goes_on = async {
            store.ping().await.unwrap();
            store.append(append(&agent("free"), turns(number..=number))).await.unwrap();
            store.summary(&agent("held-0")).await.unwrap();
            store.claim(at("daemon", LEASE_MS, T0)).await.unwrap()
        };
        timeout(SOON, goes_on).await.expect("who writes to another agent doesn't wait");
    }
    assert!(appends.iter().all(|append| !append.is_finished()), "they are held");
    execute(&mut other, "ROLLBACK").await;
    for append in appends {
        append.await.unwrap().unwrap();
    }
}

/// A daemon that was stopped (its machine is suspended) can't end its transaction; the server does.
#[tokio::test]
async fn an_idle_transaction_is_ended_soon() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    wake(&store, "a", T0).await;
    let (mut gate, mut look) = (database.connect().await, database.connect().await);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'recapd' AND state = 'idle in transaction'";
    let a = agent("a");
    // Polled until the server waits for the next statement, which never comes.
    let stopped = async {
        loop {
            let mut append = Box::pin(store.append(append(&a, turns(1..=1))));
            for _ in 0..STEPS_MAX {
                if append.as_mut().now_or_never().is_some() {
                    break;
                }
                let idle: i64 = sqlx::query_scalar(idle).fetch_one(&mut look).await.unwrap();
                if idle == 1 && held(&mut gate).await {
                    return Some(append);
                }
            }
        }
    };
    let stopped = timeout(PATIENCE, stopped).await.expect("it stops in the midst of one");
    let other = daemon(&database).await;
    other.append(append(&a, turns(2..=2))).await.expect("the server has ended it");
    drop(stopped);
}

/// True if somebody has locked the agent.
async fn held(connection: &mut PgConnection) -> bool {
    let free = "SELECT count(*) FROM (SELECT 1 FROM agents WHERE agent_id = 'a' FOR UPDATE SKIP LOCKED) a";
    let free: i64 = sqlx::query_scalar(free).fetch_one(connection).await.unwrap();
    free == 0
}

/// Each transaction gets another server connection.
#[tokio::test]
async fn a_pooler_in_transaction_mode_is_named() {
    let database = Database::create().await;
    let settings = PostgresSettings { connections: 1, ..postgres_settings(database.url()) };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    store.append(append(&agent("a"), turns(1..=2))).await.unwrap();
    let forget = "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE ''DEALLOCATE ALL''; RETURN NULL; END'; \
                  CREATE TRIGGER forget AFTER INSERT ON agents FOR EACH ROW EXECUTE FUNCTION forget()";
    execute(&mut database.connect().await, forget).await;
    let failed = store.append(append(&agent("b"), turns(1..=2))).await.unwrap_err();
    assert!(failed.to_string().contains("pooler in transaction mode"), "{failed}");
}

/// A value that the server can't handle will never work: trying again is useless and would hold up others.
#[tokio::test]
async fn values_that_the_server_cannot_hold_are_refused_for_good() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let a = agent("a");
    // A key that is too long for an index, and a text that PostgreSQL can't hold: classes 54 and 22.
    let mut random = fastrand::Rng::with_seed(1);
    let long: String = (0..10_000).map(|_| random.alphanumeric()).collect();
    for client_id in [long, "x\0y".to_owned()] {
        let mut message = said("user", "Hello", 10, minute(1));
        message.message.client_id = Some(client_id);
        let refused = store.append(append(&a, vec![message])).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    assert!(store.summary(&a).await.unwrap().is_none(), "nothing was kept");
}

#[tokio::test]
async fn a_full_disk_is_recognised_by_its_code() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let mut past = database.connect().await;
    execute(
        &mut past,
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS \
         $$BEGIN RAISE EXCEPTION 'could not write' USING ERRCODE = 'disk_full'; END$$; \
         CREATE TRIGGER no_room BEFORE INSERT ON message_log FOR EACH ROW EXECUTE FUNCTION no_room()",
    )
    .await;
    let failed = store.append(append(&agent("a"), turns(1..=1))).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
    assert_eq!(failed.class(), Some("full"));
}

/// SQLite databases may hold times from clocks that show anything, and are copied and restored from.
#[tokio::test]
async fn times_outside_the_servers_range_are_clamped() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let a = agent("a");
    for at in [i64::MIN, -1_000_000_000_000_000] {
        let message = said("user", "Hello", 10, Timestamp(at));
        store.append(append(&a, vec![message])).await.unwrap();
    }
    let mut past = database.connect().await;
    let kept = "SELECT count(*) FROM message_log WHERE said_at = '4714-11-24 00:00:00+00 BC'";
    let kept: i64 = sqlx::query_scalar(kept).fetch_one(&mut past).await.unwrap();
    assert_eq!(kept, 2);
}

/// Counts the sessions that wait for a lock in this database.
async fn waiting(past: &mut PgConnection) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(sql).fetch_one(past).await.unwrap()
}

async fn until_waiting(look: &mut PgConnection, count: i64) {
    let end = Instant::now() + PATIENCE;
    while waiting(look).await < count {
        assert!(Instant::now() < end, "fewer than {count} wait for a lock");
    }
}

/// One statement creates queue rows for many agents, of which one is being deleted: its row would stay for ever.
#[tokio::test]
async fn an_agent_deleted_meanwhile_gets_no_queue_row() {
    let database = Database::create().await;
    let (one, other) = (daemon(&database).await, daemon(&database).await);
    let tasks = TaskTracker::new();
    let (mut holder, mut past) = (database.connect().await, database.connect().await);
    for revisit in [false, true] {
        let a = agent("a");
        one.append(append(&a, turns(1..=4))).await.unwrap();
        one.enqueue(&a, Reason::Manual, 0, T0).await.unwrap();
        let lease = claim_soon(&one, claim("one", 10, T0)).await.remove(0);
        let material = one.material(&lease, ALL).await.unwrap();
        one.complete(&lease, patch(&material, items(&material), minute(2))).await.unwrap();
        execute(&mut past, "DELETE FROM summary_update_queue").await;
        execute(&mut past, "UPDATE summaries SET next_ageing_at = to_timestamp(0)").await;
        execute(&mut past, "UPDATE summary_items SET provisional = true").await;
        // The deletion reaches this table after the queue's row is gone, and waits.
        execute(&mut holder, "BEGIN").await;
        execute(&mut holder, "LOCK TABLE update_runs IN EXCLUSIVE MODE").await;
        let deleting = tasks.spawn({
            let (store, a) = (Arc::clone(&one), a.clone());
            async move { store.delete_agent(&a, T0).await }
        });
        let end = Instant::now() + PATIENCE;
        while waiting(&mut past).await < 1 {
            assert!(Instant::now() < end, "the deletion waits for nobody");
        }
        let making = tasks.spawn({
            let store = Arc::clone(&other);
            async move {
                if revisit {
                    store.enqueue_revisits(minute(9), 10).await
                } else {
                    store.enqueue_ageing(minute(9), 10).await
                }
            }
        });
        while !making.is_finished() && waiting(&mut past).await < 2 {
            assert!(Instant::now() < end, "the other one waits for nobody");
        }
        execute(&mut holder, "COMMIT").await;
        deleting.await.unwrap().unwrap();
        assert_eq!(making.await.unwrap().unwrap(), 0, "revisits: {revisit}");
    }
}
