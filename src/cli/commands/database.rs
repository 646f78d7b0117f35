//! The data as a whole: in and out, from one place to another, and whether it is sound.

pub(crate) mod backup;
pub(crate) mod copy;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod migrate;
pub(crate) mod verify;
