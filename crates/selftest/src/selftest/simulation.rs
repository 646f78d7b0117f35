//! A simulation of daemons over one store: the real ingestor, worker and schedule, in virtual time.
//!
//! ```text
//! seed ─► course ─► daemons (ingestor · worker · heartbeat · reconciler)   killed, stopped, stalled, with wrong clocks
//!                      │ one step at a time, whoever chance picks
//!                      ▼
//!                   store ── tables in memory ── judge: after each operation, and when all is quiet
//!                   (calls fail before or after they took effect)
//! ```
//!
//! Nothing runs by itself: each actor is a future that is polled by hand, and each call of the store is a point before
//! and after which others may go first. So a seed is a history, and the same seed is the same history.
//!
//! What is simulated is the store: [`tables`] say the protocol in other words than the SQL. Everything above the `Store`
//! seam is what daemons run, but for the worker's loop around claims and the timers.

mod client;
mod course;
mod daemon;
mod findings;
mod guard;
mod judge;
mod run;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod thinker;
mod world;

use std::collections::BTreeSet;

use self::daemon::Surroundings;
pub use self::{
    findings::{Counts, FailedRun, SimulationFindings},
    guard::{Guard, UnknownGuard},
    judge::{Promise, PromiseBreach},
};
use super::work::Work;
use recapd_core::domain::{number::usize_or_max, time::Timestamp};
use recapd_platform::{crontab::Crontab, notice::Notices};
use recapd_telemetry::metrics::Metrics;

/// Runs in a piece of work.
const RUNS_OF_PIECE: u64 = 200;

/// A number of simulated runs with consecutive seeds.
pub struct Simulation {
    /// How many runs.
    pub runs: u64,
    /// The seed of the first run; the next one has the next number.
    pub seed: u64,
    /// Guards that the store does without.
    pub without: BTreeSet<Guard>,
}

impl Work for Simulation {
    type Findings = SimulationFindings;

    fn fingerprint(&self) -> String {
        let without: Vec<&str> = self.without.iter().map(|guard| guard.name()).collect();
        format!("simulation {} {} {}", self.runs, self.seed, without.join(","))
    }

    fn beginning(&self) -> SimulationFindings {
        SimulationFindings::default()
    }

    fn pieces(&self) -> usize {
        usize_or_max(self.runs.div_ceil(RUNS_OF_PIECE))
    }

    fn size(&self, piece: usize) -> u64 {
        let before = piece as u64 * RUNS_OF_PIECE;
        self.runs.saturating_sub(before).min(RUNS_OF_PIECE)
    }

    fn try_piece(&self, piece: usize) -> SimulationFindings {
        let surroundings = Surroundings::new();
        let first = self.seed.wrapping_add(piece as u64 * RUNS_OF_PIECE);
        let mut found = SimulationFindings::default();
        for run in 0..self.size(piece) {
            self.try_run(first.wrapping_add(run), &surroundings, &mut found);
        }
        found
    }
}

impl Simulation {
    /// A run that fails is lived through again, and told.
    fn try_run(&self, seed: u64, surroundings: &Surroundings, found: &mut SimulationFindings) {
        let ended = run::run(seed, &self.without, surroundings, false);
        found.add_run(&ended.counts, &ended.breaches);
        if !ended.breaches.is_empty() && found.is_short(ended.counts.steps) {
            found.tell(FailedRun {
                seed,
                steps: ended.counts.steps,
                breaches: ended.breaches,
                trace: run::run(seed, &self.without, surroundings, true).trace,
            });
        }
    }
}

impl Surroundings {
    fn new() -> Self {
        Self {
            notices: Notices::default(),
            metrics: Metrics::new(Timestamp(0), &[]),
            crontab: Crontab::parse("0 0 * * *").expect("a literal"),
        }
    }
}
