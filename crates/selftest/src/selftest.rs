//! Tests that ship: what recapd promises, tried on the user's own conversations, and on a model that does its worst.

pub mod findings;
mod judge;
mod known_counts;
pub mod plan;
pub mod planting;
pub mod progress;
pub mod runner;
pub mod simulation;
#[cfg(test)]
mod tests;
pub mod updates;
pub mod window;
pub mod work;
