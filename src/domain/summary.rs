//! The summary: items, the sections their age puts them in, and the document they are rendered to.
//!
//! Invariant: the clock ages items, never a model. Times, token totals and coverage are filled by recapd.

pub mod item;
