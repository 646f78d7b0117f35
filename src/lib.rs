//! recapd keeps LLM agents' context windows in budget, and a short, true, always-ready summary of everything
//! that fell out.
//!
//! Data flows one way:
//!
//! ```text
//! messages ──► exchanges ──► window ──────► pending ──────► summary items ──► rendered summary
//! (append)     (segmented)   │ first_exchange │ summarized_through
//! ```
//!
//! This package is the program: its command line, and what runs inside of the hooks of Claude Code and Codex. Its parts are
//! crates of their own, under `crates/`; each sees only those that stand before it:
//!
//! - `recapd-core`: the rules, pure; formats, token counters, the validator. A library for agents that manage their own window.
//! - `recapd-platform`: clock, randomness, threads, signals, HTTP as a client.
//! - `recapd-client`: the typed client of a daemon.
//! - `recapd-config`, `recapd-telemetry`: settings; logs, metrics and traces.
//! - `recapd-store`: the database.
//! - `recapd-llm`: the models, and the built-in summariser.
//! - `recapd-engine`: what runs in a daemon, over one store.
//! - `recapd-api`: HTTP, dashboard and MCP.
//! - `recapd-selftest`: what tries to break all of it; a program of its own.

pub mod cli;
pub mod hook;

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
