//! The data as a whole: in and out, from one place to another, and whether it is sound.

pub(in crate::cli) mod backup;
pub(in crate::cli) mod copy;
pub(in crate::cli) mod export;
pub(in crate::cli) mod import;
pub(in crate::cli) mod migrate;
pub(in crate::cli) mod verify;
