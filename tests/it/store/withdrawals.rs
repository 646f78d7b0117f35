//! A rollback or a rebuild takes effect at once, and the rows of items outside the document follow in steps.

use recapd_core::domain::{
    agent::AgentId,
    redaction::Redactor,
    summary::{compaction::SummaryPolicy, edit::ItemEdit},
};
use recapd_store::{
    EditRequest, Forget, Forgettable, ItemQuery, RebuildRequest, RevisionOutcome, RollbackRequest, Store,
    StoreError,
};

use super::{clean, inbox::ingestor, versions::claimed, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{append, minute, rules, turn},
    flaky_store::{FlakyStore, When},
};

/// Exchanges that version 1 covers, and those that version 2 adds: more than two transactions write.
const EXCHANGES: [i64; 2] = [40, 600];
/// Items of each version that stay in the document.
const SHOWN: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Change {
    RollBack(i64),
    Rebuild,
}

impl Change {
    async fn make(self, store: &dyn Store, agent: &AgentId) -> RevisionOutcome {
        let (agent, policy, now) = (agent.clone(), SummaryPolicy::default(), minute(2_000));
        let made = match self {
            Self::RollBack(version) => {
                let request = RollbackRequest { agent, version, policy, now };
                store.roll_back(request).await
            }
            Self::Rebuild => store.rebuild(RebuildRequest { agent, policy, now }).await,
        };
        made.unwrap()
    }
}

async fn long_lived(db: &dyn Backend, name: &str) -> AgentId {
    with_two_versions(db, name, EXCHANGES).await
}

/// Creates an agent with two versions that add so many exchanges, most of whose items have left the document.
pub(crate) async fn with_two_versions(db: &dyn Backend, name: &str, added: [i64; 2]) -> AgentId {
    let agent = with_pending(db, name, added.iter().sum()).await;
    for exchanges in added {
        let (lease, mut patch) = claimed(db, name, exchanges).await;
        for (_, is_dropped) in patch.added.iter_mut().rev().skip(SHOWN) {
            *is_dropped = true;
        }
        db.store().complete(&lease, patch).await.unwrap();
        clean(db, &agent).await;
    }
    agent
}

/// Returns the exchanges that each item in force covers, and whether it is in the document.
async fn in_force(db: &dyn Backend, agent: &AgentId) -> Vec<(i64, i64, bool)> {
    let query = ItemQuery { after: 0, limit: 10_000, all: true };
    let rows = db.store().items(agent, query).await.unwrap();
    let covered = rows.iter().flat_map(|row| {
        let ranges = row.item.ranges.iter();
        ranges.map(|range| (range.first, range.last, row.shown))
    });
    let mut covered: Vec<_> = covered.collect();
    covered.sort_unstable();
    covered
}

async fn rows_in_force(db: &dyn Backend, agent: &AgentId) -> usize {
    let sql =
        format!("SELECT count(*) FROM summary_items WHERE agent_id = '{agent}' AND removed_version IS NULL");
    usize::try_from(db.number(&sql).await.unwrap()).unwrap()
}

pub(crate) async fn items_count_no_more_before_their_rows_say_so(db: &dyn Backend) {
    let changes = [(Change::RollBack(1), 40), (Change::Rebuild, 0)];
    for (number, (change, left)) in changes.into_iter().enumerate() {
        for when in [When::Before, When::After] {
            let a = long_lived(db, &format!("a{number}{when:?}")).await;
            let outcome = change.make(db.store().as_ref(), &a).await;
            assert_eq!(outcome.removed, 640 - left);
            let after = in_force(db, &a).await;
            assert_eq!(i64::try_from(after.len()).unwrap(), left);
            assert!(rows_in_force(db, &a).await > 600, "the rows follow");
            clean(db, &a).await;
            assert_eq!(db.store().withdrawals_due(10).await.unwrap(), std::slice::from_ref(&a));
            let flaky = FlakyStore::new(db.store());
            flaky.fail("withdraw_some", 2, when);
            assert!(flaky.withdraw_some(&a).await.unwrap());
            let broken = flaky.withdraw_some(&a).await;
            assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
            // Readers see no difference, and life goes on.
            assert_eq!(in_force(db, &a).await, after);
            db.store().append(append(&a, turn(700).to_vec())).await.unwrap();
            clean(db, &a).await;
            while db.store().withdraw_some(&a).await.unwrap() {
                assert_eq!(in_force(db, &a).await, after);
            }
            assert_eq!(in_force(db, &a).await, after);
            assert_eq!(rows_in_force(db, &a).await, after.len());
            assert_eq!(db.store().withdrawals_due(10).await.unwrap(), []);
            clean(db, &a).await;
        }
    }
}

pub(crate) async fn whoever_changes_items_writes_those_rows_first(db: &dyn Backend) {
    let whole = {
        let a = long_lived(db, "whole").await;
        in_force(db, &a).await
    };
    let store = db.store();
    for first in [Change::RollBack(1), Change::Rebuild] {
        let name = format!("{first:?}").to_lowercase().replace(['(', ')'], "-");
        let a = long_lived(db, &format!("again-{name}")).await;
        first.make(store.as_ref(), &a).await;
        // The way back, from whatever is left to be written.
        Change::RollBack(2).make(store.as_ref(), &a).await;
        assert_eq!(in_force(db, &a).await, whole, "{first:?}");
        clean(db, &a).await;
        let a = long_lived(db, &format!("forget-{name}")).await;
        first.make(store.as_ref(), &a).await;
        let forget = Forget {
            agent: a.clone(),
            what: Forgettable::Exchanges(vec![30, 500]),
            rules: rules(),
            redactor: Redactor::standard(),
            now: minute(2_001),
        };
        store.forget(forget).await.unwrap();
        let texts = format!(
            "SELECT count(*) FROM summary_items i JOIN summary_item_ranges r ON r.agent_id = i.agent_id AND r.item = i.item \
             WHERE i.agent_id = '{a}' AND r.first_exchange IN (30, 500) AND i.text LIKE 'Text of%'"
        );
        assert_eq!(db.number(&texts).await, Some(0));
        clean(db, &a).await;
        assert!(!store.withdraw_some(&a).await.unwrap());
    }
    // A removed item can't be edited, whatever its row says.
    let a = long_lived(db, "edit").await;
    Change::Rebuild.make(store.as_ref(), &a).await;
    let edit = EditRequest {
        agent: a.clone(),
        item: 1,
        edit: ItemEdit { pinned: Some(true), ..ItemEdit::default() },
        policy: SummaryPolicy::default(),
        now: minute(2_001),
    };
    let refused = store.edit_item(edit).await;
    assert!(matches!(refused, Err(StoreError::UnknownItem { item: 1, .. })), "{refused:?}");
    clean(db, &a).await;
}

pub(crate) async fn a_plan_overtaken_by_appends_is_made_again(db: &dyn Backend) {
    let a = long_lived(db, "a").await;
    let store = db.store();
    let appends = async {
        for number in 700..712 {
            store.append(append(&a, turn(number).to_vec())).await.unwrap();
        }
    };
    let (changed, ()) = tokio::join!(Change::RollBack(1).make(store.as_ref(), &a), appends);
    assert_eq!((changed.version, changed.covers_through, changed.uncovered), (3, 40, 600));
    clean(db, &a).await;
    assert_eq!(in_force(db, &a).await.len(), 40);
}

pub(crate) async fn the_next_daemon_finishes_it(db: &dyn Backend) {
    let a = long_lived(db, "a").await;
    Change::Rebuild.make(db.store().as_ref(), &a).await;
    let (next, _metrics) = ingestor(db);
    next.finish_interrupted().await.unwrap();
    assert_eq!(rows_in_force(db, &a).await, 0);
    clean(db, &a).await;
    // Whoever isn't interrupted finishes by itself.
    let revised = next.roll_back(&a, 1).await.unwrap();
    assert_eq!(revised.items_restored, 40);
    assert_eq!(db.store().withdrawals_due(10).await.unwrap(), []);
    assert_eq!(in_force(db, &a).await.len(), 40);
}
