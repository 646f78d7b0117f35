//! Finds the data for a command: asks a running daemon, or opens the database.

pub(super) mod api;
pub(super) mod cure;
pub(super) mod open;
pub(super) mod target;
pub(super) mod updates;
