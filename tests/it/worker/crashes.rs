//! Rows whose holders vanish repeatedly.

use recapd_core::domain::time::MINUTE_MS;
use recapd_engine::worker::Outcome;

use crate::support::{
    backend::Backend as _,
    conversation::claim,
    rig::{Rig, config},
};

async fn with_pending() -> Rig {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig
}

#[tokio::test]
async fn after_the_third_crash_no_model_is_asked() {
    let rig = with_pending().await;
    for _ in 0..3 {
        let leases =
            rig.db.store().claim(claim("doomed", 1, recapd_platform::clock::Clock::now(&*rig.clock))).await;
        assert_eq!(leases.unwrap().len(), 1);
        rig.clock.advance_ms(MINUTE_MS);
    }
    assert_eq!(rig.drain().await, [Outcome::Parked]);
    assert_eq!((rig.verify().await.pending, rig.model.calls()), (0, 0));
    assert!(rig.digests().await > 0);
    // New exchanges are asked about, and then those of the digests.
    rig.say(3).await;
    assert_eq!(rig.drain_later().await, [Outcome::Completed; 2]);
    assert!(rig.model.calls() >= 2, "{}", rig.model.calls());
    assert_eq!(rig.digests().await, 0);
}

/// A question that kills its holder isn't asked for ever: at the second time the digests become final.
#[tokio::test]
async fn a_question_that_kills_its_holders_twice_is_not_repeated() {
    let rig = with_pending().await;
    let vanish = async || {
        let now = recapd_platform::clock::Clock::now(&*rig.clock);
        let leases = rig.db.store().claim(claim("doomed", 1, now)).await.unwrap();
        rig.clock.advance_ms(MINUTE_MS);
        leases.into_iter().map(|lease| lease.crashes).next()
    };
    for crashes in 0..3 {
        assert_eq!(vanish().await, Some(crashes));
    }
    assert_eq!(rig.drain().await, [Outcome::Parked]);
    let digests = rig.digests().await;
    assert!(digests > 0);
    // Another row may have been to blame, so it is tried again within minutes.
    rig.clock.advance_ms(11 * MINUTE_MS);
    let now = recapd_platform::clock::Clock::now(&*rig.clock);
    let long_ago = now.plus_ms(-6 * 60 * MINUTE_MS);
    assert_eq!(rig.db.store().probe_parked(long_ago, 5, now).await.unwrap(), 1);
    for crashes in 0..3 {
        assert_eq!(vanish().await, Some(crashes));
    }
    assert_eq!(rig.drain().await, [Outcome::Parked]);
    assert_eq!((rig.digests().await, rig.lasting_digests().await), (0, digests));
    assert_eq!((rig.verify().await.pending, rig.model.calls()), (0, 0));
}
