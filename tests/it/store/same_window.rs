//! The window in memory and the database decide the same: same messages, same boundary.

use std::sync::Arc;

use proptest::{prelude::*, test_runner::TestRunner};
use recapd::{
    domain::{
        time::{MINUTE_MS, Timestamp},
        tokens::TokenCounter,
        window::{Budget, Window},
    },
    store::{ExchangeQuery, Prepared},
};
use tokio::runtime::Handle;

use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{T0, agent, append, native, prepared},
};

const CASES: u32 = 40;

/// One token per character, so that a test says what a message costs.
struct Characters;

impl TokenCounter for Characters {
    fn count(&self, text: &str) -> i64 {
        i64::try_from(text.chars().count()).unwrap()
    }

    fn method(&self) -> &'static str {
        "characters"
    }
}

/// What is said, in how many characters, how many minutes after the one before.
type Said = (&'static str, usize, i64);

fn conversation() -> impl Strategy<Value = Vec<Said>> {
    let kind = prop_oneof![
        4 => Just("user"), 4 => Just("assistant"), 3 => Just("tool_call"), 3 => Just("tool_result"),
        1 => Just("system"), 1 => Just("mark"), 1 => Just("interrupted"), 1 => Just("turn_end"),
    ];
    proptest::collection::vec((kind, 1_usize..60, -30_i64..90), 1..60)
}

fn messages(said: &[Said]) -> Vec<Prepared> {
    let mut at = T0;
    let message = |&(kind, chars, minutes): &Said| {
        at = at.plus_ms(minutes * MINUTE_MS);
        let message = native(kind, &"x".repeat(chars));
        let tokens = recapd::domain::tokens::count_message(&Characters, &message);
        prepared(message, tokens, at)
    };
    said.iter().map(message).collect()
}

/// Boundary, tokens, and what is in the window, after each message.
type Told = (i64, i64, Vec<(i64, usize)>);

fn in_memory(messages: &[Prepared], budget: Budget) -> Vec<Told> {
    let mut window = Window::new(budget, Arc::new(Characters));
    let mut evicted_through = 0;
    let states = messages.iter().map(|Prepared { message, entry }| {
        for evicted in window.push(message.clone(), entry.at) {
            assert_eq!(evicted.exchange.exchange, evicted_through + 1);
            evicted_through = evicted.exchange.exchange;
        }
        let held = window
            .exchanges()
            .map(|held| (held.exchange.exchange, held.messages.len()));
        (evicted_through + 1, window.tokens(), held.collect())
    });
    states.collect()
}

async fn in_database(db: &dyn Backend, name: &str, messages: &[Prepared], budget: Budget) -> Vec<Told> {
    let mut states = Vec::new();
    for message in messages {
        let mut request = append(&agent(name), vec![message.clone()]);
        request.rules.budget = budget;
        request.rules.idle_gap_ms = 60 * MINUTE_MS;
        request.now = Timestamp(message.entry.at.0.max(T0.0));
        let outcome = db.store().append(request).await.unwrap();
        let query = ExchangeQuery {
            from: outcome.first_exchange.max(1),
            through: i64::MAX,
            limit: 1_000,
            messages: true,
        };
        let stored = db.store().exchanges(&agent(name), query).await.unwrap();
        let held = stored
            .iter()
            .map(|stored| (stored.exchange.exchange, stored.messages.len()));
        states.push((outcome.first_exchange, outcome.window_tokens, held.collect()));
    }
    states
}

pub(crate) async fn memory_and_database_decide_the_same_boundary(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let rules = (0_i64..400, 0.0_f64..=1.0);
    let compare = |(said, (budget_tokens, low_water)): (Vec<Said>, (i64, f64))| {
        case.set(case.get() + 1);
        let name = format!("case-{}", case.get());
        let (messages, budget) = (messages(&said), Budget::new(budget_tokens, low_water));
        let stored = Handle::current().block_on(in_database(db, &name, &messages, budget));
        prop_assert_eq!(in_memory(&messages, budget), stored);
        let report = Handle::current()
            .block_on(db.store().verify(&agent(&name)))
            .unwrap();
        prop_assert_eq!(report.breaches, []);
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    tokio::task::block_in_place(|| runner.run(&(conversation(), rules), compare)).unwrap();
}
