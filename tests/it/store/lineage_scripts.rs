//! Random lives: whatever is said, marked, rewound, cleared and summarised, the data verifies, and a replay of the messages alone ends in
//! the same state.

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use recapd_core::domain::{agent::AgentId, lineage::Step, note::NoteChange, window::Budget, work::Reason};
use recapd_store::{AppendRequest, Patch, PreparedMessage, Settle};
use tokio::runtime::Handle;

use super::lineage::step;
use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{ALL, agent, append, claim, facts, important, items, minute, said, stating},
};

const CASES: u32 = 20;

/// An event in a life.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Said(&'static str, i64),
    Stepped(Step),
    Summarised,
}

/// The step that writes a note, or deletes it.
pub(super) fn note(name: &str, text: Option<String>) -> Step {
    Step::Note(NoteChange { name: name.parse().unwrap(), text, replaces: None })
}

/// Returns random events.
pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![
        5 => Just("user"), 5 => Just("assistant"), 2 => Just("tool_call"), 2 => Just("tool_result"),
        1 => Just("system"), 1 => Just("interrupted"),
    ];
    let label = || prop::option::of(prop::sample::select(vec!["x", "y"]).prop_map(str::to_owned));
    let event = prop_oneof![
        14 => (kind, 0_i64..80).prop_map(|(kind, tokens)| {
            Event::Said(kind, if kind == "interrupted" { 0 } else { tokens })
        }),
        3 => label().prop_map(|label| Event::Stepped(Step::Mark(label))),
        2 => label().prop_map(|label| Event::Stepped(Step::Rewind(label))),
        1 => Just(Event::Stepped(Step::Clear)),
        2 => (1_i64..40).prop_map(|seq| Event::Stepped(Step::Pin(seq))),
        1 => (1_i64..40).prop_map(|seq| Event::Stepped(Step::Unpin(seq))),
        3 => (prop::sample::select(vec!["plan", "a/b"]), prop::option::of(0_u8..9)).prop_map(|(name, text)| {
            Event::Stepped(note(name, text.map(|text| format!("Text {text}"))))
        }),
        2 => Just(Event::Summarised),
    ];
    vec(event, 1..50)
}

/// Returns the message of event number `at`.
pub(super) fn message(event: &Event, at: i64) -> Option<PreparedMessage> {
    match event {
        // Some are important; any rule works that a replay follows, too.
        Event::Said(kind, tokens) if tokens % 5 == 0 => {
            Some(important(kind, &format!("Message {at}"), *tokens, minute(at)))
        }
        Event::Said(kind, tokens) => Some(said(kind, &format!("Message {at}"), *tokens, minute(at))),
        Event::Stepped(taken) => Some(step(taken, at)),
        Event::Summarised => None,
    }
}

/// Returns exchanges, watermarks and marks of an agent, and its sessions.
pub(super) async fn state(db: &dyn Backend, name: &str) -> String {
    let mut state = Vec::new();
    for (table, columns, order) in [
        (
            "agents",
            "last_seq, last_exchange, newest_exchange, preamble_exchange, session, first_exchange, tokens_before_window",
            "1",
        ),
        (
            "exchange_log",
            "exchange, role, session, first_seq, last_seq, tokens, tokens_before, state, opened_at, last_at, headline, set_aside_at",
            "exchange",
        ),
        ("marks", "mark, label, exchange, first_exchange, tokens_before_window", "mark"),
        ("pins", "seq, source_agent_id = agent_id, exchange, session, pinned, important", "seq"),
        (
            "notes",
            "name, seq, source_agent_id = agent_id, exchange, written_at, bytes, title, deleted",
            "seq",
        ),
        ("sessions", "session, first_exchange, end_reason", "session"),
        ("evictions", "eviction, from_exchange, through_exchange, tokens, evicted_at", "eviction"),
    ] {
        let sql = format!(
            "SELECT CAST({}({columns}) AS text) FROM {table} WHERE agent_id = '{name}' ORDER BY {order}",
            db.json_array()
        );
        state.push(format!("{table} {}", db.texts(&sql, ",").await));
    }
    state.join("\n")
}

/// Summarises everything pending of one agent, and leaves the others' rows alone.
pub(crate) async fn summarise(db: &dyn Backend, agent: &AgentId) {
    let (store, now) = (db.store(), minute(100_000));
    store.enqueue(agent, Reason::Manual, 0, now).await.unwrap();
    for lease in store.claim(claim("daemon", 100, now)).await.unwrap() {
        if lease.agent != *agent {
            store.release(&[lease], now).await.unwrap();
            continue;
        }
        let material = store.material(&lease, ALL).await.unwrap();
        if material.exchanges.is_empty() {
            let (lo, hi) = (material.lo, material.hi);
            store.settle(&lease, Settle { lo, hi, now }).await.unwrap();
            continue;
        }
        let update = stating(&material, items(&material), &facts(&material), now);
        let update = Patch {
            exchanges: if material.revisited.is_empty() { update.exchanges } else { 0 },
            removed: material.revisited.clone(),
            ..update
        };
        store.complete(&lease, update).await.unwrap();
    }
}

fn request(agent: &AgentId, messages: Vec<PreparedMessage>, budget_tokens: i64) -> AppendRequest {
    let mut request = append(agent, messages);
    request.rules.budget = Budget::new(budget_tokens, 0.8);
    request
}

/// Lives through the events, and checks the invariants after each.
pub(super) async fn live(db: &dyn Backend, agent: &AgentId, events: &[Event], budget_tokens: i64) {
    let row = db.store().agent(agent).await.unwrap();
    let mut first_exchange = row.map_or(1, |row| row.ledger.first_exchange);
    for (at, event) in (0..).zip(events) {
        match message(event, at) {
            Some(message) => {
                let outcome = db.store().append(request(agent, vec![message], budget_tokens)).await.unwrap();
                let is_rewind = matches!(event, Event::Stepped(Step::Rewind(_)));
                assert!(is_rewind || outcome.first_exchange >= first_exchange);
                first_exchange = outcome.first_exchange;
            }
            None => summarise(db, agent).await,
        }
        if db.store().agent(agent).await.unwrap().is_some() {
            assert_eq!(db.store().verify(agent).await.unwrap().breaches, [], "after event {at}, {event:?}");
        }
    }
}

pub(crate) async fn a_replay_ends_where_living_ended(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let compare = |(events, budget_tokens): (Vec<Event>, i64)| {
        case.set(case.get() + 1);
        let (lived, replayed) = (format!("lived-{}", case.get()), format!("replayed-{}", case.get()));
        // The first message creates the agent; without one there is nothing to summarise.
        let events: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(events).collect();
        let messages: Vec<PreparedMessage> =
            (0..).zip(&events).filter_map(|(at, event)| message(event, at)).collect();
        Handle::current().block_on(async {
            live(db, &agent(&lived), &events, budget_tokens).await;
            let whole =
                AppendRequest { replayed: true, ..request(&agent(&replayed), messages, budget_tokens) };
            db.store().append(whole).await.unwrap();
            assert_eq!(state(db, &lived).await, state(db, &replayed).await);
            for name in [&lived, &replayed] {
                summarise(db, &agent(name)).await;
                let report = db.store().verify(&agent(name)).await.unwrap();
                assert_eq!((report.breaches.as_slice(), report.pending), ([].as_slice(), 0));
            }
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let budgets = prop_oneof![Just(0), 40_i64..400];
    tokio::task::block_in_place(|| runner.run(&(events(), budgets), compare)).unwrap();
}
