//! What several tests need.

pub(crate) mod backend;
pub(crate) mod cases;
pub(crate) mod conversation;
pub(crate) mod fake_provider;
pub(crate) mod flaky_batches;
pub(crate) mod flaky_store;
pub(crate) mod postgres;
pub(crate) mod rig;
pub(crate) mod scripted;
pub(crate) mod server;
pub(crate) mod standby;
pub(crate) mod troubled_store;
