//! Long exchanges: they are stored, evicted and summarised leg by leg.

use recapd_core::domain::{
    exchange::Exchange, lineage::Step, redaction::Redactor, window::Budget, work::Reason,
};
use recapd_store::{AppendOutcome, ExchangeQuery, Forget, Forgettable, MaterialLimits, PreparedMessage};

use super::{clean, lineage::step};
use crate::support::{
    backend::Backend,
    conversation::{ALL, agent, append, claim, items, minute, patch, rules, said},
};

const ROUND_TOKENS: i64 = 100;
const LEG_TOKENS: i64 = 3 * ROUND_TOKENS;
/// The window holds ten rounds; an eviction leaves eight.
const BUDGET: Budget = Budget::new(10 * ROUND_TOKENS, 0.8);

fn request() -> PreparedMessage {
    said("user", "Migrate all modules", 50, minute(0))
}

/// Returns rounds with these numbers: a call and its result each.
fn rounds(numbers: std::ops::Range<i64>) -> Vec<PreparedMessage> {
    let round = |number| {
        [
            said("tool_call", "run", 10, minute(number)),
            said("tool_result", &format!("Result {number}"), ROUND_TOKENS - 10, minute(number)),
        ]
    };
    numbers.flat_map(round).collect()
}

async fn say(db: &dyn Backend, name: &str, messages: Vec<PreparedMessage>, leg_tokens: i64) -> AppendOutcome {
    let mut request = append(&agent(name), messages);
    request.rules.budget = BUDGET.with_leg_tokens(leg_tokens);
    let outcome = db.store().append(request).await.unwrap();
    clean(db, &agent(name)).await;
    outcome
}

/// Returns the live exchanges and legs of an agent.
async fn rows(db: &dyn Backend, name: &str) -> Vec<Exchange> {
    let query = ExchangeQuery { from: 1, through: i64::MAX, limit: 1_000, bytes_max: 0 };
    let stored = db.store().exchanges(&agent(name), query).await.unwrap();
    stored.into_iter().map(|stored| stored.exchange).collect()
}

async fn request_of(db: &dyn Backend, name: &str, exchange: i64) -> Option<String> {
    let found = db.store().request_of(&agent(name), exchange).await.unwrap();
    found.map(|stored| stored.message.text())
}

/// Updates at most this many pending legs, and returns each with the request that it works on, if read.
async fn update(db: &dyn Backend, name: &str, exchanges_max: i64) -> Vec<(i64, Option<String>)> {
    let (store, agent) = (db.store(), agent(name));
    store.enqueue(&agent, Reason::Manual, 0, minute(900)).await.unwrap();
    let leases = store.claim(claim("daemon", 10, minute(900))).await.unwrap();
    let lease = leases.into_iter().find(|lease| lease.agent == agent).unwrap();
    let limits = MaterialLimits { exchanges_max, ..ALL };
    let material = store.material(&lease, limits).await.unwrap();
    let told = material.exchanges.iter().map(|stored| {
        let request = stored.request.as_ref();
        (stored.exchange.exchange, request.map(|request| request.message.text()))
    });
    let told = told.collect();
    let written = patch(&material, items(&material), minute(900));
    store.complete(&lease, written).await.unwrap();
    clean(db, &agent).await;
    told
}

pub(crate) async fn a_long_exchange_is_kept_in_legs(db: &dyn Backend) {
    say(db, "a", vec![request()], LEG_TOKENS).await;
    for number in 0..40 {
        let outcome = say(db, "a", rounds(number..number + 1), LEG_TOKENS).await;
        assert!(outcome.window_tokens <= BUDGET.budget_tokens(), "{outcome:?}");
    }
    let rows = rows(db, "a").await;
    let first: Vec<(i64, i64, Option<i64>, Option<i64>)> = rows
        .iter()
        .take(3)
        .map(|row| (row.exchange, row.tokens, row.headline.continues, row.headline.leg_from))
        .collect();
    assert_eq!(first, [(1, 350, None, None), (2, 300, Some(1), Some(2)), (3, 300, Some(1), Some(3))]);
    assert_eq!(rows.len(), 14);
    assert!(rows.iter().all(|row| row.session == 1 && row.first_leg() == 1));
    // All at once gives the same rows as one by one.
    let all = [vec![request()], rounds(0..40)].concat();
    say(db, "b", all, LEG_TOKENS).await;
    assert_eq!(self::rows(db, "b").await, rows);
    // The seeds' rule: the newest exchange stays whole.
    let outcome = say(db, "c", [vec![request()], rounds(0..40)].concat(), 0).await;
    assert_eq!((outcome.exchange, outcome.evictions), (1, vec![]));
}

pub(crate) async fn an_update_has_the_request_of_a_leg(db: &dyn Backend) {
    say(db, "a", [vec![request()], rounds(0..40)].concat(), LEG_TOKENS).await;
    let asked = || Some("Migrate all modules".to_owned());
    assert_eq!(request_of(db, "a", 1).await, asked());
    assert_eq!(request_of(db, "a", 2).await, None);
    assert_eq!(update(db, "a", 2).await, [(1, None), (2, None)], "it stands in the first leg");
    assert_eq!(update(db, "a", 2).await, [(3, asked()), (4, None)]);
    update(db, "a", 99).await;
    // The exchange continues and ends; the next one works on another request.
    let last = [said("assistant", "Done.", 20, minute(60)), said("user", "And now?", 20, minute(61))];
    say(db, "a", last.to_vec(), LEG_TOKENS).await;
    let newest = rows(db, "a").await.pop().unwrap();
    assert_eq!(newest.first_leg(), newest.exchange);
}

pub(crate) async fn a_rewind_goes_back_into_a_leg(db: &dyn Backend) {
    let life = [
        vec![request()],
        rounds(0..8),
        vec![step(&Step::Mark(None), 8)],
        rounds(9..20),
        vec![step(&Step::Rewind(None), 21)],
        rounds(22..50),
    ]
    .concat();
    for message in life.clone() {
        say(db, "a", vec![message], LEG_TOKENS).await;
    }
    say(db, "b", life, LEG_TOKENS).await;
    let (one, other) = (rows(db, "a").await, rows(db, "b").await);
    assert_eq!(one, other);
    assert!(one.iter().all(|row| row.first_leg() == 1));
    let back = one.iter().position(|row| row.headline.continues.is_some() && !row.is_later_leg());
    let back = one.get(back.unwrap()).unwrap();
    assert_eq!(back.leg_from(), 3, "the leg goes on in a row of its own");
}

pub(crate) async fn a_fork_continues_within_a_leg(db: &dyn Backend) {
    say(db, "a", [vec![request()], rounds(0..40)].concat(), LEG_TOKENS).await;
    update(db, "a", 4).await;
    db.store().fork(&agent("a"), &agent("b"), minute(41)).await.unwrap();
    clean(db, &agent("b")).await;
    let asked = Some("Migrate all modules".to_owned());
    assert_eq!(request_of(db, "b", 1).await, asked, "its first leg is the parent's");
    say(db, "b", rounds(42..80), LEG_TOKENS).await;
    let rows = rows(db, "b").await;
    assert!(rows.iter().all(|row| row.first_leg() == 1 && row.exchange > 4));
    let told = update(db, "b", 2).await;
    assert_eq!(told, [(5, asked), (6, None)]);
    update(db, "b", 99).await;
}

pub(crate) async fn a_leg_is_forgotten_alone(db: &dyn Backend) {
    say(db, "a", [vec![request()], rounds(0..40)].concat(), LEG_TOKENS).await;
    update(db, "a", 99).await;
    let forget = Forget {
        agent: agent("a"),
        what: Forgettable::Exchanges(vec![1]),
        rules: rules(),
        redactor: Redactor::standard(),
        now: minute(50),
    };
    db.store().forget(forget).await.unwrap();
    clean(db, &agent("a")).await;
    let rows = rows(db, "a").await;
    assert!(rows.iter().skip(1).all(|row| row.first_leg() == 1));
    assert_eq!(request_of(db, "a", 1).await.unwrap_or_default(), "");
    say(db, "a", rounds(51..60), LEG_TOKENS).await;
}

pub(crate) async fn an_exchange_from_before_legs_is_cut_from_its_next_round(db: &dyn Backend) {
    say(db, "a", [vec![request()], rounds(0..40)].concat(), 0).await;
    assert_eq!(rows(db, "a").await.len(), 1);
    // Rows as earlier versions wrote them: the newest round isn't recorded.
    let table = "UPDATE exchange_log SET headline = ";
    let headline = "'{\"title\": \"Migrate all modules\", \"tools\": [[\"run\", 40]], \"answer\": \"\"}'";
    db.raw(&format!("{table}{headline} WHERE agent_id = 'a'")).await;
    // The first call may belong to an answer that began before.
    say(db, "a", rounds(41..42), LEG_TOKENS).await;
    assert_eq!(rows(db, "a").await.len(), 1);
    let outcome = say(db, "a", rounds(42..43), LEG_TOKENS).await;
    assert_eq!((outcome.exchange, outcome.first_exchange), (2, 2));
    say(db, "a", rounds(43..80), LEG_TOKENS).await;
    update(db, "a", 99).await;
}
