//! The rules of recapd, pure: no IO, no async, no clock. A library for agents that manage their own window, and what the
//! daemon goes by.
//!
//! - [`domain`]: exchanges, windows, summaries, prompts and contexts.
//! - [`formats`]: provider and transcript formats to and from messages.
//! - [`tokenizer`]: exact and estimated token counters, chosen by provider and model.
//! - [`validator`]: what a provider would refuse in a request; written from the providers' rules alone.
//! - [`hash`]: hashes of what is kept.

#![warn(missing_docs)]

pub mod domain;
pub mod formats;
pub mod hash;
pub mod tokenizer;
pub mod validator;
