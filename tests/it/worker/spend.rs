//! Daily limits of models' cost: updates wait for the next day, and nothing is lost or parked meanwhile.

use recapd_config::{Config, Loader};
use recapd_core::domain::{
    settings::SettingsPatch,
    spend::{SpendLimit, day_start, next_day},
    time::{DAY_MS, HOUR_MS},
};
use recapd_engine::worker::Outcome::{Completed, Postponed, Retried, Superseded};
use recapd_platform::clock::Clock as _;
use recapd_store::{Resume, SpendPause};
use serde_json::json;

use crate::support::{
    backend::Backend as _,
    conversation::{T0, agent, native},
    flaky_store::When,
    rig::{self, Rig},
    scripted::Reply,
};

/// A dollar per million tokens of any kind.
const PRICES: &str = "as_of = \"2026-11-20\"\nsource = \"nobody\"\n[models.script]\ninput = 1_000_000\n\
                      cached_input = 1_000_000\ncache_write = 1_000_000\noutput = 1_000_000\n";
/// The cost of a call of the scripted model in tokens, and with these prices in micro-dollars.
const CALL: i64 = 1_100;

/// A daemon's configuration with these prices, and with one key of `[spend]` set.
fn with_prices(set: &str) -> (Config, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.toml");
    std::fs::write(&path, PRICES).unwrap();
    let loader = Loader::new().set(format!("spend.prices_file={}", path.display()));
    let spend = loader.set(format!("spend.{set}")).load().unwrap().config.spend;
    let config = Config { spend, ..rig::config() };
    (config, folder)
}

/// Each limit lets calls through until it is used up; then updates wait until midnight.
#[tokio::test]
async fn each_limit_pauses_until_the_next_day() {
    for (limit, set) in [
        (SpendLimit::Calls, "calls_per_day=2"),
        (SpendLimit::Tokens, "tokens_per_day=2200"),
        (SpendLimit::Usd, "usd_per_day=0.0022"),
        (SpendLimit::AgentCalls, "agent_calls_per_day=2"),
        (SpendLimit::AgentTokens, "agent_tokens_per_day=1101"),
        (SpendLimit::AgentUsd, "agent_usd_per_day=0.001101"),
    ] {
        let (config, _folder) = with_prices(set);
        let rig = Rig::new(&config).await;
        for _ in 0..2 {
            rig.say(6).await;
            assert_eq!(rig.drain().await, [Completed], "{limit:?}");
        }
        let version = rig.row().await.version;
        rig.say(6).await;
        assert_eq!(rig.drain().await, [Postponed], "{limit:?}");
        let until = next_day(T0);
        let store = rig.db.store();
        assert_eq!(store.paused(&rig.agent).await.unwrap(), Some(SpendPause { limit, until }));
        let sample = store.sample(rig.clock.now(), DAY_MS).await.unwrap();
        assert_eq!((sample.paused, sample.parked, sample.today.cost_microusd), (1, 0, 2 * CALL));
        assert_eq!((sample.today.calls, sample.today.tokens), (2, 2 * CALL));

        // Pending exchanges are shown, and more may come.
        rig.say(2).await;
        drop(rig.drain().await);
        let summary = rig.db.store().summary(&rig.agent).await.unwrap().unwrap();
        assert!(summary.version == version && summary.pending.len() >= 3, "{limit:?}");
        rig.clock.set(until.plus_ms(-1));
        drop(rig.drain().await);
        assert_eq!((rig.model.calls(), rig.row().await.version), (2, version), "{limit:?}");

        rig.clock.set(until);
        assert_eq!(rig.drain().await, [Completed], "{limit:?}");
        let report = rig.verify().await;
        assert_eq!((report.pending, rig.model.calls()), (0, 3), "{limit:?}");
        assert_eq!(store.paused(&rig.agent).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_raised_limit_resumes_at_once_and_an_agent_may_have_its_own() {
    let (config, _folder) = with_prices("agent_calls_per_day=1");
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Postponed]);
    let patch = SettingsPatch::parse(json!({"calls_per_day": 2})).unwrap();
    let now = rig.clock.now();
    rig.db.store().change_settings(&rig.agent, &patch, now).await.unwrap();
    assert_eq!(rig.drain().await, [Completed]);
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Postponed]);
    assert_eq!(rig.model.calls(), 2);
}

/// What concurrent updates have spent counts before it is recorded.
#[tokio::test]
async fn concurrent_updates_keep_a_limit_together() {
    let (config, _folder) = with_prices("calls_per_day=4");
    let rig = Rig::new(&config).await;
    for who in ["a", "b", "c", "d"].map(agent) {
        for _ in 0..6 {
            let question = native("user", "Please fix the next of the failing tests");
            let answer = native("assistant", "Fixed, and it was an off-by-one error.");
            let messages = vec![question, answer];
            rig.parts.ingestor.append(&who, messages).await.unwrap();
        }
    }
    // Each would need three calls to summarise one exchange.
    rig.model.plan_then([], Reply::Overflow);
    assert!(rig.drain().await.contains(&Postponed));
    assert!((4..=4 + 4).contains(&rig.model.calls()), "{}", rig.model.calls());
}

/// Limits may have changed. Resuming is retried until it succeeds, and repeated once for updates that were about to wait by the old
/// limits.
#[tokio::test]
async fn after_a_reload_waiting_updates_are_resumed_despite_failures() {
    let (config, _folder) = with_prices("calls_per_day=1");
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Postponed]);
    let waits = async || rig.db.store().paused(&rig.agent).await.unwrap().is_some();
    let resumption = rig.parts.worker.resumption(Resume::Waiting);
    rig.flaky.fail("resume", 1, When::Before);
    let mut woken = Box::pin(rig.parts.notices().queue_woken());
    assert!(!woken.as_mut().enable());
    resumption.step().await;
    assert!(waits().await);
    resumption.step().await;
    assert!(!waits().await && woken.as_mut().enable(), "the worker looks at once");
    assert_eq!(rig.drain().await, [Postponed], "by the limit of before");
    resumption.step().await;
    assert!(!waits().await);
    resumption.step().await;
    assert_eq!(rig.flaky.calls("resume"), 3, "nothing is owed any more");
}

/// An agent's own limit in dollars is kept as strictly as the configuration's, which is refused without prices.
#[tokio::test]
async fn without_prices_a_limit_in_dollars_allows_no_call() {
    let rig = Rig::new(&rig::config()).await;
    let set = async |usd: serde_json::Value| {
        let patch = SettingsPatch::parse(json!({"usd_per_day": usd})).unwrap();
        let (store, now) = (rig.db.store(), rig.clock.now());
        store.change_settings(&rig.agent, &patch, now).await.unwrap();
    };
    rig.say(6).await;
    set(json!(1.5)).await;
    assert_eq!(rig.drain().await, [Postponed]);
    let (limit, until) = (SpendLimit::Price, next_day(T0));
    assert_eq!(rig.db.store().paused(&rig.agent).await.unwrap(), Some(SpendPause { limit, until }));
    assert_eq!(rig.model.calls(), 0);
    set(json!(null)).await;
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!(rig.model.calls(), 1);
}

/// The runs table has the cost of calls, failed calls are counted, and calls without a price have no cost.
#[tokio::test]
async fn the_cost_of_updates_is_recorded() {
    let (config, _folder) = with_prices("calls_per_day=0");
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    rig.model.plan([Reply::Garbage, Reply::Garbage, Reply::Transient, Reply::Good]);
    drop(rig.drain().await);
    for _ in 0..3 {
        drop(rig.drain_later().await);
    }
    let costs = rig.db.rows("update_runs").await.len();
    assert_eq!(costs, 3, "two failed attempts and one that didn't");
    let sum = async |column: &str| rig.db.number(&format!("SELECT sum({column}) FROM update_runs")).await;
    assert_eq!((sum("model_calls").await, sum("cost_microusd").await), (Some(4), Some(3 * CALL)));
    let metrics = rig.parts.metrics.encode(None).1;
    assert!(
        metrics.contains("recapd_provider_cost_usd_total{provider=\"scripted\",model=\"script\"} 0.0033"),
        "{metrics}"
    );

    // An answer that was cut off was paid for, up to the last token.
    rig.model.plan_then([], Reply::Truncated);
    rig.say(6).await;
    drop(rig.drain().await);
    assert!(sum("output_tokens").await > Some(3 * 100 + 4_000));

    let unpriced = Rig::new(&rig::config()).await;
    unpriced.say(6).await;
    assert_eq!(unpriced.drain().await, [Completed]);
    let cost = unpriced.db.number("SELECT cost_microusd FROM update_runs").await;
    assert_eq!(cost, None, "no figure, and never 0");
    let metrics = unpriced.parts.metrics.encode(None).1;
    assert!(!metrics.contains("recapd_provider_cost_usd_total{"), "{metrics}");
    let today = unpriced.db.store().sample(unpriced.clock.now(), DAY_MS).await.unwrap().today;
    assert_eq!((today.calls, today.unpriced_calls, today.cost_microusd), (1, 1, 0));
}

/// The provider bills what it worked on, whether or not the answer was useful.
#[tokio::test]
async fn useless_calls_count() {
    let (config, _folder) = with_prices("tokens_per_day=1");
    for (reply, is_told) in [(Reply::Broken, true), (Reply::Late, false)] {
        let rig = Rig::new(&config).await;
        rig.say(6).await;
        rig.model.plan([reply]);
        assert_eq!(rig.drain().await, [Retried], "{reply:?}");
        let now = rig.clock.now();
        let spent = rig.db.store().sample(now, DAY_MS).await.unwrap().today;
        assert_eq!((spent.calls, spent.cost_microusd), (1, spent.tokens));
        if is_told {
            assert_eq!(spent.tokens, CALL);
        } else {
            assert!(spent.tokens > 500, "the prompt alone has {} tokens", spent.tokens);
        }
        // That is more than the day allows.
        assert_eq!(rig.drain_later().await, [Postponed], "{reply:?}");
        assert_eq!(rig.model.calls(), 1);
    }
}

/// An update that lost the race has cost something, too.
#[tokio::test]
async fn the_cost_of_a_lost_race_counts() {
    let (mut config, _folder) = with_prices("agent_calls_per_day=2");
    // No heartbeat reports the lost lease before the answer arrives.
    config.queue.lease_ms = HOUR_MS;
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    rig.model.plan([Reply::Held]);
    let working = rig.drain();
    let losing = async {
        rig.model.asked(1).await;
        // Another worker takes the lease away.
        rig.db
            .raw("UPDATE summary_update_queue SET lease_token = NULL, visible_at = visible_at + 60000")
            .await;
        rig.model.let_go();
    };
    let (outcomes, ()) = futures::future::join(working, losing).await;
    assert_eq!(outcomes, [Superseded]);
    let since = day_start(rig.clock.now());
    let spending = rig.db.store().spending(&rig.agent, since).await.unwrap();
    assert_eq!((spending.agent.calls, spending.agent.cost_microusd), (1, CALL));
    // The answer was journalled, so nothing is paid twice.
    rig.clock.advance_ms(2 * HOUR_MS);
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!(rig.model.calls(), 1);
}
