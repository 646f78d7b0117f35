//! Commands for setting up, and for what recapd says about itself.

pub(crate) mod config_file;
pub(crate) mod init;
pub(crate) mod openapi;
pub(crate) mod shell;
pub(crate) mod topics;
pub(crate) mod version;
