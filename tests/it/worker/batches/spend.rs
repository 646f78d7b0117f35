//! The cost of batches: it counts against the daily limits from the question on, and is recorded as it was billed.

use recapd_config::{Config, SpendConfig};
use recapd_core::domain::{
    spend::{SpendLimit, next_day},
    work::{Lease, Reason},
};
use recapd_engine::worker::Outcome;
use recapd_platform::clock::Clock as _;
use recapd_store::{Postponement, Resume};
use tempfile::TempDir;

use super::{BatchRig, SHAPES, config};
use crate::support::{
    backend::Backend as _,
    conversation::{agent, claim, native, rests, run},
    fake_provider::{FakeProvider, Shape, batches::Fate},
    flaky_store::When,
};

/// A dollar per million tokens of any kind; half of it in a batch.
const PRICES: &str = "as_of = \"2026-11-20\"\nsource = \"nobody\"\n\
                      [models.small-model]\ninput = 1_000_000\ncached_input = 1_000_000\n\
                      cache_write = 1_000_000\noutput = 1_000_000\n\
                      [models.script]\ninput = 1_000_000\ncached_input = 1_000_000\n\
                      cache_write = 1_000_000\noutput = 1_000_000\n";

fn priced(shape: Shape, fake: &FakeProvider) -> (Config, TempDir) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("prices.toml");
    std::fs::write(&path, PRICES).unwrap();
    let mut config = config(shape, fake);
    config.spend.prices_file = path.display().to_string();
    (config, folder)
}

/// Limits that a question's estimate uses up, and its bill doesn't.
fn limits() -> [fn(&mut SpendConfig); 2] {
    [|spend| spend.tokens_per_day = 5_000, |spend| spend.usd_per_day = 0.002_5]
}

/// One agent's question uses up the daily limit, and another agent waits for it.
async fn paused_by_a_question(limit: fn(&mut SpendConfig)) -> (BatchRig, TempDir) {
    let fake = FakeProvider::start();
    let (mut config, folder) = priced(Shape::Anthropic, &fake);
    limit(&mut config.spend);
    let one = BatchRig::with(config, fake).await;
    one.rig.say(6).await;
    assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
    for _ in 0..6 {
        let turn = vec![
            native("user", "Please fix the next of the failing tests"),
            native("assistant", "Fixed it."),
        ];
        one.rig.parts.ingestor.append(&agent("b"), turn).await.unwrap();
    }
    assert_eq!(one.rig.drain().await, [Outcome::Postponed]);
    (one, folder)
}

#[tokio::test]
async fn a_question_counts_against_limits_until_it_is_billed() {
    for limit in limits() {
        let (one, _folder) = Box::pin(paused_by_a_question(limit)).await;
        one.look().await;
        assert_eq!(one.rig.drain().await, [], "it is on its way");
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        let outcomes = one.rig.drain().await;
        assert!(
            outcomes.len() == 2
                && outcomes.contains(&Outcome::Completed)
                && outcomes.contains(&Outcome::Deferred),
            "{outcomes:?}"
        );
        assert_eq!((one.questions("answered").await, one.rig.model.calls()), (1, 0));
    }
}

/// As after a rewind: no update waits for the answers any more.
async fn outdate_questions(one: &BatchRig) {
    let moved_on = "UPDATE batch_requests SET version = version + 1";
    one.rig.db.raw(moved_on).await;
}

async fn paused(one: &BatchRig) -> i64 {
    let paused = "SELECT count(*) FROM summary_update_queue WHERE paused_until IS NOT NULL";
    one.number(paused).await
}

/// The question ends with the next look: answered if it was sent, otherwise outdated.
async fn end_with_the_next_look(one: &BatchRig, is_sent: bool) {
    if is_sent {
        one.look().await;
        one.fake.batches().end(&[Fate::Good]);
    } else {
        outdate_questions(one).await;
    }
}

/// Not only with the next batch that ends: there may be none today.
#[tokio::test]
async fn the_next_look_repeats_a_failed_resumption() {
    for is_sent in [false, true] {
        let (one, _folder) = Box::pin(paused_by_a_question(limits()[0])).await;
        end_with_the_next_look(&one, is_sent).await;
        one.rig.flaky.fail("resume", 1, When::Before);
        one.look().await;
        assert_eq!((one.rig.flaky.met(), paused(&one).await), (1, 1), "{is_sent}");
        let mut woken = Box::pin(one.rig.parts.notices().queue_woken());
        assert!(!woken.as_mut().enable());
        one.look().await;
        assert_eq!(paused(&one).await, 0, "{is_sent}");
        assert!(woken.as_mut().enable(), "{is_sent}: the worker looks at once");
        one.look().await;
        let calls = one.rig.flaky.calls("resume");
        one.look().await;
        assert_eq!(one.rig.flaky.calls("resume"), calls, "nothing is owed any more");
    }
}

/// The lease of a worker that is about to wait for the limit.
async fn claimed_again(one: &BatchRig) -> Lease {
    let (store, now) = (one.rig.db.store(), one.rig.clock.now());
    assert_eq!(store.resume(Resume::Paused, now).await.unwrap(), 1);
    let mut leases = store.claim(claim("daemon", 9, now)).await.unwrap();
    assert_eq!(leases.len(), 1);
    leases.remove(0)
}

/// A worker read the limits before a question ended, and records its pause after everybody was resumed.
#[tokio::test]
async fn a_pause_right_after_a_resumption_ends_with_the_next_look() {
    for is_sent in [false, true] {
        let (one, _folder) = Box::pin(paused_by_a_question(limits()[0])).await;
        end_with_the_next_look(&one, is_sent).await;
        let lease = claimed_again(&one).await;
        one.look().await;
        assert_eq!(one.rig.flaky.calls("resume"), 1, "{is_sent}");
        let now = one.rig.clock.now();
        let pause = Postponement {
            until: next_day(now),
            limit: Some(SpendLimit::Tokens),
            why: rests(),
            run: run(now),
        };
        one.rig.db.store().postpone(&lease, pause).await.unwrap();
        assert_eq!(paused(&one).await, 1, "{is_sent}");
        let mut woken = Box::pin(one.rig.parts.notices().queue_woken());
        assert!(!woken.as_mut().enable());
        one.look().await;
        assert_eq!(paused(&one).await, 0, "{is_sent}");
        assert!(woken.as_mut().enable(), "{is_sent}: the worker looks at once");
        let calls = one.rig.flaky.calls("resume");
        one.look().await;
        assert_eq!(one.rig.flaky.calls("resume"), calls, "nothing is owed any more");
    }
}

/// A call whose result is lost may have been carried out.
#[tokio::test]
async fn a_lost_answer_leaves_nobody_paused() {
    for method in ["withdraw_outdated", "close_batch"] {
        let (one, _folder) = Box::pin(paused_by_a_question(limits()[0])).await;
        if method == "close_batch" {
            one.look().await;
            one.fake.batches().end(&[Fate::Good]);
        } else {
            outdate_questions(&one).await;
        }
        one.rig.flaky.fail(method, 1, When::After);
        one.try_look().await;
        one.look().await;
        assert_eq!((one.rig.flaky.met(), paused(&one).await), (1, 0), "{method}");
    }
}

/// As on a full disk, where reading still works.
#[tokio::test]
async fn while_nothing_can_be_written_each_look_tries_once_and_wakes_nobody() {
    let (one, _folder) = Box::pin(paused_by_a_question(limits()[0])).await;
    outdate_questions(&one).await;
    let mut woken = Box::pin(one.rig.parts.notices().queue_woken());
    assert!(!woken.as_mut().enable());
    for nth in 1..=3 {
        one.rig.flaky.fail("withdraw_outdated", nth, When::Before);
        one.rig.flaky.fail("resume", nth, When::Before);
    }
    for looks_before in 0..3 {
        one.try_look().await;
        assert_eq!(one.rig.flaky.calls("withdraw_outdated"), looks_before + 1);
        assert_eq!(one.rig.flaky.calls("resume"), looks_before);
    }
    assert!(!woken.as_mut().enable(), "nothing has changed");
    one.rig.flaky.mend();
    one.look().await;
    assert_eq!(paused(&one).await, 0);
    assert!(woken.as_mut().enable(), "the worker looks at once");
}

/// A failed read changed nothing.
#[tokio::test]
async fn a_failed_look_at_waiting_questions_resumes_nobody() {
    let (one, _folder) = Box::pin(paused_by_a_question(limits()[0])).await;
    one.rig.flaky.fail("has_waiting", 1, When::Before);
    one.try_look().await;
    one.look().await;
    assert_eq!(one.fake.batches().sizes(), [1], "the question goes by the next look");
    assert_eq!((one.rig.flaky.met(), paused(&one).await), (1, 1));
    assert_eq!(one.rig.flaky.calls("resume"), 0);
}

/// The direct question replaces the waiting one.
#[tokio::test]
async fn a_waiting_question_holds_up_no_urgent_update() {
    let of_agent: fn(&mut SpendConfig) = |spend| spend.agent_tokens_per_day = 5_000;
    for limit in limits().into_iter().chain([of_agent]) {
        let fake = FakeProvider::start();
        let (mut config, _folder) = priced(Shape::Anthropic, &fake);
        limit(&mut config.spend);
        let one = BatchRig::with(config, fake).await;
        one.rig.say(6).await;
        assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
        let (store, now) = (&one.rig.parts.store, one.rig.clock.now());
        store.enqueue(&one.rig.agent, Reason::Manual, 0, now).await.unwrap();
        assert_eq!(one.rig.drain().await, [Outcome::Completed]);
        assert_eq!((one.questions("withdrawn").await, one.rig.model.calls()), (1, 1));
    }
}

/// The cost of batches in the metrics, which label every model but the scripted one as `other`.
fn metered_usd(one: &BatchRig) -> f64 {
    let (_, metrics) = one.rig.parts.metrics.encode(None);
    let series = "recapd_provider_cost_usd_total{provider=\"other\",model=\"other\"} ";
    let usd = metrics.lines().find_map(|line| line.strip_prefix(series));
    usd.map_or(0.0, |usd| usd.parse().unwrap())
}

/// Cut off, declined or invalid: the bill is recorded, and the question is asked directly.
#[tokio::test]
async fn useless_answers_are_billed() {
    for shape in SHAPES {
        for fate in [Fate::Truncated, Fate::Declined, Fate::Garbage] {
            let fake = FakeProvider::start();
            let (config, _folder) = priced(shape, &fake);
            let one = BatchRig::with(config, fake).await;
            one.rig.say(6).await;
            assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
            one.look().await;
            one.fake.batches().end(&[fate]);
            one.look().await;
            assert_eq!(one.questions("failed").await, 1, "{shape:?} {fate:?}");
            let told = "SELECT count(*) FROM update_runs WHERE outcome = 'superseded' AND batched = 1 \
                        AND model = 'small-model' AND input_tokens > 0 \
                        AND cost_microusd = (input_tokens + output_tokens + 1) / 2";
            assert_eq!(one.number(told).await, 1, "{shape:?} {fate:?}");
            assert!(metered_usd(&one) > 0.0, "{shape:?} {fate:?}");
            assert_eq!(one.rig.drain().await, [Outcome::Completed]);
            assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
        }
    }
}
