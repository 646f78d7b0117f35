//! The commands, one file each, grouped by topic. Each has its arguments for clap and a `run`.

pub(super) mod agent;
pub(super) mod check;
pub(super) mod database;
pub(super) mod operation;
pub(super) mod setup;
