//! Commands for operators: running the daemon and watching it.

pub(crate) mod age;
pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod proxy;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod support;
pub(crate) mod token;
