//! Limits the number of threads of the daemon.
//!
//! A service manager limits the threads (`TasksMax=` of the units), and a process that can't start a thread fails. So every
//! kind of thread has a limit that doesn't depend on the machine or the environment, and [`ALL_MAX`] is the sum.
//!
//! Few threads may block, and blocking work queues for them. So blocking work must end by itself, and never wait for other
//! blocking work.
//!
//! A computation may panic because of the content of a message. That is an error ([`ComputationPanic`]) and ends nothing else:
//! one message mustn't end the task that serves all agents.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

/// Limits the threads that serve requests, whatever the number of processors: long work runs elsewhere, and SQLite has one
/// writer.
pub const SERVING_MAX: usize = 8;
/// Limits the threads that write the live journal. All of them may hang with its disk.
pub const JOURNAL_MAX: usize = 64;
/// Limits the other blocking threads, which count, parse, render and resolve addresses.
pub const COMPUTING_MAX: usize = 16;
/// The blocking threads of the serving runtime.
const BLOCKED_MAX: usize = JOURNAL_MAX + COMPUTING_MAX;
/// Threads that update summaries. They mostly wait for a model.
pub const BACKGROUND: usize = 1;
/// Limits the blocking threads of the background runtime, which resolve addresses of providers.
pub const BACKGROUND_BLOCKED_MAX: usize = 8;
/// Limits the connections that read SQLite (`database.readers`). Each has a thread.
pub const READERS_MAX: usize = 64;
/// SQLite's other threads: the writer's, the log's and its connection's, the inbox listener's, and that of a connection that ends
/// while its replacement starts.
const SQLITE: usize = 5;
const MAIN: usize = 1;
/// The most threads of a daemon.
pub const ALL_MAX: usize =
    MAIN + SERVING_MAX + BLOCKED_MAX + BACKGROUND + BACKGROUND_BLOCKED_MAX + READERS_MAX + SQLITE;

/// Returns the number of serving threads: one per processor, up to [`SERVING_MAX`].
pub fn at_once() -> usize {
    serving(thread::available_parallelism().map_or(1, usize::from))
}

fn serving(processors: usize) -> usize {
    processors.clamp(1, SERVING_MAX)
}

/// Starts the serving runtime.
///
/// # Errors
/// If the operating system provides no thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        // Set explicitly, so that TOKIO_WORKER_THREADS has no effect.
        .worker_threads(at_once())
        .max_blocking_threads(BLOCKED_MAX)
        .enable_all()
        .build()
}

/// A panic of a computation: a bug in recapd. The panic hook has reported the panic's text already. The text may quote a message,
/// so this error doesn't contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} panicked, a defect of recapd; its log says where")]
pub struct ComputationPanic(pub &'static str);

/// Runs short `work` on this thread. `what` names it in errors.
///
/// # Errors
/// If it panicked.
pub fn computed_here<T>(what: &'static str, work: impl FnOnce() -> T) -> Result<T, ComputationPanic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| ComputationPanic(what))
}

/// Runs `work` like [`computed_here`], on a thread that may block. The work starts at once, even if the result isn't
/// awaited.
///
/// # Errors
/// As [`computed_here`].
pub fn computed<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, ComputationPanic>> + Send {
    let working = spawn_blocking(work);
    async move {
        match working.await {
            Ok(computed) => Ok(computed),
            Err(error) if error.is_panic() => Err(ComputationPanic(what)),
            // The runtime shuts down, so the work never starts, and the caller ends, too.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn the_number_of_threads_is_capped() {
        for (processors, threads) in [(1, 1), (2, 2), (8, 8), (9, 8), (256, 8)] {
            assert_eq!(serving(processors), threads, "{processors} processors");
        }
        assert!((1..=SERVING_MAX).contains(&at_once()));
    }

    #[test]
    fn a_hanging_disk_leaves_threads_for_computation() {
        let runtime = runtime().unwrap();
        let disk = Arc::new(Mutex::new(()));
        let hanging = disk.lock().unwrap();
        for _ in 0..JOURNAL_MAX {
            let disk = Arc::clone(&disk);
            runtime.spawn_blocking(move || drop(disk.lock()));
        }
        let computing = runtime.spawn_blocking(|| 42);
        let computed = runtime.block_on(async { tokio::time::timeout(PATIENCE, computing).await });
        drop(hanging);
        assert_eq!(computed.unwrap().unwrap(), 42);
    }

    #[test]
    fn a_panic_is_an_error_of_the_computation() {
        let sum = |parts: &[u32]| -> u32 {
            assert!(!parts.is_empty(), "there is nothing to add up");
            parts.iter().sum()
        };
        assert_eq!(computed_here("adding", || sum(&[1, 2])), Ok(3));
        assert_eq!(computed_here("adding", || sum(&[])), Err(ComputationPanic("adding")));
        let runtime = runtime().unwrap();
        let there = |parts: Vec<u32>| async move { computed("adding", move || sum(&parts)).await };
        assert_eq!(runtime.block_on(there(vec![1, 2])), Ok(3));
        let failed = runtime.block_on(there(Vec::new())).unwrap_err();
        assert_eq!(failed, ComputationPanic("adding"));
        assert_eq!(failed.to_string(), "adding panicked, a defect of recapd; its log says where");
    }
}
