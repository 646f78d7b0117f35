//! The integration tests: one binary, so that everything links once.
#![cfg(feature = "daemon")]
#![expect(
    clippy::unwrap_used,
    reason = "support functions belong to tests, where a failure should stop at once; clippy knows test functions only"
)]

mod keeper;
mod llm;
mod store;
mod support;
mod worker;
