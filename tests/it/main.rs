//! The integration tests: one binary, so that everything links once.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "support functions belong to tests, where a failure should stop at once; clippy knows test functions only"
)]

mod cli;
mod client;
mod convergence;
mod counting;
mod daemon;
mod dashboard;
mod faults;
mod http;
mod ingest;
mod injection;
mod journal;
mod kill;
mod llm;
mod mcp;
mod monitoring;
mod packaging;
mod postgres;
mod proxy;
mod scale;
mod schedule;
mod snapshot;
mod store;
mod support;
mod worker;
