//! Tests that ship: recapd's promises, tested on the user's own conversations and with an adversarial model.

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
