//! Starts the daemon's tasks and ends them. A shutdown waits for all of them.
//!
//! A task keeps the tasks that it starts in its own tracker (connections and their requests, writes that outlive their clients,
//! updates, the store's tasks), and waits for them before it ends. The few untracked tasks have nothing to finish: they end by a
//! token or within a time limit, or are dropped with their owner.
//!
//! ```text
//! running ── signal, or a vital task ended ──► soft: claim nothing new, finish running work
//!                                                │ work done ─► last: serve no one new ── all done ─► ended
//!                                                │ drain time over, or a second signal
//!                                                ▼
//!                                              hard and last: release leases, leave ── all done ─► ended
//!                                                │ grace over
//!                                                ▼
//!                                              remaining tasks are dropped ───────────────────────► ended
//! ```
//!
//! Invariant: a shutdown ends within the drain time and [`HARD_GRACE`], whatever the tasks do, unless a task blocks its thread.

pub mod notify;

use std::{
    fmt,
    future::Future,
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::background::Background;

/// How long tasks may take to end after the hard cancellation. After that they are dropped.
pub const HARD_GRACE: Duration = Duration::from_secs(3);

/// A signal that asks the daemon to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    Terminate,
    Interrupt,
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    pub manner: Manner,
    /// True if a task panicked, or a vital task ended by itself. The exit code is then that of a failure.
    pub is_failure: bool,
}

/// How the tasks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// All tasks finished their work.
    Drained,
    /// Some tasks were cancelled before they had finished, and ended in time.
    HurriedOut,
    /// This many tasks didn't end in time, and were dropped.
    Dropped(usize),
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drained => "drained",
            Self::HurriedOut => "hurried_out",
            Self::Dropped(_) => "dropped",
        })
    }
}

/// Spawns tasks and tells them when to end. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    soft: CancellationToken,
    last: CancellationToken,
    hard: CancellationToken,
    drop: CancellationToken,
    tasks: TaskTracker,
    /// Tasks that serve clients until all other tasks have ended.
    serving_tasks: TaskTracker,
    has_failed: Arc<AtomicBool>,
    /// The runtime on which tasks run; `None` for the runtime of the caller.
    runtime: Option<Handle>,
}

impl Lifecycle {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a handle whose tasks run in the background.
    #[must_use]
    pub fn on(&self, background: &Background) -> Self {
        Self { runtime: Some(background.handle().clone()), ..self.clone() }
    }

    /// Returns the token that is cancelled when no new work should begin.
    pub fn soft(&self) -> &CancellationToken {
        &self.soft
    }

    /// Returns the token that is cancelled when the work has ended or is given up. Tasks that serve readers end then.
    pub fn last(&self) -> &CancellationToken {
        &self.last
    }

    /// Returns the token that is cancelled when running work must be given up: within [`HARD_GRACE`], leases are released and
    /// answers cut short.
    pub fn hard(&self) -> &CancellationToken {
        &self.hard
    }

    /// Asks the daemon to end, as a first signal does.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// Runs `task` until it ends. Logs a panic under `name`. A panic makes the daemon's exit a failure, but stops no other task.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let lifecycle = self.clone();
        self.start(async move {
            lifecycle.run_guarded(name, task).await;
        });
    }

    /// Runs a vital task. If it ends before the daemon was asked to stop, the daemon ends, and its exit is a failure.
    pub fn spawn_vital(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_vital_until(self.soft.clone(), name, task);
    }

    /// Runs a vital task like [`Self::spawn_vital`], until [`Self::last`]. A shutdown waits for it after all other tasks.
    pub fn spawn_serving(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let serving = Self { tasks: self.serving_tasks.clone(), ..self.clone() };
        serving.spawn_vital(name, task);
    }

    /// Runs a vital task like [`Self::spawn_vital`]. It may also end once `stop` is cancelled.
    pub fn spawn_vital_until(
        &self,
        stop: CancellationToken,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let lifecycle = self.clone();
        self.start(async move {
            lifecycle.run_guarded(name, task).await;
            if !stop.is_cancelled() && !lifecycle.soft.is_cancelled() {
                tracing::error!(task = name, "task.ended_early");
                lifecycle.has_failed.store(true, Ordering::SeqCst);
                lifecycle.stop();
            }
        });
    }

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => drop(self.tasks.spawn_on(task, runtime)),
            None => drop(self.tasks.spawn(task)),
        }
    }

    async fn run_guarded(&self, name: &'static str, task: impl Future<Output = ()> + Send) {
        let task = AssertUnwindSafe(task).catch_unwind();
        if let Some(Err(_)) = self.drop.run_until_cancelled(task).await {
            // The panic hook has already reported the panic's text.
            tracing::error!(task = name, "task.panicked");
            self.has_failed.store(true, Ordering::SeqCst);
        }
    }

    /// Waits for the first signal or the end of a vital task, then shuts down.
    pub async fn run(&self, signals: impl Stream<Item = StopSignal> + Send, drain: Duration) -> Shutdown {
        let mut signals = pin!(signals.chain(stream::pending()));
        tokio::select! {
            () = self.soft.cancelled() => {}
            Some(signal) = signals.next() => tracing::info!(%signal, "daemon.stopping"),
        }
        self.shutdown(signals, drain).await
    }

    /// Ends everything. Waits up to `drain` for tasks to finish, but only until a signal comes. Then cancels them.
    pub async fn shutdown(
        &self,
        signals: impl Stream<Item = StopSignal> + Send,
        drain: Duration,
    ) -> Shutdown {
        let mut signals = pin!(signals.chain(stream::pending()));
        self.soft.cancel();
        self.tasks.close();
        self.serving_tasks.close();
        // Tasks that wait for the soft cancellation run first, so that they can report the shutdown.
        tokio::task::yield_now().await;
        let is_drained = tokio::select! {
            // The branches are checked in this order, so that finished work isn't reported as cancelled.
            biased;
            () = self.all_ended() => true,
            Some(signal) = signals.next() => {
                tracing::warn!(%signal, tasks = self.remaining_tasks(), "daemon.hurried");
                false
            }
            () = sleep(drain) => {
                tracing::warn!(tasks = self.remaining_tasks(), "daemon.drain_timed_out");
                false
            }
        };
        let manner = if is_drained { Manner::Drained } else { self.abort().await };
        Shutdown { manner, is_failure: self.has_failed.load(Ordering::SeqCst) }
    }

    /// Waits for the work, and then for the tasks that serve clients.
    async fn all_ended(&self) {
        self.tasks.wait().await;
        self.last.cancel();
        self.serving_tasks.wait().await;
    }

    fn remaining_tasks(&self) -> usize {
        self.tasks.len() + self.serving_tasks.len()
    }

    async fn abort(&self) -> Manner {
        self.hard.cancel();
        self.last.cancel();
        if tokio::time::timeout(HARD_GRACE, self.all_ended()).await.is_ok() {
            return Manner::HurriedOut;
        }
        let remaining_tasks = self.remaining_tasks();
        tracing::error!(tasks = remaining_tasks, "daemon.tasks_dropped");
        self.drop.cancel();
        // After this time, only a task that blocks its thread can be left. Such a task can't be ended.
        let _dropped = tokio::time::timeout(HARD_GRACE, self.all_ended()).await;
        Manner::Dropped(remaining_tasks)
    }
}

/// Returns each SIGHUP, which requests a reload of the configuration. From the first call on, SIGHUP doesn't end the process.
pub fn hangups() -> io::Result<impl Stream<Item = ()> + Send> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(stream::poll_fn(move |context| hangup.poll_recv(context)))
}

/// Returns each SIGTERM and SIGINT. From the first call on, these signals don't end the process by themselves.
pub fn signals() -> io::Result<impl Stream<Item = StopSignal> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(stream::poll_fn(move |context| {
        if let Poll::Ready(Some(())) = terminate.poll_recv(context) {
            return Poll::Ready(Some(StopSignal::Terminate));
        }
        if let Poll::Ready(Some(())) = interrupt.poll_recv(context) {
            return Poll::Ready(Some(StopSignal::Interrupt));
        }
        Poll::Pending
    }))
}

#[cfg(test)]
mod tests;
