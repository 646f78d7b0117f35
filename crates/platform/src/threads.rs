//! How many threads the daemon may have.
//!
//! A service manager gives so many and no more (`TasksMax=` of the units), and who gets none fails. So no number follows from
//! the machine alone, nor from the environment, and [`ALL_MAX`] is their sum.
//!
//! What blocks has few threads, too, and waits its turn for them. So whatever runs there ends by itself and never waits for
//! something else that needs one.
//!
//! What is computed, there or here, may panic over what somebody said. That is an error ([`ComputationPanic`]) and ends nothing else:
//! one text mustn't end the task that tends all agents.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

/// Threads that serve, however many processors there are: what takes long is done elsewhere, and SQLite has one writer.
pub const SERVING_MAX: usize = 8;
/// Threads that write the live journal: as many as may hang with its disk.
pub const JOURNAL_MAX: usize = 64;
/// Threads that are left beside these to count, parse, render and look up addresses on.
pub const COMPUTING_MAX: usize = 16;
/// Threads on which what serves may block.
const BLOCKED_MAX: usize = JOURNAL_MAX + COMPUTING_MAX;
/// Threads that summaries are written on; who writes them is a model, nearly always.
pub const BACKGROUND: usize = 1;
/// Threads on which these may block: they look up addresses of providers.
pub const BACKGROUND_BLOCKED_MAX: usize = 8;
/// Connections that read SQLite, the most that `database.readers` may say. Each has a thread.
pub const READERS_MAX: usize = 64;
/// The other threads of SQLite: the writer's; one that sees to the log, and that of its connection; the inbox's bell; a
/// connection that ends while another one takes its place.
const SQLITE: usize = 5;
/// The thread that begins everything and waits for its end.
const MAIN: usize = 1;
/// All threads that a daemon can have.
pub const ALL_MAX: usize =
    MAIN + SERVING_MAX + BLOCKED_MAX + BACKGROUND + BACKGROUND_BLOCKED_MAX + READERS_MAX + SQLITE;

/// Over so many threads work is spread: one for each processor, up to [`SERVING_MAX`].
pub fn at_once() -> usize {
    serving(thread::available_parallelism().map_or(1, usize::from))
}

fn serving(processors: usize) -> usize {
    processors.clamp(1, SERVING_MAX)
}

/// A runtime that serves.
///
/// # Errors
/// The system gives no thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        // Said here, so that TOKIO_WORKER_THREADS isn't asked.
        .worker_threads(at_once())
        .max_blocking_threads(BLOCKED_MAX)
        .enable_all()
        .build()
}

/// A computation panicked: a defect. The panic's text has gone through the panic hook already; it may hold what was said,
/// so it is kept nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} panicked, a defect of recapd; its log says where")]
pub struct ComputationPanic(pub &'static str);

/// What `work`, which is called `what`, comes to on this thread: for what is over soon.
///
/// # Errors
/// It panicked; what it held is gone with it.
pub fn computed_here<T>(what: &'static str, work: impl FnOnce() -> T) -> Result<T, ComputationPanic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| ComputationPanic(what))
}

/// As [`computed_here`], on a thread that may block. It begins at once, before anybody waits for it.
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
            // It was never begun, since the runtime ends, and with it whoever waits here.
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

    /// How long a thread is waited for.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn many_processors_are_no_reason_for_many_threads() {
        for (processors, threads) in [(1, 1), (2, 2), (8, 8), (9, 8), (256, 8)] {
            assert_eq!(serving(processors), threads, "{processors} processors");
        }
        assert!((1..=SERVING_MAX).contains(&at_once()));
    }

    #[test]
    fn a_disk_that_hangs_leaves_threads_to_compute_on() {
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
    fn a_panic_is_an_error_of_what_was_computed() {
        let sum = |parts: &[u32]| -> u32 {
            assert!(!parts.is_empty(), "there is nothing to add up");
            parts.iter().sum()
        };
        assert_eq!(computed_here("adding", || sum(&[1, 2])), Ok(3));
        assert_eq!(
            computed_here("adding", || sum(&[])),
            Err(ComputationPanic("adding"))
        );
        let runtime = runtime().unwrap();
        let there = |parts: Vec<u32>| async move { computed("adding", move || sum(&parts)).await };
        assert_eq!(runtime.block_on(there(vec![1, 2])), Ok(3));
        let failed = runtime.block_on(there(Vec::new())).unwrap_err();
        assert_eq!(failed, ComputationPanic("adding"));
        assert_eq!(
            failed.to_string(),
            "adding panicked, a defect of recapd; its log says where"
        );
    }
}
