//! Where a command finds its data: a running daemon, or the database that it opens itself.

pub(super) mod api;
pub(super) mod cure;
pub(super) mod open;
pub(super) mod updates;
