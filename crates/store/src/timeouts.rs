//! Connections of a pool that were waited for in vain: all were at work, or the server was away.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often that was so.
#[derive(Debug, Default)]
pub(super) struct Timeouts(AtomicU64);

impl Timeouts {
    /// What the pool gave, counted if it gave nothing in time.
    pub(super) fn observe<T>(&self, given: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if matches!(given, Err(sqlx::Error::PoolTimedOut)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        given
    }

    /// How often, since the pool was made.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
