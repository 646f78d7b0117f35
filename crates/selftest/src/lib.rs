//! Tests that try to break recapd, separate from the daemon.
//!
//! - [`selftest`]: windows, updates and a whole simulated daemon, with random inputs.
//! - [`command`]: the command line of `recapd-selftest`.
//! - [`faults`]: real daemons with injected faults.

pub mod command;
pub mod faults;
pub mod selftest;
