//! Builds the answers of handlers: problems, and documents in the format that the client prefers.

pub(super) mod document;
pub(super) mod excerpt;
pub(super) mod negotiate;
pub(super) mod prepared;
pub(super) mod problem;
