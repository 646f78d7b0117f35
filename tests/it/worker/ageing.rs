//! Documents age while updates wait or fail, and no model is asked about exchanges that are too old for them.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use recapd_core::domain::{
    settings::SettingsPatch,
    time::{DAY_MS, MINUTE_MS},
    work::Reason,
};
use recapd_engine::worker::Outcome::{self, Completed, GivenUp, Parked, Postponed, Retried, StoodIn};
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use recapd_platform::clock::Clock as _;
use recapd_store::Store;
use serde_json::json;

use crate::support::{
    backend::Backend as _,
    conversation::T0,
    flaky_store::When,
    rig::{Rig, config},
    scripted::Reply,
};

/// A daemon with a document of two days ago, and exchanges that left the window since.
async fn two_days_later() -> Rig {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    assert!(rig.content().await.contains("Previously in This Session"));
    rig.clock.advance_ms(2 * DAY_MS);
    rig.say(6).await;
    rig
}

/// Carries out what is due until nothing is pending.
async fn catch_up(rig: &Rig) {
    for _ in 0..6 {
        drop(rig.drain_later().await);
    }
    assert_eq!(rig.verify().await.pending, 0);
}

#[tokio::test]
async fn a_document_ages_while_its_model_is_away() {
    let rig = two_days_later().await;
    let pending = rig.verify().await.pending;
    rig.model.plan_then([], Reply::Transient);
    assert_eq!(rig.drain().await, [Retried]);
    let content = rig.content().await;
    assert!(content.contains("Yesterday") && !content.contains("Previously in This Session"));
    assert_eq!((rig.row().await.version, rig.verify().await.pending), (2, pending));
    let attempts = "SELECT attempts FROM summary_update_queue WHERE lease_token IS NULL";
    assert_eq!(rig.db.number(attempts).await, Some(1), "it is the same row");

    // Only once, and that isn't an attempt.
    for _ in 0..3 {
        assert_eq!(rig.drain_later().await, [Retried]);
    }
    assert_eq!((rig.row().await.version, rig.content().await), (2, content));
    assert_eq!(rig.drain_later().await, [Parked]);
    assert_eq!(rig.row().await.version, 3);
    rig.model.plan([]);
    rig.say(2).await;
    catch_up(&rig).await;
}

#[tokio::test]
async fn a_document_ages_while_a_limit_is_used_up() {
    let rig = two_days_later().await;
    // The model's price is unknown.
    let patch = SettingsPatch::parse(json!({"usd_per_day": 1.5})).unwrap();
    let (store, now) = (rig.db.store(), rig.clock.now());
    store.change_settings(&rig.agent, &patch, now).await.unwrap();
    for _ in 0..2 {
        assert_eq!(rig.drain().await, [Postponed]);
        assert_eq!(rig.row().await.version, 2);
        rig.clock.advance_ms(DAY_MS);
    }
    assert!(rig.content().await.contains("Yesterday"));
    assert_eq!(rig.model.calls(), 1);
    rig.verify().await;
}

/// The update goes on anyway.
#[tokio::test]
async fn failures_while_an_update_waits_are_counted() {
    let rig = two_days_later().await;
    let patch = SettingsPatch::parse(json!({"usd_per_day": 1.5})).unwrap();
    let (store, now) = (rig.db.store(), rig.clock.now());
    store.change_settings(&rig.agent, &patch, now).await.unwrap();
    rig.flaky.fail("age_document", 1, When::Before);
    rig.flaky.fail("postpone", 1, When::Before);
    assert_eq!(rig.drain().await, [Postponed]);
    assert_eq!((rig.flaky.met(), rig.db_errors()), (2, 2));
}

#[tokio::test]
async fn a_failed_revisit_writes_only_ageing() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan_then([], Reply::Auth);
    assert_eq!(rig.drain().await, [Parked]);
    let revisited = async || -> Vec<Outcome> {
        let now = rig.clock.now();
        let asked = rig.db.store().enqueue(&rig.agent, Reason::Manual, 0, now).await;
        assert!(asked.unwrap().revived);
        rig.drain().await
    };
    assert_eq!(revisited().await, [GivenUp]);
    assert_eq!(rig.row().await.version, 1);
    rig.clock.advance_ms(2 * DAY_MS);
    assert_eq!(revisited().await, [Parked]);
    assert_eq!(rig.row().await.version, 2);
    assert!(rig.content().await.contains("Yesterday"));
    assert_eq!(revisited().await, [GivenUp]);
    assert_eq!(rig.row().await.version, 2);
    let parked =
        "SELECT count(*) FROM summary_update_queue WHERE parked_at IS NOT NULL AND last_error IS NOT NULL";
    assert_eq!(rig.db.number(parked).await, Some(1));
    let failed = "SELECT count(*) FROM update_runs WHERE outcome = 'failed'";
    assert_eq!(rig.db.number(failed).await, Some(4), "each is told");

    rig.model.plan([]);
    assert_eq!(revisited().await, [Completed]);
    let standing_in = "SELECT count(*) FROM summary_items WHERE provisional = 1 AND removed_version IS NULL";
    assert_eq!(rig.db.number(standing_in).await, Some(0));
    rig.verify().await;
}

#[tokio::test]
async fn no_model_is_asked_about_exchanges_too_old_for_the_document() {
    let mut config = config();
    config.summary.drop_older = true;
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    let pending = rig.verify().await.pending;
    rig.clock.advance_ms(15 * DAY_MS);
    assert_eq!(rig.drain().await, [Completed]);
    let report = rig.verify().await;
    assert_eq!((report.covered, report.pending), (pending, 0));
    assert_eq!((rig.model.calls(), rig.content().await), (0, String::new()));
    let left = "SELECT count(*) FROM summary_items WHERE provisional = 1 OR dropped_version IS NULL";
    assert_eq!(rig.db.number(left).await, Some(0), "nobody looks at them again");

    // New exchanges are summarised separately.
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!((rig.model.calls(), rig.model.asked_with(6)), (1, 0));
    assert!(rig.content().await.contains("Worked on exchange 7"));
    assert_eq!(rig.verify().await.pending, 0);
}

/// If nothing leaves the document for its age alone, old exchanges are summarised like any others.
#[tokio::test]
async fn old_exchanges_are_summarised_under_earlier() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.clock.advance_ms(15 * DAY_MS);
    assert_eq!(rig.drain().await, [Completed]);
    assert_eq!((rig.model.calls(), rig.verify().await.pending), (1, 0));
    let content = rig.content().await;
    assert!(content.starts_with("## Earlier ("), "{content}");
    assert_eq!(rig.parts.schedule.age().await.unwrap(), 0, "it stays there");
}

/// An item goes by its last exchange: old content would pass for new.
#[tokio::test]
async fn no_item_covers_several_sections() {
    for faults in [0, 1] {
        let rig = Rig::new(&config()).await;
        rig.say(6).await;
        rig.clock.advance_ms(2 * DAY_MS);
        rig.say(6).await;
        let through = rig.verify().await.pending;
        let [old, new] = [1..=6, 7..=through].map(Vec::from_iter);
        rig.model.plan([Reply::Good].into_iter().chain(vec![Reply::Transient; faults]));
        if faults > 0 {
            assert_eq!(rig.drain().await, [Retried]);
            // Fewer exchanges are asked about at once, but no answered one again.
            catch_up(&rig).await;
        } else {
            assert_eq!(rig.drain().await, [Completed]);
            assert_eq!((rig.model.asked_about(&new), rig.row().await.version), (1, 1));
        }
        assert_eq!((rig.model.asked_about(&old), rig.model.asked_with(6)), (1, 1));
        assert_eq!(rig.verify().await.pending, 0);
        let content = rig.content().await;
        assert!(content.contains("Yesterday") && content.contains("Previously in This Session"));
    }
}

/// A model that refuses the key, and wakes the row while it is asked.
#[derive(Default)]
struct Waking(OnceLock<Arc<dyn Store>>);

#[async_trait]
impl ChatModel for Waking {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "script"
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let (store, agent) = (self.0.get().unwrap(), request.agent.as_ref().unwrap());
        store.enqueue(agent, Reason::Ageing, 0, T0).await.unwrap();
        Err(LlmError::Auth("no such key".to_owned()))
    }
}

/// The row isn't parked, and each attempt is paid for.
#[tokio::test]
async fn a_row_woken_during_each_attempt_waits_longer_each_time() {
    for (attempts, wait_minutes) in [(0, 2), (7, 15)] {
        let model = Arc::new(Waking::default());
        let rig = Rig::asking(&config(), |_, _| Arc::<Waking>::clone(&model)).await;
        assert!(model.0.set(rig.db.store()).is_ok());
        rig.say(6).await;
        rig.db.raw(&format!("UPDATE summary_update_queue SET attempts = {attempts}")).await;
        let again_at = rig.clock.now().plus_ms(wait_minutes * MINUTE_MS);
        assert_eq!(rig.drain().await, [StoodIn]);
        let due = "SELECT visible_at FROM summary_update_queue WHERE parked_at IS NULL";
        assert_eq!(rig.db.number(due).await, Some(again_at.0), "{attempts}");
    }
}
