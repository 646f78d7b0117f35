//! Timeouts of readers, so that no reader hangs on an unresponsive or slow database. After the timeout a reader with a copy gets
//! the copy, marked stale.

use std::time::Duration;

use tokio::time::timeout;

use recapd_store::{StoreError, StoreResult};

/// Timeout of a reader with a copy. It is short, because an agent can't send its next request without the summary, and a stale
/// copy is still useful.
const COPY_TIMEOUT: Duration = Duration::from_millis(150);
/// Timeout of a reader without a copy. After it the reader gets an error, and continues without the summary.
const FIRST_TIMEOUT: Duration = Duration::from_millis(1_800);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadTimeout {
    /// The reader has a copy, or can work without the result.
    Short,
    /// The reader has no copy.
    Long,
}

impl ReadTimeout {
    pub(super) fn of(has_copy: bool) -> Self {
        if has_copy { Self::Short } else { Self::Long }
    }

    /// Waits for `read`. Returns an error after the timeout; the caller returns the copy instead if there is one.
    pub(super) async fn wait<T>(self, read: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let limit = match self {
            Self::Short => COPY_TIMEOUT,
            Self::Long => FIRST_TIMEOUT,
        };
        timeout(limit, read)
            .await
            .unwrap_or_else(|_| Err(timeout_error()))
    }
}

pub(super) fn timeout_error() -> StoreError {
    StoreError::Unavailable("it didn't answer in time".into())
}
