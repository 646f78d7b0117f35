//! The rules of recapd, pure: no IO, no async, no clock, no storage.
//!
//! Invariant: nothing in here reads the time, draws a random number or waits. Whoever calls passes the time in.

pub mod access;
pub mod agent;
pub mod attachment;
pub mod batch;
pub mod calibration;
pub mod context;
pub mod convergence;
pub mod cursor;
pub mod diagnosis;
pub mod exchange;
pub(crate) mod fnv;
pub mod history;
pub mod inert;
pub mod journal;
pub mod ledger;
pub mod legs;
pub mod likeness;
pub mod lineage;
pub mod message;
pub(crate) mod number;
pub mod outcome;
pub mod own_words;
pub mod perspective;
pub mod preset;
pub mod price;
pub mod project;
pub mod prompt;
#[cfg(feature = "daemon")]
pub mod recall;
pub mod redaction;
pub mod reply;
pub mod round;
pub mod settings;
pub mod spell;
pub mod spend;
pub mod summary;
pub mod text;
pub mod thought;
pub mod time;
pub mod tokens;
pub mod transcript;
pub mod window;
pub mod work;
pub mod zone;
