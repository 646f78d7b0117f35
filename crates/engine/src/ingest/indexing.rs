//! Indexes messages for recall in the background, so that no append waits for the index. Also seals messages that were stored
//! without seals.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Ingestor;
use recapd_store::StoreResult;

/// How long to wait for more messages after an append.
const GATHER: Duration = Duration::from_secs(2);
/// How often to check for messages that another process, or this one before a restart, left unindexed.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Limits how many messages one transaction indexes, to some milliseconds of writing.
const INDEX_MESSAGES_MAX: i64 = 128;
const SEAL_ROWS_MAX: i64 = 128;
/// The pause between two transactions, in multiples of the last transaction's duration, so that appends go first.
const REST: u32 = 3;

impl Ingestor {
    /// Indexes appended messages until `stop`. Until a message is indexed, recall reads it directly. Also seals messages without
    /// seals, which exist only after an upgrade.
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
                // Checks again after `CHECK_INTERVAL` at the latest.
                drop(timeout(CHECK_INTERVAL, self.unindexed.notified()).await);
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

    /// Indexes all messages at once, for commands that end afterwards.
    ///
    /// # Errors
    /// When the store fails; what was indexed before stays indexed.
    pub async fn index_all(&self) -> StoreResult<()> {
        while self.store.index_messages(INDEX_MESSAGES_MAX).await? > 0 {}
        Ok(())
    }
}
