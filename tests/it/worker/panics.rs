//! Panics during an update: each is one more failed attempt, and the end is a parked row, never a lease that is held for ever.

use recapd_engine::worker::Outcome;

use crate::support::{
    backend::Backend as _,
    flaky_store::When,
    rig::{Rig, config},
    scripted::Reply,
};

const PARKED: &str =
    "SELECT count(*) FROM summary_update_queue WHERE parked_at IS NOT NULL AND lease_token IS NULL";
const FAILED: &str = "SELECT count(*) FROM update_runs WHERE outcome = 'failed' AND error_class = 'internal'";

async fn with_pending() -> Rig {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig
}

#[tokio::test]
async fn a_panic_is_one_failed_attempt() {
    for method in [None, Some("material"), Some("complete")] {
        let rig = with_pending().await;
        match method {
            None => rig.model.plan([Reply::Panic]),
            Some(method) => rig.flaky.fail(method, 1, When::Panic),
        }
        assert_eq!(rig.drain().await, [Outcome::Retried], "{method:?}");
        assert_eq!(rig.db.number(FAILED).await, Some(1));
        assert_eq!(rig.row().await.version, 0, "{method:?}");
        assert_eq!(rig.drain_later().await, [Outcome::Completed], "{method:?}");
        let second = "SELECT count(*) FROM update_runs WHERE attempt = 2 AND outcome = 'completed'";
        assert_eq!(rig.db.number(second).await, Some(1), "{method:?}");
        assert_eq!(rig.verify().await.pending, 0);
    }
}

#[tokio::test]
async fn an_update_that_panics_each_time_is_parked_with_digests() {
    let rig = with_pending().await;
    rig.model.plan_then([], Reply::Panic);
    let outcomes = rig.drain_on(6).await;
    let retried = [Outcome::Retried; 4];
    assert_eq!(outcomes, [&retried[..], &[Outcome::Parked]].concat());
    assert_eq!((rig.verify().await.pending, rig.model.calls()), (0, 5));
    assert_eq!((rig.db.number(FAILED).await, rig.db.number(PARKED).await), (Some(5), Some(1)));
}

#[tokio::test]
async fn if_digests_panic_too_the_row_is_parked_without_them() {
    let rig = with_pending().await;
    let pending = rig.verify().await.pending;
    rig.model.plan([Reply::Auth]);
    rig.flaky.fail("complete", 1, When::Panic);
    assert_eq!(rig.drain().await, [Outcome::GivenUp]);
    let metrics = rig.parts.metrics.encode(None).1;
    for counted in [
        "update_failures_total{reason=\"provider_auth\"} 0",
        "update_failures_total{reason=\"internal\"} 1",
        "updates_total{outcome=\"failed\"} 1",
        "retries_exhausted_total 1",
    ] {
        assert!(metrics.contains(&format!("\nrecapd_{counted}\n")), "{counted}: {metrics}");
    }
    assert_eq!((rig.row().await.version, rig.verify().await.pending), (0, pending));
    assert_eq!(rig.db.number(PARKED).await, Some(1));
    assert_eq!(rig.drain_later().await, []);
    // The next eviction revives it.
    rig.say(2).await;
    assert_eq!(rig.drain().await.first(), Some(&Outcome::Completed));
    rig.drain_later().await;
    assert_eq!(rig.verify().await.pending, 0);
}
