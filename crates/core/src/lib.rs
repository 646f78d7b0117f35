//! The rules of recapd. Pure: no IO, no async, no clock. The daemon is built on this library. Agents can use it to manage their own
//! windows.
//!
//! - [`domain`]: exchanges, windows, summaries, prompts and contexts.
//! - [`formats`]: converts the formats of providers and transcripts to and from messages.
//! - [`tokenizer`]: exact and estimated token counters, chosen by provider and model.
//! - [`validator`]: reports what a provider would refuse in a request. It is written from the providers' rules alone.
//! - [`hash`]: short hashes.

#![warn(missing_docs)]

pub mod domain;
pub mod formats;
pub mod hash;
pub mod tokenizer;
pub mod validator;
