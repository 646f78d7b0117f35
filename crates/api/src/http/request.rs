//! The parts of a request that handlers need: path, query, key, body, and the messages in it.

pub(super) mod body;
pub(super) mod extract;
pub(super) mod idempotency;
pub(super) mod members;
pub(super) mod message_body;
pub(super) mod page;
