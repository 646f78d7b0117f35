//! Counts how often a caller waited in vain for a pool's connection: all were busy, or the server was unavailable.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(super) struct Timeouts(AtomicU64);

impl Timeouts {
    /// Returns what the pool returned, and counts it if it is a timeout.
    pub(super) fn observe<T>(&self, acquired: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if matches!(acquired, Err(sqlx::Error::PoolTimedOut)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        acquired
    }

    /// Returns how many waits have timed out since the pool was made.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
