//! What tries to break recapd, apart from the daemon.
//!
//! - [`selftest`]: windows, updates and a whole simulated daemon, by chance and by rule.
//! - [`command`]: the command line of `recapd-selftest`.
//! - [`faults`]: real daemons, with faults on purpose.

pub mod command;
pub mod faults;
pub mod selftest;
