//! The work itself, on every core.

use std::{
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, ScopedJoinHandle},
};

use super::{
    findings::Findings,
    known_counts::KnownCounts,
    plan::{Piece, Plan},
    progress::{Progress, ProgressError},
    window::fill,
};

/// Does what is left of `plan`, on `threads` threads. `done` hears how many windows were filled, after each piece.
///
/// # Errors
/// When progress can't be kept: the work ends then.
pub fn run(
    plan: &Plan,
    progress: Progress,
    threads: usize,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Findings, ProgressError> {
    let left: Vec<usize> = (0..plan.pieces.len())
        .filter(|&piece| !progress.is_done(piece))
        .collect();
    let progress = Mutex::new(progress);
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let Some((number, piece)) = left
                .get(next.fetch_add(1, Ordering::Relaxed))
                .and_then(|&number| Some((number, plan.pieces.get(number)?)))
            else {
                break;
            };
            let found = try_piece(plan, piece);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress
                .finish(number, found)
                .inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            done(u64::from(piece.windows.end - piece.windows.start));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let mut ends = workers.into_iter().map(ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(progress.findings().clone())
}

/// Fills the windows of a piece.
fn try_piece(plan: &Plan, piece: &Piece) -> Findings {
    let mut findings = Findings::default();
    let counter = KnownCounts::of(plan.counter.clone());
    let Some(conversation) = plan.conversations.get(piece.conversation) else {
        return findings;
    };
    for window in piece.windows.clone() {
        fill(
            conversation,
            &plan.trial(conversation, window),
            &counter,
            &mut findings,
        );
    }
    findings
}
