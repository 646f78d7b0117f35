//! Agents' overrides of the configuration, and the effect of a changed budget on the window.

use std::cell::Cell;

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use recapd_core::domain::{
    agent::AgentId,
    budget::{Budget, OnOverflow},
    context::{Alternation, ContextOptions},
    ledger::{Return, TooBig},
    lineage::Step,
    preset::Basis,
    settings::{AgentSettings, SettingsPatch},
};
use recapd_store::{
    AppendOutcome, ExchangeQuery, Fence, MaterialLimits, MessageRange, MessageScope, PreparedMessage, Settle,
    StoreError,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    clean,
    lineage::step,
    lineage_scripts::{self, Event, events, message, state},
    the_lease, with_pending,
};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    cases::cases,
    conversation::{ALL, T0, TURN_TOKENS, agent, append, items, make, minute, patch, said, turn, turns},
};

const CASES: u32 = 12;

async fn set(db: &dyn Backend, agent: &AgentId, patch: Value) -> AgentSettings {
    let patch = SettingsPatch::parse(patch).unwrap();
    db.store().change_settings(agent, &patch, T0).await.unwrap()
}

/// Appends the turn of this number, and verifies the agent.
async fn next_turn(db: &dyn Backend, agent: &AgentId, number: i64) -> AppendOutcome {
    let outcome = db.store().append(append(agent, turn(number).to_vec())).await.unwrap();
    clean(db, agent).await;
    outcome
}

/// Covers at most `exchanges_max` pending exchanges.
async fn summarise(db: &dyn Backend, exchanges_max: i64) {
    let lease = the_lease(db, minute(60)).await;
    let limits = MaterialLimits { exchanges_max, ..ALL };
    let material = db.store().material(&lease, limits).await.unwrap();
    let patch = patch(&material, items(&material), minute(60));
    db.store().complete(&lease, patch).await.unwrap();
}

pub(crate) async fn a_patch_before_the_first_message_makes_the_agent(db: &dyn Backend) {
    let a = agent("a");
    let settings = set(db, &a, json!({"budget_tokens": 2 * TURN_TOKENS})).await;
    let row = db.store().agent(&a).await.unwrap().unwrap();
    assert_eq!((row.settings, row.ledger.last_seq), (settings, 0));
    clean(db, &a).await;
    let outcome = db.store().append(append(&a, turns(1..=3))).await.unwrap();
    assert_eq!((outcome.accepted, outcome.first_exchange), (6, 2));
    clean(db, &a).await;
}

pub(crate) async fn a_patch_changes_what_it_names(db: &dyn Backend) {
    let (one, other) = (with_pending(db, "a", 0).await, with_pending(db, "b", 0).await);
    set(db, &one, json!({"budget_tokens": 500, "model": "gpt-5"})).await;
    let settings = set(db, &one, json!({"model": null, "on_overflow": "end"})).await;
    assert_eq!(json!(settings), json!({"budget_tokens": 500, "on_overflow": "end"}));
    let row = |agent| async move { db.store().agent(agent).await.unwrap().unwrap() };
    assert_eq!(row(&one).await.settings, settings);
    assert_eq!(row(&other).await.settings, AgentSettings::default());
    db.raw("UPDATE agents SET settings = '{\"budget\":1}' WHERE agent_id = 'b'").await;
    let broken = db.store().agent(&other).await;
    assert!(matches!(broken, Err(StoreError::Inconsistent { column: "settings", .. })));
}

pub(crate) async fn settings_override_the_rules_of_an_append(db: &dyn Backend) {
    let agent = with_pending(db, "a", 0).await;
    set(db, &agent, json!({"budget_tokens": 3 * TURN_TOKENS})).await;
    for number in 2..=3 {
        assert_eq!(next_turn(db, &agent, number).await.evictions, []);
    }
    let outcome = next_turn(db, &agent, 4).await;
    assert_eq!((outcome.first_exchange, outcome.budget.budget_tokens()), (2, 300));
    set(db, &agent, json!({"low_water": 0.4})).await;
    assert_eq!(next_turn(db, &agent, 5).await.first_exchange, 5);
    // Back to the configuration's budget, which holds one turn.
    set(db, &agent, json!({"budget_tokens": null, "low_water": null})).await;
    assert_eq!(next_turn(db, &agent, 6).await.window_tokens, TURN_TOKENS);
    let row = db.store().agent(&agent).await.unwrap().unwrap();
    assert_eq!(row.budget_tokens, TURN_TOKENS);
}

pub(crate) async fn a_raised_budget_brings_pending_exchanges_back(db: &dyn Backend) {
    let agent = with_pending(db, "a", 5).await;
    summarise(db, 2).await;
    set(db, &agent, json!({"budget_tokens": 0})).await;
    // Not before the next message, and a known message doesn't count.
    assert_eq!(db.store().append(append(&agent, Vec::new())).await.unwrap().returned, None);
    let outcome = next_turn(db, &agent, 7).await;
    let returned = Return { from_exchange: 3, through_exchange: 5, tokens: 3 * TURN_TOKENS };
    assert_eq!((outcome.returned, outcome.first_exchange), (Some(returned), 3));
    assert_eq!((outcome.summarized_through, outcome.window_tokens), (2, 5 * TURN_TOKENS));
    let row = db.store().agent(&agent).await.unwrap().unwrap();
    assert_eq!(row.pending_since, None);
    let query = ExchangeQuery { from: 1, through: 7, limit: 10, bytes_max: 0 };
    let exchanges = db.store().exchanges(&agent, query).await.unwrap();
    let evicted: Vec<i64> = exchanges
        .iter()
        .filter(|stored| stored.evicted_at.is_some())
        .map(|stored| stored.exchange.exchange)
        .collect();
    assert_eq!(evicted, [1, 2]);
    assert_eq!(next_turn(db, &agent, 8).await.returned, None);
}

/// One by one, then all together: exchanges that left twice left at the later time, for every reader.
pub(crate) async fn returned_exchanges_leave_at_a_later_time(db: &dyn Backend) {
    let agent = with_pending(db, "a", 5).await;
    set(db, &agent, json!({"budget_tokens": 0})).await;
    for number in 7..=12 {
        next_turn(db, &agent, number).await;
    }
    set(db, &agent, json!({"budget_tokens": null})).await;
    let outcome = next_turn(db, &agent, 13).await;
    let [left] = outcome.evictions.try_into().unwrap();
    assert_eq!((left.from_exchange, left.through_exchange), (1, 12));
    let query = ExchangeQuery { from: 1, through: 13, limit: 20, bytes_max: 0 };
    let mut told = [Some(left.at); 13];
    told[12] = None;
    let stored = db.store().exchanges(&agent, query).await.unwrap();
    let evicted: Vec<_> = stored.iter().map(|stored| stored.evicted_at).collect();
    assert_eq!(evicted, told);
    let range = MessageRange {
        after_seq: 0,
        messages_max: 1,
        bytes_max: 1_000,
        is_current: true,
        scope: MessageScope::All,
    };
    let expanded = db.store().expand(&agent, 3, range).await.unwrap().unwrap();
    assert_eq!(expanded.placed.evicted_at, Some(left.at));
    for (view, rows) in [("exchanges", 12), ("messages", 24)] {
        let last = format!(
            "SELECT count(*) FROM {view} WHERE agent_id = 'a' AND evicted_at = (SELECT evicted_at FROM evictions \
             WHERE agent_id = 'a' AND through_exchange = 12)"
        );
        assert_eq!(db.number(&last).await, Some(rows), "{view}");
    }
}

pub(crate) async fn a_raised_budget_brings_back_no_more_than_fits(db: &dyn Backend) {
    let agent = with_pending(db, "a", 8).await;
    set(db, &agent, json!({"budget_tokens": 500, "low_water": 0.8})).await;
    let outcome = next_turn(db, &agent, 10).await;
    // The low water is four turns, and the fifth is the new one.
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (6, 500));
    assert_eq!(outcome.evictions, []);
    assert_eq!(clean(db, &agent).await.pending, 5);
    set(db, &agent, json!({"budget_tokens": 400})).await;
    let outcome = next_turn(db, &agent, 11).await;
    assert_eq!((outcome.returned, outcome.window_tokens), (None, 300));
}

pub(crate) async fn returned_exchanges_are_not_summarised(db: &dyn Backend) {
    let agent = with_pending(db, "a", 4).await;
    let lease = the_lease(db, minute(1)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    set(db, &agent, json!({"budget_tokens": 10 * TURN_TOKENS, "low_water": 1})).await;
    assert_eq!(next_turn(db, &agent, 6).await.first_exchange, 1);
    let late = db.store().complete(&lease, patch(&material, items(&material), minute(1))).await;
    assert!(matches!(late, Err(StoreError::Fenced(Fence::Watermark))), "{late:?}");
    // The row still exists, and finds nothing to do.
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.exchanges.len()), (0, 0, 0));
    let settle = Settle { lo: material.lo, hi: material.hi, now: minute(1) };
    db.store().settle(&lease, settle).await.unwrap();
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    assert_eq!(clean(db, &agent).await.in_window, 6);
}

/// Neither the agent nor its child brings back exchanges that a clear removed, whatever sessions followed.
pub(crate) async fn cleared_exchanges_do_not_come_back(db: &dyn Backend) {
    let parent = with_pending(db, "a", 5).await;
    let mut messages = vec![step(&Step::Clear, 7)];
    messages.extend(turns(8..=9));
    db.store().append(append(&parent, messages)).await.unwrap();
    db.store().end_session(&parent, minute(9)).await.unwrap();
    assert_eq!(next_turn(db, &parent, 10).await.first_exchange, 9);
    let child = agent("b");
    db.store().fork(&parent, &child, minute(10)).await.unwrap();
    let grandchild = agent("c");
    db.store().fork(&child, &grandchild, minute(10)).await.unwrap();
    let returned = Return { from_exchange: 7, through_exchange: 8, tokens: 2 * TURN_TOKENS };
    for agent in [parent, child, grandchild] {
        set(db, &agent, json!({"budget_tokens": 0})).await;
        let outcome = next_turn(db, &agent, 11).await;
        assert_eq!((outcome.returned, outcome.first_exchange), (Some(returned), 7));
        assert_eq!(clean(db, &agent).await.pending, 6);
    }
}

/// A child has its parent's settings, but no rows of exchanges that were covered at the fork.
pub(crate) async fn a_child_brings_back_only_exchanges_that_it_has(db: &dyn Backend) {
    let parent = with_pending(db, "a", 5).await;
    summarise(db, 2).await;
    let settings = set(db, &parent, json!({"budget_tokens": 0})).await;
    let child = agent("b");
    db.store().fork(&parent, &child, minute(10)).await.unwrap();
    let row = db.store().agent(&child).await.unwrap().unwrap();
    assert_eq!(row.settings, settings);
    let outcome = next_turn(db, &child, 7).await;
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (3, 5 * TURN_TOKENS));
    assert_eq!(clean(db, &child).await.in_window, 5);
}

/// A rewind evicts nothing that a raised budget brought back, and brings back nothing set aside.
pub(crate) async fn a_rewind_keeps_returned_exchanges(db: &dyn Backend) {
    let agent = with_pending(db, "a", 2).await;
    let mut messages = vec![step(&Step::Mark(None), 3)];
    messages.extend(turns(4..=5));
    db.store().append(append(&agent, messages)).await.unwrap();
    set(db, &agent, json!({"budget_tokens": 0})).await;
    assert_eq!(next_turn(db, &agent, 6).await.first_exchange, 1);
    let back = append(&agent, vec![step(&Step::Rewind(None), 7)]);
    let outcome = db.store().rewind(back).await.unwrap();
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (1, 3 * TURN_TOKENS));
    assert_eq!(clean(db, &agent).await.in_window, 3);
    set(db, &agent, json!({"budget_tokens": TURN_TOKENS})).await;
    let outcome = next_turn(db, &agent, 8).await;
    assert_eq!((outcome.exchange, outcome.first_exchange), (7, 7));
    assert!(outcome.enqueued.is_some());
    set(db, &agent, json!({"budget_tokens": 0})).await;
    let outcome = next_turn(db, &agent, 9).await;
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (1, 5 * TURN_TOKENS));
}

pub(crate) async fn an_overflow_is_refused_whole(db: &dyn Backend) {
    let agent = with_pending(db, "a", 2).await;
    set(db, &agent, json!({"on_overflow": "refuse"})).await;
    let before = db.dump(&TABLES).await;
    let big = [said("user", "Much", 60, minute(9)), said("assistant", "More", 41, minute(9))];
    let refused = db.store().append(append(&agent, big.to_vec())).await;
    let expected = TooBig { tokens: TURN_TOKENS + 1, budget_tokens: TURN_TOKENS };
    assert!(matches!(refused, Err(StoreError::WouldOverflow(found)) if found == expected), "{refused:?}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    // A message that fits once the others have left is accepted, and so is a known one.
    assert_eq!(next_turn(db, &agent, 4).await.window_tokens, TURN_TOKENS);
}

pub(crate) async fn an_overflow_ends_the_session_once(db: &dyn Backend) {
    let agent = with_pending(db, "a", 2).await;
    set(db, &agent, json!({"on_overflow": "end"})).await;
    let say = |kind, tokens| append(&agent, vec![said(kind, "Words", tokens, minute(9))]);
    let outcome = db.store().append(say("user", TURN_TOKENS + 1)).await.unwrap();
    assert_eq!((outcome.accepted, outcome.session_ended), (1, Some(1)));
    assert!(outcome.enqueued.is_some(), "what is pending is urgent");
    let outcome = db.store().append(say("assistant", 1)).await.unwrap();
    assert_eq!((outcome.exchange, outcome.session_ended), (4, None));
    let outcome = db.store().append(say("user", 10)).await.unwrap();
    assert_eq!((outcome.exchange, outcome.session_ended), (5, None));
    assert_eq!(db.number("SELECT count(*) FROM sessions").await, Some(2));
    assert_eq!(db.text("SELECT end_reason FROM sessions WHERE session = 1").await.as_deref(), Some("end"));
    assert_eq!(db.number("SELECT session FROM exchange_log WHERE exchange = 5").await, Some(2));
    clean(db, &agent).await;
}

/// Each message is checked as it comes, whatever follows it; a refused append takes no step.
pub(crate) async fn a_refused_append_takes_no_step(db: &dyn Backend) {
    let agent = with_pending(db, "a", 2).await;
    set(db, &agent, json!({"on_overflow": "refuse"})).await;
    let big = || said("user", "Much", TURN_TOKENS + 1, minute(9));
    let before = db.dump(&TABLES).await;
    let refused = db.store().append(append(&agent, vec![step(&Step::Clear, 8), big()])).await;
    assert!(matches!(refused, Err(StoreError::WouldOverflow { .. })), "{refused:?}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    let cleared = vec![big(), step(&Step::Clear, 10)];
    let refused = db.store().append(append(&agent, cleared)).await;
    assert!(matches!(refused, Err(StoreError::WouldOverflow(_))), "{refused:?}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    clean(db, &agent).await;
}

/// An exchange that is too big is noticed even if the next one begins in the same append.
pub(crate) async fn an_overflow_is_judged_message_by_message(db: &dyn Backend) {
    let messages = || {
        vec![
            said("user", "Much", TURN_TOKENS + 1, minute(1)),
            said("assistant", "More", 10, minute(2)),
            said("usage", "", 0, minute(2)),
            said("user", "Little", 10, minute(3)),
            said("assistant", "Less", 10, minute(4)),
        ]
    };
    let mut states = Vec::new();
    for (name, parts) in [
        ("together", vec![messages()]),
        ("apart", messages().into_iter().map(|message| vec![message]).collect()),
    ] {
        let agent = with_pending(db, name, 2).await;
        set(db, &agent, json!({"on_overflow": "end"})).await;
        let (mut ended, mut is_urgent) = (Vec::new(), false);
        for part in parts {
            let outcome = db.store().append(append(&agent, part)).await.unwrap();
            ended.extend(outcome.session_ended);
            is_urgent |= outcome.session_ended.is_some() && outcome.enqueued.is_some();
        }
        assert_eq!((ended, is_urgent), (vec![1], true), "{name}");
        clean(db, &agent).await;
        states.push(state(db, name).await);
    }
    assert_eq!(states[0], states[1]);
    let agent = with_pending(db, "refusing", 2).await;
    set(db, &agent, json!({"on_overflow": "refuse"})).await;
    let before = db.dump(&TABLES).await;
    let refused = db.store().append(append(&agent, messages())).await;
    assert!(matches!(refused, Err(StoreError::WouldOverflow(_))), "{refused:?}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
}

/// The configuration's rules apply to an agent without settings, and its preset is expanded with their values.
pub(crate) async fn a_preset_decides_what_is_not_set(db: &dyn Backend) {
    let agent = with_pending(db, "a", 2).await;
    set(db, &agent, json!({"preset": "chat", "max_messages": 4, "budget_tokens": 0})).await;
    let outcome = next_turn(db, &agent, 4).await;
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (3, 2 * TURN_TOKENS));
    set(db, &agent, json!({"preset": "request-limit", "max_messages": null, "budget_tokens": null})).await;
    let outcome = next_turn(db, &agent, 5).await;
    assert_eq!(outcome.budget, Budget::new(86_000, 1.0).with_leg_tokens(0));
    set(db, &agent, json!({"preset": null})).await;
    let mut request = append(&agent, vec![said("user", "Much", TURN_TOKENS + 1, minute(9))]);
    request.rules.on_overflow = OnOverflow::End;
    let outcome = db.store().append(request).await.unwrap();
    assert_eq!(outcome.session_ended, Some(1));
}

/// A ceiling in messages evicts whole exchanges, oldest first, never the newest; raised, it brings some back.
pub(crate) async fn a_ceiling_in_messages_is_kept(db: &dyn Backend) {
    let agent = agent("a");
    make(db, "a").await;
    set(db, &agent, json!({"budget_tokens": 0, "max_messages": 6})).await;
    let mut first = Vec::new();
    for number in 1..=6 {
        first.push(next_turn(db, &agent, number).await.first_exchange);
    }
    assert_eq!(first, [1, 1, 1, 2, 3, 4]);
    // Metadata doesn't count, and a long exchange stays whole.
    let metadata = vec![said("usage", "", 0, minute(7)); 9];
    let outcome = db.store().append(append(&agent, metadata)).await.unwrap();
    assert_eq!(outcome.first_exchange, 4);
    let long = (0..9).map(|_| said("tool_call", "bash", 1, minute(8)));
    let long: Vec<PreparedMessage> =
        std::iter::once(said("user", "Long", 1, minute(8))).chain(long).collect();
    let outcome = db.store().append(append(&agent, long)).await.unwrap();
    assert_eq!((outcome.first_exchange, outcome.exchange), (7, 7));
    assert_eq!(clean(db, &agent).await.pending, 6);
    set(db, &agent, json!({"max_messages": 13})).await;
    let outcome = next_turn(db, &agent, 9).await;
    assert_eq!((outcome.first_exchange, outcome.returned.map(|back| back.from_exchange)), (7, Some(6)));
    set(db, &agent, json!({"max_messages": 0})).await;
    let outcome = next_turn(db, &agent, 10).await;
    assert_eq!(outcome.first_exchange, 1);
    clean(db, &agent).await;
}

/// A child has its parent's settings, including preset and reserves.
pub(crate) async fn a_child_inherits_all_settings(db: &dyn Backend) {
    let parent = with_pending(db, "a", 2).await;
    let settings = set(
        db,
        &parent,
        json!({"preset": "chat", "max_messages": 4, "context_max_tokens": 9_000, "output_reserve_tokens": 1_000,
               "system_reserve_tokens": 2_000, "anchor": false, "alternation": "keep", "on_overflow": "refuse"}),
    )
    .await;
    db.store().fork(&parent, &agent("b"), minute(10)).await.unwrap();
    let row = db.store().agent(&agent("b")).await.unwrap().unwrap();
    assert_eq!(row.settings, settings);
    let options = settings.expanded(&Basis::default()).context_options(ContextOptions::default());
    assert_eq!(options.limit_tokens(), Some(6_000));
    assert_eq!((options.anchor, options.alternation), (false, Alternation::Keep));
    let outcome = next_turn(db, &agent("b"), 7).await;
    assert_eq!(outcome.budget, Budget::new(TURN_TOKENS, 1.0).with_max_messages(4).with_leg_tokens(0));
    clean(db, &agent("b")).await;
}

/// Budgets go up and down while the summary follows; every state in between verifies.
pub(crate) async fn budgets_may_change_at_any_time(db: &dyn Backend) {
    let agent = with_pending(db, "a", 3).await;
    let budgets = [300, 0, 100, 700, 200, 650, 0, 0, 300, 1_000, 100, 400];
    for (number, budget) in (5..).zip(budgets) {
        set(db, &agent, json!({"budget_tokens": budget})).await;
        let before = db.store().agent(&agent).await.unwrap().unwrap();
        let outcome = next_turn(db, &agent, number).await;
        assert!(budget == 0 || outcome.window_tokens <= budget, "{outcome:?}");
        assert!(outcome.first_exchange > before.ledger.summarized_through);
        let pending = outcome.first_exchange - 1 - outcome.summarized_through;
        if number % 4 == 0 && pending > 0 {
            summarise(db, 2).await;
            clean(db, &agent).await;
        }
    }
    let exchanges = db.number("SELECT count(*) FROM exchange_log").await;
    assert_eq!(exchanges, Some(16));
}

/// The same, while the agent is cleared, marked, rewound and forked.
pub(crate) async fn budgets_may_change_in_any_life(db: &dyn Backend) {
    let case = Cell::new(0);
    let check = |(events, budgets): (Vec<Event>, Vec<Option<i64>>)| {
        case.set(case.get() + 1);
        let (parent, child) =
            (agent(&format!("parent-{}", case.get())), agent(&format!("child-{}", case.get())));
        let events: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(events).collect();
        let (before, after) = events.split_at(events.len().div_ceil(2));
        let mut budgets = budgets.into_iter();
        Handle::current().block_on(async {
            let floor = live_with_budgets(db, &parent, before, &mut budgets, 0).await;
            db.store().fork(&parent, &child, minute(0)).await.unwrap();
            clean(db, &child).await;
            live_with_budgets(db, &child, after, &mut budgets, floor).await;
        });
        Ok(())
    };
    let budget = prop::option::of(prop_oneof![Just(0), 40_i64..400]);
    let lives = (events(), vec(budget, 50));
    let mut runner = TestRunner::new(cases(CASES));
    tokio::task::block_in_place(|| runner.run(&lives, check)).unwrap();
}

/// Lives through the events, with a change of the budget before some. The window never begins before `floor` or, later, before the
/// exchange where a clear left it. Returns that exchange.
async fn live_with_budgets(
    db: &dyn Backend,
    agent: &AgentId,
    events: &[Event],
    budgets: &mut impl Iterator<Item = Option<i64>>,
    mut floor: i64,
) -> i64 {
    for (at, event) in (0..).zip(events) {
        if let (Some(budget), true) = (budgets.next().flatten(), at > 0) {
            set(db, agent, json!({"budget_tokens": budget})).await;
        }
        let Some(message) = message(event, at) else {
            lineage_scripts::summarise(db, agent).await;
            continue;
        };
        let outcome = db.store().append(append(agent, vec![message])).await.unwrap();
        if matches!(event, Event::Stepped(Step::Clear)) {
            floor = outcome.first_exchange;
        }
        let context = format!("after event {at}, {event:?}: {outcome:?}");
        assert!(outcome.first_exchange >= floor, "{context}");
        assert_eq!(db.store().verify(agent).await.unwrap().breaches, [], "{context}");
        let pending = outcome.first_exchange - 1 - outcome.summarized_through;
        let sql = "SELECT CASE WHEN pending_since IS NULL THEN 0 ELSE 1 END + (SELECT count(*) FROM summary_update_queue q \
                   WHERE q.agent_id = a.agent_id) FROM agents a WHERE agent_id = ";
        let signs = db.number(&format!("{sql}'{agent}'")).await;
        assert!(pending == 0 || signs == Some(2), "pending, and nobody knows, {context}");
    }
    floor
}
