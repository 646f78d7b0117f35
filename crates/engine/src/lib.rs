//! The parts that run in a daemon, on one store.
//!
//! - [`ingest`]: appends messages, which divides them into exchanges, evicts and wakes the queue.
//! - [`conversations`]: stores the new part of conversations that arrive whole.
//! - [`embedder`]: makes embeddings of messages and questions, for recall.
//! - [`worker`]: claims queue rows, condenses exchanges, compacts and completes.
//! - [`schedule`]: runs the cron jobs (ageing, pruning, reconciling).
//! - [`snapshot`]: serves readers without a lock.
//! - [`peers`]: hears of changes by other daemons on the same database.
//! - [`journal`]: exports and imports histories, and keeps the live journal.
//! - [`assembly`]: builds the parts from the configuration.

pub mod assembly;
pub mod call_log;
pub mod conversations;
pub mod embedder;
pub mod ingest;
pub mod journal;
pub mod peers;
pub mod schedule;
pub mod snapshot;
pub mod worker;
