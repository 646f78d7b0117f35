//! Makes updates that were paused by a spending limit due again once the limits, or what counts against them, may have
//! changed; and those that wait for a provider, or were refused by it, once another one may be asked, or with another key.

use std::{
    sync::atomic::{AtomicU8, Ordering::SeqCst},
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::WorkerParts;
use recapd_store::Resume;

/// How often paused updates are resumed each time. A worker that read the limits before may write its pause after the
/// first resumption, but not after the second.
const RESUMPTIONS: u8 = 2;
/// The time between two resumptions, whatever came of the first.
const WAIT: Duration = Duration::from_secs(5);

/// Makes updates due again, until all owed resumptions are done.
pub struct Resumption {
    parts: WorkerParts,
    /// Which updates.
    whom: Resume,
    /// How many resumptions are still to be made.
    owed: AtomicU8,
}

impl Resumption {
    /// Makes one that has nothing to do yet.
    pub(super) fn new(parts: WorkerParts, whom: Resume) -> Self {
        Self {
            parts,
            whom,
            owed: AtomicU8::default(),
        }
    }

    /// Asks for resumptions from now on.
    pub(super) fn owe(&self) {
        self.owed.store(RESUMPTIONS, SeqCst);
    }

    /// Resumes updates until no resumption is owed any more, or until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let resuming = async {
            self.step().await;
            while self.owed.load(SeqCst) > 0 {
                tokio::time::sleep(WAIT).await;
                self.step().await;
            }
        };
        stop.run_until_cancelled(resuming).await;
    }

    /// Resumes updates once, if that is owed. If it fails, it stays owed.
    pub async fn step(&self) {
        let owed = self.owed.load(SeqCst);
        if owed == 0 {
            return;
        }
        let resumed = self.parts.store.resume(self.whom, self.parts.clock.now());
        match resumed.await {
            Ok(_) => {
                self.owed.store(owed - 1, SeqCst);
                // However few were resumed: an earlier call may have done it although its answer was lost.
                self.parts.notices.wake_queue();
            }
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                warn!(%error, "spend.not_resumed");
            }
        }
    }
}
