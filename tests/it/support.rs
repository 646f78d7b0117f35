//! What several tests need.

pub(crate) mod backend;
pub(crate) mod conversation;
pub(crate) mod fake_openai;
pub(crate) mod server;
pub(crate) mod troubled_store;
