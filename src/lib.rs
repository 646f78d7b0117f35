//! recapd keeps LLM agents' context windows in budget, and a short, true, always-ready summary of everything
//! that has left them.
//!
//! Data flows one way:
//!
//! ```text
//! messages ──► exchanges ──► window ──────► pending ──────► summary items ──► rendered summary
//! (append)     (segmented)   │ first_exchange │ summarized_through
//! ```
//!
//! This package is the program: the command line, and the hooks of Claude Code and Codex. Its parts are crates under
//! `crates/`. Each crate depends only on those listed before it:
//!
//! - `recapd-core`: the pure rules, message formats, token counters and the validator. A library for agents that
//!   manage their own window.
//! - `recapd-platform`: clock, randomness, threads, signals, HTTP as a client.
//! - `recapd-client`: the typed client of a daemon.
//! - `recapd-config`, `recapd-telemetry`: settings; logs, metrics and traces.
//! - `recapd-store`: the database.
//! - `recapd-llm`: the models, and the built-in summariser.
//! - `recapd-engine`: everything that runs in a daemon, over one store.
//! - `recapd-api`: HTTP, dashboard and MCP.
//! - `recapd-proxy`: the proxy between agents and providers. It needs neither store nor engine.
//! - `recapd-selftest`: tests that try to break all of this; a separate program.

pub mod cli;
pub mod hook;

/// Compiles and runs the Rust examples in the documentation.
#[cfg(doctest)]
#[doc = include_str!("../docs/integration.md")]
struct WaysIn;
