//! Recall and forgetting with several concurrent writers: PostgreSQL.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use recapd_core::domain::redaction::Redactor;
use recapd_store::{Forget, Forgettable};

use super::{
    clean,
    recall::{asked, index},
};
use crate::support::{
    backend::{Backend, PostgresBackend, SqliteBackend},
    conversation::{agent, append, minute, rules, said, turns},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_indexers_lose_and_repeat_nothing() {
    let db = PostgresBackend::fresh().await;
    let (is_over, indexed) = (AtomicBool::new(false), AtomicI64::new(0));
    let index = || async {
        let more = db.store().index_messages(7).await.unwrap();
        indexed.fetch_add(more, Ordering::Relaxed);
        more
    };
    let indexers = (0..3).map(|_| async {
        while !is_over.load(Ordering::Relaxed) {
            index().await;
        }
    });
    let appends = ["a", "b", "c", "d"].map(|name| {
        let store = db.store();
        async move {
            for number in 1..=15 {
                store.append(append(&agent(name), turns(number..=number))).await.unwrap();
            }
        }
    });
    let appended = async {
        futures::future::join_all(appends).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(appended, futures::future::join_all(indexers));
    while index().await > 0 {}
    assert_eq!((indexed.load(Ordering::Relaxed), db.indexed(None).await), (120, 120));
    assert_eq!(db.number("SELECT count(*) FROM recall_pending").await, Some(0));
    let marks = "SELECT count(*) FROM recall_marks JOIN agents USING (agent_id) WHERE indexed_seq = last_seq";
    assert_eq!(db.number(marks).await, Some(4));
}

#[tokio::test]
async fn an_agent_that_is_cut_off_goes_behind_the_others() {
    let db = PostgresBackend::fresh().await;
    for (name, through) in [("long", 5), ("short", 1)] {
        let request = append(&agent(name), turns(1..=through));
        db.store().append(request).await.unwrap();
    }
    assert_eq!(db.store().index_messages(4).await.unwrap(), 4);
    assert_eq!(db.store().index_messages(4).await.unwrap(), 4);
    let short = "SELECT CAST(sum(messages) AS bigint) FROM recall_blocks WHERE agent_id = 'short'";
    assert_eq!(db.number(short).await, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_family_forgets_concurrently_and_lives_on() {
    let db = PostgresBackend::fresh().await;
    let store = db.store();
    store.append(append(&agent("p"), turns(1..=6))).await.unwrap();
    for child in ["a", "z"] {
        store.fork(&agent("p"), &agent(child), minute(60)).await.unwrap();
    }
    let names = ["p", "a", "z"];
    let forgets = names.iter().zip(1..).map(|(name, number)| {
        store.forget(Forget {
            agent: agent(name),
            what: Forgettable::Exchanges(vec![number]),
            rules: rules(),
            redactor: Redactor::standard(),
            now: minute(100),
        })
    });
    let appends = names.iter().map(|name| async {
        for number in 7..=12 {
            let request = append(&agent(name), turns(number..=number));
            store.append(request).await.unwrap();
            store.index_messages(10).await.unwrap();
        }
    });
    let (forgotten, _) = tokio::join!(futures::future::join_all(forgets), futures::future::join_all(appends));
    for forgotten in forgotten {
        assert_eq!(forgotten.unwrap().messages, 2);
    }
    while store.index_messages(100).await.unwrap() > 0 {}
    for name in names {
        clean(&db, &agent(name)).await;
    }
    assert_eq!(db.indexed(None).await, 12 + 36 - 6);
}

const TEXTS: [&str; 8] = [
    "The deploy failed because the migration held a lock on the orders table",
    "Rename the parser module and run all tests again",
    "Tests of the parser fail: expected 12 tokens, found 11",
    "We decided to keep the lock timeout at five seconds",
    "Ann asked whether the deploys of last week were rolled back",
    "The migration is slow on tables with many orders",
    "Schedule a meeting about timeouts with Ann on Tuesday",
    "Nothing to do with any of that",
];

/// The databases rank alike, and what another agent says changes nothing.
#[tokio::test]
async fn both_databases_find_the_same_in_the_same_order() {
    let (postgres, sqlite) = (PostgresBackend::fresh().await, SqliteBackend::fresh().await);
    let sources: [&dyn Backend; 2] = [&postgres, &sqlite];
    for (db, others) in sources.into_iter().zip([0, 40]) {
        for number in 0..others {
            let text = format!("{} {}", TEXTS[number % 3], "deploy lock parser");
            let message = said("user", &text, 9, minute(1));
            db.store().append(append(&agent("other"), vec![message])).await.unwrap();
        }
        for (place, at) in (0..64_usize).zip(1..) {
            let text = format!("{} {}", TEXTS[place % 8], TEXTS[(place * 5 + 3) % 8].split_at(20).0);
            let kind = if place % 3 == 0 { "assistant" } else { "user" };
            let message = said(kind, &text, 9, minute(at));
            db.store().append(append(&agent("a"), vec![message])).await.unwrap();
            if place == 50 {
                index(db).await;
            }
        }
    }
    for question in [
        "Why did the deploy fail?",
        "What does Ann want to know about timeouts and locks?",
        "\"orders table\" migrations",
        "pars",
        "tests",
    ] {
        let parameters = [("q", question), ("limit", "50")];
        let (one, other) = (asked(&postgres, "a", &parameters).await, asked(&sqlite, "a", &parameters).await);
        assert!(one.found.len() > 3, "{question}: {one:?}");
        assert_eq!(one, other, "{question}");
    }
}
