//! Pending exchanges for readers that use plain SQL: the view `agent_pending`, compared with what a summary returns.

use recapd_core::domain::time::SECOND_MS;

use super::{
    versions::{rebuild, update},
    with_pending,
};
use crate::support::{
    backend::Backend,
    conversation::{T0, TURN_TOKENS, agent, append, claim, minute, said, turns},
};

/// Returns the view's rows for an agent, oldest first.
async fn told(db: &dyn Backend, name: &str) -> Vec<String> {
    let sql = format!(
        "SELECT exchange_id || ': ' || digest || ', ' || token_count FROM agent_pending \
         WHERE agent_id = '{name}' ORDER BY exchange_id"
    );
    db.column(&sql).await.into_iter().flatten().collect()
}

/// Returns the pending exchanges of a summary, in the same format.
async fn shown(db: &dyn Backend, name: &str) -> Vec<String> {
    let row = db.store().summary(&agent(name)).await.unwrap().unwrap();
    let pending = row.pending.iter();
    pending
        .map(|exchange| {
            let digest = exchange.digest();
            format!("{}: {digest}, {}", exchange.exchange, exchange.tokens)
        })
        .collect()
}

pub(crate) async fn pending_exchanges_are_shown(db: &dyn Backend) {
    db.operator().pause_queue(T0).await.unwrap();
    with_pending(db, "a", 3).await;
    with_pending(db, "b", 1).await;
    let leases = db.store().claim(claim("daemon", 10, minute(60))).await.unwrap();
    assert!(leases.is_empty());
    let document = "SELECT content FROM agent_summary WHERE agent_id = 'a'";
    assert_eq!(db.text(document).await.as_deref(), Some(""));
    let expected =
        ["1: Question 1 → Answer 1, 100", "2: Question 2 → Answer 2, 100", "3: Question 3 → Answer 3, 100"];
    assert_eq!(told(db, "a").await, expected);
    assert_eq!(shown(db, "a").await, expected);
    for (column, at) in [("started_at", minute(2)), ("ended_at", minute(2).plus_ms(SECOND_MS))] {
        let sql = format!("SELECT {column} FROM agent_pending WHERE agent_id = 'a' AND exchange_id = 2");
        assert_eq!(db.number(&sql).await, Some(at.0), "{column}");
    }

    db.operator().resume_queue().await.unwrap();
    update(db, "a", 2).await;
    assert_eq!(told(db, "a").await, expected[2..]);
    update(db, "a", 9).await;
    assert_eq!(told(db, "a").await, Vec::<String>::new());
    assert_eq!(told(db, "b").await, expected[..1]);
    let everything = "SELECT count(*) FROM agent_pending";
    assert_eq!(db.number(everything).await, Some(1));
}

pub(crate) async fn a_digest_is_that_of_the_summary(db: &dyn Backend) {
    let messages = vec![
        said("user", "Find \"it\" in C:\\src, it's there\nsomewhere", 10, minute(1)),
        said("tool_call", "grep", 10, minute(1)),
        said("tool_call", "cat", 10, minute(1)),
        said("tool_call", "grep", 10, minute(1)),
        said("assistant", "Füße → 🦶", 10, minute(1)),
        said("user", "…", 10, minute(2)),
        said("tool_call", "ls", 10, minute(2)),
        said("tool_result", r#"{"error": "no such folder"}"#, 10, minute(2)),
        said("user", "…", 10, minute(3)),
        said("assistant", "Only this", 10, minute(3)),
        said("user", "…", 10, minute(4)),
        said("user", "Deploy the shop", 10, minute(5)),
        said("tool_call", "deploy", 10, minute(5)),
        said("interrupted", "", 0, minute(5)),
        said("user", "The next one fills the window", TURN_TOKENS, minute(6)),
    ];
    let outcome = db.store().append(append(&agent("a"), messages)).await.unwrap();
    let told = told(db, "a").await;
    assert_eq!(told, shown(db, "a").await);
    assert_eq!(i64::try_from(told.len()).unwrap(), outcome.first_exchange - 1);
    for words in [
        "Find \"it\" in C:\\src, it's there → grep ×2, cat → Füße → 🦶",
        "2: ls (1 failed), ",
        "Only this",
        "(no text)",
        "(interrupted) Deploy the shop → deploy",
    ] {
        assert!(told.iter().any(|line| line.contains(words)), "{words}: {told:?}");
    }
    // An unreadable exchange doesn't keep anybody from reading the others.
    for headline in ["none", "[]", "{}"] {
        db.raw(&format!("UPDATE exchange_log SET headline = '{headline}' WHERE exchange = 1")).await;
        let digests = "SELECT digest FROM agent_pending WHERE agent_id = 'a' ORDER BY exchange_id";
        let digests = db.column(digests).await;
        assert_eq!(digests[0].as_deref(), Some("(no text)"), "{headline}");
        assert_eq!(digests.len(), told.len());
    }
}

pub(crate) async fn only_pending_exchanges_are_shown(db: &dyn Backend) {
    with_pending(db, "a", 5).await;
    update(db, "a", 1).await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 2").await;
    db.raw("UPDATE exchange_log SET role = 'preamble' WHERE exchange = 4").await;
    let expected = ["3: Question 3 → Answer 3, 100", "5: Question 5 → Answer 5, 100"];
    assert_eq!(told(db, "a").await, expected);
    assert_eq!(shown(db, "a").await, expected);
    let row = db.store().agent(&agent("a")).await.unwrap().unwrap();
    assert_eq!((row.pending_exchanges, row.ledger.pending_numbers()), (2, 4));
    assert_eq!(db.store().agents(None, 9).await.unwrap(), [row]);
}

/// Like `agent_summary`: while a rebuild makes a new document, exchanges that the readers' document covers aren't pending for them.
pub(crate) async fn exchanges_of_a_held_document_are_not_shown(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    update(db, "a", 4).await;
    let request = append(&agent("a"), turns(6..=7));
    db.store().append(request).await.unwrap();
    rebuild(db, "a").await;
    let behind = ["5: Question 5 → Answer 5, 100", "6: Question 6 → Answer 6, 100"];
    for exchanges in [0, 2] {
        if exchanges > 0 {
            update(db, "a", exchanges).await;
        }
        let covered = "SELECT covers_through FROM agent_summary WHERE agent_id = 'a'";
        assert_eq!(db.number(covered).await, Some(4));
        assert_eq!(told(db, "a").await, behind);
        assert_eq!(shown(db, "a").await, behind);
    }
    update(db, "a", 9).await;
    assert_eq!(told(db, "a").await, Vec::<String>::new());
    assert_eq!(shown(db, "a").await, Vec::<String>::new());
}
