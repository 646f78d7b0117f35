//! The database fails at each step of an update, before or after the step took effect: nothing is lost, nothing is done twice, and at most
//! one call of the model is paid for twice.

use recapd_core::domain::{time::MINUTE_MS, work::Reason};
use recapd_engine::worker::Outcome;
use recapd_platform::clock::Clock as _;
use recapd_store::StoreError;

use crate::support::{
    backend::Backend as _,
    conversation::{claim, native},
    flaky_store::When::{self, After, Before},
    rig::{Rig, config},
    scripted::Reply,
};

/// Works until nothing waits, however often the database fails at first.
async fn work_off(rig: &Rig) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        // A failed claim ends a drain; the next poll tries again.
        outcomes.extend(rig.parts.worker.drain().await.unwrap_or_default());
        rig.verify().await;
        rig.clock.advance_ms(20 * MINUTE_MS);
    }
    outcomes
}

/// Runs an update in which the first call of `method` fails. Returns its outcomes and the number of calls of the model.
async fn update_with(method: &'static str, when: When, replies: &[Reply]) -> (Vec<Outcome>, usize) {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    let pending = rig.verify().await.pending;
    rig.model.plan(replies.iter().copied());
    rig.flaky.fail(method, 1, when);
    let outcomes = work_off(&rig).await;
    assert_eq!(rig.flaky.met(), 1, "{method} was never called");
    // A failed look at the queue is counted elsewhere.
    assert_eq!(rig.db_errors(), usize::from(method != "claim"), "{method} {when:?}");
    let report = rig.verify().await;
    assert_eq!((report.covered, report.pending), (pending, 0), "{method} {when:?}");
    assert_eq!(rig.row().await.version, 1, "{method} {when:?}: applied once");
    let rows = rig.db.number("SELECT count(*) FROM summary_items").await;
    let models = rig.db.number("SELECT count(*) FROM summary_items WHERE origin = 'model'").await;
    assert_eq!((rows, models), (Some(pending), Some(pending)), "{method} {when:?}");
    assert_eq!(rig.db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    (outcomes, rig.model.calls())
}

#[tokio::test]
async fn every_step_of_an_update_may_fail() {
    use Outcome::{Completed, Retried, Superseded};
    let cases: [(&'static str, When, &[Outcome], usize); 10] = [
        ("claim", Before, &[Completed], 1),
        ("claim", After, &[Completed], 1),
        ("material", Before, &[Retried, Completed], 1),
        ("material", After, &[Retried, Completed], 1),
        ("journalled", Before, &[Retried, Completed], 1),
        ("journalled", After, &[Retried, Completed], 1),
        // If the journal lost the answer, it is paid for again; otherwise it is reused.
        ("journal", Before, &[Retried, Completed], 2),
        ("journal", After, &[Retried, Completed], 1),
        ("complete", Before, &[Retried, Completed], 1),
        // It was applied; giving the lease back shows that it is gone.
        ("complete", After, &[Superseded], 1),
    ];
    for (method, when, outcomes, calls) in cases {
        let found = update_with(method, when, &[]).await;
        assert_eq!(found, (outcomes.to_vec(), calls), "{method} {when:?}");
    }
}

#[tokio::test]
async fn an_unrecorded_failure_is_retried_when_the_lease_runs_out() {
    use Outcome::{Completed, Retried};
    for when in [Before, After] {
        let found = update_with("fail", when, &[Reply::Transient]).await;
        assert_eq!(found, (vec![Retried, Completed], 2), "{when:?}");
    }
}

#[tokio::test]
async fn a_settlement_may_fail() {
    for (when, outcomes) in
        [(Before, vec![Outcome::Retried, Outcome::Settled]), (After, vec![Outcome::Superseded])]
    {
        let rig = Rig::new(&config()).await;
        rig.say(1).await;
        rig.db
            .store()
            .enqueue(&rig.agent, Reason::Manual, 0, crate::support::conversation::T0)
            .await
            .unwrap();
        rig.flaky.fail("settle", 1, when);
        assert_eq!(work_off(&rig).await, outcomes);
        assert_eq!(rig.db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    }
}

#[tokio::test]
async fn digests_may_fail_to_stand_in() {
    for when in [Before, After] {
        let rig = Rig::new(&config()).await;
        rig.say(6).await;
        rig.model.plan([Reply::Auth, Reply::Auth]);
        rig.flaky.fail("complete", 1, when);
        let outcomes = work_off(&rig).await;
        match when {
            After => assert_eq!(outcomes, [Outcome::Superseded]),
            _ => assert_eq!(outcomes, [Outcome::Retried, Outcome::Parked]),
        }
        // Each attempt is counted once, by its final failure.
        let metrics = rig.parts.metrics.encode(None).1;
        for (reason, attempts) in [("db", 1), ("provider_auth", i64::from(when == Before))] {
            let counted = format!("\nrecapd_update_failures_total{{reason=\"{reason}\"}} {attempts}\n");
            assert!(metrics.contains(&counted), "{when:?}: {counted}{metrics}");
        }
        assert_eq!((rig.verify().await.pending, rig.row().await.version), (0, 1));
        let parked =
            "SELECT count(*) FROM summary_update_queue WHERE parked_at IS NOT NULL AND lease_token IS NULL";
        assert_eq!(rig.db.number(parked).await, Some(1));
    }
}

/// More exchanges left the window before a lost update is repeated: its answer is used for what it is about, and the rest comes next.
#[tokio::test]
async fn an_answer_is_used_even_if_more_is_pending_by_then() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    let told = rig.verify().await.pending;
    rig.flaky.fail("complete", 1, Before);
    assert_eq!(rig.drain().await, [Outcome::Retried]);
    rig.say(4).await;
    let pending = rig.verify().await.pending;
    assert_eq!(work_off(&rig).await, [Outcome::Completed, Outcome::Completed]);
    let [first, rest] = [1..=told, told + 1..=pending].map(Vec::from_iter);
    assert_eq!((rig.model.asked_about(&first), rig.model.asked_about(&rest)), (1, 1), "{told} of {pending}");
    assert_eq!((rig.model.calls(), rig.verify().await.pending), (2, 0));
}

/// An update that condenses provisional items in parts is lost. The next one doesn't take the journalled answer about the first part for
/// one about all, and asks about no part again.
#[tokio::test]
async fn a_partial_answer_is_not_taken_for_a_full_one() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan([Reply::Auth]);
    assert_eq!(rig.drain().await, [Outcome::Parked]);
    rig.model.plan([Reply::Overflow, Reply::Good]);
    rig.flaky.fail("complete", 1, Before);
    rig.db
        .store()
        .enqueue(&rig.agent, Reason::Manual, 0, recapd_platform::clock::Clock::now(&*rig.clock))
        .await
        .unwrap();
    let outcomes = work_off(&rig).await;
    assert_eq!(outcomes, [Outcome::Retried, Outcome::Completed]);
    assert_eq!(rig.model.calls(), 4, "the key, what is too much, and two parts");
    let left = "SELECT count(*) FROM summary_items WHERE origin = 'digest' AND removed_version IS NULL";
    assert_eq!((rig.db.number(left).await, rig.verify().await.pending), (Some(0), 0));
}

/// A watermark that moved fences the update; giving the lease back may fail, too.
#[tokio::test]
async fn a_fenced_update_gives_its_lease_back_and_starts_again() {
    for fault in [None, Some(Before), Some(After)] {
        let rig = Rig::new(&config()).await;
        rig.say(6).await;
        rig.model.plan([Reply::Held]);
        if let Some(when) = fault {
            rig.flaky.fail("release", 1, when);
        }
        let raise = async {
            rig.model.asked(1).await;
            // As if the budget had been raised: the newest pending exchange is back in the window.
            let back = "UPDATE agents SET first_exchange = first_exchange - 1, tokens_before_window = \
                        (SELECT tokens_before FROM exchange_log WHERE exchange = first_exchange - 1), budget_tokens = 900";
            assert_eq!(rig.db.raw(back).await, 1);
            rig.model.let_go();
        };
        let (first, ()) = tokio::join!(rig.drain(), raise);
        assert_eq!(first.first(), Some(&Outcome::Superseded));
        let outcomes = [first, work_off(&rig).await].concat();
        assert_eq!(outcomes, [Outcome::Superseded, Outcome::Completed], "{fault:?}");
        let report = rig.verify().await;
        assert_eq!((report.pending, rig.row().await.version), (0, 1));
        assert_eq!(
            rig.db.number("SELECT max(attempt) FROM update_runs").await,
            Some(if fault == Some(Before) { 2 } else { 1 })
        );
    }
}

#[tokio::test]
async fn a_repeated_append_stores_nothing_twice() {
    for when in [Before, After] {
        let rig = Rig::new(&config()).await;
        let messages: Vec<_> = (0..12)
            .map(|n| {
                let mut message = native(["user", "assistant"][n % 2], "One of many messages");
                message.client_id = Some(n.to_string());
                message
            })
            .collect();
        rig.flaky.fail("append", 1, when);
        let refused = rig.parts.ingestor.append(&rig.agent, messages.clone()).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))));
        let outcome = rig.parts.ingestor.append(&rig.agent, messages).await.unwrap();
        assert_eq!(outcome.accepted, if when == Before { 12 } else { 0 });
        assert_eq!(rig.verify().await.messages, 12);
    }
}

/// The database fails at one call and then at another, in all pairs: the update is still applied once.
#[tokio::test]
async fn two_faults_in_one_update() {
    let steps = ["claim", "material", "journalled", "journal", "complete", "fail"];
    for first in steps {
        for second in ["material", "complete", "fail"] {
            let rig = Rig::new(&config()).await;
            rig.say(6).await;
            rig.flaky.fail(first, 1, After);
            rig.flaky.fail(second, 2, Before);
            rig.model.plan([Reply::Transient]);
            work_off(&rig).await;
            let report = rig.verify().await;
            assert_eq!((report.pending, rig.row().await.version), (0, 1), "{first}, {second}");
            assert_eq!(
                rig.db.number("SELECT count(*) FROM summary_items WHERE origin = 'digest'").await,
                Some(0)
            );
            assert!(rig.model.calls() <= 3, "{first}, {second}");
        }
    }
}

/// A database that is away when an update fails is told later: no holder vanished.
#[tokio::test]
async fn an_unrecorded_failure_is_no_crash() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan([Reply::Transient]);
    rig.flaky.fail("fail", 1, Before);
    assert_eq!(rig.drain().await, [Outcome::Retried]);
    let held = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL OR crashes > 0";
    assert_eq!(rig.db.number(held).await, Some(0));
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    let metrics = rig.parts.metrics.encode(None).1;
    assert!(metrics.contains("\nrecapd_leases_expired_total 0\n"), "{metrics}");
}

/// The row counts the crash until it is completed, through failures, too.
#[tokio::test]
async fn a_vanished_holder_is_counted_once() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    let dead = claim("other", 9, rig.clock.now());
    assert_eq!(rig.db.store().claim(dead).await.unwrap().len(), 1);
    rig.model.plan([Reply::Transient]);
    assert_eq!(rig.drain_later().await, [Outcome::Retried]);
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    let metrics = rig.parts.metrics.encode(None).1;
    assert!(metrics.contains("\nrecapd_leases_expired_total 1\n"), "{metrics}");
}
