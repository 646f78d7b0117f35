//! Where a command finds the data: with a running daemon, or in the database that it opens itself.

pub(super) mod api;
pub(super) mod cure;
pub(super) mod open;
pub(super) mod updates;
