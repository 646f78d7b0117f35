//! Resuming updates that wait for a limit of the day: less counts against it than before, or it may be another one.

use std::{
    sync::atomic::{AtomicU8, Ordering::SeqCst},
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::WorkerParts;

/// How often they are resumed each time. A worker that read the limits before may write its pause behind the first one, and
/// by the next one it has.
const RESUMPTIONS: u8 = 2;
/// How long after one the next one comes, whatever came of it.
const WAIT: Duration = Duration::from_secs(5);

/// Has updates that wait for a limit look again, until that is done.
pub struct Resumption {
    parts: WorkerParts,
    /// How often they are still to be resumed.
    owed: AtomicU8,
}

impl Resumption {
    /// One that has nothing to do yet.
    pub(super) fn new(parts: WorkerParts) -> Self {
        Self {
            parts,
            owed: AtomicU8::default(),
        }
    }

    /// From now on they are to be resumed.
    pub(super) fn owe(&self) {
        self.owed.store(RESUMPTIONS, SeqCst);
    }

    /// Resumes them until nothing is owed any more, or `stop`.
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

    /// Resumes them once, if that is owed. Should it fail, it is owed as before.
    pub async fn step(&self) {
        let owed = self.owed.load(SeqCst);
        if owed == 0 {
            return;
        }
        match self.parts.store.resume_paused(self.parts.clock.now()).await {
            Ok(_) => {
                self.owed.store(owed - 1, SeqCst);
                // However few were resumed by this call: one before may have done it without having been heard of.
                self.parts.notices.wake_queue();
            }
            Err(error) => {
                self.parts.metrics.service.db_failed(error.class());
                warn!(%error, "spend.not_resumed");
            }
        }
    }
}
