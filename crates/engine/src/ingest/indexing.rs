//! Indexing messages for recall, behind the appends, so that none of them waits for it, and sealing what was stored without seals.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Ingestor;
use recapd_store::StoreResult;

/// How long it waits for more after an append.
const GATHER: Duration = Duration::from_secs(2);
/// How often it looks for messages that another process didn't index, or this one before it ended.
const NET_EVERY: Duration = Duration::from_mins(5);
/// The most messages that are indexed in one transaction: some milliseconds of writing.
const INDEX_MESSAGES_MAX: i64 = 128;
/// The most rows that are sealed in one transaction.
const SEAL_ROWS_MAX: i64 = 128;
/// The pause between two transactions, in multiples of the last one's duration: appends go first.
const REST: u32 = 3;

impl Ingestor {
    /// Indexes appended messages until `stop`. Recall finds those that aren't indexed yet all the same, by reading
    /// them. Then it seals what has no seal, of which there is nothing but after an upgrade.
    pub async fn index(&self, stop: CancellationToken) {
        let work = async {
            loop {
                if let Err(error) = self.index_in_turns().await {
                    self.metrics.service.db_failed(error.class());
                    warn!(%error, "recall.not_indexed");
                }
                if let Err(error) = self.seal_in_turns().await {
                    self.metrics.service.db_failed(error.class());
                    warn!(%error, "seals.not_made");
                }
                // Without a wake-up it looks after `NET_EVERY`.
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

    async fn seal_in_turns(&self) -> StoreResult<()> {
        loop {
            let start = Instant::now();
            if self.store.seal_rows(SEAL_ROWS_MAX).await? == 0 {
                return Ok(());
            }
            sleep(start.elapsed() * REST).await;
        }
    }

    /// Indexes all messages at once, for commands that end.
    ///
    /// # Errors
    /// When the store fails; what was indexed until then stays so.
    pub async fn index_all(&self) -> StoreResult<()> {
        while self.store.index_messages(INDEX_MESSAGES_MAX).await? > 0 {}
        Ok(())
    }
}
