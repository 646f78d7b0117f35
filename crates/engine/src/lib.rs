//! What runs in a daemon, over one store.
//!
//! - [`keeper`]: append, segment, evict, enqueue.
//! - [`worker`]: wake, claim, condense, compact, complete.
//! - [`schedule`]: the cron jobs (ageing, pruning, reconciling).
//! - [`snapshot`]: the lock-free read path.
//! - [`fleet`]: what other daemons on the same database did.
//! - [`journal`]: histories to files and back, and the live journal.
//! - [`assembly`]: from configuration to parts.

pub mod assembly;
pub mod fleet;
pub mod journal;
pub mod keeper;
pub mod schedule;
pub mod snapshot;
pub mod worker;
