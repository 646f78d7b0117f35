//! Commands for setting up recapd, and for information about recapd itself.

pub(crate) mod config_file;
pub(crate) mod init;
pub(crate) mod openapi;
pub(crate) mod shell;
pub(crate) mod topics;
pub(crate) mod version;
