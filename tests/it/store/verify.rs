//! `verify` finds what is wrong, and nothing else: each invariant is broken behind the store's back.

use std::collections::BTreeSet;

use recapd_core::domain::work::Reason;
use recapd_store::{StoreError, verify::Invariant};

use super::{clean, the_lease};
use crate::support::{
    backend::Backend,
    conversation::{ALL, T0, agent, append, items, minute, patch, said, turns},
};

/// Six exchanges in two versions of the summary, two pending, one in the window, and a preamble.
async fn lived(db: &dyn Backend) {
    let a = agent("a");
    let mut messages = vec![said("system", "Be brief", 9, T0)];
    for number in 1..=6 {
        messages.extend(turns(number..=number));
        messages.push(said("mark", "here", 0, minute(number)));
    }
    let mut request = append(&a, messages);
    request.rules.budget = recapd_core::domain::window::Budget::new(109, 1.0);
    db.store().append(request.clone()).await.unwrap();
    for exchanges_max in [2, 1] {
        db.store().enqueue(&a, Reason::Manual, 0, minute(8)).await.unwrap();
        let lease = the_lease(db, minute(8)).await;
        let limits = recapd_store::MaterialLimits { exchanges_max, ..ALL };
        let material = db.store().material(&lease, limits).await.unwrap();
        db.store().complete(&lease, patch(&material, items(&material), minute(8))).await.unwrap();
    }
}

pub(crate) async fn everything_together_verifies_clean(db: &dyn Backend) {
    lived(db).await;
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.messages, report.exchanges), (19, 6));
    assert_eq!((report.covered, report.pending, report.in_window, report.set_aside), (3, 2, 1, 0));
    assert_eq!(Some(report.summary_tokens), db.number("SELECT token_count FROM summaries").await);
}

pub(crate) async fn an_unknown_agent_cannot_be_verified(db: &dyn Backend) {
    let unknown = db.store().verify(&agent("nobody")).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(name)) if name == agent("nobody")));
}

/// Breaks the data of a life with each statement alone, repairs it, and checks that `expected` was found broken, and otherwise only that
/// rows aren't what was stored.
async fn finds(db: &dyn Backend, expected: Invariant, breaks: &[(&str, &str)]) {
    lived(db).await;
    finds_in(db, expected, breaks).await;
}

/// Works like [`finds`], in the life of the agent `a`.
pub(super) async fn finds_in(db: &dyn Backend, expected: Invariant, breaks: &[(&str, &str)]) {
    for (break_it, mend_it) in breaks {
        clean(db, &agent("a")).await;
        assert!(db.raw(break_it).await > 0, "{break_it} changes nothing");
        let report = db.store().verify(&agent("a")).await.unwrap();
        let found: BTreeSet<Invariant> = report.breaches.iter().map(|breach| breach.invariant).collect();
        assert!(found.contains(&expected), "{break_it}: {:?}", report.breaches);
        let beside =
            BTreeSet::from([expected, Invariant::NothingLost, Invariant::ExactlyOnce, Invariant::ClockAges]);
        assert!(found.is_subset(&beside), "{break_it}: {:?}", report.breaches);
        db.raw(mend_it).await;
    }
    clean(db, &agent("a")).await;
}

pub(crate) async fn lost_messages_are_found(db: &dyn Backend) {
    // Marks have no tokens, so no sum changes.
    let breaks = [
        ("UPDATE message_log SET agent_id = 'x' WHERE seq = 4", "UPDATE message_log SET agent_id = 'a'"),
        ("UPDATE message_log SET agent_id = 'x' WHERE seq = 19", "UPDATE message_log SET agent_id = 'a'"),
        ("UPDATE agents SET last_seq = 20", "UPDATE agents SET last_seq = 19"),
        ("UPDATE message_log SET seq = 99 WHERE seq = 1", "UPDATE message_log SET seq = 1 WHERE seq = 99"),
    ];
    finds(db, Invariant::NothingLost, &breaks[..3]).await;
    // A number in the place of another: the exchange that had the message notices.
    db.raw(breaks[3].0).await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert!(report.breaches.iter().any(|breach| breach.invariant == Invariant::NothingLost));
    db.raw(breaks[3].1).await;
    clean(db, &agent("a")).await;
}

pub(crate) async fn torn_exchanges_are_found(db: &dyn Backend) {
    // Two marks change places.
    let swap = "UPDATE message_log SET exchange = CASE seq WHEN 4 THEN 2 ELSE 1 END WHERE seq IN (4, 7)";
    let back = "UPDATE message_log SET exchange = CASE seq WHEN 4 THEN 1 ELSE 2 END WHERE seq IN (4, 7)";
    finds(db, Invariant::ExchangesAtomic, &[(swap, back)]).await;
}

pub(crate) async fn a_window_that_does_not_fit_is_found(db: &dyn Backend) {
    let breaks = [
        ("UPDATE agents SET tokens_before_window = 400", "UPDATE agents SET tokens_before_window = 500"),
        (
            "UPDATE exchange_log SET tokens_before = 101 WHERE exchange = 2",
            "UPDATE exchange_log SET tokens_before = 100 WHERE exchange = 2",
        ),
        (
            "UPDATE exchange_log SET tokens = 99 WHERE exchange = 4",
            "UPDATE exchange_log SET tokens = 100 WHERE exchange = 4",
        ),
        (
            "UPDATE agents SET first_exchange = 5, tokens_before_window = 400",
            "UPDATE agents SET first_exchange = 6, tokens_before_window = 500",
        ),
    ];
    finds(db, Invariant::WindowFits, &breaks).await;
}

pub(crate) async fn exchanges_in_two_states_are_found(db: &dyn Backend) {
    let breaks = [
        ("UPDATE agents SET summarized_through = 2", "UPDATE agents SET summarized_through = 3"),
        (
            "UPDATE summary_items SET removed_version = 2 WHERE item = 1",
            "UPDATE summary_items SET removed_version = NULL",
        ),
        ("UPDATE agents SET pending_since = NULL", "UPDATE agents SET pending_since = created_at"),
    ];
    finds(db, Invariant::OneState, &breaks).await;
    // A watermark that moved without an item or a version.
    db.raw("UPDATE agents SET summarized_through = 4").await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    let found: Vec<Invariant> = report.breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(found, [Invariant::OneState, Invariant::ExactlyOnce]);
    db.raw("UPDATE agents SET summarized_through = 3").await;
    // Another agent has nothing pending, whatever its row says.
    db.store().append(append(&agent("b"), turns(1..=1))).await.unwrap();
    db.raw("UPDATE agents SET pending_since = created_at WHERE agent_id = 'b'").await;
    let report = db.store().verify(&agent("b")).await.unwrap();
    let found: Vec<Invariant> = report.breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(found, [Invariant::OneState]);
    // Covered twice, which also makes the item's own figures wrong.
    db.raw("UPDATE summary_item_ranges SET last_exchange = 2 WHERE item = 1").await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert!(
        report.breaches.iter().any(|breach| breach.found == "1 item ranges overlap"),
        "{:?}",
        report.breaches
    );
}

pub(crate) async fn a_document_over_its_ceiling_is_found(db: &dyn Backend) {
    let breaks = [
        (
            "UPDATE summaries SET token_count = token_count + 1",
            "UPDATE summaries SET token_count = token_count - 1",
        ),
        (
            "UPDATE summary_versions SET token_count = token_count - 1 WHERE version = 1",
            "UPDATE summary_versions SET token_count = token_count + 1 WHERE version = 1",
        ),
    ];
    finds(db, Invariant::Ceiling, &breaks).await;
    // Too long, whatever count is stored with it.
    let long = "word ".repeat(10_100);
    db.raw(&format!("UPDATE summaries SET content = '{long}', token_count = 10000")).await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert!(report.summary_tokens > 10_000);
    let found: BTreeSet<Invariant> = report.breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(found, BTreeSet::from([Invariant::Ceiling, Invariant::ExactlyOnce]));
}

pub(crate) async fn a_broken_chain_of_versions_is_found(db: &dyn Backend) {
    let breaks = [
        ("UPDATE summaries SET version = 3", "UPDATE summaries SET version = 2"),
        (
            "UPDATE summary_versions SET covers_after = 1 WHERE version = 2",
            "UPDATE summary_versions SET covers_after = 2 WHERE version = 2",
        ),
        (
            "UPDATE summary_versions SET covers_through = 1 WHERE version = 1",
            "UPDATE summary_versions SET covers_through = 2 WHERE version = 1",
        ),
        (
            "UPDATE summary_versions SET covers_after = 1 WHERE version = 1",
            "UPDATE summary_versions SET covers_after = 0 WHERE version = 1",
        ),
        (
            "UPDATE summary_versions SET covers_through = 2 WHERE version = 2",
            "UPDATE summary_versions SET covers_through = 3 WHERE version = 2",
        ),
        (
            "UPDATE summary_versions SET version = 0 WHERE version = 1",
            "UPDATE summary_versions SET version = 1 WHERE version = 0",
        ),
    ];
    finds(db, Invariant::ExactlyOnce, &breaks).await;
}

pub(crate) async fn falsified_items_are_found(db: &dyn Backend) {
    let moved = |column: &str, item: i64, ms: i64| {
        let moved = db.later(column, ms);
        format!("UPDATE summary_items SET {column} = {moved} WHERE item = {item}")
    };
    let tokens = |tokens: i64| format!("UPDATE summary_items SET source_tokens = {tokens} WHERE item = 1");
    let breaks = [
        (tokens(101), tokens(100)),
        (moved("started_at", 2, -1), moved("started_at", 2, 1)),
        (moved("ended_at", 3, 1), moved("ended_at", 3, -1)),
    ];
    let breaks: Vec<(&str, &str)> =
        breaks.iter().map(|(break_it, mend_it)| (break_it.as_str(), mend_it.as_str())).collect();
    finds(db, Invariant::ClockAges, &breaks).await;
}
