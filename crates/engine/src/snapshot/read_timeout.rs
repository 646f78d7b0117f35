//! Timeouts of readers, so that no reader hangs on an unresponsive or slow database. After the timeout a reader with a copy gets
//! the copy, marked stale.

use std::time::Duration;

use tokio::time::timeout;

use recapd_store::{StoreError, StoreResult};

/// Timeout of a reader with a copy. It is short, because an agent can't send its next request without the summary, and a stale
/// copy is still useful.
const COPY_TIMEOUT: Duration = Duration::from_millis(150);
/// Timeout of a daemon's reader without a copy. After it the reader gets an error, and continues without the summary.
pub(super) const FIRST_TIMEOUT: Duration = Duration::from_millis(1_800);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadTimeout {
    /// The reader has a copy, or can work without the result.
    Short,
    /// The reader has no copy, and waits this long.
    First(Duration),
}

impl ReadTimeout {
    pub(super) fn of(has_copy: bool, first: Duration) -> Self {
        if has_copy { Self::Short } else { Self::First(first) }
    }

    /// Waits for `read`. Returns an error after the timeout; the caller returns the copy instead if there is one.
    pub(super) async fn wait<T>(self, read: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let limit = match self {
            Self::Short => COPY_TIMEOUT,
            Self::First(limit) => limit,
        };
        timeout(limit, read).await.unwrap_or_else(|_| Err(timeout_error()))
    }
}

pub(super) fn timeout_error() -> StoreError {
    StoreError::Unavailable("it didn't answer in time".into())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_reader_without_a_copy_waits_long() {
        let command_timeout = Duration::from_secs(30);
        for (has_copy, expected) in [(true, COPY_TIMEOUT), (false, command_timeout)] {
            let start = Instant::now();
            let timeout = ReadTimeout::of(has_copy, command_timeout);
            let read = timeout.wait(pending::<StoreResult<()>>()).await;
            assert!(matches!(read, Err(StoreError::Unavailable(_))));
            // Tokio's timers have a resolution of a millisecond.
            assert!(start.elapsed().abs_diff(expected) <= Duration::from_millis(1));
        }
    }
}
