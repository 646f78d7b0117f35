//! Threads for background work.
//!
//! An update condenses, merges and counts for milliseconds at a time. On the threads that answer requests and send statements to
//! the database, it would delay each of them. So long computations that no request waits for run on separate low-priority
//! threads. Work that everything waits for gets a dedicated thread.

use std::{
    io,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Handle, Runtime};
use tracing::debug;

use crate::threads::BACKGROUND_BLOCKED_MAX;

/// The niceness of background threads is higher by this much; see `nice(2)`.
const NICENESS: i32 = 10;

/// A runtime on low-priority threads. Dropping it also drops its unfinished tasks.
#[derive(Debug)]
pub struct Background {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// If the operating system provides no thread.
    pub fn start(threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .max_blocking_threads(BACKGROUND_BLOCKED_MAX)
            .thread_name("recapd-back")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping the runtime itself would block the current thread, which may run a task.
            runtime.shutdown_background();
        }
    }
}

/// The scheduling priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPriority {
    /// The priority of the thread that starts it.
    Eager,
    /// A lower priority, also for the threads that it starts.
    Patient,
}

/// The number of dedicated threads that run in this process.
static ALONE: Mutex<usize> = Mutex::new(0);
/// Is notified when a dedicated thread ends.
static ENDED: Condvar = Condvar::new();

/// Counts as a dedicated thread until it is dropped.
struct ExclusiveThread;

impl ExclusiveThread {
    fn count() -> Self {
        *ALONE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for ExclusiveThread {
    fn drop(&mut self) {
        *ALONE.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_all();
    }
}

/// Waits until no dedicated thread runs, but at most `patience`. Call it before the process exits.
pub fn wait_for_all(patience: Duration) {
    let running = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // If threads still run after the timeout, the process exits nevertheless.
    drop(ENDED.wait_timeout_while(running, patience, |running| *running > 0));
}

/// Runs `work` to its end on a new thread of this name.
///
/// # Errors
/// If the operating system provides no thread.
pub fn run_alone(
    name: &str,
    priority: ThreadPriority,
    work: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let thread = ExclusiveThread::count();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _until_it_ends = thread;
        if priority == ThreadPriority::Patient {
            lower_priority();
        }
        runtime.block_on(work);
    })?;
    Ok(())
}

/// Lowers the priority of the current thread on Linux, where niceness is per thread. Elsewhere it is per process, so this does
/// nothing.
fn lower_priority() {
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::nice(NICENESS)
    {
        debug!(%error, "background.eager");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::sync::oneshot;

    use super::*;

    const NICENESS_MAX: i32 = 19;

    /// The niceness of the current thread; see `proc_pid_stat(5)`.
    fn niceness() -> i32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn a_patient_thread_lowers_only_its_own_priority() {
        let own = niceness();
        for (priority, added) in [(ThreadPriority::Eager, 0), (ThreadPriority::Patient, NICENESS)] {
            let (tell, told) = oneshot::channel();
            run_alone("test", priority, async move { tell.send(niceness()).unwrap() }).unwrap();
            assert_eq!(told.await.unwrap(), (own + added).min(NICENESS_MAX));
        }
        let background = Background::start(0).unwrap();
        let there = background.handle().spawn(async { niceness() }).await;
        assert_eq!(there.unwrap(), (own + NICENESS).min(NICENESS_MAX));
        assert_eq!(niceness(), own);
    }

    #[tokio::test]
    async fn background_tasks_end_with_their_runtime() {
        let background = Background::start(1).unwrap();
        let (held, dropped) = oneshot::channel::<()>();
        background.handle().spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        drop(background);
        assert!(dropped.await.is_err());
    }
}
