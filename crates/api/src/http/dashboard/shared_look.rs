//! Shares a costly read between concurrent callers: all open pages cause one read at a time.

use std::{future::Future, sync::Arc};

use tokio::{sync::Mutex, time::Instant};

/// The result of the last read, and when that read began.
pub(crate) struct SharedLook<T> {
    last: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Default for SharedLook<T> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl<T> SharedLook<T> {
    /// Reads, or waits for a read that began after this call, so that no caller gets an older result.
    pub(crate) async fn take<F>(&self, look: impl FnOnce() -> F + Send) -> Arc<T>
    where
        F: Future<Output = T> + Send,
        T: Send + Sync,
    {
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began_at, found)) = &*last
            && *began_at > asked_at
        {
            return Arc::clone(found);
        }
        let began_at = Instant::now();
        let found = Arc::new(look().await);
        *last = Some((began_at, Arc::clone(&found)));
        found
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_before_a_read_began_share_it() {
        let (shared, looks) = (SharedLook::default(), AtomicU32::new(0));
        let look = || async {
            sleep(Duration::from_millis(50)).await;
            looks.fetch_add(1, Ordering::Relaxed)
        };
        // The first caller reads; the others came before the second read began.
        let asked = join_all((0..20).map(|number| {
            let shared = &shared;
            async move {
                sleep(Duration::from_millis(number)).await;
                *shared.take(look).await
            }
        }));
        let found = asked.await;
        assert_eq!(found.first(), Some(&0));
        assert!(found.iter().skip(1).all(|found| *found == 1), "{found:?}");
        assert_eq!(*shared.take(look).await, 2, "what was found before isn't shown again");
    }
}
