//! The summary in contexts: it changes once per step of eviction.

use recapd_core::{
    domain::window::Budget,
    domain::{agent::AgentId, lineage::Step, work::Reason},
};
use recapd_store::{MaterialLimits, PreparedMessage};

use super::{clean, lineage::step};
use crate::support::{
    backend::Backend,
    conversation::{ALL, TURN_TOKENS, agent, append, claim, items, minute, patch, turns},
};

/// Appends to a window that holds four turns; an eviction leaves two.
async fn say(db: &dyn Backend, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent("a"), messages);
    request.rules.budget = Budget::new(4 * TURN_TOKENS, 0.5);
    db.store().append(request).await.unwrap();
    clean(db, &agent("a")).await;
}

/// Updates at most this many pending exchanges.
async fn update(db: &dyn Backend, agent: &AgentId, exchanges_max: i64) {
    db.store().enqueue(agent, Reason::Manual, 0, minute(60)).await.unwrap();
    let leases = db.store().claim(claim("daemon", 10, minute(60))).await.unwrap();
    let lease = leases.into_iter().find(|lease| lease.agent == *agent).unwrap();
    let limits = MaterialLimits { exchanges_max, ..ALL };
    let material = db.store().material(&lease, limits).await.unwrap();
    let update = patch(&material, items(&material), minute(60));
    db.store().complete(&lease, update).await.unwrap();
    clean(db, agent).await;
}

/// Returns what a context of `name` shows: the version, its coverage, and the pending exchanges after it.
async fn shown(db: &dyn Backend, name: &str) -> (i64, i64, Vec<i64>) {
    let row = db.store().summary_of_step(&agent(name)).await.unwrap().unwrap();
    let sql = format!(
        "SELECT content FROM summary_versions WHERE agent_id = '{name}' AND version = {}",
        row.version
    );
    assert_eq!(row.content, db.text(&sql).await.unwrap_or_default());
    let pending = row.pending.iter().map(|exchange| exchange.exchange);
    (row.version, row.summarized_through, pending.collect())
}

pub(crate) async fn a_step_changes_its_summary_once(db: &dyn Backend) {
    assert_eq!(db.store().summary_of_step(&agent("a")).await.unwrap(), None);
    say(db, turns(1..=4)).await;
    assert_eq!(shown(db, "a").await, (0, 0, vec![]));
    say(db, turns(5..=5)).await;
    assert_eq!(shown(db, "a").await, (0, 0, vec![1, 2, 3]));
    update(db, &agent("a"), 1).await;
    assert_eq!(shown(db, "a").await, (0, 0, vec![1, 2, 3]), "a part of the step changes nothing");
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "a").await, (2, 3, vec![]), "the first version that covers it");
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "a").await, (2, 3, vec![]), "ageing waits for the next step");
    say(db, turns(6..=8)).await;
    assert_eq!(
        shown(db, "a").await,
        (3, 3, vec![4, 5, 6]),
        "the version that is there when the step is taken"
    );
    // The next step comes before this one is covered.
    say(db, turns(9..=11)).await;
    assert_eq!(shown(db, "a").await, (3, 3, (4..=9).collect()));
    update(db, &agent("a"), 1).await;
    assert_eq!(
        shown(db, "a").await,
        (3, 3, (4..=9).collect()),
        "a version that covers an earlier step alone changes nothing"
    );
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "a").await, (5, 9, vec![]));
}

pub(crate) async fn a_step_drops_withdrawn_items_at_once(db: &dyn Backend) {
    say(db, turns(1..=2)).await;
    say(db, vec![step(&Step::Mark(None), 2)]).await;
    say(db, turns(3..=5)).await;
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "a").await, (1, 3, vec![]));
    say(db, vec![step(&Step::Rewind(None), 6)]).await;
    assert_eq!(shown(db, "a").await, (2, 0, vec![]));
    say(db, turns(7..=9)).await;
    assert_eq!(shown(db, "a").await, (2, 0, vec![1, 2, 6]));
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "a").await, (3, 6, vec![]));
}

pub(crate) async fn a_fork_shows_the_document_it_began_with(db: &dyn Backend) {
    say(db, turns(1..=5)).await;
    update(db, &agent("a"), 1).await;
    db.store().fork(&agent("a"), &agent("b"), minute(50)).await.unwrap();
    assert_eq!(shown(db, "b").await, (1, 1, vec![2, 3]));
    update(db, &agent("a"), 9).await;
    assert_eq!(shown(db, "b").await, (1, 1, vec![2, 3]));
}

pub(crate) async fn a_pruned_version_is_replaced(db: &dyn Backend) {
    say(db, turns(1..=5)).await;
    update(db, &agent("a"), 9).await;
    update(db, &agent("a"), 9).await;
    db.raw("DELETE FROM summary_versions WHERE version = 1").await;
    assert_eq!(shown(db, "a").await, (2, 3, vec![]));
}
