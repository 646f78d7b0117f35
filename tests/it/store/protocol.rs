//! The update protocol from end to end, in the order in which it was first proved: whatever goes wrong on the way,
//! each exchange is covered once.

use recapd::{
    domain::work::Reason,
    store::{Fence, StoreError, StoreResult},
};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, LEASE_MS, T0, claim, items, minute, patch},
};

fn fence<T>(result: StoreResult<T>) -> Option<Fence> {
    match result {
        Err(StoreError::Fenced(fence)) => Some(fence),
        _ => None,
    }
}

pub(crate) async fn the_protocol_holds(db: &dyn Backend) {
    let a = with_pending(db, "a", 5).await;
    let store = db.store();
    let now = minute(1);

    // A lease is taken over and counted as a crash; its old holder comes too late.
    let zombie = the_lease(db, T0.plus_ms(2_000)).await;
    let lease = the_lease(db, now).await;
    assert_eq!((lease.attempt, lease.crashes), (2, 1));
    let material = store.material(&lease, ALL).await.unwrap();
    assert_eq!((material.version, material.lo, material.hi), (0, 0, 5));
    let whole = patch(&material, items(&material), now);
    assert_eq!(
        fence(store.complete(&zombie, whole.clone()).await),
        Some(Fence::Lease)
    );

    // The boundary moved back; another watermark; an exchange set aside; an old version.
    db.raw("UPDATE agents SET first_exchange = 5").await;
    assert_eq!(
        fence(store.complete(&lease, whole.clone()).await),
        Some(Fence::Watermark)
    );
    db.raw("UPDATE agents SET first_exchange = 6, summarized_through = 1")
        .await;
    assert_eq!(
        fence(store.complete(&lease, whole.clone()).await),
        Some(Fence::Watermark)
    );
    db.raw("UPDATE agents SET summarized_through = 0").await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 3")
        .await;
    assert_eq!(
        fence(store.complete(&lease, whole.clone()).await),
        Some(Fence::Exchanges)
    );
    db.raw("UPDATE exchange_log SET set_aside_at = NULL").await;
    db.raw("UPDATE summaries SET version = 7").await;
    assert_eq!(
        fence(store.complete(&lease, whole.clone()).await),
        Some(Fence::Version)
    );
    db.raw("UPDATE summaries SET version = 0").await;

    // 10,001 tokens.
    let mut too_long = whole.clone();
    too_long.token_count = 10_001;
    assert!(store.complete(&lease, too_long).await.is_err());

    // A partial batch re-arms the row; the same completion again is fenced; the rest is done.
    let limits = recapd::store::MaterialLimits {
        exchanges_max: 2,
        ..ALL
    };
    let part = store.material(&lease, limits).await.unwrap();
    assert_eq!((part.lo, part.hi), (0, 2));
    let partial = patch(&part, items(&part), now);
    let done = store.complete(&lease, partial.clone()).await.unwrap();
    assert_eq!((done.version, done.rearmed), (1, true));
    assert_eq!(fence(store.complete(&lease, partial).await), Some(Fence::Lease));
    let lease = the_lease(db, now).await;
    assert_eq!((lease.attempt, lease.crashes), (1, 0));
    let rest = store.material(&lease, ALL).await.unwrap();
    let done = store
        .complete(&lease, patch(&rest, items(&rest), now))
        .await
        .unwrap();
    assert_eq!((done.version, done.rearmed), (2, false));
    assert_eq!(store.claim(claim("daemon", 1, minute(1_000))).await.unwrap(), []);

    // Ageing covers nothing new.
    store.enqueue(&a, Reason::Ageing, 0, now).await.unwrap();
    let lease = the_lease(db, now).await;
    let aged = store.material(&lease, ALL).await.unwrap();
    assert_eq!(
        (aged.lo, aged.hi, aged.exchanges.len(), aged.items.len()),
        (5, 5, 0, 5)
    );
    let done = store
        .complete(&lease, patch(&aged, Vec::new(), now))
        .await
        .unwrap();
    assert_eq!((done.version, done.rearmed), (3, false));

    // The reconciler: nothing is pending, then one row, then none.
    assert_eq!(store.reconcile(minute(1_000), minute(1_000)).await.unwrap(), 0);
    with_more(db).await;
    db.raw("DELETE FROM summary_update_queue").await;
    assert_eq!(store.reconcile(minute(1_000), minute(1_000)).await.unwrap(), 1);
    assert_eq!(store.reconcile(minute(1_000), minute(1_000)).await.unwrap(), 0);
    let lease = the_lease(db, minute(1_000).plus_ms(LEASE_MS)).await;
    let last = store.material(&lease, ALL).await.unwrap();
    store
        .complete(&lease, patch(&last, items(&last), now))
        .await
        .unwrap();
    let report = clean(db, &a).await;
    assert_eq!((report.covered, report.pending, report.in_window), (6, 0, 1));
    assert_eq!(db.number("SELECT count(*) FROM summary_versions").await, Some(4));
}

async fn with_more(db: &dyn Backend) {
    use crate::support::conversation::{agent, append, turns};
    db.store()
        .append(append(&agent("a"), turns(7..=7)))
        .await
        .unwrap();
}
