//! Makes waiting updates due again: updates that a spending limit paused, once the limits or the spending may have changed, and
//! updates that a provider delayed or refused, once another provider or key may be used.

use std::{
    sync::atomic::{AtomicU8, Ordering::SeqCst},
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::WorkerParts;
use recapd_store::Resume;

/// How often updates are resumed after each request. A worker that read the old limits may write its pause after the first
/// resumption, but not after the second.
const RESUMPTIONS: u8 = 2;
/// The time between two resumptions, even if the first one failed.
const WAIT: Duration = Duration::from_secs(5);

/// Makes updates due again until no resumption is owed.
pub struct Resumption {
    parts: WorkerParts,
    which: Resume,
    /// How many resumptions must still be made.
    owed: AtomicU8,
}

impl Resumption {
    pub(super) fn new(parts: WorkerParts, which: Resume) -> Self {
        Self { parts, which, owed: AtomicU8::default() }
    }

    /// Requests resumptions from now on.
    pub(super) fn owe(&self) {
        self.owed.store(RESUMPTIONS, SeqCst);
    }

    /// Resumes updates until no resumption is owed, or until `stop`.
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

    /// Resumes updates once, if a resumption is owed. It stays owed if this fails.
    pub async fn step(&self) {
        let owed = self.owed.load(SeqCst);
        if owed == 0 {
            return;
        }
        let resumed = self.parts.store.resume(self.which, self.parts.clock.now());
        match resumed.await {
            Ok(_) => {
                self.owed.store(owed - 1, SeqCst);
                // Wakes the queue even if none were resumed: an earlier call may have resumed them although its answer was lost.
                self.parts.notices.wake_queue();
            }
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                warn!(%error, "spend.not_resumed");
            }
        }
    }
}
