//! Rollback, rebuild and edits while the worker works and the database fails.

use recapd_config::Config;
use recapd_core::domain::summary::edit::ItemEdit;
use recapd_engine::worker::Outcome;
use recapd_store::StoreResult;
use serde_json::json;

use crate::support::{
    backend::Backend as _,
    flaky_store::When::{After, Before},
    rig::{Rig, config},
    scripted::Reply,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    RollBack,
    Rebuild,
    Edit,
}

impl Hand {
    const ALL: [Self; 3] = [Self::RollBack, Self::Rebuild, Self::Edit];

    fn method(self) -> &'static str {
        match self {
            Self::RollBack => "roll_back",
            Self::Rebuild => "rebuild",
            Self::Edit => "edit_item",
        }
    }

    async fn act(self, rig: &Rig) -> StoreResult<i64> {
        let ingestor = &rig.parts.ingestor;
        match self {
            Self::RollBack => Ok(ingestor.roll_back(&rig.agent, 1).await?.version),
            Self::Rebuild => Ok(ingestor.rebuild(&rig.agent).await?.version),
            Self::Edit => {
                let edit = ItemEdit::parse(&json!({"pinned": true})).unwrap();
                Ok(ingestor.edit_item(&rig.agent, 1, edit).await?.version)
            }
        }
    }
}

/// Two versions of a document, the second about exchanges of its own.
async fn with_versions(config: &Config) -> Rig {
    let rig = Rig::new(config).await;
    for _ in 0..2 {
        rig.say(5).await;
        rig.drain_later().await;
    }
    assert_eq!(rig.row().await.version, 2);
    rig
}

/// Checks that everything is summarised once and nothing is left to do.
async fn settled(rig: &Rig) {
    for _ in 0..4 {
        rig.drain_later().await;
    }
    let report = rig.verify().await;
    assert_eq!(report.pending, 0, "{report:?}");
    let queue = "SELECT count(*) FROM summary_update_queue";
    assert_eq!(rig.db.number(queue).await, Some(0));
    let held = "SELECT count(*) FROM summaries WHERE held_version IS NOT NULL";
    assert_eq!(rig.db.number(held).await, Some(0));
}

#[tokio::test]
async fn an_operators_change_voids_the_update_under_way() {
    for hand in Hand::ALL {
        let rig = with_versions(&config()).await;
        rig.say(5).await;
        rig.clock.advance_ms(20 * 60_000);
        rig.model.plan([Reply::Held]);
        let asked = rig.model.calls() + 1;
        let (outcomes, version) = tokio::join!(rig.drain(), async {
            rig.model.asked(asked).await;
            let version = hand.act(&rig).await.unwrap();
            rig.model.let_go();
            version
        });
        assert_eq!((outcomes.first(), version), (Some(&Outcome::Superseded), 3), "{hand:?}");
        settled(&rig).await;
        let failed = "SELECT count(*) FROM update_runs WHERE outcome = 'failed'";
        assert_eq!(rig.db.number(failed).await, Some(0), "to come too late is no failure");
    }
}

#[tokio::test]
async fn an_operators_change_is_atomic() {
    for hand in Hand::ALL {
        for when in [Before, After] {
            let rig = with_versions(&config()).await;
            rig.flaky.fail(hand.method(), 1, when);
            hand.act(&rig).await.unwrap_err();
            rig.verify().await;
            // Readers may still get the version before.
            let version = rig.db.number("SELECT version FROM summaries").await;
            assert_eq!(version, Some(if when == Before { 2 } else { 3 }), "{hand:?} {when:?}");
            // A client that doesn't know the result repeats the request.
            hand.act(&rig).await.unwrap();
            rig.verify().await;
            settled(&rig).await;
        }
    }
}

#[tokio::test]
async fn a_rebuild_survives_a_failure_of_each_step() {
    for (method, when) in [
        ("claim", After),
        ("material", Before),
        ("journal", After),
        ("complete", Before),
        ("complete", After),
    ] {
        let mut config = config();
        config.worker.batch_exchanges_max = 2;
        let rig = with_versions_of(&config).await;
        let (covered, old) = (rig.verify().await.covered, rig.content().await);
        rig.parts.ingestor.rebuild(&rig.agent).await.unwrap();
        rig.flaky.fail(method, 2, when);
        for _ in 0..12 {
            let pending = rig.verify().await.pending;
            if pending > 0 {
                assert_eq!(rig.content().await, old, "{method} {when:?}: the old document until then");
            }
            // A failed claim ends a drain; the next poll tries again.
            rig.parts.worker.drain().await.unwrap_or_default();
            rig.clock.advance_ms(20 * 60_000);
        }
        assert_eq!(rig.flaky.met(), 1, "{method}");
        assert_eq!(rig.verify().await.covered, covered);
        settled(&rig).await;
    }
}

/// As [`with_versions`], with as many versions as small batches make.
async fn with_versions_of(config: &Config) -> Rig {
    let rig = Rig::new(config).await;
    rig.say(9).await;
    for _ in 0..6 {
        rig.drain_later().await;
    }
    rig
}

/// An operator's texts outlast later updates; the model's don't come back.
#[tokio::test]
async fn edited_items_stay_as_they_are() {
    let rig = with_versions(&config()).await;
    let edit = ItemEdit::parse(
        &json!({"text": "Chose to keep the parser; token ghp_0123456789abcdefghijABCDEFGHIJ012345"}),
    );
    let edited = rig.parts.ingestor.edit_item(&rig.agent, 2, edit.unwrap()).await.unwrap();
    assert!(!edited.item.item.text.contains("ghp_"), "{}", edited.item.item.text);
    for _ in 0..3 {
        rig.say(4).await;
        rig.drain_later().await;
    }
    assert!(rig.content().await.contains("Chose to keep the parser"));
    assert!(!rig.content().await.contains("Worked on exchange 2,"));
    settled(&rig).await;
}
