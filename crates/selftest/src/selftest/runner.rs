//! Does the work, on every core.

use std::{
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, ScopedJoinHandle},
};

use super::{
    progress::{ProgressError, TrialProgress},
    work::Work,
};

/// Does the remaining pieces of `work` on `threads` threads. Calls `done` with the size of each completed piece.
///
/// # Errors
/// If progress can't be saved; the work ends then.
pub fn run<W: Work>(
    work: &W,
    progress: TrialProgress<W::Findings>,
    threads: usize,
    done: &(dyn Fn(u64) + Sync),
) -> Result<W::Findings, ProgressError> {
    let left: Vec<usize> = (0..work.pieces()).filter(|&piece| !progress.is_done(piece)).collect();
    let progress = Mutex::new(progress);
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let on_a_thread = || {
        while !has_failed.load(Ordering::Relaxed) && !work.is_over() {
            let Some(&piece) = left.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let found = work.try_piece(piece);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.finish(piece, found).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            done(work.size(piece));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(on_a_thread)).collect();
        let mut ends = workers.into_iter().map(ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(progress.findings().clone())
}
