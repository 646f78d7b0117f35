//! Reads what handlers need from a request: path, query, idempotency key, body, and the messages in the body.

pub(super) mod body;
pub(super) mod credentials;
pub(super) mod extract;
pub(super) mod idempotency;
pub(super) mod members;
pub(super) mod message_body;
pub(super) mod page;
