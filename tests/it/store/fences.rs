//! The fences of a completion, each provoked alone: if one of them doesn't hold, nothing may change.

use recapd_core::domain::work::Lease;
use recapd_store::{Completion, Fence, MaterialLimits, Patch, StoreError, StoreResult};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{ALL, agent, items, minute, patch},
};

/// Returns a lease on four pending exchanges, and the update that covers them.
async fn ready(db: &dyn Backend) -> (Lease, Patch) {
    with_pending(db, "a", 4).await;
    let lease = the_lease(db, minute(1)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let patch = patch(&material, items(&material), minute(1));
    (lease, patch)
}

/// Completes, and checks that nothing changed.
async fn refused(db: &dyn Backend, lease: &Lease, patch: &Patch) -> StoreError {
    let before = db.dump(&TABLES).await;
    let refused: StoreResult<Completion> = db.store().complete(lease, patch.clone()).await;
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    refused.unwrap_err()
}

async fn fenced(db: &dyn Backend, lease: &Lease, patch: &Patch, expected: Fence) {
    let error = refused(db, lease, patch).await;
    assert!(matches!(error, StoreError::Fenced(fence) if fence == expected), "{error} instead of {expected}");
}

/// Once the cause is repaired, the same update passes.
async fn passes(db: &dyn Backend, lease: &Lease, patch: Patch) {
    db.store().complete(lease, patch).await.unwrap();
    assert_eq!(clean(db, &agent("a")).await.covered, 4);
}

pub(crate) async fn a_lost_lease_is_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    // Taken over by another worker, voided, gone.
    let other = Lease { token: lease.token + 1, ..lease.clone() };
    fenced(db, &other, &patch, Fence::Lease).await;
    let held = format!("UPDATE summary_update_queue SET lease_token = {}", lease.token);
    db.raw("UPDATE summary_update_queue SET lease_token = NULL").await;
    fenced(db, &lease, &patch, Fence::Lease).await;
    db.raw(&held).await;
    passes(db, &lease, patch).await;
}

pub(crate) async fn an_old_version_is_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    for version in [-1, 1, 2] {
        let other = Patch { version, ..patch.clone() };
        fenced(db, &lease, &other, Fence::Version).await;
    }
    passes(db, &lease, patch).await;
}

pub(crate) async fn a_moved_watermark_is_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    db.raw("UPDATE agents SET summarized_through = 2").await;
    fenced(db, &lease, &patch, Fence::Watermark).await;
    db.raw("UPDATE agents SET summarized_through = 0").await;
    // Also into the window.
    let beyond = Patch { hi: 5, ..patch.clone() };
    fenced(db, &lease, &beyond, Fence::Watermark).await;
    passes(db, &lease, patch).await;
}

pub(crate) async fn a_boundary_moved_back_is_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    db.raw("UPDATE agents SET first_exchange = 4, tokens_before_window = 300").await;
    fenced(db, &lease, &patch, Fence::Watermark).await;
    db.raw("UPDATE agents SET first_exchange = 5, tokens_before_window = 400").await;
    passes(db, &lease, patch).await;
}

pub(crate) async fn set_aside_exchanges_are_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 2").await;
    fenced(db, &lease, &patch, Fence::Exchanges).await;
    db.raw("UPDATE exchange_log SET set_aside_at = NULL").await;
    let miscounted = Patch { exchanges: 3, ..patch.clone() };
    fenced(db, &lease, &miscounted, Fence::Exchanges).await;
    passes(db, &lease, patch).await;
}

pub(crate) async fn a_replayed_completion_is_fenced(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    db.store().complete(&lease, patch.clone()).await.unwrap();
    fenced(db, &lease, &patch, Fence::Lease).await;
    // Even with a forged lease the version stops it, and with a forged version the watermark.
    db.store().enqueue(&agent("a"), recapd_core::domain::work::Reason::Manual, 0, minute(1)).await.unwrap();
    let lease = the_lease(db, minute(1)).await;
    fenced(db, &lease, &patch, Fence::Version).await;
    let forged = Patch { version: 1, ..patch.clone() };
    fenced(db, &lease, &forged, Fence::Watermark).await;
    clean(db, &agent("a")).await;
}

pub(crate) async fn more_than_ten_thousand_tokens_are_refused(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    for token_count in [10_001, i64::MAX, -1] {
        let wrong = Patch { token_count, ..patch.clone() };
        let error = refused(db, &lease, &wrong).await;
        assert!(matches!(error, StoreError::Refused(_)), "no reason to try again: {error}");
    }
    passes(db, &lease, patch).await;
}

pub(crate) async fn wrong_coverage_is_refused(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    let broken = |mend: &dyn Fn(&mut Patch)| {
        let mut broken = patch.clone();
        mend(&mut broken);
        broken
    };
    let cases = [
        ("a gap", broken(&|patch| drop(patch.added.remove(1)))),
        ("nothing", broken(&|patch| patch.added.clear())),
        ("an overlap", broken(&|patch| patch.added[0].0.ranges[0].last = 2)),
        ("the same twice", broken(&|patch| patch.added.push(patch.added[0].clone()))),
        ("an inverted range", broken(&|patch| patch.added[2].0.ranges[0].last = 1)),
        ("the window too", broken(&|patch| patch.added[3].0.ranges[0].last = 5)),
    ];
    for (what, case) in cases {
        let error = refused(db, &lease, &case).await;
        assert!(!matches!(error, StoreError::Fenced(_)), "{what}: {error}");
    }
    // Covered exchanges can't be covered again.
    let limits = MaterialLimits { exchanges_max: 2, ..ALL };
    let half = db.store().material(&lease, limits).await.unwrap();
    let half = crate::support::conversation::patch(&half, items(&half), minute(1));
    db.store().complete(&lease, half).await.unwrap();
    let lease = the_lease(db, minute(9)).await;
    let rest = db.store().material(&lease, ALL).await.unwrap();
    let patch = crate::support::conversation::patch(&rest, items(&rest), minute(9));
    let mut again = patch.clone();
    again.added[0].0.ranges[0].first = 2;
    refused(db, &lease, &again).await;
    // An item can't go without a replacement.
    let mut torn = patch.clone();
    torn.removed = vec![1];
    refused(db, &lease, &torn).await;
    passes(db, &lease, patch).await;
}

pub(crate) async fn items_retire_once(db: &dyn Backend) {
    let (lease, patch) = ready(db).await;
    passes(db, &lease, patch).await;
    let again = async || {
        db.store()
            .enqueue(&agent("a"), recapd_core::domain::work::Reason::Ageing, 0, minute(2))
            .await
            .unwrap();
        let lease = the_lease(db, minute(2)).await;
        let material = db.store().material(&lease, ALL).await.unwrap();
        let patch = crate::support::conversation::patch(&material, Vec::new(), minute(2));
        (lease, patch)
    };
    let (lease, mut patch) = again().await;
    for unknown in [vec![9], vec![1, 9]] {
        patch.dropped = unknown;
        assert!(matches!(refused(db, &lease, &patch).await, StoreError::Inconsistent { .. }));
    }
    patch.dropped = vec![1, 3];
    db.store().complete(&lease, patch).await.unwrap();
    let (lease, mut patch) = again().await;
    patch.dropped = vec![3];
    assert!(matches!(refused(db, &lease, &patch).await, StoreError::Inconsistent { .. }));
}
