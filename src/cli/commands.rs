//! The commands, a file each, grouped by what they are about. Each reads its arguments by clap and has a `run`.

pub(super) mod agent;
pub(super) mod check;
pub(super) mod database;
pub(super) mod operation;
pub(super) mod setup;
