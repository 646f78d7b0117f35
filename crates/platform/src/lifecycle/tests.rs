//! Every way in which a lifecycle ends, in paused time, with signals from a channel.

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::Instant;

use super::*;

const DRAIN: Duration = Duration::from_secs(30);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A lifecycle under test: the test sends the signals, and measures how long the end takes.
struct Life {
    lifecycle: Lifecycle,
    sender: UnboundedSender<StopSignal>,
    signals: UnboundedReceiver<StopSignal>,
}

impl Life {
    fn new() -> Self {
        let (sender, signals) = unbounded();
        Self { lifecycle: Lifecycle::new(), sender, signals }
    }

    fn signal_after(&self, wait: Duration) {
        let sender = self.sender.clone();
        // Spawned outside the lifecycle, which would wait for it.
        TaskTracker::new().spawn(async move {
            sleep(wait).await;
            sender.unbounded_send(StopSignal::Terminate).unwrap();
        });
    }

    async fn run(self) -> (Shutdown, Duration) {
        let started = Instant::now();
        let ending = self.lifecycle.run(self.signals, DRAIN).await;
        (ending, started.elapsed())
    }
}

fn clean(manner: Manner) -> Shutdown {
    Shutdown { manner, is_failure: false }
}

#[tokio::test(start_paused = true)]
async fn a_signal_lets_running_work_finish() {
    let life = Life::new();
    let (soft, hard) = (life.lifecycle.soft().clone(), life.lifecycle.hard().clone());
    life.lifecycle.spawn("worker", async move {
        soft.cancelled().await;
        sleep(seconds(20)).await;
        assert!(!hard.is_cancelled());
    });
    life.signal_after(seconds(10));
    assert_eq!(life.run().await, (clean(Manner::Drained), seconds(30)));
}

/// Shuts down while a worker takes `for_seconds` after the signal. Returns when serving ended, the outcome, and the total
/// time.
async fn served_while_it_works(for_seconds: u64) -> (Duration, Shutdown, Duration) {
    let life = Life::new();
    let (soft, hard) = (life.lifecycle.soft().clone(), life.lifecycle.hard().clone());
    life.lifecycle.spawn("worker", async move {
        soft.cancelled().await;
        hard.run_until_cancelled(sleep(seconds(for_seconds))).await;
    });
    let (last, begun) = (life.lifecycle.last().clone(), Instant::now());
    let (tell, told) = tokio::sync::oneshot::channel();
    life.lifecycle.spawn_serving("http", async move {
        last.cancelled().await;
        tell.send(begun.elapsed()).unwrap();
        sleep(seconds(1)).await;
    });
    life.signal_after(seconds(10));
    let (ending, after) = life.run().await;
    (told.await.unwrap(), ending, after)
}

#[tokio::test(start_paused = true)]
async fn readers_are_served_until_the_work_has_ended() {
    let served = served_while_it_works(5).await;
    assert_eq!(served, (seconds(15), clean(Manner::Drained), seconds(16)));
    let given_up = seconds(10) + DRAIN;
    let served = served_while_it_works(3_600).await;
    assert_eq!(served, (given_up, clean(Manner::HurriedOut), given_up + seconds(1)));
}

#[tokio::test(start_paused = true)]
async fn without_tasks_a_signal_ends_the_lifecycle_at_once() {
    let life = Life::new();
    life.signal_after(seconds(1));
    assert_eq!(life.run().await, (clean(Manner::Drained), seconds(1)));
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_cancels_running_work() {
    let life = Life::new();
    let hard = life.lifecycle.hard().clone();
    life.lifecycle.spawn("worker", async move {
        hard.cancelled().await;
        sleep(seconds(1)).await;
    });
    life.signal_after(seconds(10));
    life.signal_after(seconds(15));
    assert_eq!(life.run().await, (clean(Manner::HurriedOut), seconds(16)));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_drain_time_cancels_running_work() {
    let life = Life::new();
    let hard = life.lifecycle.hard().clone();
    life.lifecycle.spawn("worker", async move { hard.cancelled().await });
    life.signal_after(seconds(10));
    assert_eq!(life.run().await, (clean(Manner::HurriedOut), seconds(10) + DRAIN));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_end_is_dropped() {
    struct DropFlag(Arc<AtomicBool>);
    impl Drop for DropFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let life = Life::new();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let guard = DropFlag(Arc::clone(&is_dropped));
    life.lifecycle.spawn("deaf", async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    life.signal_after(seconds(0));
    assert_eq!(life.run().await, (clean(Manner::Dropped(1)), DRAIN + HARD_GRACE));
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn the_early_end_of_a_vital_task_ends_the_daemon() {
    for panics in [false, true] {
        let life = Life::new();
        life.lifecycle.spawn_vital("listener", async move {
            sleep(seconds(5)).await;
            assert!(!panics, "on purpose");
        });
        let soft = life.lifecycle.soft().clone();
        life.lifecycle.spawn("worker", async move { soft.cancelled().await });
        let failure = Shutdown { manner: Manner::Drained, is_failure: true };
        assert_eq!(life.run().await, (failure, seconds(5)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_vital_task_may_end_when_asked() {
    let life = Life::new();
    let soft = life.lifecycle.soft().clone();
    life.lifecycle.spawn_vital("listener", async move { soft.cancelled().await });
    life.signal_after(seconds(1));
    assert_eq!(life.run().await, (clean(Manner::Drained), seconds(1)));
}

#[tokio::test(start_paused = true)]
async fn a_panic_stops_no_other_task_and_is_a_failure() {
    let life = Life::new();
    life.lifecycle.spawn("worker", async { panic!("on purpose") });
    let soft = life.lifecycle.soft().clone();
    life.lifecycle.spawn("other", async move { soft.cancelled().await });
    life.signal_after(seconds(7));
    let failure = Shutdown { manner: Manner::Drained, is_failure: true };
    assert_eq!(life.run().await, (failure, seconds(7)));
}

#[tokio::test(start_paused = true)]
async fn tasks_may_start_tasks_until_the_end() {
    let life = Life::new();
    let (lifecycle, soft) = (life.lifecycle.clone(), life.lifecycle.soft().clone());
    life.lifecycle.spawn("parent", async move {
        soft.cancelled().await;
        lifecycle.spawn("child", async { sleep(seconds(2)).await });
    });
    life.signal_after(seconds(1));
    assert_eq!(life.run().await, (clean(Manner::Drained), seconds(3)));
}

#[tokio::test(start_paused = true)]
async fn the_lifecycle_can_be_stopped_without_a_signal() {
    let life = Life::new();
    life.lifecycle.stop();
    let Life { lifecycle, sender, signals } = life;
    // A closed channel is no signal.
    drop(sender);
    assert_eq!(lifecycle.run(signals, DRAIN).await, clean(Manner::Drained));
}

#[tokio::test]
async fn real_signals_arrive() {
    let mut signals = pin!(signals().unwrap());
    // The process signals itself: a child process would hold the locks of other tests while it starts.
    for (signal, expected) in [(Signal::TERM, StopSignal::Terminate), (Signal::INT, StopSignal::Interrupt)] {
        kill_process(getpid(), signal).unwrap();
        assert_eq!(signals.next().await, Some(expected));
    }
}
