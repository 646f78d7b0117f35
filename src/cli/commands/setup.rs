//! What is needed before anything runs, and what recapd tells about itself.

pub(in crate::cli) mod config_file;
pub(in crate::cli) mod init;
pub(in crate::cli) mod openapi;
pub(in crate::cli) mod shell;
pub(in crate::cli) mod topics;
pub(in crate::cli) mod version;
