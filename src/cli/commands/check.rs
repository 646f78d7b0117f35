//! Commands that test things on files, without a daemon or a permanent database.

pub(crate) mod check_request;
pub(crate) mod count;
pub(crate) mod replay;
pub(crate) mod selftest;
