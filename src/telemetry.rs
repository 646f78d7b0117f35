//! stub
pub mod metrics;
