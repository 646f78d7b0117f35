//! What runs in a daemon, over one store.
//!
//! - [`ingest`]: append, segment, evict, enqueue.
//! - [`conversations`]: what is new in conversations that come whole.
//! - [`embedder`]: embeddings of messages and questions, for recall.
//! - [`worker`]: wake, claim, condense, compact, complete.
//! - [`schedule`]: the cron jobs (ageing, pruning, reconciling).
//! - [`snapshot`]: the lock-free read path.
//! - [`peers`]: changes made by other daemons on the same database.
//! - [`journal`]: histories to files and back, and the live journal.
//! - [`assembly`]: from configuration to parts.

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
