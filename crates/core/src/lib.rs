//! The rules of recapd, pure: no IO, no async, no clock. The daemon is built on this library; agents can use it to manage
//! their own window.
//!
//! - [`domain`]: exchanges, windows, summaries, prompts and contexts.
//! - [`formats`]: provider and transcript formats to and from messages.
//! - [`tokenizer`]: exact and estimated token counters, chosen by provider and model.
//! - [`validator`]: checks what a provider would refuse in a request; written from the providers' rules alone.
//! - [`hash`]: short hashes.

#![warn(missing_docs)]

pub mod domain;
pub mod formats;
pub mod hash;
pub mod tokenizer;
pub mod validator;
