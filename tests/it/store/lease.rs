//! Leases: taken over, renewed, given back, reclaimed.

use recapd_core::domain::work::{Lease, Reason};
use recapd_store::{Fence, Settle, StoreError};

use super::{the_lease, with_pending};
use crate::support::{
    backend::{Backend, assert_same},
    conversation::{ALL, LEASE_MS, T0, agent, claim, items, make, minute, patch},
};

pub(crate) async fn an_expired_lease_is_an_ordinary_claim(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let store = db.store();
    let dead = the_lease(db, minute(1)).await;
    let material = store.material(&dead, ALL).await.unwrap();
    // A later row, however urgent, does not overtake the row that was due before.
    make(db, "b").await;
    store.enqueue(&agent("b"), Reason::Manual, 0, minute(10)).await.unwrap();
    let expired = minute(1).plus_ms(LEASE_MS);
    assert_eq!(store.claim(claim("other", 1, expired.plus_ms(-1))).await.unwrap(), []);
    let leases = store.claim(claim("other", 1, minute(10))).await.unwrap();
    let taken = leases.first().unwrap();
    assert_eq!((taken.agent.as_str(), taken.attempt, taken.crashes), ("a", 2, 1));
    assert!(taken.token > dead.token);
    assert_eq!(
        db.text("SELECT lease_owner FROM summary_update_queue WHERE agent_id = 'a'").await.as_deref(),
        Some("other")
    );
    let late = store.complete(&dead, patch(&material, items(&material), minute(10))).await;
    assert!(matches!(late, Err(StoreError::Fenced(Fence::Lease))));
    store.complete(taken, patch(&material, items(&material), minute(10))).await.unwrap();
}

pub(crate) async fn a_renewal_returns_the_leases_still_held(db: &dyn Backend) {
    for name in ["a", "b", "c"] {
        make(db, name).await;
        db.store().enqueue(&agent(name), Reason::Manual, 0, T0).await.unwrap();
    }
    let store = db.store();
    let leases = store.claim(claim("daemon", 9, T0)).await.unwrap();
    let [a, b, c]: [Lease; 3] = leases.clone().try_into().unwrap();
    db.raw("UPDATE summary_update_queue SET lease_token = NULL WHERE agent_id = 'a'").await;
    db.raw("DELETE FROM summary_update_queue WHERE agent_id = 'b'").await;
    assert_eq!(store.renew(&leases, minute(1), LEASE_MS).await.unwrap(), [c.token]);
    assert_eq!(store.renew(&[], minute(1), LEASE_MS).await.unwrap(), [0; 0]);
    assert_eq!(store.renew(&[a, b], minute(1), LEASE_MS).await.unwrap(), [0; 0]);
    // Extended from the renewal on; the row whose holder lost it is free.
    let due = store.claim(claim("other", 9, minute(1).plus_ms(LEASE_MS - 1))).await.unwrap();
    assert_eq!(due.iter().map(|lease| lease.agent.as_str()).collect::<Vec<_>>(), ["a"]);
    let due = store.claim(claim("other", 9, minute(1).plus_ms(LEASE_MS))).await.unwrap();
    assert_eq!(due.iter().map(|lease| lease.agent.as_str()).collect::<Vec<_>>(), ["c"]);
}

pub(crate) async fn a_release_counts_no_attempt(db: &dyn Backend) {
    make(db, "a").await;
    db.store().enqueue(&agent("a"), Reason::Manual, 0, T0).await.unwrap();
    for _ in 0..3 {
        let lease = the_lease(db, T0).await;
        assert_eq!((lease.attempt, lease.crashes), (1, 0));
        let twice = [lease.clone(), lease];
        assert_eq!(db.store().release(&twice, T0).await.unwrap(), 1);
    }
    let still = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NULL AND lease_owner IS NULL \
                 AND leased_at IS NULL AND attempts = 0";
    assert_eq!(db.number(still).await, Some(1));
    assert_eq!(db.store().release(&[], T0).await.unwrap(), 0);
}

pub(crate) async fn leases_of_an_earlier_run_are_reclaimed(db: &dyn Backend) {
    let store = db.store();
    for (name, owner) in [("a", "me"), ("b", "other"), ("c", "me")] {
        make(db, name).await;
        store.enqueue(&agent(name), Reason::Manual, 0, T0).await.unwrap();
        store.claim(claim(owner, 1, T0)).await.unwrap();
    }
    make(db, "waiting").await;
    store.enqueue(&agent("waiting"), Reason::Eviction, 60_000, T0).await.unwrap();
    let now = T0.plus_ms(1_000);
    assert_eq!(store.reclaim("me", now).await.unwrap(), 2);
    assert_eq!(store.reclaim("me", now).await.unwrap(), 0);
    let leases = store.claim(claim("me", 9, now)).await.unwrap();
    let told: Vec<(&str, i64)> = leases.iter().map(|l| (l.agent.as_str(), l.crashes)).collect();
    assert_eq!(told, [("a", 1), ("c", 1)]);
}

pub(crate) async fn a_clock_set_back_delays_nothing(db: &dyn Backend) {
    const HOUR_MS: i64 = 3_600_000;
    let (store, ahead) = (db.store(), T0.plus_ms(HOUR_MS));
    for (name, delay_ms, at) in [("put-off", 60_000, ahead), ("leased", 0, ahead), ("held", 0, T0)] {
        make(db, name).await;
        store.enqueue(&agent(name), Reason::Eviction, delay_ms, at).await.unwrap();
        store.claim(claim("me", 1, at)).await.unwrap();
    }
    let wait_ms = async |name: &str| {
        let due = format!("SELECT visible_at FROM summary_update_queue WHERE agent_id = '{name}'");
        db.number(&due).await.unwrap() - T0.0
    };
    let leased_ms = wait_ms("leased").await - HOUR_MS;
    let held_ms = wait_ms("held").await;
    // Nobody noticed the jump; the newest rows show it.
    assert_eq!(store.set_back(None, ahead).await.unwrap(), 0, "it's as late as it seems");
    assert_eq!(store.set_back(None, T0).await.unwrap(), 2);
    assert_eq!([wait_ms("put-off").await, wait_ms("leased").await], [60_000, leased_ms]);
    // Somebody noticed it.
    assert_eq!(store.set_back(Some(30_000), T0).await.unwrap(), 2);
    assert_eq!([wait_ms("put-off").await, wait_ms("leased").await], [30_000, (leased_ms - 30_000).max(0)]);
    assert_eq!(store.set_back(Some(999), T0).await.unwrap(), 0, "clocks are adjusted all the time");
    assert_eq!(wait_ms("held").await, held_ms, "a lease from before holds");
}

pub(crate) async fn tokens_are_never_used_again(db: &dyn Backend) {
    let mut last = 0;
    for minutes in 0..5 {
        make(db, "a").await;
        db.store().enqueue(&agent("a"), Reason::Manual, 0, minute(minutes)).await.unwrap();
        let lease = the_lease(db, minute(minutes)).await;
        assert!(lease.token > last);
        last = lease.token;
        // The row goes, alone or together with its agent.
        match minutes {
            0 | 2 => drop(db.raw("DELETE FROM summary_update_queue").await),
            _ => {
                with_pending(db, "a", 0).await;
                let settle = Settle { lo: 0, hi: 0, now: minute(minutes) };
                db.store().settle(&lease, settle).await.unwrap();
                db.raw("DELETE FROM exchange_log").await;
                db.raw("DELETE FROM message_log").await;
                db.raw("DELETE FROM sessions").await;
                db.raw("DELETE FROM summaries").await;
                db.raw("DELETE FROM agents").await;
            }
        }
    }
}

/// Seed 003's first bug: of two workers that read the same summary, the one that wrote last won.
pub(crate) async fn the_last_write_does_not_win(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let store = db.store();
    let slow = the_lease(db, minute(1)).await;
    let read_by_slow = store.material(&slow, ALL).await.unwrap();
    let quick = store.claim(claim("quick", 1, minute(10))).await.unwrap().remove(0);
    let read_by_quick = store.material(&quick, ALL).await.unwrap();
    assert_eq!(read_by_slow.version, read_by_quick.version, "both read the same");
    let first = patch(&read_by_quick, items(&read_by_quick), minute(11));
    store.complete(&quick, first.clone()).await.unwrap();
    let before = db.dump(&["summaries", "summary_versions", "summary_items", "agents"]).await;
    let last = store.complete(&slow, patch(&read_by_slow, items(&read_by_slow), minute(12))).await;
    assert!(matches!(last, Err(StoreError::Fenced(Fence::Lease))));
    let after = db.dump(&["summaries", "summary_versions", "summary_items", "agents"]).await;
    assert_same(&before, &after, "the last write");
    let summary = store.summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!((summary.version, summary.content), (1, first.content));
}

/// Seed 003's second bug: a worker that died in an update left its agent `processing` for ever.
pub(crate) async fn a_dead_holder_does_not_block_its_agent(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    let store = db.store();
    let processing =
        "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL AND visible_at > queued_at";
    let dead = the_lease(db, minute(1)).await;
    assert_eq!(db.number(processing).await, Some(1));
    // Nobody reports its death. Its lease expires, and that is all it takes.
    let taken = store.claim(claim("other", 1, minute(1).plus_ms(LEASE_MS))).await.unwrap().remove(0);
    assert_eq!((taken.agent.clone(), taken.crashes), (dead.agent, 1));
    let material = store.material(&taken, ALL).await.unwrap();
    let done = store.complete(&taken, patch(&material, items(&material), minute(2))).await.unwrap();
    assert_eq!((done.version, done.rearmed), (1, false));
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
}
