//! A store of batches whose calls fail as planned with [`FlakyStore`].

use std::sync::Arc;

use async_trait::async_trait;
use recapd_core::domain::{agent::AgentId, time::Timestamp, work::Lease};
use recapd_store::{
    StoreResult,
    batch::{
        BatchClosed, BatchEnd, BatchLine, BatchMove, BatchQuestion, BatchStore, BatchedAnswer, Gather,
        OpenBatch,
    },
};

use super::flaky_store::FlakyStore;

pub(crate) struct FlakyBatches {
    /// Gets the calls that don't fail.
    pub(crate) inner: Arc<dyn BatchStore>,
    /// The store with which failures are planned.
    pub(crate) plan: Arc<FlakyStore>,
}

macro_rules! pass {
    ($(fn $method:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl BatchStore for FlakyBatches {
            $(async fn $method(&self, $($name: $type),*) -> StoreResult<$answer> {
                self.plan.pass(stringify!($method), self.inner.$method($($name),*)).await
            })+
        }
    };
}

pass! {
    fn defer(lease: &Lease, question: BatchQuestion, until: Timestamp, now: Timestamp) -> bool;
    fn withdraw_question(agent: &AgentId, now: Timestamp) -> bool;
    fn batched_answer(agent: &AgentId) -> Option<BatchedAnswer>;
    fn has_waiting() -> bool;
    fn withdraw_outdated(now: Timestamp) -> u64;
    fn gather(gather: Gather) -> Option<OpenBatch>;
    fn due_batches(now: Timestamp, next_at: Timestamp, limit: i64) -> Vec<OpenBatch>;
    fn batch_lines(batch: i64) -> Vec<BatchLine>;
    fn move_batch(batch: i64, step: BatchMove) -> bool;
    fn close_batch(batch: i64, end: BatchEnd) -> BatchClosed;
    fn known_batches(provider: &str, limit: i64) -> Vec<String>;
}
