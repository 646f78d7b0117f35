//! Which model is asked when the first one can't be, what waits, and what is made up for when the provider is back.

use std::sync::Arc;

use recapd_core::domain::time::{MINUTE_MS, SECOND_MS};
use recapd_engine::worker::Outcome::{self, Completed, Parked, Postponed, Retried};
use recapd_llm::{
    ChatModel,
    breaker::{Breaker, BreakerSettings},
    chain::Chain,
    limits::{LimitedModel, MinuteLimits},
    offline::OfflineModel,
};

use crate::support::{
    backend::Backend as _,
    flaky_store::When,
    rig::{Rig, config},
    scripted::{Reply, ScriptedModel},
};

const REST_MS: i64 = 30_000;

/// A daemon with pending exchanges, a circuit breaker that opens after two failures, and these fallbacks.
async fn with_fallbacks(others: Vec<Arc<dyn ChatModel>>) -> Rig {
    let settings = BreakerSettings { failures: 2, rest_ms: REST_MS };
    let rig = Rig::asking(&config(), |model, clock| {
        Arc::new(Chain::new(Arc::new(Breaker::new(model, settings, clock)), others))
    })
    .await;
    rig.say(6).await;
    rig
}

async fn items(rig: &Rig, origin: &str, provisional: i64) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM summary_items WHERE origin = '{origin}' AND provisional = {provisional} \
         AND removed_version IS NULL"
    );
    rig.db.number(&sql).await.unwrap()
}

async fn rows(rig: &Rig) -> i64 {
    rig.db.number("SELECT count(*) FROM summary_update_queue").await.unwrap()
}

fn offline() -> Vec<Arc<dyn ChatModel>> {
    vec![Arc::new(OfflineModel)]
}

/// Fails until the circuit breaker opens. Returns the outcomes.
async fn until_it_rests(rig: &Rig) -> Vec<Outcome> {
    rig.model.plan_then([], Reply::Transient);
    let mut outcomes = rig.drain().await;
    rig.clock.advance_ms(20 * SECOND_MS);
    outcomes.extend(rig.drain().await);
    outcomes
}

#[tokio::test]
async fn without_fallbacks_updates_wait_for_the_provider() {
    let rig = with_fallbacks(Vec::new()).await;
    assert_eq!(until_it_rests(&rig).await, [Retried, Postponed]);
    assert_eq!(rig.model.calls(), 2);
    let metrics = rig.parts.metrics.encode(None).1;
    for line in [
        "recapd_provider_circuit_open{provider=\"scripted\"} 1",
        "recapd_updates_postponed_total{reason=\"circuit\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let postponed =
        "SELECT count(*) FROM update_runs WHERE outcome = 'superseded' AND error_class = 'provider_network'";
    assert_eq!(rig.db.number(postponed).await, Some(1), "and it is told for what");
    // However long it lasts, no probe uses up an attempt, and nothing is parked.
    let first_probe = rig.model.calls();
    for probe in 1..10 {
        assert_eq!(rig.drain_later().await, [Postponed]);
        assert_eq!(rig.model.calls(), first_probe + probe);
    }
    let row = "SELECT count(*) FROM summary_update_queue WHERE attempts = 1 AND parked_at IS NULL";
    assert_eq!(rig.db.number(row).await, Some(1));
    let told = "SELECT sum(model_calls) FROM update_runs";
    assert_eq!(rig.db.number(told).await, Some(11), "each call counts");
    rig.model.plan([]);
    assert_eq!(rig.drain_later().await, [Completed]);
    assert_eq!((rig.verify().await.pending, rows(&rig).await), (0, 0));
    let metrics = rig.parts.metrics.encode(None).1;
    assert!(metrics.contains("recapd_provider_circuit_open{provider=\"scripted\"} 0"), "{metrics}");
}

#[tokio::test]
async fn the_built_in_summariser_stands_in_until_the_provider_is_back() {
    let rig = with_fallbacks(offline()).await;
    assert_eq!(until_it_rests(&rig).await, [Retried, Completed], "in the same attempt");
    let covered = rig.verify().await.covered;
    assert!(items(&rig, "offline", 1).await > 0, "marked, to be condensed again");
    assert_eq!((rig.verify().await.pending, rig.model.calls()), (0, 2));
    assert_eq!(rows(&rig).await, 0, "nobody asks in vain");

    // The provider still rests: the update waits, and no item is replaced by the same.
    assert_eq!(
        rig.db.store().enqueue_revisits(recapd_platform::clock::Clock::now(&*rig.clock), 9).await.unwrap(),
        1
    );
    let version = rig.row().await.version;
    assert_eq!(rig.drain().await, [Postponed]);
    assert_eq!(rig.row().await.version, version);

    // The next update finds the provider back, and queues the provisional items.
    rig.clock.advance_ms(REST_MS);
    rig.model.plan([]);
    rig.say(6).await;
    let mut outcomes = rig.drain().await;
    outcomes.extend(rig.drain_later().await);
    assert!(outcomes.iter().all(|outcome| *outcome == Completed), "{outcomes:?}");
    assert_eq!((items(&rig, "offline", 1).await, items(&rig, "offline", 0).await), (0, 0));
    let report = rig.verify().await;
    assert!(report.covered > covered && report.pending == 0);
    assert_eq!(items(&rig, "model", 0).await, report.covered);
}

#[tokio::test]
async fn other_agents_items_are_woken_when_the_provider_is_back() {
    let rig = with_fallbacks(offline()).await;
    rig.model.plan([Reply::Auth]);
    assert_eq!(rig.drain().await, [Completed], "a refused key is passed over at once");
    assert!(items(&rig, "offline", 1).await > 0);
    rig.clock.advance_ms(REST_MS);
    let other = crate::support::conversation::agent("other");
    for _ in 0..6 {
        let messages =
            ["user", "assistant"].map(|kind| crate::support::conversation::native(kind, &"word ".repeat(20)));
        rig.parts.ingestor.append(&other, messages.to_vec()).await.unwrap();
    }
    rig.drain().await;
    assert_eq!(items(&rig, "offline", 1).await, 0);
    assert_eq!(rows(&rig).await, 0);
}

#[tokio::test]
async fn a_second_model_is_asked_before_the_built_in_one() {
    let second = Arc::new(ScriptedModel::default());
    let others: Vec<Arc<dyn ChatModel>> = vec![second.clone(), Arc::new(OfflineModel)];
    let rig = with_fallbacks(others).await;
    rig.model.plan_then([], Reply::Refusal);
    assert_eq!(rig.drain().await, [Completed]);
    let told = usize::try_from(rig.verify().await.covered).unwrap();
    assert!((1..=told).contains(&second.calls()), "{}", second.calls());
    assert_eq!(items(&rig, "model", 1).await + items(&rig, "offline", 1).await, 0);
    assert!(items(&rig, "model", 0).await > 0, "a model's items are there to stay");

    // Both decline, and would again, so the built-in summariser's items stay.
    rig.say(6).await;
    rig.model.plan_then([], Reply::Refusal);
    second.plan_then([], Reply::Refusal);
    assert_eq!(rig.drain().await, [Completed]);
    second.plan([]);
    assert!(items(&rig, "offline", 0).await > 0);
    assert_eq!(items(&rig, "offline", 1).await, 0);
    assert_eq!(
        rig.db.store().enqueue_revisits(recapd_platform::clock::Clock::now(&*rig.clock), 9).await.unwrap(),
        0
    );

    // The last attempt goes on to the next model.
    rig.say(6).await;
    rig.model.plan_then([], Reply::Garbage);
    let outcomes = rig.drain_on(4).await;
    assert_eq!(outcomes, [Retried, Retried, Retried, Retried, Completed]);
    assert_eq!((rig.verify().await.pending, items(&rig, "offline", 1).await), (0, 0));
}

/// The second model is asked only about the exchange that is too much for the first.
#[tokio::test]
async fn the_next_model_answers_what_is_always_cut_off() {
    let second = Arc::new(ScriptedModel::default());
    let others: Vec<Arc<dyn ChatModel>> = vec![second.clone(), Arc::new(OfflineModel)];
    let rig = with_fallbacks(others).await;
    rig.model.always(1, Reply::Truncated);
    let outcomes = rig.drain().await;
    assert!(outcomes.iter().all(|outcome| *outcome == Completed), "{outcomes:?}");
    assert_eq!(rig.model.asked_about(&[1]), 2);
    assert_eq!((second.calls(), second.asked_about(&[1])), (1, 1));
    let report = rig.verify().await;
    assert_eq!((report.pending, items(&rig, "model", 0).await), (0, report.covered));

    // It is too much for both: the built-in summariser writes its item, and no model is asked again.
    rig.say(6).await;
    let pending = rig.verify().await.pending;
    rig.model.plan_then([], Reply::Truncated);
    second.plan_then([], Reply::Truncated);
    drop(rig.drain().await);
    assert_eq!(rig.verify().await.pending, 0);
    assert_eq!((items(&rig, "offline", 0).await, items(&rig, "offline", 1).await), (pending, 0));
    let calls = (rig.model.calls(), second.calls());
    let now = recapd_platform::clock::Clock::now(&*rig.clock);
    assert_eq!(rig.db.store().enqueue_revisits(now, 9).await.unwrap(), 0);
    assert_eq!(rig.drain_later().await, []);
    assert_eq!((rig.model.calls(), second.calls()), calls);
}

/// An exchange that is beyond the first model waits for the second, and isn't billed with each look.
#[tokio::test]
async fn a_quarantined_exchange_is_not_asked_again_while_the_next_model_is_away() {
    let second = Arc::new(ScriptedModel::default());
    let others: Vec<Arc<dyn ChatModel>> = vec![second.clone()];
    let rig = with_fallbacks(others).await;
    rig.model.always(1, Reply::Truncated);
    second.plan_then([], Reply::RateLimited);
    drop(rig.drain().await);
    for _ in 0..3 {
        drop(rig.drain_later().await);
    }
    assert_eq!((rig.model.asked_about(&[1]), second.asked_about(&[1])), (2, 4));
    second.plan([]);
    for _ in 0..2 {
        drop(rig.drain_later().await);
    }
    let report = rig.verify().await;
    assert_eq!((report.pending, items(&rig, "model", 0).await), (0, report.covered));
    assert_eq!(rig.model.asked_about(&[1]), 2);
}

/// If no other question is asked, a provider that fails over one looks like an outage. It isn't asked for ever.
#[tokio::test]
async fn a_question_that_keeps_failing_alone_uses_up_its_attempts() {
    let rig = with_fallbacks(Vec::new()).await;
    rig.model.plan_then([], Reply::Late);
    let mut outcomes = rig.drain().await;
    while outcomes.last() != Some(&Parked) {
        assert!(outcomes.len() < 40, "{outcomes:?}");
        outcomes.extend(rig.drain_later().await);
    }
    let waited = outcomes.iter().filter(|outcome| **outcome == Postponed).count();
    assert!(waited >= 20, "it may be an outage of hours: {outcomes:?}");
    assert!(rig.model.asked_about(&[1]) >= 20, "in smaller and smaller questions");
    assert_eq!(rig.verify().await.pending, 0, "what waits behind it is to be seen");
    let calls = rig.model.calls();
    for _ in 0..5 {
        assert_eq!(rig.drain_later().await, []);
    }
    assert_eq!(rig.model.calls(), calls);

    // If it was an outage after all, nothing is lost.
    rig.model.plan([]);
    rig.say(2).await;
    for _ in 0..4 {
        drop(rig.drain_later().await);
    }
    let covered = rig.verify().await.covered;
    assert_eq!((items(&rig, "digest", 1).await, items(&rig, "model", 0).await), (0, covered));
}

/// The exchange is to blame, so it keeps its digest, and the others don't wait for it.
#[tokio::test]
async fn an_exchange_that_fails_while_others_are_answered_is_given_up() {
    let rig = Rig::new(&config()).await;
    rig.model.always(2, Reply::Late);
    for _ in 0..5 {
        rig.say(6).await;
        for _ in 0..7 {
            drop(rig.drain_later().await);
        }
    }
    let report = rig.verify().await;
    assert_eq!(report.pending, 0);
    assert_eq!((items(&rig, "digest", 1).await, items(&rig, "digest", 0).await), (0, 1));
    assert_eq!(items(&rig, "model", 0).await, report.covered - 1);
    let calls = rig.model.asked_about(&[2]);
    assert!(calls <= 20, "{calls} calls");
    rig.say(6).await;
    drop(rig.drain_later().await);
    assert_eq!((rig.verify().await.pending, rig.model.asked_about(&[2])), (0, calls));
}

#[tokio::test]
async fn without_fallbacks_digests_stand_in() {
    let rig = with_fallbacks(Vec::new()).await;
    rig.model.plan([Reply::Auth]);
    assert_eq!(rig.drain().await, [Parked]);
    assert!(items(&rig, "digest", 1).await > 0);
}

/// A model that declines one exchange summarises the others.
#[tokio::test]
async fn one_declined_exchange_does_not_affect_the_others() {
    for (others, origin) in [(offline(), "offline"), (Vec::new(), "digest")] {
        let rig = with_fallbacks(others).await;
        rig.model.always(2, Reply::Refusal);
        assert_eq!(rig.drain().await, [Completed], "{origin}");
        let report = rig.verify().await;
        assert_eq!(
            (items(&rig, origin, 0).await, items(&rig, "model", 0).await),
            (1, report.covered - 1),
            "{origin}"
        );
        assert_eq!((report.pending, rows(&rig).await), (0, 0), "{origin}");
        let asked = rig.model.asked_with(2);
        assert!(asked <= 4, "{asked} calls: as often as it can be halved");
        rig.say(6).await;
        drop(rig.drain().await);
        drop(rig.drain_later().await);
        assert_eq!((rig.verify().await.pending, rig.model.asked_with(2)), (0, asked));
    }
}

/// The model is to blame and no exchange, so it isn't asked about ever smaller pieces.
#[tokio::test]
async fn a_model_that_declines_everything_is_halved_once() {
    let rig = with_fallbacks(offline()).await;
    rig.model.plan_then([], Reply::Refusal);
    assert_eq!(rig.drain().await, [Completed]);
    let halved = rig.model.calls();
    assert!((3..=7).contains(&halved), "{halved} calls");
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!(rig.model.calls(), halved + 1);
    rig.model.plan([]);
    rig.say(6).await;
    drop(rig.drain().await);
    let before = items(&rig, "offline", 0).await;
    rig.model.always(rig.verify().await.covered + 2, Reply::Refusal);
    rig.say(6).await;
    drop(rig.drain().await);
    assert_eq!(items(&rig, "offline", 0).await, before + 1, "it is looked for one exchange again");
}

/// The same holds for a model that becomes useless after good answers: a fallback summarises everything at once.
#[tokio::test]
async fn a_model_that_became_useless_is_asked_about_everything_at_once() {
    let rig = with_fallbacks(offline()).await;
    assert_eq!(rig.drain().await, [Completed]);
    let calls = rig.model.calls();
    rig.say(6).await;
    rig.model.plan_then([], Reply::Garbage);
    let outcomes = rig.drain_on(4).await;
    assert_eq!(outcomes, [Retried, Retried, Retried, Retried, Completed]);
    assert_eq!(rig.verify().await.pending, 0);
    assert!(items(&rig, "offline", 1).await > 0);
    let calls = rig.model.calls() - calls;
    assert!(calls <= 20, "{calls}: in halves in the first attempt, and twice in each of the others");
}

#[tokio::test]
async fn a_long_wait_for_the_rate_gives_the_work_back() {
    let limits = MinuteLimits { requests: 1, tokens: 0 };
    let rig = Rig::asking(&config(), |model, clock| {
        let limited = LimitedModel::new(model, 9, limits, clock);
        Arc::new(Chain::new(Arc::new(limited), offline()))
    })
    .await;
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Postponed], "not the built-in one: a minute can be waited for");
    let leased = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL";
    assert_eq!(rig.db.number(leased).await, Some(0));
    assert_eq!(rig.drain().await, []);
    rig.clock.advance_ms(2 * MINUTE_MS);
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!((rig.verify().await.pending, rig.model.calls()), (0, 2));
    let metrics = rig.parts.metrics.encode(None).1;
    assert!(metrics.contains("recapd_updates_postponed_total{reason=\"rate\"} 1"), "{metrics}");
}

/// Whatever the database does while work is given back, the work is done later, and once.
#[tokio::test]
async fn giving_work_back_may_fail() {
    for (method, when, calls) in
        [("postpone", When::Before, 4), ("postpone", When::After, 4), ("spending", When::Before, 3)]
    {
        let rig = with_fallbacks(Vec::new()).await;
        until_it_rests(&rig).await;
        rig.clock.advance_ms(2 * REST_MS);
        rig.flaky.fail(method, 1, when);
        drop(rig.drain().await);
        assert_eq!(rig.flaky.met(), 1, "{method} {when:?}");
        rig.model.plan([]);
        for _ in 0..3 {
            drop(rig.drain_later().await);
        }
        let report = rig.verify().await;
        assert_eq!((report.pending, rows(&rig).await), (0, 0), "{method} {when:?}");
        assert_eq!((rig.row().await.version, rig.model.calls()), (1, calls), "{method} {when:?}");
    }
}
