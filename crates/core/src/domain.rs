//! The rules of recapd. Pure: no IO, no async, no clock, no storage.
//!
//! Invariant: nothing here reads the time, draws a random number or waits. The caller passes in the time.

pub mod access;
pub mod agent;
pub mod attachment;
pub mod batch;
pub mod budget;
pub mod calibration;
mod checked_text;
pub mod context;
pub mod continuation;
pub mod convergence;
pub mod cursor;
pub mod demand;
pub mod diagnosis;
pub mod effects;
pub mod exchange;
pub mod failure_streak;
pub mod fnv;
pub mod history;
pub mod journal;
pub mod ledger;
pub mod legs;
pub mod likeness;
pub mod lineage;
pub mod message;
pub mod neutralize;
pub mod note;
pub mod number;
pub mod outcome;
pub mod own_output;
pub mod perspective;
pub mod preset;
pub mod price;
pub mod project;
pub mod prompt;
pub mod proxy_traffic;
pub mod recall;
pub mod redaction;
pub mod reply;
pub mod round;
#[cfg(feature = "openapi")]
pub mod schema;
mod script;
pub mod settings;
pub mod spend;
mod spoken_call;
pub mod summary;
pub mod text;
pub mod thought;
pub mod time;
pub mod tokens;
pub mod transcript;
pub mod user_text;
pub mod window;
pub mod work;
pub mod zone;
