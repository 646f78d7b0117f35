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
//! Modules in reading order:
//!
//! - [`domain`]: the rules, pure: no IO, no async, no clock.
//! - [`formats`]: provider and transcript formats to and from domain messages.
//! - [`tokenizer`]: exact and estimated token counters, chosen by provider and model.
//! - [`validator`]: what a provider would refuse in a request; written from the providers' rules alone.
//! - `store`: the `Store` seam and its SQLite implementation.
//! - `wire`: HTTP as a client; [`client`]: the daemon's, for agents written in Rust and for the ways in that ask a daemon.
//! - `llm`: the `ChatModel` seam, the offline summariser and the providers.
//! - `journal`: histories to files and back, and the live journal.
//! - `keeper`: append, segment, evict, enqueue.
//! - `worker`: wake, claim, condense, compact, complete.
//! - `schedule`: the cron jobs (ageing, pruning, reconciling).
//! - `snapshot`: the lock-free read path.
//! - `fleet`: what other daemons on the same database did.
//! - `history`, `context`, `recall`: reading a history, what to send to a model, and the archive by words or numbers, for
//!   the command line and HTTP alike.
//! - `dashboard`: pages over what is read, for `http`.
//! - `access`: who asks over HTTP, and what they may do.
//! - `assembly`: from configuration to parts.
//! - `faults`: real daemons, with faults on purpose.
//! - `mcp`: summaries and the archive by the Model Context Protocol, for `http` and `cli`.
//! - `hook`: what runs inside of the hooks of Claude Code and Codex, as a client of the daemon.
//! - `http`, `cli`: the ways in.
//! - `threads`: how many there may be; `background`: those beside the ones that serve.
//! - `config`, `crontab`, `telemetry`, `lifecycle`, `clock`, `randomness`, `notice`: the surroundings.
//!
//! Dependency rule, enforced by `tests/tidy.rs`:
//! `domain <- {formats, tokenizer, wire} <- {store, llm, client} <- journal <- {keeper, worker, schedule, snapshot, fleet} <- {history, context, recall, access, assembly} <- {mcp, dashboard} <- {http, hook, cli} <- main`.
//!
//! Without the default feature `daemon` only the first four exist: a library for agents that manage their own
//! window.

pub mod domain;
pub mod formats;
#[cfg(feature = "daemon")]
pub mod selftest;
pub mod tokenizer;
pub mod validator;

#[cfg(feature = "daemon")]
pub mod access;
#[cfg(feature = "daemon")]
pub mod assembly;
#[cfg(feature = "daemon")]
pub mod background;
#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod clock;
#[cfg(feature = "daemon")]
pub mod config;
#[cfg(feature = "daemon")]
pub mod context;
#[cfg(feature = "daemon")]
pub mod crontab;
#[cfg(feature = "daemon")]
pub mod dashboard;
#[cfg(feature = "daemon")]
mod digest;
#[cfg(feature = "daemon")]
pub mod faults;
#[cfg(feature = "daemon")]
pub mod fleet;
#[cfg(feature = "daemon")]
pub mod history;
#[cfg(feature = "daemon")]
pub mod hook;
#[cfg(feature = "daemon")]
pub mod http;
#[cfg(feature = "daemon")]
pub mod journal;
#[cfg(feature = "daemon")]
pub mod keeper;
#[cfg(feature = "daemon")]
pub mod lifecycle;
#[cfg(feature = "daemon")]
pub mod llm;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "daemon")]
pub mod notice;
#[cfg(feature = "client")]
pub mod randomness;
#[cfg(feature = "daemon")]
pub mod recall;
#[cfg(feature = "daemon")]
pub mod schedule;
#[cfg(feature = "daemon")]
pub mod snapshot;
#[cfg(feature = "daemon")]
pub mod store;
#[cfg(feature = "daemon")]
pub mod telemetry;
#[cfg(feature = "daemon")]
pub mod threads;
#[cfg(feature = "client")]
pub mod wire;
#[cfg(feature = "daemon")]
pub mod worker;

/// The examples of the README compile and run.
#[cfg(all(doctest, feature = "tokenizer"))]
#[doc = include_str!("../README.md")]
struct Readme;
