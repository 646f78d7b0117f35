//! Indexing for recall: behind the appends, so that none of them waits for it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Keeper;
use crate::store::StoreResult;

/// After an append it waits so long for more.
const GATHER: Duration = Duration::from_secs(2);
/// How often it looks for what another process, or its own end, left undone.
const NET_EVERY: Duration = Duration::from_mins(5);
/// Messages that are indexed in one transaction: some milliseconds of writing.
const INDEX_MESSAGES_MAX: i64 = 128;
/// Between two transactions it rests so many times as long as the last one took: appends go first.
const REST: u32 = 3;

impl Keeper {
    /// Indexes what appends leave behind, until `stop`. What isn't indexed yet is found all the same, by reading it.
    pub async fn index(&self, stop: CancellationToken) {
        let work = async {
            loop {
                if let Err(error) = self.index_in_turns().await {
                    self.metrics.service.db_failed(error.class());
                    warn!(%error, "recall.not_indexed");
                }
                // No error says that it was woken.
                drop(timeout(NET_EVERY, self.unindexed.notified()).await);
                sleep(GATHER).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    async fn index_in_turns(&self) -> StoreResult<()> {
        loop {
            let start = Instant::now();
            if self.store.index_messages(INDEX_MESSAGES_MAX).await? == 0 {
                return Ok(());
            }
            sleep(start.elapsed() * REST).await;
        }
    }

    /// Indexes everything at once, for commands that end.
    ///
    /// # Errors
    /// What the store fails with; what was indexed until then stays so.
    pub async fn index_all(&self) -> StoreResult<()> {
        while self.store.index_messages(INDEX_MESSAGES_MAX).await? > 0 {}
        Ok(())
    }
}
