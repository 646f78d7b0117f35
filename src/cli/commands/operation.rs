//! Running the daemon and watching it: what operators do.

pub(in crate::cli) mod age;
pub(in crate::cli) mod alerts;
pub(in crate::cli) mod audit;
pub(in crate::cli) mod doctor;
pub(in crate::cli) mod health;
pub(in crate::cli) mod metrics;
pub(in crate::cli) mod queue;
pub(in crate::cli) mod runs;
pub(in crate::cli) mod serve;
pub(in crate::cli) mod status;
pub(in crate::cli) mod support;
pub(in crate::cli) mod token;
