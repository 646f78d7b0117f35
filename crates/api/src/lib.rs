//! The ways in from outside: HTTP, the dashboard and the Model Context Protocol.
//!
//! - [`http`]: routes, limits and answers.
//! - [`access`]: who asks, and what they may do.
//! - [`history`], [`context`], [`recall`]: reading a history, what to send to a model, and the archive by words or numbers.
//! - [`dashboard`]: pages over what is read.
//! - [`mcp`]: summaries and the archive by the Model Context Protocol.

pub mod access;
pub mod context;
pub mod dashboard;
pub mod history;
pub mod http;
pub mod mcp;
pub mod recall;
