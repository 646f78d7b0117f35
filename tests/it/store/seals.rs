//! Seals: made as messages are written, or later for unsealed ones, and useless for guessing forgotten text.

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_core::{domain::tokens::count_message, tokenizer};
use recapd_store::{PreparedMessage, verify::Invariant};
use tokio::{runtime::Handle, task::JoinSet};

use super::{
    clean,
    forget::forget,
    lineage_scripts::{Event, events, live, summarise},
    with_pending,
};
use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{T0, agent, append, minute, native, prepared, turns},
};

const CASES: u32 = 6;

/// Removes all seals, as if a recapd without seals had written the rows.
async fn unseal(db: &dyn Backend) {
    db.raw("UPDATE message_log SET salt = NULL, seal = NULL").await;
    db.raw("UPDATE agents SET chain = NULL, chained_through = fork_seq").await;
    for table in ["exchange_log", "evictions", "summary_items", "summary_facts", "summary_versions", "forks"]
    {
        db.raw(&format!("UPDATE {table} SET digest = NULL")).await;
    }
    db.raw("UPDATE summary_versions SET made_of = NULL").await;
}

async fn seal(db: &dyn Backend, rows_max: i64) {
    while db.store().seal_rows(rows_max).await.unwrap() > 0 {}
}

/// Counts what wasn't checked of an intact agent, except tokens.
async fn unsealed(db: &dyn Backend, name: &str) -> i64 {
    let report = db.store().verify(&agent(name)).await.unwrap();
    assert_eq!(report.breaches, []);
    let unseen = report.unseen.iter();
    let unseen = unseen.filter(|unseen| unseen.invariant != Invariant::WindowFits);
    unseen.map(|unseen| unseen.count).sum()
}

pub(crate) async fn unsealed_rows_are_sealed_later(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    summarise(db, &agent("a")).await;
    unseal(db).await;
    assert_eq!(db.store().seal_rows(3).await.unwrap(), 3);
    // Until then nothing is verified, not even new messages.
    db.store().append(append(&agent("a"), turns(5..=5))).await.unwrap();
    assert_eq!(db.number("SELECT count(*) FROM message_log WHERE seal IS NULL").await, Some(7));
    assert!(unsealed(db, "a").await > 7);
    forget(db, "a", &[2]).await;
    seal(db, 3).await;
    assert_eq!(unsealed(db, "a").await, 0);
    // From then on each new message is sealed.
    db.store().append(append(&agent("a"), turns(6..=6))).await.unwrap();
    clean(db, &agent("a")).await;
    // A lost seal isn't made again.
    db.raw("UPDATE message_log SET payload = 'a lie', seal = NULL WHERE seq = 1").await;
    seal(db, 100).await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert!(
        report.breaches.iter().any(|breach| breach.found == "message 1 has lost its seal"),
        "{:?}",
        report.breaches
    );
}

pub(crate) async fn a_forgotten_message_leaves_no_salt(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    summarise(db, &agent("a")).await;
    forget(db, "a", &[2]).await;
    let salts = "SELECT count(salt) FROM message_log WHERE forgotten_at IS NOT NULL";
    assert_eq!(db.number(salts).await, Some(0));
    let seals = "SELECT count(seal) FROM message_log WHERE forgotten_at IS NOT NULL";
    assert_eq!(db.number(seals).await, Some(2));
    clean(db, &agent("a")).await;
}

pub(crate) async fn any_life_without_seals_is_sealed(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let lives = |(before, after, budget_tokens): (Vec<Event>, Vec<Event>, i64)| {
        case.set(case.get() + 1);
        let name = |who: &str| format!("{who}-{}", case.get());
        let (parent, child) = (agent(&name("parent")), agent(&name("child")));
        let before: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(before).collect();
        Handle::current().block_on(async {
            live(db, &parent, &before, budget_tokens).await;
            summarise(db, &parent).await;
            db.store().fork(&parent, &child, T0).await.unwrap();
            unseal(db).await;
            seal(db, 5).await;
            for who in [&parent, &child] {
                live(db, who, &after, budget_tokens).await;
                summarise(db, who).await;
                clean(db, who).await;
            }
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let strategy = (events(), events(), prop_oneof![Just(0), 40_i64..400]);
    tokio::task::block_in_place(|| runner.run(&strategy, lives)).unwrap();
}

/// Returns a message that `o200k` counts.
fn counted(kind: &str, text: &str, at: i64) -> PreparedMessage {
    let message = native(kind, text);
    let tokens = count_message(tokenizer::counter_for("openai", "gpt-4o").as_ref(), &message);
    prepared(message, tokens, minute(at))
}

pub(crate) async fn tokens_are_counted_again(db: &dyn Backend) {
    let messages = vec![counted("user", "How many tokens are these?", 1), counted("assistant", "Some.", 2)];
    let mut request = append(&agent("a"), messages);
    "o200k".clone_into(&mut request.count_method);
    db.store().append(request).await.unwrap();
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert_eq!(report.unseen.iter().map(|unseen| unseen.count).collect::<Vec<_>>(), [2]);
    let report = db.store().verify_deep(&agent("a")).await.unwrap();
    assert_eq!((report.breaches.len(), report.unseen.len()), (0, 0));
    // All sums are right, so only a tokenizer can tell.
    for (table, rows) in [("message_log", "seq = 1"), ("exchange_log", "exchange = 1")] {
        db.raw(&format!("UPDATE {table} SET tokens = tokens + 1 WHERE {rows}")).await;
    }
    let report = db.store().verify_deep(&agent("a")).await.unwrap();
    assert!(
        report.breaches.iter().any(|breach| breach.invariant == Invariant::WindowFits),
        "{:?}",
        report.breaches
    );
    // Counts of other counters aren't checked.
    db.store().append(append(&agent("b"), turns(1..=1))).await.unwrap();
    let report = db.store().verify_deep(&agent("b")).await.unwrap();
    assert_eq!(report.unseen.iter().map(|unseen| unseen.count).collect::<Vec<_>>(), [2]);
}

pub(crate) async fn concurrent_writes_are_no_damage(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let (store, name) = (db.store(), agent("a"));
    let mut writers = JoinSet::new();
    writers.spawn({
        let (store, name) = (store.clone(), name.clone());
        async move {
            for number in 10..40 {
                store.append(append(&name, turns(number..=number))).await.unwrap();
            }
        }
    });
    let written = loop {
        assert_eq!(store.verify(&name).await.unwrap().breaches, []);
        if let Some(written) = writers.try_join_next() {
            break written;
        }
    };
    written.unwrap();
    assert_eq!(clean(db, &name).await.messages, 68);
}
