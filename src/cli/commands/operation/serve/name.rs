//! Registers the daemon's name when the daemon starts.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use recapd_store::{StoreError, StoreResult};

/// How long to wait for a name that is in use. The database server needs less time to notice that an earlier process is
/// gone, so a name that is still in use then belongs to another daemon.
const PATIENCE: Duration = Duration::from_secs(45);

/// Takes the name with `join`. Each call of `join` waits a while for the name.
pub(super) async fn take<T, F>(join: impl Fn() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let end = Instant::now() + PATIENCE;
    let mut is_warned = false;
    loop {
        match join().await {
            Err(StoreError::InUse(name)) if Instant::now() < end => {
                if !std::mem::replace(&mut is_warned, true) {
                    let patience_s = PATIENCE.as_secs();
                    warn!(name, patience_s, "name.awaited");
                }
            }
            joined => return joined,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Takes a name that is free from the try `free_from` on. Returns the number of the successful try, and the time.
    async fn start(free_from: u32) -> (StoreResult<u32>, Duration) {
        let (begun, tries) = (Instant::now(), AtomicU32::new(0));
        let taken = take(|| async {
            let number = tries.fetch_add(1, Ordering::Relaxed) + 1;
            if number >= free_from {
                return Ok(number);
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
            Err(StoreError::InUse("the name".to_owned()))
        });
        (taken.await, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_a_limited_time_for_a_name_in_use() {
        let (taken, after) = start(12).await;
        assert_eq!((taken.unwrap(), after), (12, Duration::from_secs(33)));
        let (taken, after) = start(u32::MAX).await;
        assert!(matches!(taken, Err(StoreError::InUse(_))), "{taken:?}");
        assert_eq!(after, PATIENCE);
    }
}
