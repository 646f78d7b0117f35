//! Trying things on files, with no daemon and no database that is kept.

pub(crate) mod check_request;
pub(crate) mod count;
pub(crate) mod replay;
pub(crate) mod selftest;
