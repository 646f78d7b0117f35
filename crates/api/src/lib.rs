//! The interfaces to the outside: HTTP, the dashboard and the Model Context Protocol.
//!
//! - [`http`]: routes, limits and answers.
//! - [`access`]: authentication: who sends a request, and which agents a token may see. [`http`] has the rules of the
//!   routes.
//! - [`history`], [`context`], [`recall`]: read histories, contexts for models, and the archive by words or numbers.
//! - [`dashboard`]: pages that show what is read.
//! - [`mcp`]: summaries and the archive over the Model Context Protocol.

pub mod access;
pub mod context;
pub mod dashboard;
pub mod history;
pub mod http;
pub mod mcp;
pub mod recall;
