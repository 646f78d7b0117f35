//! The window in memory and the database decide alike: same messages, same boundary.

use std::sync::Arc;

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_core::domain::{
    budget::OnOverflow,
    preset::{Basis, Preset},
    settings::{AgentSettings, SettingsPatch},
    time::{MINUTE_MS, Timestamp},
    tokens::TokenCounter,
    window::{Budget, Window},
};
use recapd_store::{ExchangeQuery, PreparedMessage, StoreError};
use serde_json::json;
use tokio::runtime::Handle;

use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{T0, agent, append, make, native, prepared},
};

const CASES: u32 = 30;

/// One token per character, so that tests can set a message's cost.
struct Characters;

impl TokenCounter for Characters {
    fn count(&self, text: &str) -> i64 {
        i64::try_from(text.chars().count()).unwrap()
    }

    fn method(&self) -> &'static str {
        "characters"
    }
}

/// A kind of message, its length in characters, and the minutes since the previous one.
type Said = (&'static str, usize, i64);

fn conversation() -> impl Strategy<Value = Vec<Said>> {
    let kind = prop_oneof![
        4 => Just("user"), 4 => Just("assistant"), 3 => Just("tool_call"), 3 => Just("tool_result"),
        1 => Just("system"), 1 => Just("mark"), 1 => Just("interrupted"), 1 => Just("turn_end"),
    ];
    proptest::collection::vec((kind, 1_usize..60, -30_i64..90), 1..60)
}

fn messages(said: &[Said]) -> Vec<PreparedMessage> {
    let mut at = T0;
    let message = |&(kind, chars, minutes): &Said| {
        at = at.plus_ms(minutes * MINUTE_MS);
        let message = native(kind, &"x".repeat(chars));
        let tokens = recapd_core::domain::tokens::count_message(&Characters, &message);
        prepared(message, tokens, at)
    };
    said.iter().map(message).collect()
}

/// The budget of an agent without its own.
const BUDGET: Budget = Budget::new(200, 0.8);

/// Returns all or some of the settings that govern a window.
fn settings() -> impl Strategy<Value = AgentSettings> {
    let preset = prop::sample::select(Preset::ALL.to_vec());
    let wish = prop::sample::select(vec![OnOverflow::Evict, OnOverflow::Refuse, OnOverflow::End]);
    let parts = (
        prop::option::of(preset),
        prop::option::weighted(0.7, 0_i64..400),
        prop::option::of(0.0_f64..=1.0),
        prop::option::of(0_i64..12),
        prop::option::of(wish),
        prop::option::of(0_i64..600),
        prop::option::weighted(0.7, 0_i64..200),
    );
    let settings =
        |(preset, budget_tokens, low_water, max_messages, on_overflow, context_max_tokens, leg_tokens)| {
            AgentSettings {
                preset,
                budget_tokens,
                low_water,
                max_messages,
                on_overflow,
                context_max_tokens,
                leg_tokens,
                ..AgentSettings::default()
            }
        };
    parts.prop_map(settings)
}

/// Whether the message was accepted and ended a session; then boundary, tokens, and the window's content.
type Told = (bool, bool, i64, i64, Vec<(i64, usize)>);

fn in_memory(messages: &[PreparedMessage], settings: &AgentSettings) -> Vec<Told> {
    let settings = settings.expanded(&Basis::default());
    let mut window = Window::new(settings.budget(BUDGET), Arc::new(Characters))
        .on_overflow(settings.on_overflow.unwrap_or_default());
    let mut evicted_through = 0;
    let states = messages.iter().map(|PreparedMessage { message, entry }| {
        let pushed = window.try_push(message.clone(), entry.at);
        let is_taken = pushed.is_ok();
        let pushed = pushed.unwrap_or_default();
        for evicted in pushed.evicted {
            assert_eq!(evicted.exchange.exchange, evicted_through + 1);
            evicted_through = evicted.exchange.exchange;
        }
        let has_ended = pushed.session_ended.is_some();
        let held = window.exchanges().map(|held| (held.exchange.exchange, held.messages.len()));
        let first_exchange = evicted_through + 1;
        (is_taken, has_ended, first_exchange, window.tokens(), held.collect())
    });
    states.collect()
}

async fn in_database(
    db: &dyn Backend,
    name: &str,
    messages: &[PreparedMessage],
    settings: &AgentSettings,
) -> Vec<Told> {
    make(db, name).await;
    let patch = SettingsPatch::parse(json!(settings)).unwrap();
    db.store().change_settings(&agent(name), &patch, T0).await.unwrap();
    let mut states = Vec::new();
    for message in messages {
        let mut request = append(&agent(name), vec![message.clone()]);
        request.rules.budget = BUDGET;
        request.rules.idle_gap_ms = 60 * MINUTE_MS;
        request.now = Timestamp(message.entry.at.0.max(T0.0));
        let outcome = match db.store().append(request).await {
            Ok(outcome) => Some(outcome),
            Err(StoreError::WouldOverflow(_)) => None,
            Err(error) => panic!("{error}"),
        };
        let row = db.store().agent(&agent(name)).await.unwrap().unwrap();
        let query = ExchangeQuery {
            from: row.ledger.first_exchange.max(1),
            through: i64::MAX,
            limit: 1_000,
            bytes_max: i64::MAX,
        };
        let stored = db.store().exchanges(&agent(name), query).await.unwrap();
        let held = stored.iter().map(|stored| (stored.exchange.exchange, stored.messages.len()));
        states.push((
            outcome.is_some(),
            outcome.is_some_and(|outcome| outcome.session_ended.is_some()),
            row.ledger.first_exchange,
            row.ledger.window_tokens(),
            held.collect(),
        ));
    }
    states
}

pub(crate) async fn memory_and_database_decide_the_same_boundary(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let compare = |(said, settings): (Vec<Said>, AgentSettings)| {
        case.set(case.get() + 1);
        let name = format!("case-{}", case.get());
        let messages = messages(&said);
        let stored = Handle::current().block_on(in_database(db, &name, &messages, &settings));
        prop_assert_eq!(in_memory(&messages, &settings), stored);
        let report = Handle::current().block_on(db.store().verify(&agent(&name))).unwrap();
        prop_assert_eq!(report.breaches, []);
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    tokio::task::block_in_place(|| runner.run(&(conversation(), settings()), compare).unwrap());
}
