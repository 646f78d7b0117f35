//! Leases lost in the middle of an update, and shutdown.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use recapd_core::domain::work::Reason;
use recapd_engine::worker::Outcome;
use recapd_llm::{
    ChatModel, LlmError, ModelAnswer, ModelRequest,
    limits::{LimitWait, LimitedModel, MinuteLimits},
};
use recapd_platform::clock::Clock as _;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::support::{
    PATIENCE,
    backend::Backend as _,
    conversation::{agent, native},
    flaky_store::When,
    rig::{Rig, config},
    scripted::Reply,
};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it never happens")
}

async fn with_pending() -> Rig {
    let mut config = config();
    // A heartbeat every five milliseconds, and no poll that could replace a notice.
    config.queue.lease_ms = 20;
    config.queue.poll_ms = 3_600_000;
    config.worker.concurrency = 1;
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    rig.model.plan([Reply::Held]);
    rig
}

/// Another agent, `b`, with exchanges to summarise.
async fn another_speaks(rig: &Rig) {
    let messages = (0..12).map(|n| native(["user", "assistant"][n % 2], "One of many messages that go by"));
    rig.parts.ingestor.append(&agent("b"), messages.collect()).await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_keeps_the_lease() {
    let rig = with_pending().await;
    let slow = async {
        rig.model.asked(1).await;
        let lease_ends = rig.db.number("SELECT visible_at FROM summary_update_queue").await.unwrap();
        // Long past the first lease's end, but beat by beat.
        let mut renewed = lease_ends;
        for _ in 0..5 {
            rig.clock.advance_ms(19);
            while rig.db.number("SELECT visible_at FROM summary_update_queue").await == Some(renewed) {
                tokio::task::yield_now().await;
            }
            renewed += 19;
        }
        rig.model.let_go();
    };
    let (outcomes, ()) = soon(async { tokio::join!(rig.drain(), slow) }).await;
    assert_eq!(outcomes, [Outcome::Completed]);
    assert_eq!(rig.db.number("SELECT max(attempt) FROM update_runs").await, Some(1));
    rig.verify().await;
}

#[tokio::test]
async fn a_lost_lease_stops_the_update() {
    // Voided, taken over, or gone with its row.
    for lose in [
        "UPDATE summary_update_queue SET lease_token = NULL",
        "UPDATE summary_update_queue SET lease_token = lease_token + 1000, lease_owner = 'other'",
        "DELETE FROM summary_update_queue",
    ] {
        let rig = with_pending().await;
        let losing = async {
            rig.model.asked(1).await;
            assert_eq!(rig.db.raw(lose).await, 1);
        };
        // The model never answers: only the heartbeat can end this.
        let (outcomes, ()) = soon(async { tokio::join!(rig.drain(), losing) }).await;
        assert_eq!(outcomes, [Outcome::Superseded], "{lose}");
        assert_eq!(rig.row().await.version, 0);
        let billed = "SELECT count(*) FROM update_runs WHERE model = 'script' AND model_calls = 1 AND input_tokens > 500";
        assert_eq!(rig.db.number(billed).await, Some(1), "what was sent is billed: {lose}");
        let other =
            "SELECT count(*) FROM summary_update_queue WHERE lease_owner = 'other' AND lease_token IS NULL";
        assert_eq!(rig.db.number(other).await, Some(0), "the new holder keeps his lease");
        // With the row back, the work is done.
        let now = recapd_platform::clock::Clock::now(&*rig.clock);
        rig.db.store().reconcile(now, now).await.unwrap();
        assert_eq!(rig.drain_later().await, [Outcome::Completed]);
        assert_eq!(rig.verify().await.pending, 0);
    }
}

/// The update's future was dropped, as after a panic: the heartbeat goes on for others, and its lease runs out.
#[tokio::test]
async fn a_lease_without_work_is_not_renewed() {
    let rig = with_pending().await;
    tokio::select! {
        outcomes = rig.drain() => panic!("the model holds it: {outcomes:?}"),
        () = soon(rig.model.asked(1)) => {}
    }
    let ends = "SELECT visible_at FROM summary_update_queue WHERE agent_id = 'a'";
    let lease_ends = rig.db.number(ends).await;
    rig.clock.advance_ms(1);
    rig.model.plan([Reply::Held]);
    another_speaks(&rig).await;
    let running = run(&rig);
    soon(rig.model.asked(2)).await;
    let beats = rig.flaky.calls("renew");
    soon(async {
        while rig.flaky.calls("renew") < beats + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(rig.db.number(ends).await, lease_ends);
    rig.model.let_go();
    running.soft.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    assert_eq!(rig.verify().await.pending, 0);
}

/// A database that is briefly away is no reason to stop: the fences decide at completion.
#[tokio::test]
async fn a_failed_renewal_stops_nothing() {
    let rig = with_pending().await;
    for nth in 1..=3 {
        rig.flaky.fail("renew", nth, When::Before);
    }
    let wait = async {
        while rig.flaky.met() < 3 {
            tokio::task::yield_now().await;
        }
        rig.model.let_go();
    };
    let (outcomes, ()) = soon(async { tokio::join!(rig.drain(), wait) }).await;
    assert_eq!(outcomes, [Outcome::Completed]);
    assert_eq!(rig.db_errors(), 3, "each is counted");
    rig.verify().await;
}

struct Running {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
}

fn run(rig: &Rig) -> Running {
    let running =
        Running { soft: CancellationToken::new(), hard: CancellationToken::new(), tasks: TaskTracker::new() };
    let (worker, soft, hard) = (rig.parts.worker.clone(), running.soft.clone(), running.hard.clone());
    running.tasks.spawn(async move { worker.run(soft, hard).await });
    running.tasks.close();
    running
}

/// If the daemon dies now, this row is to blame.
#[tokio::test]
async fn the_last_try_before_a_row_is_parked_is_made_alone() {
    let mut config = config();
    config.worker.concurrency = 3;
    let rig = Rig::new(&config).await;
    rig.say(6).await;
    another_speaks(&rig).await;
    let held = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL";
    let of_suspect =
        "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NOT NULL AND agent_id = 'b'";
    let suspect = "UPDATE summary_update_queue SET crashes = 2 WHERE agent_id = 'b'";
    assert_eq!(rig.db.raw(suspect).await, 1);
    rig.model.plan([Reply::Held]);
    let running = run(&rig);
    soon(rig.model.asked(1)).await;
    let leases = (rig.db.number(held).await, rig.db.number(of_suspect).await);
    assert_eq!(leases, (Some(1), Some(1)));
    rig.model.let_go();
    soon(rig.model.asked(2)).await;
    running.soft.cancel();
    soon(running.tasks.wait()).await;
    rig.verify().await;
    assert_eq!(rig.row().await.version, 1);
}

#[tokio::test]
async fn a_soft_stop_finishes_what_it_holds_and_claims_nothing_more() {
    let rig = with_pending().await;
    let running = run(&rig);
    soon(rig.model.asked(1)).await;
    running.soft.cancel();
    // More work arrives meanwhile, for another agent, too.
    another_speaks(&rig).await;
    assert!(!running.tasks.is_empty(), "it waits for the update");
    rig.model.let_go();
    soon(running.tasks.wait()).await;
    assert_eq!((rig.row().await.version, rig.model.calls()), (1, 1));
    let untouched = "SELECT count(*) FROM summary_update_queue WHERE agent_id = 'b' AND attempts = 0";
    assert_eq!(rig.db.number(untouched).await, Some(1));
    rig.verify().await;
}

#[tokio::test]
async fn an_idle_worker_rests() {
    let mut config = config();
    config.queue.poll_ms = 10;
    let rig = Rig::new(&config).await;
    rig.say(1).await;
    let running = run(&rig);
    let looks = async |count| {
        let series = |looks| format!("recapd_queue_claims_total{{result=\"empty\"}} {looks}\n");
        soon(async {
            while !rig.parts.metrics.encode(None).1.contains(&series(count)) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    // Two polls, then rests of thirty. The time includes the polls' own: a late look at them makes no rest shorter.
    let begun = Instant::now();
    looks(2).await;
    looks(5).await;
    assert!(begun.elapsed() > Duration::from_millis(3 * 200), "{:?}", begun.elapsed());
    // Work that falls due meanwhile is done without another wake-up.
    let (store, now) = (rig.db.store(), rig.clock.now());
    store.enqueue(&agent("a"), Reason::Manual, 50, now).await.unwrap();
    rig.parts.notices().wake_queue();
    rig.clock.advance_ms(50);
    soon(async {
        while rig.db.number("SELECT count(*) FROM summary_update_queue").await != Some(0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.soft.cancel();
    soon(running.tasks.wait()).await;
}

#[tokio::test]
async fn a_clock_set_back_delays_nothing() {
    const HOUR_MS: i64 = 3_600_000;
    let mut config = config();
    config.queue.poll_ms = 5;
    let rig = Rig::new(&config).await;
    rig.say(1).await;
    let (store, begun) = (rig.db.store(), rig.clock.now());
    rig.clock.advance_ms(HOUR_MS);
    let wake = async |delay_ms| {
        let (agent, now) = (agent("a"), rig.clock.now());
        store.enqueue(&agent, Reason::Manual, delay_ms, now).await.unwrap();
    };
    wake(0).await;
    let running = run(&rig);
    soon(async {
        while rig.db.number("SELECT count(*) FROM summary_update_queue").await != Some(0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    wake(60_000).await;
    // The next look retries it.
    rig.flaky.fail("set_back", 1, When::Before);
    rig.clock.advance_ms(-HOUR_MS);
    let due_at = Some(begun.0 + 60_000);
    soon(async {
        while rig.db.number("SELECT visible_at FROM summary_update_queue").await != due_at {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.soft.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!((rig.flaky.met(), rig.db_errors()), (1, 1));
}

#[tokio::test]
async fn a_failed_write_at_a_stop_is_counted() {
    let rig = with_pending().await;
    for method in ["record_run", "release"] {
        rig.flaky.fail(method, 1, When::Before);
    }
    let running = run(&rig);
    soon(rig.model.asked(1)).await;
    running.soft.cancel();
    running.hard.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!((rig.flaky.met(), rig.db_errors()), (2, 2));
}

#[tokio::test]
async fn a_hard_stop_gives_the_lease_back() {
    let rig = with_pending().await;
    let running = run(&rig);
    soon(rig.model.asked(1)).await;
    running.soft.cancel();
    running.hard.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!(rig.row().await.version, 0);
    let free = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NULL AND attempts = 0 AND crashes = 0";
    assert_eq!(rig.db.number(free).await, Some(1));
    // The lease is free at once.
    rig.model.plan([]);
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    assert_eq!(rig.verify().await.pending, 0);
}

/// A model that records whether each request waits for the limits.
struct Watched {
    inner: Arc<dyn ChatModel>,
    requests: Arc<Mutex<Vec<LimitWait>>>,
}

#[async_trait]
impl ChatModel for Watched {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        self.requests.lock().unwrap().push(request.limit_wait.clone());
        self.inner.answer(request).await
    }
}

/// One call is under way, and the other waits for its place: only the first one was sent.
#[tokio::test]
async fn a_stop_bills_only_calls_that_were_sent() {
    let mut config = config();
    config.queue.poll_ms = 3_600_000;
    config.worker.concurrency = 2;
    let requests: Arc<Mutex<Vec<LimitWait>>> = Arc::default();
    let rig = Rig::asking(&config, |model, clock| {
        Arc::new(Watched {
            inner: Arc::new(LimitedModel::new(model, 1, MinuteLimits::default(), clock)),
            requests: Arc::clone(&requests),
        })
    })
    .await;
    rig.say(6).await;
    another_speaks(&rig).await;
    rig.model.plan([Reply::Held]);
    let running = run(&rig);
    soon(rig.model.asked(1)).await;
    // The call that was sent has the only place, so the held one is the other.
    soon(async {
        while !requests.lock().unwrap().iter().any(LimitWait::is_waiting) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.soft.cancel();
    running.hard.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!(rig.model.calls(), 1);
    let free = "SELECT count(*) FROM summary_update_queue WHERE lease_token IS NULL AND attempts = 0";
    assert_eq!(rig.db.number(free).await, Some(2));
    let billed =
        "SELECT count(*) FROM update_runs WHERE model = 'script' AND model_calls = 1 AND input_tokens > 500";
    assert_eq!(rig.db.number(billed).await, Some(1), "the one that was sent");
    let told = "SELECT count(*) FROM update_runs";
    assert_eq!(rig.db.number(told).await, Some(1), "and no other");
}

#[tokio::test]
async fn a_notice_wakes_an_idle_worker() {
    let rig = with_pending().await;
    rig.db.raw("DELETE FROM summary_update_queue").await;
    let running = run(&rig);
    rig.model.plan([]);
    while rig.model.calls() < 2 {
        // Each eviction wakes the worker; the second time it was surely idle.
        let calls = rig.model.calls();
        rig.say(4).await;
        soon(rig.model.asked(calls + 1)).await;
    }
    running.soft.cancel();
    soon(running.tasks.wait()).await;
    assert!(rig.verify().await.covered >= 3);
}

#[tokio::test]
async fn an_idle_worker_stops_at_once() {
    let rig = Rig::new(&config()).await;
    let running = run(&rig);
    running.soft.cancel();
    soon(running.tasks.wait()).await;
    assert_eq!(rig.model.calls(), 0);
}
