//! Fork: the child shares the parent's past, and nothing of its future.

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_core::domain::{agent::AgentId, lineage::Step, window::Budget, work::Reason};
use recapd_store::{
    AgentRow, Ancestor, ExchangeQuery, ForkOutcome, PreparedMessage, StepOutcome, StoreError,
};
use tokio::runtime::Handle;

use super::{
    clean,
    forget::forget,
    lineage::step,
    lineage_scripts::{Event, events, live, state, summarise},
};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    cases::cases,
    conversation::{ALL, T0, TURN_TOKENS, agent, append, claim, minute, said, turns},
};

const CASES: u32 = 8;

async fn say(db: &dyn Backend, name: &str, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent(name), messages);
    request.rules.budget = Budget::new(2 * TURN_TOKENS, 1.0);
    db.store().append(request).await.unwrap();
    clean(db, &agent(name)).await;
}

async fn fork(db: &dyn Backend, parent: &str, child: &str) -> ForkOutcome {
    let forked = db.store().fork(&agent(parent), &agent(child), minute(50)).await.unwrap();
    clean(db, &agent(child)).await;
    forked
}

async fn row(db: &dyn Backend, name: &str) -> AgentRow {
    db.store().agent(&agent(name)).await.unwrap().unwrap()
}

/// Describes an agent's exchanges, message by message, and its document.
async fn said_so_far(db: &dyn Backend, agent: &AgentId) -> String {
    let query = ExchangeQuery { from: 0, through: i64::MAX, limit: 1_000, bytes_max: i64::MAX };
    let stored = db.store().exchanges(agent, query).await.unwrap();
    let summary = db.store().summary(agent).await.unwrap().unwrap();
    format!("{stored:#?} {} {}", summary.version, summary.content)
}

/// An inherited item's exchanges aren't in the child, so it couldn't be written again, and nothing may replace it.
pub(crate) async fn inherited_items_stay(db: &dyn Backend) {
    say(db, "a", turns(1..=4)).await;
    summarise(db, &agent("a")).await;
    say(db, "a", turns(5..=6)).await;
    fork(db, "a", "b").await;
    let store = db.store();
    for name in ["a", "b"].map(agent) {
        let urged = store.enqueue(&name, Reason::Manual, 0, minute(60));
        urged.await.unwrap();
    }
    let leases = store.claim(claim("daemon", 9, minute(60))).await.unwrap();
    for (name, fixed) in [("a", 0), ("b", 2)] {
        let lease = leases.iter().find(|lease| lease.agent == agent(name)).unwrap();
        let material = store.material(lease, ALL).await.unwrap();
        assert_eq!(material.fixed.len(), fixed, "{name}: {:?}", material.items);
    }
}

pub(crate) async fn a_child_begins_where_its_parent_stands(db: &dyn Backend) {
    let mut messages = vec![said("system", "Be brief", 5, minute(0))];
    messages.extend(turns(1..=4));
    say(db, "a", messages).await;
    summarise(db, &agent("a")).await;
    say(db, "a", turns(5..=6)).await;
    let forked = fork(db, "a", "b").await;
    // 1 to 3 are covered, 4 and 5 are pending, and 6 is in the window with the preamble.
    assert_eq!((forked.fork_exchange, forked.exchanges, forked.items), (Some(6), 3, 3));
    let (parent, child) = (row(db, "a").await, row(db, "b").await);
    assert_eq!(
        (child.ledger.first_exchange, child.ledger.summarized_through),
        (parent.ledger.first_exchange, parent.ledger.summarized_through)
    );
    assert_eq!(child.ledger.window_tokens(), parent.ledger.window_tokens());
    assert_eq!((child.version, child.budget_tokens), (1, parent.budget_tokens));
    let numbers = "SELECT exchange || ' ' || tokens_before || ' ' || source_agent_id FROM exchange_log \
                   WHERE agent_id = 'b' ORDER BY exchange";
    assert_eq!(db.texts(numbers, "; ").await, "0 0 a; 4 0 a; 5 100 a; 6 200 a");
    assert_eq!(db.number("SELECT count(*) FROM message_log WHERE agent_id = 'b'").await, Some(0));
    let content = async |name| db.store().summary(&agent(name)).await.unwrap().unwrap().content;
    assert_eq!(content("a").await, content("b").await);
    // The child continues on its own, in a new exchange with the next number.
    say(db, "b", vec![said("assistant", "Late", 5, minute(60))]).await;
    say(db, "b", turns(61..=63)).await;
    summarise(db, &agent("b")).await;
    let report = clean(db, &agent("b")).await;
    assert_eq!((report.messages, report.exchanges, report.pending), (7, 7, 0));
    assert_eq!(row(db, "a").await, parent);
}

/// Thinking that took place while something was out of view may be bound to that, even if all of it is back in the window.
pub(crate) async fn a_child_knows_of_earlier_evictions(db: &dyn Backend) {
    let store = db.store();
    for (name, child, has_evicted) in [("a", "b", true), ("c", "d", false)] {
        if has_evicted {
            say(db, name, turns(1..=4)).await;
        }
        let mut request = append(&agent(name), turns(5..=6));
        request.rules.budget = Budget::new(100 * TURN_TOKENS, 1.0);
        store.append(request).await.unwrap();
        fork(db, name, child).await;
        assert_eq!(row(db, child).await.ledger.first_exchange, 1, "all is in the window");
        assert_eq!(store.has_evicted(&agent(child)).await.unwrap(), has_evicted, "{child}");
    }
    // Its own evictions continue the numbers.
    say(db, "b", turns(61..=63)).await;
    let numbers = "SELECT agent_id || ' ' || eviction FROM evictions ORDER BY agent_id, eviction";
    let told = db.texts(numbers, "; ").await;
    let last = db.number("SELECT last_eviction FROM agents WHERE agent_id = 'b'").await.unwrap();
    assert!(told.ends_with(&format!("; b {last}")), "{told}");
    let of_parent = db.number("SELECT last_eviction FROM agents WHERE agent_id = 'a'").await;
    assert!(of_parent.unwrap() > 0 && Some(last) > of_parent, "{told}");
}

pub(crate) async fn a_fork_before_the_first_word_shares_nothing(db: &dyn Backend) {
    say(db, "a", Vec::new()).await;
    let forked = fork(db, "a", "b").await;
    assert_eq!((forked.fork_exchange, forked.exchanges, forked.enqueued), (None, 0, None));
    say(db, "a", turns(1..=5)).await;
    assert_eq!(row(db, "b").await.ledger, recapd_core::domain::ledger::Ledger::default());
    say(db, "b", turns(7..=7)).await;
    let report = clean(db, &agent("b")).await;
    assert_eq!((report.messages, report.exchanges), (2, 1));
    let line = db.store().ancestors(&agent("b")).await.unwrap();
    assert_eq!(line, [Ancestor { agent: agent("a"), fork_exchange: None }]);
}

pub(crate) async fn a_child_needs_a_parent_and_a_new_name(db: &dyn Backend) {
    say(db, "a", turns(1..=1)).await;
    say(db, "b", turns(1..=1)).await;
    let before = db.dump(&TABLES).await;
    for taken in ["a", "b"] {
        let refused = db.store().fork(&agent("a"), &agent(taken), T0).await;
        assert!(matches!(refused, Err(StoreError::AgentExists(name)) if name == agent(taken)));
    }
    let refused = db.store().fork(&agent("nobody"), &agent("c"), T0).await;
    assert!(matches!(refused, Err(StoreError::UnknownAgent(name)) if name == agent("nobody")));
    assert_same(&before, &db.dump(&TABLES).await, "refused");
}

/// A rewind in the child to a mark from before the fork changes nothing in the parent, and vice versa.
pub(crate) async fn parent_and_child_rewind_independently(db: &dyn Backend) {
    let mut messages = turns(1..=2);
    messages.push(step(&Step::Mark(None), 2));
    messages.extend(turns(3..=3));
    say(db, "a", messages).await;
    fork(db, "a", "b").await;
    let (parent, child) = (said_so_far(db, &agent("a")).await, said_so_far(db, &agent("b")).await);
    let back = || append(&agent("b"), vec![step(&Step::Rewind(None), 9)]);
    let outcome = db.store().rewind(back()).await.unwrap();
    // The exchange of the rewind's own message is set aside, too, but it has no content.
    let rewound = StepOutcome::Rewound { exchange: 2, set_aside: 1, version: None };
    assert_eq!(outcome.steps, [rewound]);
    clean(db, &agent("b")).await;
    assert_eq!(said_so_far(db, &agent("a")).await, parent);
    // Nothing joins the inherited exchange, whatever the numbers say.
    say(db, "b", vec![said("assistant", "Late", 5, minute(10))]).await;
    say(db, "a", vec![step(&Step::Rewind(None), 9)]).await;
    fork(db, "a", "c").await;
    assert_ne!(said_so_far(db, &agent("c")).await, child);
    clean(db, &agent("b")).await;
}

/// A rewind can't go back to a mark before the child's own rows.
pub(crate) async fn marks_before_the_watermark_stay_with_the_parent(db: &dyn Backend) {
    let mut messages = turns(1..=1);
    messages.push(step(&Step::Mark(Some("old".to_owned())), 1));
    messages.extend(turns(2..=4));
    say(db, "a", messages).await;
    summarise(db, &agent("a")).await;
    fork(db, "a", "b").await;
    let back = append(&agent("b"), vec![step(&Step::Rewind(Some("old".to_owned())), 9)]);
    let refused = db.store().rewind(back).await;
    assert!(matches!(refused, Err(StoreError::UnknownMark(_))), "{refused:?}");
}

pub(crate) async fn ancestors_are_walked_once(db: &dyn Backend) {
    say(db, "a", turns(1..=2)).await;
    fork(db, "a", "b").await;
    say(db, "b", turns(3..=3)).await;
    fork(db, "b", "c").await;
    let line = async |name| db.store().ancestors(&agent(name)).await.unwrap();
    let ancestor = |name, fork_exchange| Ancestor { agent: agent(name), fork_exchange: Some(fork_exchange) };
    assert_eq!(line("c").await, [ancestor("b", 3), ancestor("a", 2)]);
    assert_eq!(line("a").await, []);
    assert_eq!(
        db.number("SELECT count(*) FROM exchange_log WHERE agent_id = 'c' AND source_agent_id = 'a'").await,
        Some(2)
    );
    // A cycle, which no fork creates.
    db.raw("UPDATE agents SET parent_agent_id = 'c', fork_exchange = 3 WHERE agent_id = 'a'").await;
    assert_eq!(line("c").await, [ancestor("b", 3), ancestor("a", 2)]);
    assert_eq!(line("a").await, [ancestor("c", 3), ancestor("b", 3)]);
}

pub(crate) async fn nothing_later_in_the_parent_reaches_the_child(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let compare = |(before, after, own, budget_tokens): (Vec<Event>, Vec<Event>, Vec<Event>, i64)| {
        case.set(case.get() + 1);
        let name = |who: &str| format!("{who}-{}", case.get());
        let (parent, child) = (agent(&name("parent")), agent(&name("child")));
        let before: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(before).collect();
        Handle::current().block_on(async {
            live(db, &parent, &before, budget_tokens).await;
            db.store().fork(&parent, &child, T0).await.unwrap();
            let told = (said_so_far(db, &child).await, state(db, child.as_str()).await);
            live(db, &parent, &after, budget_tokens).await;
            assert_eq!((said_so_far(db, &child).await, state(db, child.as_str()).await), told);
            let parent_told = (said_so_far(db, &parent).await, state(db, parent.as_str()).await);
            live(db, &child, &own, budget_tokens).await;
            assert_eq!((said_so_far(db, &parent).await, state(db, parent.as_str()).await), parent_told);
            summarise(db, &child).await;
            let report = db.store().verify(&child).await.unwrap();
            assert_eq!((report.breaches.as_slice(), report.pending), ([].as_slice(), 0));
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let budgets = prop_oneof![Just(0), 40_i64..400];
    let lives = (events(), events(), events(), budgets);
    tokio::task::block_in_place(|| runner.run(&lives, compare)).unwrap();
}

/// A child that continues in the middle of an exchange keeps that complete, as its parent does, until the user says more.
pub(crate) async fn a_child_keeps_the_exchange_that_it_continues(db: &dyn Backend) {
    let mut messages = turns(1..=1);
    messages.push(said("user", "Look it up", 40, minute(2)));
    messages.push(said("tool_call", "psql", 60, minute(2)));
    say(db, "a", messages).await;
    fork(db, "a", "b").await;
    let window = async |name| {
        let ledger = row(db, name).await.ledger;
        (ledger.first_exchange, ledger.window_tokens())
    };
    for name in ["a", "b"] {
        say(db, name, vec![said("tool_result", "rows", 150, minute(3))]).await;
        assert_eq!(window(name).await, (2, 250), "{name}");
    }
    // Messages without content don't change that, nor does a fork of the fork, or forgetting.
    fork(db, "b", "c").await;
    say(db, "c", vec![step(&Step::Mark(None), 4)]).await;
    assert_eq!(window("c").await, (2, 250));
    say(db, "c", vec![said("assistant", "Found", 10, minute(5))]).await;
    assert_eq!(window("c").await, (2, 260));
    forget(db, "c", &[4]).await;
    assert_eq!(row(db, "c").await.ledger.floor(), Some(2));
    clean(db, &agent("c")).await;
    say(db, "c", vec![said("user", "Next", 200, minute(6))]).await;
    assert_eq!((window("c").await.1, row(db, "c").await.ledger.floor()), (200, Some(5)));
}

/// A rewind leaves the exchange that it goes back to complete.
pub(crate) async fn a_rewind_keeps_the_exchange_that_it_goes_back_to(db: &dyn Backend) {
    let mut messages = vec![said("user", "Look it up", 250, minute(1))];
    messages.push(step(&Step::Mark(None), 1));
    messages.extend(turns(2..=2));
    messages.push(step(&Step::Rewind(None), 3));
    say(db, "a", messages).await;
    for (kind, tokens) in [("command", 0), ("assistant", 10)] {
        say(db, "a", vec![said(kind, "Words", tokens, minute(4))]).await;
        let ledger = row(db, "a").await.ledger;
        assert_eq!((ledger.first_exchange, ledger.last_exchange), (1, 3), "{kind}");
    }
}

/// A clear in the child removes the parent's past from the child's window, like its own.
pub(crate) async fn a_clear_in_the_child_hides_the_parent(db: &dyn Backend) {
    let mut messages = vec![said("system", "Be brief", 5, minute(0))];
    messages.extend(turns(1..=2));
    say(db, "a", messages).await;
    fork(db, "a", "b").await;
    let parent = said_so_far(db, &agent("a")).await;
    say(db, "b", vec![step(&Step::Clear, 9)]).await;
    say(db, "b", turns(10..=10)).await;
    let ledger = row(db, "b").await.ledger;
    // The clear's own message can't join an inherited exchange, so it is in #3.
    assert_eq!((ledger.first_exchange, ledger.window_tokens()), (4, TURN_TOKENS));
    assert_eq!((ledger.preamble, ledger.session), (None, 2));
    let window =
        ExchangeQuery { from: ledger.first_exchange, through: i64::MAX, limit: 10, bytes_max: i64::MAX };
    let window = db.store().exchanges(&agent("b"), window).await.unwrap();
    let texts: Vec<String> = window
        .iter()
        .flat_map(|exchange| exchange.messages.iter().map(|stored| stored.message.text()))
        .collect();
    assert_eq!(texts, ["Question 10", "Answer 10"]);
    // A raised budget brings none of it back, and the parent has lost nothing.
    let mut request = append(&agent("b"), turns(11..=11));
    request.rules.budget = Budget::unlimited();
    db.store().append(request).await.unwrap();
    assert_eq!(row(db, "b").await.ledger.first_exchange, 4);
    assert_eq!(said_so_far(db, &agent("a")).await, parent);
    clean(db, &agent("b")).await;
}

pub(crate) async fn a_later_clear_or_rewind_of_the_parent_leaves_the_child_alone(db: &dyn Backend) {
    let mut messages = turns(1..=1);
    messages.push(step(&Step::Mark(None), 1));
    messages.extend(turns(2..=3));
    say(db, "a", messages).await;
    fork(db, "a", "b").await;
    let child = (said_so_far(db, &agent("b")).await, state(db, "b").await);
    for step_taken in [Step::Rewind(None), Step::Clear] {
        say(db, "a", vec![step(&step_taken, 9)]).await;
        assert_eq!((said_so_far(db, &agent("b")).await, state(db, "b").await), child, "{step_taken:?}");
    }
    // The child still has the mark, and can go back to it.
    let back = append(&agent("b"), vec![step(&Step::Rewind(None), 10)]);
    let outcome = db.store().rewind(back).await.unwrap();
    assert!(
        matches!(outcome.steps.as_slice(), [StepOutcome::Rewound { exchange: 1, .. }]),
        "{:?}",
        outcome.steps
    );
    clean(db, &agent("b")).await;
}
