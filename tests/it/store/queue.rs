//! The queue: enqueue, claim, fail, park, revive, reconcile.

use std::collections::BTreeSet;

use futures::future::join_all;
use recapd_core::domain::{
    agent::AgentId,
    time::{MINUTE_MS, SECOND_MS, Timestamp},
    work::{Lease, Reason},
};
use recapd_store::{AttemptError, CRASHED, ERROR_CHARS_MAX, EnqueueOutcome, Failure, Fence, StoreError};

use super::{the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{LEASE_MS, T0, agent, append, claim, make, minute, run, turns},
};

async fn wake(db: &dyn Backend, name: &str, reason: Reason, delay_ms: i64, now: Timestamp) -> EnqueueOutcome {
    make(db, name).await;
    db.store().enqueue(&agent(name), reason, delay_ms, now).await.unwrap()
}

async fn claimed(db: &dyn Backend, limit: i64, now: Timestamp) -> Vec<String> {
    let leases = db.store().claim(claim("daemon", limit, now)).await.unwrap();
    leases.into_iter().map(|lease| lease.agent.to_string()).collect()
}

pub(super) fn failure(now: Timestamp, backoff_ms: i64, park: bool) -> Failure {
    Failure {
        error: AttemptError { class: "provider_timeout".to_owned(), message: "no answer".to_owned() },
        backoff_ms,
        park,
        run: run(now),
    }
}

async fn fail(db: &dyn Backend, lease: &Lease, now: Timestamp, backoff_ms: i64, park: bool) {
    db.store().fail(lease, failure(now, backoff_ms, park)).await.unwrap();
}

pub(crate) async fn an_enqueue_makes_one_row_and_counts_wakes(db: &dyn Backend) {
    let first = wake(db, "a", Reason::Eviction, 5_000, T0).await;
    assert_eq!((first.is_new, first.revived, first.visible_at), (true, false, T0.plus_ms(5_000)));
    let second = wake(db, "a", Reason::Manual, 9_000, T0).await;
    assert_eq!((second.is_new, second.revived, second.visible_at), (false, false, T0.plus_ms(5_000)));
    let third = wake(db, "a", Reason::Eviction, 1_000, T0).await;
    assert_eq!(third.visible_at, T0.plus_ms(1_000));
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(1));
    assert_eq!(db.number("SELECT wake_seq FROM summary_update_queue").await, Some(3));
    let lease = the_lease(db, minute(1)).await;
    assert_eq!((lease.claimed_wake, lease.attempt, lease.crashes), (3, 1, 0));
    assert_eq!(lease.reasons, Reason::Eviction.bit() | Reason::Manual.bit());
}

pub(crate) async fn the_next_due_time_is_known(db: &dyn Backend) {
    let due_in = async |now| db.store().next_due_ms(now).await.unwrap();
    assert_eq!(due_in(T0).await, None);
    wake(db, "a", Reason::Eviction, 5_000, T0).await;
    wake(db, "b", Reason::Eviction, 9_000, T0).await;
    assert_eq!(due_in(T0).await, Some(5_000));
    let late = T0.plus_ms(6_000);
    assert_eq!(due_in(late).await, Some(0));
    // A lease is due when it expires; a parked row never is.
    let lease = the_lease(db, late).await;
    assert_eq!(due_in(late).await, Some(3_000));
    fail(db, &lease, late, 0, true).await;
    assert_eq!(due_in(late).await, Some(3_000));
    let other = the_lease(db, T0.plus_ms(9_000)).await;
    fail(db, &other, T0.plus_ms(9_000), 0, true).await;
    assert_eq!(due_in(T0.plus_ms(9_000)).await, None);
}

pub(crate) async fn an_enqueue_never_shortens_a_backoff(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let lease = the_lease(db, T0).await;
    fail(db, &lease, T0, 60_000, false).await;
    for reason in Reason::ALL {
        let enqueued = wake(db, "a", reason, 0, T0.plus_ms(1)).await;
        assert_eq!(enqueued.visible_at, minute(1), "{reason:?}");
    }
    assert_eq!(claimed(db, 1, minute(1).plus_ms(-1)).await, [""; 0]);
    assert_eq!(claimed(db, 1, minute(1)).await, ["a"]);
}

pub(crate) async fn an_enqueue_never_shortens_a_lease(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let lease = the_lease(db, T0).await;
    let until = T0.plus_ms(LEASE_MS);
    assert_eq!(wake(db, "a", Reason::Manual, 0, T0).await.visible_at, until);
    assert_eq!(claimed(db, 1, until.plus_ms(-1)).await, [""; 0]);
    assert_eq!(db.store().renew(std::slice::from_ref(&lease), T0, LEASE_MS).await.unwrap(), [lease.token]);
}

pub(crate) async fn an_enqueue_only_raises_urgency(db: &dyn Backend) {
    // Both become visible at the same time; the urgent one stays urgent, whatever else wakes it.
    wake(db, "normal", Reason::Eviction, 0, T0).await;
    wake(db, "urgent", Reason::Manual, 0, T0).await;
    wake(db, "urgent", Reason::Ageing, 0, T0).await;
    wake(db, "raised", Reason::Ageing, 0, T0).await;
    wake(db, "raised", Reason::SessionEnd, 0, T0.plus_ms(1)).await;
    assert_eq!(claimed(db, 9, minute(1)).await, ["urgent", "raised", "normal"]);
    let priorities = "SELECT min(priority) * 1000 + max(priority) FROM summary_update_queue";
    assert_eq!(db.number(priorities).await, Some(100_200));
}

pub(crate) async fn claims_go_by_due_time(db: &dyn Backend) {
    wake(db, "low", Reason::Ageing, 0, T0).await;
    wake(db, "normal", Reason::Eviction, 0, T0).await;
    wake(db, "later", Reason::Eviction, 30_000, T0).await;
    wake(db, "high", Reason::Manual, 0, T0).await;
    wake(db, "hidden", Reason::Manual, 2 * MINUTE_MS, T0).await;
    assert_eq!(claimed(db, 0, minute(1)).await, [""; 0]);
    assert_eq!(claimed(db, 3, minute(1)).await, ["high", "normal", "later"]);
    assert_eq!(claimed(db, 3, minute(1)).await, ["low"]);
    assert_eq!(claimed(db, 3, minute(1)).await, [""; 0]);
    assert_eq!(claimed(db, 1, minute(2)).await, ["high"], "its lease ran out, and it was due first");
}

pub(crate) async fn a_low_row_is_not_starved(db: &dyn Backend) {
    wake(db, "low", Reason::Ageing, 0, T0).await;
    let mut served = Vec::new();
    // Each minute one more urgent row comes in, and there is time for just one.
    for minutes in 0..15 {
        wake(db, &format!("high-{minutes}"), Reason::Manual, 0, minute(minutes)).await;
        let leases = db.store().claim(claim("daemon", 1, minute(minutes))).await.unwrap();
        for lease in leases {
            served.push(lease.agent.to_string());
            db.raw(&format!("DELETE FROM summary_update_queue WHERE agent_id = '{}'", lease.agent)).await;
        }
    }
    // It waits its slack of ten minutes behind newer ones, and no longer.
    let place = served.iter().position(|name| name == "low");
    assert!(matches!(place, Some(10 | 11)), "{served:?}");
}

pub(crate) async fn each_row_is_claimed_once(db: &dyn Backend) {
    for n in 0..30 {
        wake(db, &format!("agent-{n}"), Reason::Eviction, 0, T0).await;
    }
    let store = db.store();
    let claims = (0..12).map(|n| store.claim(claim(&format!("daemon-{n}"), 4, T0)));
    let leases: Vec<Lease> = join_all(claims).await.into_iter().flat_map(Result::unwrap).collect();
    let agents: BTreeSet<&AgentId> = leases.iter().map(|lease| &lease.agent).collect();
    let tokens: BTreeSet<i64> = leases.iter().map(|lease| lease.token).collect();
    assert_eq!((leases.len(), agents.len(), tokens.len()), (30, 30, 30));
    assert!(leases.iter().all(|lease| lease.crashes == 0));
}

pub(crate) async fn a_failure_backs_off(db: &dyn Backend) {
    wake(db, "a", Reason::Manual, 0, T0).await;
    let mut now = T0;
    for attempt in 1..=3 {
        let lease = the_lease(db, now).await;
        assert_eq!((lease.attempt, lease.crashes), (attempt, 0));
        let backoff_ms = attempt * MINUTE_MS;
        fail(db, &lease, now, backoff_ms, false).await;
        let again = db.store().fail(&lease, failure(now, 0, true)).await;
        assert!(matches!(again, Err(StoreError::Fenced(Fence::Lease))));
        let until = now.plus_ms(backoff_ms);
        assert_eq!(claimed(db, 1, until.plus_ms(-1)).await, [""; 0]);
        now = until;
    }
    // Retries lose their urgency: if both are due at the same time, the fresh row goes first.
    wake(db, "fresh", Reason::Eviction, 0, now).await;
    assert_eq!(claimed(db, 1, now).await, ["fresh"]);
}

pub(crate) async fn a_failure_is_recorded(db: &dyn Backend) {
    wake(db, "a", Reason::Manual, 0, T0).await;
    let lease = the_lease(db, T0).await;
    let mut failure = failure(T0, 1, false);
    failure.error.message = "ü".repeat(ERROR_CHARS_MAX + 10);
    failure.run.provider = Some("openai".to_owned());
    failure.run.model_calls = 2;
    failure.run.input_tokens = 300;
    db.store().fail(&lease, failure).await.unwrap();
    let kept = db.text("SELECT last_error FROM summary_update_queue").await.unwrap();
    assert!(kept.starts_with("provider_timeout: üü") && kept.chars().count() == ERROR_CHARS_MAX);
    let run =
        "SELECT outcome || ' ' || trigger_reason || ' ' || error_class || ' ' || provider FROM update_runs";
    assert_eq!(db.text(run).await.as_deref(), Some("failed manual provider_timeout openai"));
    assert_eq!(db.text("SELECT error FROM update_runs").await.unwrap().chars().count(), ERROR_CHARS_MAX);
    let figures =
        "SELECT attempt * 100000 + model_calls * 10000 + input_tokens FROM update_runs WHERE version IS NULL";
    assert_eq!(db.number(figures).await, Some(120_300));
}

pub(crate) async fn a_parked_row_waits_for_an_operator(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let lease = the_lease(db, T0).await;
    fail(db, &lease, T0, 0, true).await;
    assert_eq!(claimed(db, 1, minute(10_000)).await, [""; 0]);
    assert_eq!(db.store().reconcile(minute(10_000), minute(10_000)).await.unwrap(), 0);
    // An operator revives it at once, as often as wanted.
    for minutes in [1, 2, 3] {
        let revived = wake(db, "a", Reason::Manual, 0, minute(minutes)).await;
        assert_eq!((revived.is_new, revived.revived), (false, true));
        assert_eq!(revived.visible_at, minute(minutes));
        let lease = the_lease(db, minute(minutes)).await;
        assert_eq!(lease.attempt, 1);
        fail(db, &lease, minute(minutes), 0, true).await;
    }
}

pub(crate) async fn an_eviction_revives_at_most_once_in_ten_minutes(db: &dyn Backend) {
    let a = with_pending(db, "a", 3).await;
    let mut turn = 5;
    let mut evict = async |minutes: i64| {
        let mut request = append(&a, turns(turn..=turn));
        request.now = minute(minutes);
        turn += 1;
        db.store().append(request).await.unwrap().enqueued.unwrap()
    };
    let park = async |minutes: i64| {
        let lease = the_lease(db, minute(minutes)).await;
        fail(db, &lease, minute(minutes), 0, true).await;
    };
    park(1).await;
    assert!(evict(2).await.revived, "it was never revived before");
    park(2).await;
    assert!(!evict(11).await.revived);
    assert_eq!(claimed(db, 1, minute(11)).await, [""; 0]);
    let revived = evict(12).await;
    assert_eq!((revived.revived, revived.visible_at), (true, minute(12)));
    park(12).await;
    // The end of a session counts like an operator's request.
    assert!(db.store().end_session(&a, minute(13)).await.unwrap().enqueued.unwrap().revived);
}

pub(crate) async fn after_a_third_crash_there_is_one_more_try(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let mut lease = the_lease(db, T0).await;
    for crashes in 1..=3 {
        lease = the_lease(db, T0.plus_ms(crashes * LEASE_MS)).await;
        assert_eq!((lease.crashes, lease.attempt), (crashes, crashes + 1));
        assert!(lease.taken_over);
    }
    fail(db, &lease, minute(2), 0, true).await;
    wake(db, "a", Reason::Manual, 0, minute(3)).await;
    let lease = the_lease(db, minute(3)).await;
    assert_eq!((lease.crashes, lease.attempt), (2, 1));
    assert!(!lease.taken_over, "who held it last gave it back");
    assert_eq!(the_lease(db, minute(4)).await.crashes, 3);
}

pub(crate) async fn the_reconciler_makes_missing_rows_once(db: &dyn Backend) {
    for (name, pending) in [("a", 1), ("b", 4), ("idle", 0)] {
        with_pending(db, name, pending).await;
    }
    let store = db.store();
    let after = T0.plus_ms(1);
    assert_eq!(store.reconcile(after, minute(5)).await.unwrap(), 0, "every row is there");
    db.raw("DELETE FROM summary_update_queue").await;
    assert_eq!(store.reconcile(T0, minute(5)).await.unwrap(), 0, "pending, but not for long enough");
    assert_eq!(store.reconcile(after, minute(5)).await.unwrap(), 2);
    assert_eq!(store.reconcile(after, minute(5)).await.unwrap(), 0);
    assert_eq!(claimed(db, 9, minute(5).plus_ms(-1)).await, [""; 0]);
    let leases = store.claim(claim("daemon", 9, minute(5))).await.unwrap();
    let told: Vec<(&str, &str)> = leases.iter().map(|l| (l.agent.as_str(), l.trigger())).collect();
    assert_eq!(told, [("a", "reconcile"), ("b", "reconcile")]);
    assert_eq!(store.reconcile(after, minute(6).plus_ms(SECOND_MS)).await.unwrap(), 0, "they are leased");
}

pub(crate) async fn an_enqueue_for_an_unknown_agent_is_refused(db: &dyn Backend) {
    let refused = db.store().enqueue(&agent("nobody"), Reason::Manual, 0, T0).await;
    assert!(matches!(refused, Err(StoreError::UnknownAgent(_))), "{refused:?}");
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
}

pub(crate) async fn a_parked_row_is_probed_after_a_while(db: &dyn Backend) {
    wake(db, "a", Reason::Manual, 0, T0).await;
    let lease = the_lease(db, T0).await;
    let failure = Failure {
        error: AttemptError { class: "internal".to_owned(), message: "a defect".to_owned() },
        backoff_ms: 0,
        park: true,
        run: run(minute(1)),
    };
    db.store().fail(&lease, failure).await.unwrap();
    assert_eq!(db.store().probe_parked(minute(1), 5, minute(60)).await.unwrap(), 0, "not for long enough");
    assert_eq!(db.store().probe_parked(minute(2), 5, minute(60)).await.unwrap(), 1);
    assert_eq!(db.store().probe_parked(minute(2), 5, minute(60)).await.unwrap(), 0, "it is no longer parked");
    let again = the_lease(db, minute(60)).await;
    assert_eq!(again.attempt, 5, "the last of five");
}

pub(crate) async fn a_wake_during_the_last_attempt_is_served(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let lease = the_lease(db, T0).await;
    wake(db, "a", Reason::Eviction, 0, T0).await;
    fail(db, &lease, T0, MINUTE_MS, true).await;
    assert_eq!(claimed(db, 1, minute(1).plus_ms(-1)).await, [""; 0]);
    // One more attempt, as late in the series as before. Nobody has woken it since, so a failure parks it.
    let lease = the_lease(db, minute(1)).await;
    assert_eq!(lease.attempt, 2);
    fail(db, &lease, minute(1), 0, true).await;
    assert_eq!(claimed(db, 1, minute(1_000)).await, [""; 0]);
}

pub(crate) async fn the_reconciler_makes_all_that_are_missing_in_steps(db: &dyn Backend) {
    let agents = 1_001;
    for number in 0..agents {
        with_pending(db, &format!("agent-{number}"), 1).await;
    }
    db.raw("DELETE FROM summary_update_queue").await;
    let after = T0.plus_ms(1);
    assert_eq!(db.store().reconcile(after, minute(5)).await.unwrap(), agents);
    assert_eq!(db.store().reconcile(after, minute(5)).await.unwrap(), 0);
}

/// Another row may be to blame that its holders vanished.
pub(crate) async fn a_row_parked_by_crashes_comes_back_soon_once(db: &dyn Backend) {
    for name in ["crashed", "refused"] {
        wake(db, name, Reason::Eviction, 0, T0).await;
    }
    for lease in db.store().claim(claim("daemon", 9, T0)).await.unwrap() {
        let mut failure = failure(minute(1), 0, true);
        if lease.agent.as_str() == "crashed" {
            CRASHED.clone_into(&mut failure.error.class);
        }
        db.store().fail(&lease, failure).await.unwrap();
    }
    let hours = 6 * 60;
    let probed = async |now| {
        let before = minute(now - hours);
        db.store().probe_parked(before, 5, minute(now)).await.unwrap()
    };
    assert_eq!((probed(11).await, probed(12).await), (0, 1), "ten minutes later");
    let again = the_lease(db, minute(12)).await;
    assert_eq!((again.agent.as_str(), again.attempt), ("crashed", 5));
    let mut failure = failure(minute(13), 0, true);
    CRASHED.clone_into(&mut failure.error.class);
    db.store().fail(&again, failure).await.unwrap();
    assert_eq!(probed(60).await, 0, "the next time it is like any other");
    assert_eq!(probed(hours + 14).await, 2);
}

/// The daemon was stopped, or its database was away, and it reports so when it is back.
pub(crate) async fn an_expired_lease_of_a_live_holder_is_no_crash(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let lost = the_lease(db, T0).await;
    let taken = the_lease(db, minute(1)).await;
    assert_eq!((taken.crashes, taken.taken_over), (1, true));
    let disclaim = async |lease: &Lease| db.store().disclaim(std::slice::from_ref(lease)).await.unwrap();
    assert_eq!(disclaim(&lost).await, 1);
    assert_eq!(disclaim(&lost).await, 0, "there is nothing left to take back");
    let store = db.store();
    let held = store.renew(std::slice::from_ref(&taken), minute(1), LEASE_MS);
    assert_eq!(held.await.unwrap(), [taken.token], "it stays with its new holder");
    // That holder vanishes silently.
    let third = the_lease(db, minute(2)).await;
    assert_eq!(third.crashes, 1);
    assert_eq!(disclaim(&lost).await, 1, "one crash at most is taken back for a lease");
    assert_eq!(disclaim(&third).await, 1, "it is given back");
}

/// For instance after a failure that couldn't be recorded: the row is due when the lease would have expired.
pub(crate) async fn an_ended_lease_still_in_its_row_is_given_back(db: &dyn Backend) {
    wake(db, "a", Reason::Eviction, 0, T0).await;
    let ended = the_lease(db, T0).await;
    assert_eq!(db.store().disclaim(std::slice::from_ref(&ended)).await.unwrap(), 1);
    let until = T0.plus_ms(LEASE_MS);
    assert_eq!(claimed(db, 1, until.plus_ms(-1)).await, [""; 0]);
    let again = the_lease(db, until).await;
    assert_eq!((again.attempt, again.crashes, again.taken_over), (2, 0, false));
}
