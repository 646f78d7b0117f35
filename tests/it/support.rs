//! Shared by several tests.

use std::time::Duration;

pub(crate) mod backend;
pub(crate) mod brittle;
pub(crate) mod cases;
pub(crate) mod conversation;
pub(crate) mod fake_provider;
pub(crate) mod flaky_batches;
pub(crate) mod flaky_store;
pub(crate) mod line;
pub(crate) mod monotone;
pub(crate) mod port;
pub(crate) mod postgres;
pub(crate) mod rig;
pub(crate) mod scripted;
pub(crate) mod server;
pub(crate) mod slow;
pub(crate) mod standby;
pub(crate) mod statements;
pub(crate) mod troubled_store;

/// Time limit for whatever a test waits for: the machine may be slow, and busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
