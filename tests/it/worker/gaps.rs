//! Exchanges that an answer leaves out: each is asked about alone once, and again when it is revisited; then no more.

use recapd_core::domain::time::MINUTE_MS;
use recapd_engine::worker::Outcome;
use recapd_platform::clock::Clock as _;

use crate::support::{
    backend::Backend as _,
    rig::{Rig, config},
    scripted::Reply,
};

/// A daemon whose model left out the last pending exchange, even when asked about it alone. Returns that exchange and the number of calls.
async fn with_gap() -> (Rig, i64, usize) {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    let gap = rig.verify().await.pending;
    rig.model.plan([Reply::Partial, Reply::WrongExchanges]);
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    assert_eq!((rig.model.calls(), rig.model.asked_about(&[gap])), (2, 1));
    assert_eq!((rig.digests().await, rig.lasting_digests().await), (1, 0));
    let queued = "SELECT count(*) FROM summary_update_queue";
    assert_eq!(rig.db.number(queued).await, Some(0), "it isn't asked about at once");
    (rig, gap, 2)
}

#[tokio::test]
async fn a_gap_is_asked_about_alone_and_again_after_the_next_update() {
    let (rig, gap, calls) = with_gap().await;
    rig.say(6).await;
    assert_eq!(rig.drain().await, [Outcome::Completed; 2]);
    assert_eq!(
        (rig.model.calls() - calls, rig.model.asked_about(&[gap])),
        (2, 2),
        "the next batch, and the gap"
    );
    assert_eq!((rig.digests().await, rig.lasting_digests().await), (0, 0));
    assert_eq!(rig.verify().await.pending, 0);
}

/// If nothing more leaves the window, the reconciler queues the gap.
#[tokio::test]
async fn a_gap_of_a_silent_agent_is_asked_about_again() {
    let (rig, gap, calls) = with_gap().await;
    rig.clock.advance_ms(5 * MINUTE_MS);
    let now = rig.clock.now();
    assert_eq!(rig.db.store().enqueue_revisits(now, 9).await.unwrap(), 1);
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    assert_eq!((rig.model.calls() - calls, rig.model.asked_about(&[gap])), (1, 2));
    assert_eq!((rig.digests().await, rig.lasting_digests().await), (0, 0));
}

/// Then its digest is final, and the row isn't parked because of it.
#[tokio::test]
async fn a_gap_left_out_again_is_not_asked_about_any_more() {
    for reply in [Reply::WrongExchanges, Reply::Garbage, Reply::Empty] {
        let (rig, gap, _) = with_gap().await;
        rig.model.always(gap, reply);
        rig.say(6).await;
        assert_eq!(rig.drain().await, [Outcome::Completed; 2], "{reply:?}");
        assert_eq!((rig.digests().await, rig.lasting_digests().await), (0, 1));
        assert_eq!(rig.model.asked_about(&[gap]), 3, "{reply:?}: alone, and twice when it is revisited");
        for _ in 0..3 {
            rig.say(6).await;
            rig.drain_later().await;
        }
        let now = rig.clock.now();
        assert_eq!(rig.db.store().enqueue_revisits(now, 9).await.unwrap(), 0);
        assert_eq!(rig.model.asked_about(&[gap]), 3, "{reply:?}");
        assert_eq!(rig.verify().await.pending, 0);
    }
}

/// Gaps of two updates are revisited together; those left out again keep their digests.
#[tokio::test]
async fn gaps_of_several_updates_end_too() {
    let (rig, gap, calls) = with_gap().await;
    rig.say(6).await;
    rig.model.plan_then([Reply::Partial, Reply::WrongExchanges], Reply::Garbage);
    assert_eq!(rig.drain().await, [Outcome::Completed; 2]);
    let both = [gap, rig.verify().await.covered];
    assert_eq!(
        (rig.model.calls() - calls, rig.model.asked_about(&both)),
        (4, 2),
        "the batch, its gap, and both twice"
    );
    assert_eq!((rig.digests().await, rig.lasting_digests().await), (0, 1), "one item for both");
    assert_eq!(rig.drain_on(3).await, []);
}
