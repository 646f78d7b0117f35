//! The summary: items, the sections their age puts them in, and the document they are rendered to.
//!
//! Data flows one way: drafts and exchanges become items ([`coverage`]), items get a section and a form by age and room
//! ([`section`], [`compaction`]), and are written down ([`mod@line`], [`render`]); exchanges that aren't summarised yet
//! are added when the document is read ([`pending`]); readers without room for all of it get its newest lines
//! ([`brief`]). The items of several agents make one document in [`shared`].
//!
//! Invariant: the clock ages items, never a model. Times, token totals and coverage are filled by recapd.
//! Invariant: no document has more than [`compaction::SUMMARY_TOKENS_MAX`] tokens.

pub mod brief;
pub mod calendar;
pub mod compaction;
pub mod coverage;
pub mod diff;
pub mod edit;
pub mod fact;
pub mod item;
pub mod line;
pub mod operations;
pub mod pending;
pub(crate) mod point;
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
