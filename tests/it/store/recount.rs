//! A change of model: uncovered exchanges are counted again, step by step, and everything adds up after each step.

use proptest::test_runner::{Config, TestRunner};
use recapd_core::domain::{
    agent::AgentId,
    calibration::{Calibration, CalibrationSample, MODELS_MAX, ReportedSample, Reporter},
    message::{Kind, Message},
    settings::SettingsPatch,
    window::Budget,
};
use recapd_store::{
    AppendRules, ExchangeQuery, Fence, KeptCalibration, MaterialLimits, NewCount, Recount, RecountBatch,
    RecountOutcome, StoreError, StoredExchange,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    clean,
    lineage_scripts::{self, Event, events, message},
    the_lease, with_pending,
};
use crate::support::{
    backend::Backend,
    cases::cases,
    conversation::{ALL, T0, TURN_TOKENS, agent, append, items, minute, patch, rules, said, turn, turns},
};

const CASES: u32 = 12;

async fn set(db: &dyn Backend, agent: &AgentId, patch: Value) {
    let patch = SettingsPatch::parse(patch).unwrap();
    db.store().change_settings(agent, &patch, T0).await.unwrap();
}

async fn another_model(db: &dyn Backend, agent: &AgentId) {
    set(db, agent, json!({"model": "another"})).await;
}

async fn batch(db: &dyn Backend, agent: &AgentId, messages_max: i64) -> Option<RecountBatch> {
    db.store().recount_batch(agent, messages_max).await.unwrap()
}

/// Returns the batch with new counts, under these rules.
fn counted(
    agent: &AgentId,
    batch: RecountBatch,
    rules: &AppendRules,
    count: impl Fn(i64, &Message) -> i64,
) -> Recount {
    let counts = batch.messages.iter().map(|(exchange, stored)| NewCount {
        exchange: *exchange,
        seq: stored.seq,
        tokens: count(stored.seq, &stored.message),
    });
    Recount {
        agent: agent.clone(),
        counts: counts.collect(),
        settings: batch.settings,
        from: batch.from,
        before: batch.before,
        is_last: batch.is_last,
        count_method: "another".to_owned(),
        rules: *rules,
        now: T0,
    }
}

/// Counts twice as many as [`turn`] says.
fn double(_: i64, message: &Message) -> i64 {
    match message.kind {
        Kind::User => 80,
        Kind::Assistant => 120,
        _ => 10,
    }
}

fn window_of(budget_tokens: i64) -> AppendRules {
    AppendRules { budget: Budget::new(budget_tokens, 1.0), ..rules() }
}

async fn recount(db: &dyn Backend, recount: Recount) -> Option<RecountOutcome> {
    let agent = recount.agent.clone();
    let recounted = db.store().recount(recount).await.unwrap();
    clean(db, &agent).await;
    recounted
}

/// Recounts everything due. Returns the last step's outcome and the number of steps.
async fn recount_all(
    db: &dyn Backend,
    agent: &AgentId,
    rules: &AppendRules,
    messages_max: i64,
    count: impl Fn(i64, &Message) -> i64 + Copy,
) -> (Option<RecountOutcome>, i64) {
    let (mut last, mut steps) = (None, 0);
    while let Some(batch) = batch(db, agent, messages_max).await {
        last = recount(db, counted(agent, batch, rules, count)).await;
        assert!(last.is_some());
        steps += 1;
    }
    (last, steps)
}

/// Returns the agents that are due for a recount.
async fn due(db: &dyn Backend) -> Vec<String> {
    let due = db.store().recounts_due(10).await.unwrap();
    due.iter().map(ToString::to_string).collect()
}

/// Returns the live exchanges from `from` on; 0 adds the preamble.
async fn live(db: &dyn Backend, agent: &AgentId, from: i64) -> Vec<StoredExchange> {
    let query = ExchangeQuery { from, through: i64::MAX, limit: 10_000, bytes_max: i64::MAX };
    db.store().exchanges(agent, query).await.unwrap()
}

async fn tokens(db: &dyn Backend, agent: &AgentId) -> Vec<(i64, i64)> {
    let live = live(db, agent, 0).await;
    live.iter().map(|e| (e.exchange.exchange, e.exchange.tokens)).collect()
}

async fn summarise(db: &dyn Backend, exchanges_max: i64) {
    let lease = the_lease(db, minute(60)).await;
    let limits = MaterialLimits { exchanges_max, ..ALL };
    let material = db.store().material(&lease, limits).await.unwrap();
    let patch = patch(&material, items(&material), minute(60));
    db.store().complete(&lease, patch).await.unwrap();
}

pub(crate) async fn a_change_of_model_recounts_what_is_not_covered(db: &dyn Backend) {
    let agent = agent("a");
    let mut messages = vec![said("system", "Be brief", 5, T0)];
    messages.extend(turns(1..=6));
    db.store().append(append(&agent, messages)).await.unwrap();
    summarise(db, 2).await;
    assert_eq!(batch(db, &agent, 10).await, None, "nothing is due");
    set(db, &agent, json!({"budget_tokens": 1_000})).await;
    assert_eq!(db.store().recounts_due(10).await.unwrap(), [], "nor by a budget");
    another_model(db, &agent).await;
    assert_eq!(due(db).await, ["a"]);
    let (last, steps) = recount_all(db, &agent, &rules(), 4, double).await;
    assert_eq!(steps, 2);
    // The window began at #6, and the newest stays even if it is now too big.
    assert_eq!(last.unwrap().window_tokens, 210);
    let expected = [(0, 10), (1, 100), (2, 100), (3, 200), (4, 200), (5, 200), (6, 200)];
    assert_eq!(tokens(db, &agent).await, expected);
    assert_eq!(db.store().recounts_due(10).await.unwrap(), []);
    let methods = "SELECT count(*) FROM recounts WHERE count_method = 'another'";
    assert_eq!(db.number(methods).await, Some(9));
    let arrived = "SELECT count(*) FROM message_log WHERE count_method = 'test'";
    assert_eq!(db.number(arrived).await, Some(13), "messages are immutable");
}

pub(crate) async fn a_recount_enforces_the_budget(db: &dyn Backend) {
    let wide = window_of(4 * TURN_TOKENS);
    let agent = agent("a");
    let mut request = append(&agent, turns(1..=4));
    request.rules = wide;
    db.store().append(request).await.unwrap();
    another_model(db, &agent).await;
    let (last, _) = recount_all(db, &agent, &wide, 1_000, double).await;
    let last = last.unwrap();
    let left = last.evictions.iter().map(|left| (left.from_exchange, left.through_exchange, left.tokens));
    assert_eq!(left.collect::<Vec<_>>(), [(1, 2, 400)]);
    assert!(last.enqueued.unwrap().is_new);
    let row = db.store().agent(&agent).await.unwrap().unwrap();
    assert_eq!((row.ledger.first_exchange, row.ledger.window_tokens()), (3, 400));
    assert_eq!(row.pending_since, Some(T0));
    // As if it had always lived with that model.
    let lived = lived_with_the_double(db, &wide).await;
    assert_eq!(lived, (3, 400));
}

/// Returns the boundary and the window of four turns that cost twice as much from the start.
async fn lived_with_the_double(db: &dyn Backend, rules: &AppendRules) -> (i64, i64) {
    let mut request = append(&agent("lived"), turns(1..=4));
    for prepared in &mut request.messages {
        prepared.entry.tokens *= 2;
    }
    request.rules = *rules;
    let outcome = db.store().append(request).await.unwrap();
    (outcome.first_exchange, outcome.window_tokens)
}

pub(crate) async fn a_crash_between_two_steps_loses_nothing(db: &dyn Backend) {
    let agent = agent("a");
    let mut request = append(&agent, turns(1..=6));
    request.rules = window_of(0);
    db.store().append(request).await.unwrap();
    another_model(db, &agent).await;
    let first = batch(db, &agent, 4).await.unwrap();
    recount(db, counted(&agent, first, &window_of(0), double)).await.unwrap();
    let expected = [(1, 100), (2, 100), (3, 100), (4, 100), (5, 200), (6, 200)];
    assert_eq!(tokens(db, &agent).await, expected);
    // Life goes on, and the rest is counted later.
    db.store().append(append(&agent, turn(7).to_vec())).await.unwrap();
    clean(db, &agent).await;
    assert_eq!(due(db).await, ["a"]);
    recount_all(db, &agent, &window_of(0), 1, double).await;
    let tokens = tokens(db, &agent).await;
    assert!(tokens.iter().all(|&(number, tokens)| tokens == if number == 7 { 100 } else { 200 }));
}

pub(crate) async fn changes_during_a_recount_are_respected(db: &dyn Backend) {
    let agent = with_pending(db, "a", 3).await;
    another_model(db, &agent).await;
    let old = batch(db, &agent, 100).await.unwrap();
    // Two exchanges become covered, and one message joins the newest exchange.
    summarise(db, 2).await;
    let late = vec![said("tool_result", "late", 7, minute(4))];
    db.store().append(append(&agent, late)).await.unwrap();
    recount(db, counted(&agent, old.clone(), &rules(), double)).await.unwrap();
    let expected = [(1, 100), (2, 100), (3, 200), (4, 207)];
    assert_eq!(tokens(db, &agent).await, expected);
    // Another recount came first; and then the settings changed.
    assert_eq!(recount(db, counted(&agent, old, &rules(), double)).await, None);
    another_model(db, &agent).await;
    assert_eq!(batch(db, &agent, 100).await, None, "the same model is no change");
    set(db, &agent, json!({"model": "a third"})).await;
    let old = batch(db, &agent, 100).await.unwrap();
    set(db, &agent, json!({"model": null})).await;
    assert_eq!(recount(db, counted(&agent, old, &rules(), double)).await, None);
    assert_eq!(tokens(db, &agent).await, expected);
}

pub(crate) async fn an_update_in_progress_reads_again(db: &dyn Backend) {
    let agent = with_pending(db, "a", 3).await;
    let lease = the_lease(db, minute(60)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    another_model(db, &agent).await;
    recount_all(db, &agent, &rules(), 100, double).await;
    let late = patch(&material, items(&material), minute(60));
    let refused = db.store().complete(&lease, late).await;
    assert!(matches!(refused, Err(StoreError::Fenced(Fence::Lease))), "{refused:?}");
    summarise(db, 100).await;
    clean(db, &agent).await;
}

pub(crate) async fn parent_and_child_count_independently(db: &dyn Backend) {
    let parent = with_pending(db, "a", 3).await;
    let (child, grandchild) = (agent("b"), agent("c"));
    db.store().fork(&parent, &child, T0).await.unwrap();
    let before = tokens(db, &child).await;
    another_model(db, &parent).await;
    recount_all(db, &parent, &rules(), 3, double).await;
    clean(db, &child).await;
    assert_eq!(tokens(db, &child).await, before);
    another_model(db, &child).await;
    recount_all(db, &child, &rules(), 3, |_, message| 3 * double(0, message) / 2).await;
    clean(db, &parent).await;
    assert!(tokens(db, &parent).await.iter().all(|&(_, tokens)| tokens == 200));
    assert!(tokens(db, &child).await.iter().all(|&(_, tokens)| tokens == 300));
    db.store().fork(&child, &grandchild, T0).await.unwrap();
    clean(db, &grandchild).await;
    assert_eq!(tokens(db, &grandchild).await, tokens(db, &child).await);
    // A pending recount is also pending in a child.
    set(db, &grandchild, json!({"model": "a third"})).await;
    db.store().fork(&grandchild, &agent("d"), T0).await.unwrap();
    assert_eq!(db.store().recounts_due(10).await.unwrap(), [grandchild, agent("d")]);
    let nobody = db.store().begin_recount(&agent("nobody")).await;
    assert!(matches!(nobody, Err(StoreError::UnknownAgent(_))));
}

/// A token count unrelated to the previous one.
fn other_count(seq: i64, message: &Message) -> i64 {
    if message.kind.is_conversation() { seq * 37 % 90 } else { 0 }
}

/// Whatever happened before and happens after: the window is the same as in a life with the new model.
pub(crate) async fn after_a_recount_the_window_is_as_in_a_life_with_that_model(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let check = |(events, at, messages_max, budget): (Vec<Event>, usize, i64, i64)| {
        case.set(case.get() + 1);
        let (id, lived) = (agent(&format!("a{}", case.get())), agent(&format!("b{}", case.get())));
        let (before, after) = events.split_at(at.min(events.len()));
        Handle::current().block_on(async {
            live_through(db, &id, before, 0, budget, |_, tokens| tokens).await;
            if !live(db, &id, 0).await.is_empty() {
                another_model(db, &id).await;
                recount_all(db, &id, &window_of(budget), messages_max, other_count).await;
            }
            let start = i64::try_from(before.len()).unwrap();
            live_through(db, &id, after, start, budget, |seq, _| seq * 37 % 90).await;
            // A rewind may have brought back exchanges that were covered and not counted again.
            if !live(db, &id, 0).await.is_empty() {
                recount_all(db, &id, &window_of(budget), messages_max, other_count).await;
            }
            live_through(db, &lived, &events, 0, 0, |seq, _| seq * 37 % 90).await;
            assert_same_window(db, &id, &lived).await;
        });
        Ok(())
    };
    let lives = (events(), 0_usize..40, 1_i64..8, 60_i64..400);
    let mut runner = TestRunner::new(Config { max_shrink_iters: 40, ..cases(CASES) });
    tokio::task::block_in_place(|| runner.run(&lives, check)).unwrap();
}

async fn live_through(
    db: &dyn Backend,
    agent: &AgentId,
    events: &[Event],
    start: i64,
    budget: i64,
    count: impl Fn(i64, i64) -> i64,
) {
    for (at, event) in (start..).zip(events) {
        let Some(mut prepared) = message(event, at) else {
            if budget > 0 && db.store().agent(agent).await.unwrap().is_some() {
                lineage_scripts::summarise(db, agent).await;
            }
            continue;
        };
        let row = db.store().agent(agent).await.unwrap();
        let seq = row.map_or(0, |row| row.ledger.last_seq) + 1;
        if prepared.message.kind.is_conversation() {
            prepared.entry.tokens = count(seq, prepared.entry.tokens);
        }
        let mut request = append(agent, vec![prepared]);
        request.rules = window_of(budget);
        db.store().append(request).await.unwrap();
        clean(db, agent).await;
    }
}

/// Checks that the window of `agent`, and its marks, have the same tokens as in the life of `lived`.
async fn assert_same_window(db: &dyn Backend, agent: &AgentId, lived: &AgentId) {
    let Some(row) = db.store().agent(agent).await.unwrap() else {
        return;
    };
    let first = row.ledger.first_exchange;
    let window = |exchanges: Vec<StoredExchange>| -> Vec<(i64, i64, i64)> {
        let mut within = exchanges.iter().filter(|e| e.exchange.exchange >= first).peekable();
        let base = within.peek().map_or(0, |e| e.exchange.tokens_before);
        within.map(|e| (e.exchange.exchange, e.exchange.tokens, e.exchange.tokens_before - base)).collect()
    };
    let (own, twin) = (live(db, agent, 1).await, live(db, lived, 1).await);
    let tokens: i64 = window(own.clone()).iter().map(|(_, tokens, _)| tokens).sum();
    assert_eq!(window(own), window(twin));
    assert_eq!(row.ledger.window_tokens() - row.ledger.preamble_tokens(), tokens);
}

pub(crate) async fn calibrations_are_kept(db: &dyn Backend) {
    let kept = |model: &str, learned: u64, reported_tokens: i64| {
        let mut calibration = Calibration::default();
        let sample = CalibrationSample { estimated_tokens: 1_000, reported_tokens };
        for agent in 0..3 {
            calibration.learn(ReportedSample { reporter: Reporter(agent), sample });
        }
        KeptCalibration { provider: "anthropic".to_owned(), model: model.to_owned(), learned, calibration }
    };
    let store = db.store();
    assert_eq!(store.calibrations().await.unwrap(), []);
    store.keep_calibrations(vec![kept("x", 2, 1_200), kept("y", 1, 900)], T0).await.unwrap();
    store.keep_calibrations(vec![kept("y", 3, 950)], T0).await.unwrap();
    let expected = [kept("x", 2, 1_200), kept("y", 3, 950)];
    assert_eq!(store.calibrations().await.unwrap(), expected);
    let figures = store.sample(T0, 1).await.unwrap().calibrations;
    let figures: Vec<(&str, i64, i64)> =
        figures.iter().map(|one| (one.model.as_str(), one.guard_permille, one.average_permille)).collect();
    assert_eq!(figures, [("x", 1_200, 1_200), ("y", 1_000, 950)]);
    // Many more models follow, and those that learned longest ago go.
    let many = (0..MODELS_MAX).map(|number| kept(&format!("model-{number}"), 10 + number as u64, 1_000));
    store.keep_calibrations(many.collect(), T0).await.unwrap();
    let all = store.calibrations().await.unwrap();
    assert_eq!((all.len(), all[0].model.as_str()), (MODELS_MAX, "model-0"));
    db.raw("UPDATE calibrations SET samples = 'none' WHERE model = 'model-3'").await;
    let broken = store.calibrations().await;
    assert!(matches!(broken, Err(StoreError::Inconsistent { column: "samples", .. })));
}
