//! The update protocol from end to end, in the order in which it was first proved: whatever goes wrong on the way, each exchange is
//! covered once.

use recapd_core::domain::work::{Lease, Reason};
use recapd_store::{Fence, MaterialLimits, Patch, StoreError};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, LEASE_MS, T0, agent, append, claim, items, minute, patch, turns},
};

pub(crate) async fn the_protocol_holds(db: &dyn Backend) {
    let a = with_pending(db, "a", 5).await;
    let lease = taken_over(db).await;
    everything_wrong_is_fenced(db, &lease).await;
    the_batches_follow_one_another(db, &lease).await;
    ageing_covers_nothing_new(db).await;
    the_reconciler_finds_what_is_missing(db).await;
    let report = clean(db, &a).await;
    assert_eq!((report.covered, report.pending, report.in_window), (6, 0, 1));
    assert_eq!(db.number("SELECT count(*) FROM summary_versions").await, Some(4));
}

async fn fenced(db: &dyn Backend, lease: &Lease, patch: &Patch, expected: Fence) {
    let refused = db.store().complete(lease, patch.clone()).await;
    assert!(
        matches!(refused, Err(StoreError::Fenced(fence)) if fence == expected),
        "{refused:?}, not {expected}"
    );
}

/// Another worker takes over a lease, which counts as a crash; its old holder comes too late.
async fn taken_over(db: &dyn Backend) -> Lease {
    let zombie = the_lease(db, T0.plus_ms(2_000)).await;
    let lease = the_lease(db, minute(1)).await;
    assert_eq!((lease.attempt, lease.crashes), (2, 1));
    let material = db.store().material(&zombie, ALL).await.unwrap();
    assert_eq!((material.version, material.lo, material.hi), (0, 0, 5));
    fenced(db, &zombie, &patch(&material, items(&material), minute(1)), Fence::Lease).await;
    lease
}

/// The boundary moved back; another watermark; an exchange set aside; an old version; 10,001 tokens.
async fn everything_wrong_is_fenced(db: &dyn Backend, lease: &Lease) {
    let material = db.store().material(lease, ALL).await.unwrap();
    let whole = patch(&material, items(&material), minute(1));
    db.raw("UPDATE agents SET first_exchange = 5").await;
    fenced(db, lease, &whole, Fence::Watermark).await;
    db.raw("UPDATE agents SET first_exchange = 6, summarized_through = 1").await;
    fenced(db, lease, &whole, Fence::Watermark).await;
    db.raw("UPDATE agents SET summarized_through = 0").await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 3").await;
    fenced(db, lease, &whole, Fence::Exchanges).await;
    db.raw("UPDATE exchange_log SET set_aside_at = NULL").await;
    db.raw("UPDATE summaries SET version = 7").await;
    fenced(db, lease, &whole, Fence::Version).await;
    db.raw("UPDATE summaries SET version = 0").await;
    let too_long = Patch { token_count: 10_001, ..whole };
    assert!(db.store().complete(lease, too_long).await.is_err());
}

/// A partial batch arms the row again; the same completion is fenced; the rest is done.
async fn the_batches_follow_one_another(db: &dyn Backend, lease: &Lease) {
    let (store, now) = (db.store(), minute(1));
    let limits = MaterialLimits { exchanges_max: 2, ..ALL };
    let part = store.material(lease, limits).await.unwrap();
    assert_eq!((part.lo, part.hi), (0, 2));
    let partial = patch(&part, items(&part), now);
    let done = store.complete(lease, partial.clone()).await.unwrap();
    assert_eq!((done.version, done.rearmed), (1, true));
    fenced(db, lease, &partial, Fence::Lease).await;
    let lease = the_lease(db, now).await;
    assert_eq!((lease.attempt, lease.crashes), (1, 0));
    let rest = store.material(&lease, ALL).await.unwrap();
    let done = store.complete(&lease, patch(&rest, items(&rest), now)).await.unwrap();
    assert_eq!((done.version, done.rearmed), (2, false));
    assert_eq!(store.claim(claim("daemon", 1, minute(1_000))).await.unwrap(), []);
}

async fn ageing_covers_nothing_new(db: &dyn Backend) {
    let (store, now) = (db.store(), minute(1));
    store.enqueue(&agent("a"), Reason::Ageing, 0, now).await.unwrap();
    let lease = the_lease(db, now).await;
    let aged = store.material(&lease, ALL).await.unwrap();
    assert_eq!((aged.lo, aged.hi, aged.exchanges.len(), aged.items.len()), (5, 5, 0, 5));
    let done = store.complete(&lease, patch(&aged, Vec::new(), now)).await.unwrap();
    assert_eq!((done.version, done.rearmed), (3, false));
}

/// Nothing is pending; then one row is missing; then none.
async fn the_reconciler_finds_what_is_missing(db: &dyn Backend) {
    let (store, later) = (db.store(), minute(1_000));
    assert_eq!(store.reconcile(later, later).await.unwrap(), 0);
    store.append(append(&agent("a"), turns(7..=7))).await.unwrap();
    db.raw("DELETE FROM summary_update_queue").await;
    assert_eq!(store.reconcile(later, later).await.unwrap(), 1);
    assert_eq!(store.reconcile(later, later).await.unwrap(), 0);
    let lease = the_lease(db, later.plus_ms(LEASE_MS)).await;
    let last = store.material(&lease, ALL).await.unwrap();
    store.complete(&lease, patch(&last, items(&last), minute(1))).await.unwrap();
}
