//! A document that grew too big, and a model that is asked for operations on its items.

use recapd_config::Config;
use recapd_engine::worker::Outcome;

use crate::support::{
    backend::Backend as _,
    flaky_store::When::{After, Before},
    rig::{Rig, config},
    scripted::Reply,
};

/// Room for a handful of items.
fn tight() -> Config {
    let mut config = config();
    config.summary.max_tokens = 320;
    config
}

/// A daemon whose next update makes the document too big.
async fn nearly_full(config: &Config) -> Rig {
    let rig = Rig::new(config).await;
    rig.say(5).await;
    rig.model.plan([]);
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    assert_eq!(rig.model.calls(), 1, "there is room yet");
    rig.say(6).await;
    rig
}

async fn numbers(rig: &Rig, sql: [&str; 4]) -> [i64; 4] {
    let mut numbers = [0; 4];
    for (number, sql) in numbers.iter_mut().zip(sql) {
        *number = rig.db.number(sql).await.unwrap();
    }
    numbers
}

const REPLACED: &str = "SELECT count(*) FROM summary_items WHERE removed_version = 2";
const MERGED: &str = "SELECT count(*) FROM summary_items WHERE added_version = 2 AND removed_version IS NULL \
                      AND text LIKE 'Worked on [%'";
const COMPACTED: &str =
    "SELECT count(*) FROM summary_versions WHERE version = 2 AND path IN ('merge', 'full')";
const CALLS: &str = "SELECT model_calls FROM update_runs WHERE version = 2";

#[tokio::test]
async fn items_are_merged_and_still_cover_their_exchanges() {
    let rig = nearly_full(&tight()).await;
    let before = rig.verify().await;
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    let report = rig.verify().await;
    assert_eq!((report.pending, report.covered), (0, before.covered + before.pending));
    let [replaced, merged, compacted, calls] = numbers(&rig, [REPLACED, MERGED, COMPACTED, CALLS]).await;
    assert!(replaced >= 2 && merged >= 2, "{replaced} {merged}");
    assert_eq!((compacted, calls), (1, 2));
    let content = rig.content().await;
    assert!(content.contains("Worked on [1, 2] ("), "{content}");
    assert!(content.contains("#1–#2"), "{content}");
    let metrics = rig.parts.metrics.encode(None).1;
    let shown = |action: &str| {
        let name = format!("recapd_document_items_total{{action=\"{action}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
        line.parse::<i64>().unwrap()
    };
    assert!(shown("merged") >= replaced, "{}", shown("merged"));
    // There is room again: the next update needs one call.
    let calls = rig.model.calls();
    rig.say(1).await;
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    assert_eq!(rig.model.calls(), calls + 1);
}

#[tokio::test]
async fn a_useless_compaction_fails_no_update_and_is_not_repeated_soon() {
    for reply in Reply::ALL {
        if matches!(reply, Reply::Good | Reply::Partial | Reply::Overlapping) {
            continue;
        }
        let rig = nearly_full(&tight()).await;
        rig.model.plan([Reply::Good, reply]);
        assert_eq!(rig.drain().await, [Outcome::Completed], "{reply:?}");
        let [replaced, merged, compacted, calls] = numbers(&rig, [REPLACED, MERGED, COMPACTED, CALLS]).await;
        assert_eq!((replaced, merged, compacted, calls), (0, 0, 1, 2), "{reply:?}");
        assert_eq!(rig.verify().await.pending, 0);
        rig.model.plan([]);
        for _ in 0..3 {
            rig.say(3).await;
            rig.drain_later().await;
        }
        assert_eq!(rig.model.calls(), 3 + 3, "{reply:?}");
    }
}

/// A model that would drop everything, or the same items twice, is followed as far as the rules allow.
#[tokio::test]
async fn no_answer_loses_coverage() {
    for reply in [Reply::Partial, Reply::Overlapping] {
        let rig = nearly_full(&tight()).await;
        rig.model.plan([Reply::Good, reply]);
        assert_eq!(rig.drain().await, [Outcome::Completed], "{reply:?}");
        let report = rig.verify().await;
        assert_eq!((report.pending, report.covered + report.in_window), (0, report.exchanges));
        assert!(rig.content().await.contains("Previously in This Session"));
    }
}

#[tokio::test]
async fn no_model_is_asked_unless_configured() {
    let mut config = tight();
    config.summary.compact_by_model = false;
    let rig = nearly_full(&config).await;
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    assert_eq!(rig.model.calls(), 2);
}

#[tokio::test]
async fn a_crash_pays_for_one_call_at_most() {
    // Two answers are journalled; whatever fails after that, both are reused.
    for (method, nth, when, calls) in [
        ("complete", 1, Before, 2),
        ("journal", 2, Before, 3),
        ("journal", 2, After, 2),
        ("journalled", 2, Before, 2),
    ] {
        let rig = nearly_full(&tight()).await;
        rig.flaky.fail(method, nth, when);
        let before = rig.model.calls();
        let outcomes = rig.drain_on(3).await;
        assert_eq!(outcomes.last(), Some(&Outcome::Completed), "{method}");
        assert_eq!(rig.verify().await.pending, 0);
        assert_eq!(rig.db_errors(), rig.flaky.met(), "{method} {nth}: each is counted");
        assert!(rig.model.calls() - before <= calls, "{method} {nth}");
        assert_eq!(rig.row().await.version, 2, "{method} {nth}");
    }
}
