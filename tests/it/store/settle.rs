//! Settlement: a lease that finds nothing to write.

use recapd_core::domain::work::{Lease, Reason};
use recapd_store::{Fence, Settle, StoreError};

use super::{clean, the_lease, with_pending};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{ALL, agent, append, claim, minute, turns},
};

async fn leased(db: &dyn Backend, pending: i64) -> Lease {
    with_pending(db, "a", pending).await;
    db.store().enqueue(&agent("a"), Reason::Manual, 0, minute(1)).await.unwrap();
    the_lease(db, minute(1)).await
}

fn settle(lo: i64, hi: i64) -> Settle {
    Settle { lo, hi, now: minute(1) }
}

pub(crate) async fn nothing_pending_settles(db: &dyn Backend) {
    let lease = leased(db, 0).await;
    let done = db.store().settle(&lease, settle(0, 0)).await.unwrap();
    assert_eq!((done.version, done.rearmed), (0, false));
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    let again = db.store().settle(&lease, settle(0, 0)).await;
    assert!(matches!(again, Err(StoreError::Fenced(Fence::Lease))));
}

pub(crate) async fn set_aside_exchanges_settle(db: &dyn Backend) {
    let lease = leased(db, 3).await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange <= 3").await;
    db.raw("UPDATE exchange_log SET tokens_before = 0 WHERE exchange > 3").await;
    db.raw("UPDATE agents SET tokens_before_window = 0").await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    assert_eq!((material.lo, material.hi, material.exchanges.len()), (0, 3, 0));
    let done = db.store().settle(&lease, settle(0, 3)).await.unwrap();
    assert_eq!((done.version, done.rearmed), (0, false));
    let agent_row = db.store().agent(&agent("a")).await.unwrap().unwrap();
    assert_eq!((agent_row.ledger.summarized_through, agent_row.pending_since), (3, None));
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.exchanges, report.set_aside, report.pending), (1, 3, 0));
}

pub(crate) async fn live_exchanges_do_not_settle(db: &dyn Backend) {
    let lease = leased(db, 3).await;
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange <= 2").await;
    let before = db.dump(&TABLES).await;
    for (lo, hi, fence) in [(0, 3, Fence::Exchanges), (1, 3, Fence::Watermark), (0, 4, Fence::Watermark)] {
        let refused = db.store().settle(&lease, settle(lo, hi)).await;
        assert!(matches!(refused, Err(StoreError::Fenced(found)) if found == fence), "{lo} to {hi}");
    }
    assert_same(&before, &db.dump(&TABLES).await, "refused");
    let done = db.store().settle(&lease, settle(0, 2)).await.unwrap();
    assert!(done.rearmed, "the third is pending still");
    assert_eq!(the_lease(db, minute(1)).await.attempt, 1);
}

pub(crate) async fn a_wake_before_the_settlement_is_not_lost(db: &dyn Backend) {
    let lease = leased(db, 0).await;
    db.store().append(append(&agent("a"), turns(2..=2))).await.unwrap();
    let done = db.store().settle(&lease, settle(0, 0)).await.unwrap();
    assert!(done.rearmed);
    let lease = the_lease(db, minute(1)).await;
    assert_eq!(db.store().material(&lease, ALL).await.unwrap().hi, 1);
    assert_eq!(db.store().claim(claim("daemon", 1, minute(1))).await.unwrap(), []);
}
