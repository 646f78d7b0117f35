//! What is PostgreSQL's alone: several daemons on one database.

use std::{collections::BTreeSet, sync::Arc};

use recapd::{
    domain::{
        agent::AgentId,
        batch::BatchState,
        time::{HOUR_MS, Timestamp},
        work::{Lease, Reason},
    },
    store::{
        ClaimRequest, Material, MessageRange, Prune, Settle, SqlStore, Store as _, StoreError,
        batch::{BatchEnd, BatchLine, BatchMove, BatchQuestion, BatchReply, BatchStore as _, Gather},
        postgres::{Clock, Heard, Member, PostgresSettings},
    },
};
use tokio::task::JoinSet;

use crate::support::{
    backend::postgres_settings,
    conversation::{ALL, LEASE_MS, T0, agent, append, claim, items, minute, numbers, patch, turns},
    postgres::{Database, execute},
};

/// A daemon's store, judged by the server's clock.
async fn daemon(database: &Database) -> Arc<SqlStore> {
    let settings = PostgresSettings {
        clock: Clock::Database,
        ..postgres_settings(database.url())
    };
    Arc::new(SqlStore::open(&settings.into()).await.unwrap())
}

async fn member(store: &SqlStore, owner: &str) -> Member {
    store.join(owner).await.unwrap().expect("it is a server")
}

fn at(owner: &str, lease_ms: i64, now: Timestamp) -> ClaimRequest {
    ClaimRequest {
        lease_ms,
        ..claim(owner, 10, now)
    }
}

async fn wake(store: &SqlStore, name: &str, now: Timestamp) {
    let agent = agent(name);
    store.append(append(&agent, Vec::new())).await.unwrap();
    store.enqueue(&agent, Reason::Manual, 0, now).await.unwrap();
}

/// Claims until there is something.
async fn claim_soon(store: &SqlStore, request: ClaimRequest) -> Vec<Lease> {
    loop {
        let leases = store.claim(request.clone()).await.unwrap();
        if !leases.is_empty() {
            return leases;
        }
    }
}

/// T0 lies hours before the server's time, and `HOUR_MS` behind that there is another daemon's.
#[tokio::test]
async fn a_clock_that_is_wrong_neither_loses_nor_steals() {
    let database = Database::create().await;
    let (slow, fast) = (daemon(&database).await, daemon(&database).await);
    let (early, late) = (T0, T0.plus_ms(48 * HOUR_MS));
    wake(&slow, "a", early).await;
    // Whose clock is behind sees that it is due all the same.
    let held = slow.claim(at("slow", 60_000, early)).await.unwrap();
    assert_eq!(held.len(), 1);
    // Whose clock is far ahead thinks that the lease is long over, and doesn't get it.
    assert_eq!(fast.claim(at("fast", 60_000, late)).await.unwrap(), []);
    let tokens: Vec<i64> = held.iter().map(|lease| lease.token).collect();
    assert_eq!(slow.renew(&held, early, 60_000).await.unwrap(), tokens);
    assert_eq!(fast.claim(at("fast", 60_000, late)).await.unwrap(), []);
    slow.release(&held, early).await.unwrap();
    // A lease of one whose clock is ahead ends by the server's clock as well.
    let held = fast.claim(at("fast", 200, late)).await.unwrap();
    assert_eq!((held.len(), held[0].attempt), (1, 1));
    let taken = claim_soon(&slow, at("slow", 60_000, early)).await;
    assert_eq!((taken[0].attempt, taken[0].crashes), (2, 1));
    assert_eq!(
        fast.renew(&held, late, 60_000).await.unwrap(),
        [0; 0],
        "it is lost"
    );
}

#[tokio::test]
async fn a_name_is_one_daemons() {
    let database = Database::create().await;
    let (one, other) = (daemon(&database).await, daemon(&database).await);
    let held = member(&one, "left").await;
    let refused = other.join("left").await.err().expect("it has the name");
    assert_eq!(
        refused.to_string(),
        "the name `left` (queue.owner) is in use by another recapd"
    );
    assert!(matches!(refused, StoreError::InUse(_)));
    drop(member(&other, "right").await);
    drop(held);
    member(&other, "left").await;
}

#[tokio::test]
async fn daemons_hear_what_others_do_and_not_each_write() {
    let database = Database::create().await;
    let (one, other) = (daemon(&database).await, daemon(&database).await);
    let mut ears = member(&other, "other").await;
    let a = agent("a");
    // Two turns: what fits the window tells nobody anything, what leaves it does.
    one.append(append(&a, turns(1..=1))).await.unwrap();
    one.append(append(&a, turns(2..=4))).await.unwrap();
    assert_eq!(ears.hear().await, Heard::Agent(a.clone()));
    one.enqueue(&a, Reason::Manual, 0, T0).await.unwrap();
    assert_eq!(ears.hear().await, Heard::Queue);
    let lease = claim_soon(&one, claim("one", 10, T0)).await.remove(0);
    assert_eq!(lease.agent, a);
    let material = one.material(&lease, ALL).await.unwrap();
    one.complete(&lease, patch(&material, items(&material), minute(2)))
        .await
        .unwrap();
    assert_eq!(
        ears.hear().await,
        Heard::Agent(a.clone()),
        "once for all that one commit changes"
    );
    one.delete_agent(&a).await.unwrap();
    assert_eq!(ears.hear().await, Heard::Agent(a));
}

#[tokio::test]
async fn a_cut_connection_is_noticed_and_mended() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let mut ears = member(&store, "left").await;
    database.cut("recapd member").await;
    assert!(matches!(ears.hear().await, Heard::Lost(_)));
    assert_eq!(ears.hear().await, Heard::Back { has_name: true });
    wake(&store, "a", T0).await;
    assert_eq!(ears.hear().await, Heard::Queue);
}

/// Appends, enqueues, claims, completions, renewals, batches from question to answer, and all that the clock does, at the
/// same time, on few agents: nobody waits for another in a circle.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_waits_for_another_in_a_circle() {
    let database = Database::create().await;
    let store = daemon(&database).await;
    let parent = agent("agent-1");
    store.append(append(&parent, turns(1..=6))).await.unwrap();
    // Akin, and neither in the order of their names nor of their births.
    for child in ["agent-2", "agent-0"] {
        store.fork(&parent, &agent(child), T0).await.unwrap();
    }
    let mut lives = JoinSet::new();
    for seed in 0..8 {
        let store = Arc::clone(&store);
        lives.spawn(async move { hammer(store.as_ref(), seed).await });
    }
    let wrong: BTreeSet<String> = lives.join_all().await.into_iter().flatten().collect();
    assert_eq!(wrong, BTreeSet::new());
    for number in 0..4 {
        let agent = agent(&format!("agent-{number}"));
        if store.agent(&agent).await.unwrap().is_some() {
            assert_eq!(store.verify(&agent).await.unwrap().breaches, [], "{agent}");
        }
    }
}

/// What went wrong that shouldn't.
async fn hammer(store: &SqlStore, seed: u64) -> BTreeSet<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = BTreeSet::new();
    for step in 0..40 {
        let agent = agent(&format!("agent-{}", random.u8(0..4)));
        let now = minute(step);
        let outcome = hammer_once(store, &agent, random.u8(0..12), now).await;
        if let Err(error) = outcome
            && !is_expected(&error)
        {
            wrong.insert(error.to_string());
        }
    }
    wrong
}

fn is_expected(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Fenced(_) | StoreError::UnknownAgent(_) | StoreError::UnknownExchange(_)
    )
}

async fn hammer_once(store: &SqlStore, agent: &AgentId, what: u8, now: Timestamp) -> Result<(), StoreError> {
    match what {
        0..=2 => drop(store.append(append(agent, turns(1..=2))).await?),
        3 => drop(store.enqueue(agent, Reason::Manual, 0, now).await?),
        4 => {
            for lease in store.claim(at("daemon", LEASE_MS, now)).await? {
                let material = store.material(&lease, ALL).await?;
                store.defer(&lease, question(&material), now, now).await?;
            }
        }
        5 => {
            let leases = store.claim(at("daemon", LEASE_MS, now)).await?;
            drop(store.renew(&leases, now, LEASE_MS).await?);
            for lease in &leases {
                let material = store.material(lease, ALL).await?;
                if material.exchanges.is_empty() {
                    let (lo, hi) = (material.lo, material.hi);
                    store.settle(lease, Settle { lo, hi, now }).await?;
                } else {
                    store
                        .complete(lease, patch(&material, items(&material), now))
                        .await?;
                }
            }
        }
        6 => {
            store.reconcile(now, now).await?;
        }
        7 => {
            store.enqueue_ageing(now.plus_ms(400 * HOUR_MS), 100).await?;
        }
        8 => {
            store.reclaim("daemon", now).await?;
            store.resume_paused(now).await?;
            store.probe_parked(now, 5, now).await?;
            store.enqueue_revisits(now, 100).await?;
        }
        9 => round(store, now).await?,
        10 => drop(store.end_session(agent, now).await?),
        _ => {
            let prune = Prune {
                runs_before: now,
                answers_before: now,
                versions_keep: 1,
                limit: 10,
            };
            store.prune(prune).await?;
        }
    }
    Ok(())
}

fn question(material: &Material) -> BatchQuestion {
    BatchQuestion {
        key: format!("{:032x}", fastrand::u128(..)),
        version: material.version,
        lo: material.lo,
        hi: material.hi,
        exchanges: numbers(material),
        revisited: Vec::new(),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: "{}".to_owned(),
    }
}

/// Gathers what waits, sends it and hears of it.
async fn round(store: &SqlStore, now: Timestamp) -> Result<(), StoreError> {
    let gather = Gather {
        name: format!("{:032x}", fastrand::u128(..)),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        requests_max: 10,
        bytes_max: 1_000,
        open_max: 100,
        waiting_before: minute(1_000),
        now,
        next_at: now,
    };
    let Some(open) = store.gather(gather).await? else {
        return Ok(());
    };
    let step = BatchMove {
        from: BatchState::Intent,
        submitted_as: Some(open.wanted.name),
        next_at: now,
    };
    store.move_batch(open.batch, step).await?;
    let lines = store.batch_lines(open.batch).await?;
    let end = BatchEnd {
        results: lines.into_iter().map(reply).collect(),
        otherwise: "expired".to_owned(),
        now,
    };
    store.close_batch(open.batch, end).await?;
    Ok(())
}

fn reply(line: BatchLine) -> BatchReply {
    BatchReply {
        key: line.key,
        answer: Ok("{}".to_owned()),
        input_tokens: 1,
        output_tokens: 1,
        cost_microusd: None,
    }
}

/// The replica stands for one that is behind: a database of its own, which no write reaches.
#[tokio::test]
async fn a_replica_answers_what_may_be_a_moment_old() {
    let (database, replica) = (Database::create().await, Database::create().await);
    let settings = PostgresSettings {
        read_url: Some(replica.url()),
        ..postgres_settings(database.url())
    };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let a = agent("a");
    store.append(append(&a, turns(1..=2))).await.unwrap();
    assert!(store.agent(&a).await.unwrap().is_some());
    assert!(store.summary(&a).await.unwrap().is_some());
    let range = MessageRange {
        after_seq: 0,
        messages_max: 10,
        bytes_max: 10_000,
    };
    assert_eq!(store.expand(&a, 1, range).await.unwrap(), None);
    assert_eq!(store.sample(T0, HOUR_MS).await.unwrap().agents, 0);
    // One that is away is stood in for.
    drop(replica);
    assert!(store.expand(&a, 1, range).await.unwrap().is_some());
    assert_eq!(store.sample(T0, HOUR_MS).await.unwrap().agents, 1);
}

/// Whoever holds an agent for long (a `forget` of very much) holds up no other lease, and doesn't cost that agent its own.
#[tokio::test]
async fn a_row_that_is_held_does_not_hold_the_heartbeat() {
    let database = Database::create().await;
    let store = SqlStore::open(&postgres_settings(database.url()).into())
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        wake(&store, name, T0).await;
    }
    let leases = store.claim(at("daemon", LEASE_MS, T0)).await.unwrap();
    let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
    let mut past = database.connect().await;
    execute(
        &mut past,
        "BEGIN; SELECT 1 FROM summary_update_queue WHERE agent_id = 'b' FOR UPDATE",
    )
    .await;
    assert_eq!(store.renew(&leases, minute(1), LEASE_MS).await.unwrap(), tokens);
    // The others are prolonged; the one that is held can't be claimed either.
    let later = minute(1).plus_ms(LEASE_MS - 1);
    assert_eq!(store.claim(at("other", LEASE_MS, later)).await.unwrap(), []);
    execute(&mut past, "ROLLBACK").await;
    assert_eq!(store.renew(&leases, minute(1), LEASE_MS).await.unwrap(), tokens);
    assert_eq!(store.claim(at("other", LEASE_MS, later)).await.unwrap(), []);
    // One that was lost while it was held is told at the next beat.
    let lost = "BEGIN; UPDATE summary_update_queue SET lease_token = NULL WHERE agent_id = 'b'";
    execute(&mut past, lost).await;
    assert_eq!(store.renew(&leases, minute(2), LEASE_MS).await.unwrap(), tokens);
    execute(&mut past, "COMMIT").await;
    assert_eq!(
        store.renew(&leases, minute(2), LEASE_MS).await.unwrap(),
        [tokens[0], tokens[2]]
    );
}

/// The server ends a deadlock by undoing one of the transactions. Here it is the store's, because the other one waits longer
/// before it looks for one.
#[tokio::test]
async fn what_a_deadlock_undid_is_done_again() {
    let database = Database::create().await;
    let store = SqlStore::open(&postgres_settings(database.url()).into())
        .await
        .unwrap();
    let a = agent("a");
    store.append(append(&a, turns(1..=2))).await.unwrap();
    let (mut past, mut look) = (database.connect().await, database.connect().await);
    execute(&mut past, "SET deadlock_timeout = '60s'; BEGIN; SELECT 1 FROM summary_update_queue WHERE agent_id = 'a' FOR UPDATE").await;
    // The append holds the agent, and waits for its row of the queue; the other way round for the agent.
    let other = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN \
                       (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
        while sqlx::query_scalar::<_, i64>(waiting)
            .fetch_one(&mut look)
            .await
            .unwrap()
            == 0
        {}
        execute(
            &mut past,
            "SELECT 1 FROM agents WHERE agent_id = 'a' FOR UPDATE; COMMIT",
        )
        .await;
    };
    let (outcome, ()) = tokio::join!(store.append(append(&a, turns(3..=3))), other);
    assert_eq!(outcome.unwrap().first_exchange, 3);
    assert!(store.verify(&a).await.unwrap().breaches.is_empty());
}
