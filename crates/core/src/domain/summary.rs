//! The summary: items, the sections that their age puts them in, and the document rendered from them.
//!
//! Data flows one way. [`coverage`] makes items from drafts and exchanges. [`section`] and [`compaction`] give each item a section and a
//! form, by its age and by the room. [`mod@line`] and [`render`] write the items as lines. When the document is read, [`pending`] adds
//! the exchanges that aren't summarised yet, and [`brief`] cuts the document for readers with little room. [`shared`] makes one document
//! from the items of several agents.
//!
//! Invariant: the clock ages items, never a model. recapd fills in times, token totals and coverage.
//!
//! Invariant: no document has more than [`compaction::SUMMARY_TOKENS_MAX`] tokens.

pub mod brief;
pub mod calendar;
pub mod compaction;
pub mod coverage;
pub mod diff;
pub mod edit;
pub mod empty;
pub mod fact;
pub mod item;
pub mod label;
pub mod line;
pub mod operations;
pub mod pending;
pub(crate) mod point;
pub mod project_brief;
pub mod reading;
pub mod render;
pub mod section;
pub mod shared;
mod source;
mod span;
pub mod state;
pub mod version;
mod worth;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
