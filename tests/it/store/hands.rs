//! Random lives with an operator: whatever is rolled back, rebuilt, edited and pinned while updates are in progress and budgets change,
//! the data verifies after each step, and everything is summarised in the end.

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use recapd_core::domain::{
    agent::AgentId,
    settings::SettingsPatch,
    summary::{compaction::SummaryPolicy, edit::ItemEdit},
};
use recapd_store::{EditRequest, ItemQuery, RebuildRequest, RollbackRequest, StoreError, VersionQuery};
use serde_json::json;
use tokio::runtime::Handle;

use super::{
    lineage_scripts::{Event, events, message, summarise},
    versions::claimed,
};
use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{agent, append, minute},
};

const CASES: u32 = 15;

/// An operator's action.
#[derive(Clone, Debug)]
enum Hand {
    /// Goes back to one of the kept versions.
    RollBack(prop::sample::Index),
    Rebuild,
    Edit(prop::sample::Index, bool),
    Pin(prop::sample::Index, bool),
    Budget(i64),
    /// Runs updates of one exchange each.
    Trickle(usize),
    /// Leaves an update of two exchanges in progress during the next action.
    Overtaken(Box<Self>),
}

fn hands() -> impl Strategy<Value = Option<Hand>> {
    let index = any::<prop::sample::Index>;
    let hand = prop_oneof![
        3 => index().prop_map(Hand::RollBack),
        2 => Just(Hand::Rebuild),
        2 => (index(), any::<bool>()).prop_map(|(at, decides)| Hand::Edit(at, decides)),
        2 => (index(), any::<bool>()).prop_map(|(at, pinned)| Hand::Pin(at, pinned)),
        1 => prop_oneof![Just(0), 40_i64..400].prop_map(Hand::Budget),
    ];
    let any = prop_oneof![4 => hand, 1 => (1_usize..4).prop_map(Hand::Trickle)];
    let hand = any.prop_flat_map(|hand| {
        let overtaken = match &hand {
            Hand::Trickle(_) => hand.clone(),
            other => Hand::Overtaken(Box::new(other.clone())),
        };
        prop_oneof![2 => Just(hand), 1 => Just(overtaken)]
    });
    prop::option::weighted(0.3, hand)
}

/// Days later the items are too old for the document, except pinned ones.
fn now(at: i64) -> recapd_core::domain::time::Timestamp {
    minute(if at % 7 == 0 { 100_000 } else { 1_000 + at })
}

async fn reach_in(db: &dyn Backend, name: &str, hand: &Hand, at: i64) {
    let (store, agent, policy, now) = (db.store(), agent(name), SummaryPolicy::default(), now(at));
    match hand {
        Hand::RollBack(index) => {
            let query = VersionQuery { before: None, limit: 1_000 };
            let kept = store.versions(&agent, query).await.unwrap();
            if kept.is_empty() {
                return;
            }
            let version = index.get(&kept).version;
            let request = RollbackRequest { agent, version, policy, now };
            store.roll_back(request).await.unwrap();
        }
        Hand::Rebuild => {
            store.rebuild(RebuildRequest { agent, policy, now }).await.unwrap();
        }
        Hand::Edit(index, true) => edit(db, &agent, *index, json!({"importance": "decision"}), now).await,
        Hand::Edit(index, false) => edit(db, &agent, *index, json!({"text": "By hand"}), now).await,
        Hand::Pin(index, pinned) => edit(db, &agent, *index, json!({ "pinned": pinned }), now).await,
        Hand::Budget(budget) => {
            let patch = SettingsPatch::parse(json!({ "budget_tokens": budget })).unwrap();
            store.change_settings(&agent, &patch, now).await.unwrap();
        }
        Hand::Trickle(times) => trickle(db, name, *times).await,
        Hand::Overtaken(_) => {}
    }
}

async fn edit(
    db: &dyn Backend,
    agent: &AgentId,
    index: prop::sample::Index,
    change: serde_json::Value,
    now: recapd_core::domain::time::Timestamp,
) {
    let query = ItemQuery { after: 0, limit: 1_000, all: true };
    let items = db.store().items(agent, query).await.unwrap();
    if items.is_empty() {
        return;
    }
    let request = EditRequest {
        agent: agent.clone(),
        item: index.get(&items).item.item,
        edit: ItemEdit::parse(&change).unwrap(),
        policy: SummaryPolicy::default(),
        now,
    };
    db.store().edit_item(request).await.unwrap();
}

/// Runs updates of one pending exchange each.
async fn trickle(db: &dyn Backend, name: &str, times: usize) {
    for _ in 0..times {
        let row = db.store().agent(&agent(name)).await.unwrap().unwrap();
        if row.ledger.pending_numbers() > 0 {
            let (lease, patch) = claimed(db, name, 1).await;
            db.store().complete(&lease, patch).await.unwrap();
        }
    }
}

/// Checks that an update which an action overtook is refused and changes nothing.
async fn overtaken(db: &dyn Backend, name: &str, hand: &Hand, at: i64) {
    let row = db.store().agent(&agent(name)).await.unwrap().unwrap();
    if row.ledger.pending_numbers() == 0 {
        return;
    }
    let (lease, patch) = claimed(db, name, 2).await;
    reach_in(db, name, hand, at).await;
    let version = db.store().agent(&agent(name)).await.unwrap().unwrap().version;
    let is_overtaken = version != row.version;
    let done = db.store().complete(&lease, patch).await;
    match done {
        Ok(_) => assert!(!is_overtaken, "{hand:?}"),
        Err(error) => {
            assert!(matches!(error, StoreError::Fenced(_)), "{hand:?}: {error}");
            db.store().release(&[lease], now(at)).await.unwrap();
        }
    }
}

/// Checks that the data verifies, and that readers get everything once: the document, then pending exchanges, then the window.
async fn check(db: &dyn Backend, agent: &AgentId, context: &str) {
    let report = db.store().verify(agent).await.unwrap();
    assert_eq!(report.breaches, [], "{context}");
    for row in [
        db.store().summary(agent).await.unwrap().unwrap(),
        db.store().summary_of_step(agent).await.unwrap().unwrap(),
    ] {
        let begins = row.pending.first().map(|exchange| exchange.exchange);
        assert!(begins.is_none_or(|first| first > row.summarized_through), "{context}");
        assert!(row.pending_since.is_none() || row.summarized_through + 1 < row.first_exchange, "{context}");
    }
    let sql = format!(
        "SELECT (a.pending_since IS NULL) OR EXISTS (SELECT 1 FROM summary_update_queue q WHERE q.agent_id = a.agent_id) \
         FROM agents a WHERE a.agent_id = '{agent}'"
    );
    assert_eq!(db.number(&sql).await, Some(1), "pending, and nobody knows: {context}");
}

async fn live(db: &dyn Backend, name: &str, script: &[(Event, Option<Hand>)]) {
    let agent = agent(name);
    for (at, (event, hand)) in (0..).zip(script) {
        match message(event, at) {
            Some(message) => drop(db.store().append(append(&agent, vec![message])).await.unwrap()),
            None => summarise(db, &agent).await,
        }
        match hand {
            Some(Hand::Overtaken(hand)) => overtaken(db, name, hand, at).await,
            Some(hand) => reach_in(db, name, hand, at).await,
            None => {}
        }
        check(db, &agent, &format!("after event {at}, {event:?}, {hand:?}")).await;
    }
}

pub(crate) async fn an_operator_may_act_at_any_time(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let run = |(events, hands): (Vec<Event>, Vec<Option<Hand>>)| {
        case.set(case.get() + 1);
        let (parent, child) = (format!("parent-{}", case.get()), format!("child-{}", case.get()));
        // The first message creates the agent; without one there is nothing to summarise.
        let events = std::iter::once(Event::Said("user", 10)).chain(events);
        let script: Vec<(Event, Option<Hand>)> = events.zip(hands).collect();
        let (before, after) = script.split_at(script.len().div_ceil(2));
        Handle::current().block_on(async {
            live(db, &parent, before).await;
            db.store().fork(&agent(&parent), &agent(&child), minute(2_000)).await.unwrap();
            live(db, &child, after).await;
            for name in [&parent, &child] {
                trickle(db, name, 60).await;
                summarise(db, &agent(name)).await;
                let report = db.store().verify(&agent(name)).await.unwrap();
                assert_eq!((report.breaches.as_slice(), report.pending), ([].as_slice(), 0));
                let held = format!(
                    "SELECT count(*) FROM summaries WHERE agent_id = '{name}' AND held_version IS NOT NULL"
                );
                assert_eq!(db.number(&held).await, Some(0));
            }
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let lives = (events(), vec(hands(), 51));
    tokio::task::block_in_place(|| runner.run(&lives, run)).unwrap();
}
