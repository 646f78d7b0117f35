//! Trying things on files, with no daemon and no database that is kept.

pub(in crate::cli) mod check_request;
pub(in crate::cli) mod count;
pub(in crate::cli) mod replay;
pub(in crate::cli) mod selftest;
