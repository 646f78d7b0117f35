//! The daemon's name among the others, at the start.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use recapd_store::{StoreError, StoreResult};

/// How long a name is waited for that is taken: longer than the server takes to find out that an earlier life is gone. Then
/// another daemon has it.
const PATIENCE: Duration = Duration::from_secs(45);

/// Takes the name by `join`, which waits a while for it each time.
pub(super) async fn take<T, F>(join: impl Fn() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let end = Instant::now() + PATIENCE;
    let mut is_told = false;
    loop {
        match join().await {
            Err(StoreError::InUse(name)) if Instant::now() < end => {
                if !std::mem::replace(&mut is_told, true) {
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

    /// The number of the try at which a start has its name, which is free from this try on, and how long it took.
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
    async fn a_name_that_is_taken_is_waited_for_and_not_for_ever() {
        let (taken, after) = start(12).await;
        assert_eq!((taken.unwrap(), after), (12, Duration::from_secs(33)));
        let (taken, after) = start(u32::MAX).await;
        assert!(matches!(taken, Err(StoreError::InUse(_))), "{taken:?}");
        assert_eq!(after, PATIENCE);
    }
}
