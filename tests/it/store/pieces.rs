//! Operations on a whole agent work in steps: each leaves everything right, and an interrupted one can continue.

use std::sync::Arc;

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_core::domain::{agent::AgentId, redaction::Redactor, settings::SettingsPatch, window::Budget};
use recapd_store::{AppendRequest, AppendRules, Forget, Forgettable, NewCount, Recount, Store, StoreError};
use serde_json::json;
use tokio::runtime::Handle;

use super::{
    clean,
    forget::forget,
    lineage_scripts::{Event, events, live, state, summarise},
};
use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{T0, TURN_TOKENS, agent, append, minute, rules, turn, turns},
    flaky_store::{FlakyStore, When},
};

const CASES: u32 = 6;
/// More exchanges than one transaction recalculates totals for.
const MANY: i64 = 2_100;

fn wish(name: &str, what: Forgettable) -> Forget {
    Forget { agent: agent(name), what, rules: rules(), redactor: Redactor::standard(), now: minute(200_000) }
}

fn all_of(name: &str, numbers: impl Iterator<Item = i64>) -> Forget {
    wish(name, Forgettable::Exchanges(numbers.collect()))
}

/// Creates an agent without a budget, with this many exchanges.
async fn wide(db: &dyn Backend, name: &str, exchanges: i64) -> AgentId {
    with_budget(db, name, exchanges, Budget::unlimited()).await
}

async fn with_budget(db: &dyn Backend, name: &str, exchanges: i64, budget: Budget) -> AgentId {
    let agent = agent(name);
    for first in (1..=exchanges).step_by(500) {
        let some = turns(first..=(first + 499).min(exchanges));
        let mut request = append(&agent, some);
        request.rules.budget = budget;
        db.store().append(request).await.unwrap();
    }
    agent
}

async fn tokens_before_window(db: &dyn Backend, agent: &AgentId) -> (i64, i64) {
    let row = db.store().agent(agent).await.unwrap().unwrap();
    (row.ledger.tokens_before_window, row.ledger.window_tokens())
}

pub(crate) async fn a_failure_between_two_steps_leaves_nothing_undone(db: &dyn Backend) {
    for (number, when) in [When::Before, When::After].into_iter().enumerate() {
        let name = format!("a{number}");
        let a = wide(db, &name, 150).await;
        let child = agent(&format!("child{number}"));
        db.store().fork(&a, &child, minute(150)).await.unwrap();
        let flaky = FlakyStore::new(db.store());
        flaky.fail("forget_some", 2, when);
        let broken = flaky.forget(all_of(&name, 1..=140)).await;
        assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
        assert_eq!((flaky.met(), flaky.calls("forget_some")), (1, 2));
        let left = db.store().forgettings_left(&a).await.unwrap();
        assert_eq!(left, if when == When::Before { 116 } else { 92 });
        assert_eq!(db.store().forgettings_due(10).await.unwrap(), std::slice::from_ref(&a));
        // Everything forgotten so far is gone everywhere, and life goes on.
        db.store().append(append(&a, turn(151).to_vec())).await.unwrap();
        for agent in [&a, &child] {
            clean(db, agent).await;
        }
        let rest = db.store().forget(wish(&name, Forgettable::Begun)).await.unwrap();
        assert_eq!((rest.messages, rest.agents), (2 * left, vec![a.clone(), child.clone()]));
        assert_eq!(db.store().forgettings_due(10).await.unwrap(), []);
        let unforgotten = format!(
            "SELECT count(*) FROM message_log WHERE agent_id = '{name}' AND forgotten_at IS NULL AND exchange <= 140"
        );
        assert_eq!(db.number(&unforgotten).await, Some(0));
        for agent in [&a, &child] {
            clean(db, agent).await;
        }
        let again = db.store().forget(wish(&name, Forgettable::Begun)).await.unwrap();
        assert_eq!((again.messages, again.exchanges), (0, Vec::new()));
    }
}

pub(crate) async fn totals_follow_in_steps(db: &dyn Backend) {
    let a = wide(db, "a", MANY).await;
    let flaky = FlakyStore::new(db.store());
    flaky.fail("settle_totals", 1, When::Before);
    let broken = flaky.forget(all_of("a", 2..=4)).await;
    assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
    assert_eq!(db.store().totals_due(10).await.unwrap(), std::slice::from_ref(&a));
    let window = MANY * TURN_TOKENS;
    assert_eq!(tokens_before_window(db, &a).await, (0, window), "as it was before");
    clean(db, &a).await;
    db.store().append(append_wide(&a, MANY + 1)).await.unwrap();
    clean(db, &a).await;
    let mut steps = 0;
    while db.store().settle_totals(&a, &rules_without_ceiling(), T0).await.unwrap().is_some() {
        clean(db, &a).await;
        steps += 1;
    }
    assert_eq!(steps, 2);
    assert_eq!(db.store().totals_due(10).await.unwrap(), []);
    assert_eq!(tokens_before_window(db, &a).await, (0, window - 2 * TURN_TOKENS));
}

fn rules_without_ceiling() -> AppendRules {
    AppendRules { budget: Budget::unlimited(), ..rules() }
}

fn append_wide(agent: &AgentId, number: i64) -> AppendRequest {
    AppendRequest { rules: rules_without_ceiling(), ..append(agent, turn(number).to_vec()) }
}

pub(crate) async fn a_fork_inherits_outdated_totals(db: &dyn Backend) {
    let a = wide(db, "a", MANY).await;
    let request = all_of("a", 2..=4);
    db.store().begin_forget(&request).await.unwrap();
    assert_eq!(db.store().forget_some(&request).await.unwrap().remaining, 0);
    let child = agent("child");
    db.store().fork(&a, &child, T0).await.unwrap();
    assert_eq!(db.store().totals_due(10).await.unwrap(), [a.clone(), child.clone()]);
    for agent in [&a, &child] {
        clean(db, agent).await;
        while db.store().settle_totals(agent, &rules_without_ceiling(), T0).await.unwrap().is_some() {}
        clean(db, agent).await;
    }
    assert_eq!(tokens_before_window(db, &a).await, tokens_before_window(db, &child).await);
}

pub(crate) async fn a_large_recount_ends_as_in_a_life_with_that_model(db: &dyn Backend) {
    let budget_tokens = MANY * TURN_TOKENS;
    let rules = AppendRules { budget: Budget::new(budget_tokens, 1.0), ..rules() };
    let a = with_budget(db, "a", MANY, rules.budget).await;
    let patch = SettingsPatch::parse(json!({"model": "another"})).unwrap();
    db.store().change_settings(&a, &patch, T0).await.unwrap();
    let mut evicted = Vec::new();
    while let Some(batch) = db.store().recount_batch(&a, 1_500).await.unwrap() {
        let counts = batch.messages.iter().map(|(exchange, stored)| NewCount {
            exchange: *exchange,
            seq: stored.seq,
            tokens: 2 * stored.tokens,
        });
        let recount = Recount {
            agent: a.clone(),
            counts: counts.collect(),
            settings: batch.settings.clone(),
            from: batch.from,
            before: batch.before,
            is_last: batch.is_last,
            count_method: "another".to_owned(),
            rules,
            now: T0,
        };
        evicted.extend(db.store().recount(recount).await.unwrap().unwrap().evictions);
        adds_up(db, &a).await;
    }
    while let Some(settled) = db.store().settle_totals(&a, &rules, T0).await.unwrap() {
        evicted.extend(settled.evictions);
        adds_up(db, &a).await;
    }
    // The window's budget is enforced with the new counts.
    let mut next = 1;
    for eviction in &evicted {
        assert_eq!(eviction.from_exchange, next);
        next = eviction.through_exchange + 1;
    }
    assert_eq!(next, MANY / 2 + 1);
    assert_eq!(tokens_before_window(db, &a).await, (budget_tokens, budget_tokens));
    clean(db, &a).await;
}

/// Checks everything except the window's budget.
async fn adds_up(db: &dyn Backend, agent: &AgentId) {
    let report = db.store().verify(agent).await.unwrap();
    let breaches = report.breaches.iter();
    let others = breaches.filter(|breach| !breach.found.contains("in a window of"));
    assert_eq!(others.count(), 0, "{:?}", report.breaches);
}

pub(crate) async fn an_agent_being_deleted_is_hidden(db: &dyn Backend) {
    let a = wide(db, "a", 600).await;
    wide(db, "b", 2).await;
    while db.store().index_messages(1_000).await.unwrap() > 0 {}
    let flaky = Arc::new(FlakyStore::new(db.store()));
    flaky.fail("delete_some", 5, When::Before);
    let broken = flaky.delete_agent(&a, minute(300)).await;
    assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
    assert_eq!(db.store().deletions_due(10).await.unwrap(), std::slice::from_ref(&a));
    assert_eq!(db.store().agent(&a).await.unwrap(), None);
    let agents = db.store().agents(None, 10).await.unwrap();
    assert_eq!(agents.iter().map(|row| row.agent.clone()).collect::<Vec<_>>(), [agent("b")]);
    assert!(db.store().summary(&a).await.unwrap().is_none());
    // Its name isn't free yet, and nobody can fork it.
    let early = db.store().append(append(&a, turn(1).to_vec())).await;
    assert!(matches!(early, Err(StoreError::Contended(_))), "{early:?}");
    let forked = db.store().fork(&a, &agent("c"), T0).await;
    assert!(matches!(forked, Err(StoreError::UnknownAgent(_))), "{forked:?}");
    let taken = db.store().fork(&agent("b"), &a, T0).await;
    assert!(matches!(taken, Err(StoreError::AgentExists(_))), "{taken:?}");
    let done = db.store().delete_agent(&a, minute(301)).await.unwrap();
    assert!(done.messages > 0 && done.messages < 1_200, "{done:?}");
    assert_eq!(db.store().deletions_due(10).await.unwrap(), []);
    assert!(!db.dump(&crate::support::backend::TABLES).await.contains("\"a\""));
    assert_eq!(db.indexed(None).await, 4);
    db.store().append(append(&a, turn(1).to_vec())).await.unwrap();
    while db.store().index_messages(1_000).await.unwrap() > 0 {}
    assert_eq!(db.indexed(None).await, 6);
    for agent in [a, agent("b")] {
        clean(db, &agent).await;
    }
}

pub(crate) async fn many_earlier_texts_go_first(db: &dyn Backend) {
    let a = agent("a");
    for number in 1..=80 {
        db.store().append(append(&a, turn(number).to_vec())).await.unwrap();
        summarise(db, &a).await;
    }
    let request = all_of("a", std::iter::once(1));
    db.store().begin_forget(&request).await.unwrap();
    for _ in 0..2 {
        let some = db.store().forget_some(&request).await.unwrap();
        assert_eq!((some.versions, some.remaining), (32, 1));
    }
    let last = db.store().forget_some(&request).await.unwrap();
    assert_eq!(last.remaining, 0);
    assert!(last.versions > 10, "{last:?}");
    let texts = "SELECT count(*) FROM summary_versions WHERE agent_id = 'a' AND content <> ''";
    assert_eq!(db.number(texts).await, Some(1), "of the document itself");
    clean(db, &a).await;
}

/// A life, and the exchanges of it that are forgotten.
type Life = (Vec<Event>, std::collections::BTreeSet<i64>);

pub(crate) async fn steps_end_as_one_does(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let compare = |(life, chosen): Life| {
        case.set(case.get() + 1);
        let [whole, parts] = ["whole", "parts"].map(|who| format!("{who}-{}", case.get()));
        let life: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(life).collect();
        Handle::current().block_on(async {
            for name in [&whole, &parts] {
                live(db, &agent(name), &life, 150).await;
            }
            let last = db.store().agent(&agent(&whole)).await.unwrap().unwrap();
            let chosen: Vec<i64> = chosen
                .into_iter()
                .filter(|number| *number <= last.ledger.last_exchange)
                .filter(|number| *number > 0)
                .collect();
            forget(db, &whole, &chosen).await;
            for number in &chosen {
                forget(db, &parts, &[*number]).await;
            }
            for name in [&whole, &parts] {
                summarise(db, &agent(name)).await;
                clean(db, &agent(name)).await;
            }
            assert_eq!(state(db, &whole).await, state(db, &parts).await);
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let lives = (events(), prop::collection::btree_set(0_i64..14, 1..8));
    tokio::task::block_in_place(|| runner.run(&lives, compare)).unwrap();
}
