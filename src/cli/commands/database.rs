//! Commands on the data as a whole: export and import, backup, copy, migration, verification.

pub(crate) mod backup;
pub(crate) mod copy;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod migrate;
pub(crate) mod verify;
