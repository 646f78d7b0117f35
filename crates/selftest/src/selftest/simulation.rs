//! A simulation of daemons over one store: the real ingestor, worker and schedule, in virtual time.
//!
//! ```text
//! seed ─► course ─► daemons (ingestor · worker · heartbeat · reconciler)   killed, stopped, stalled, with wrong clocks
//!                      │ one step at a time, of a random actor
//!                      ▼
//!                   store ── tables in memory ── judge: after each operation, and at the end
//!                   (calls fail before or after they take effect)
//! ```
//!
//! Nothing runs by itself: each actor is a future that the simulation polls, and other actors may run before and after each
//! call of the store. So a seed determines a history.
//!
//! The store is simulated: [`tables`] implement the protocol independently of the SQL. Everything above the `Store` trait
//! is the daemons' own code, except the worker's loop around claims and the timers.

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

const RUNS_OF_PIECE: u64 = 200;

/// A number of simulated runs with consecutive seeds.
pub struct Simulation {
    pub runs: u64,
    /// The seed of the first run; each further run has the next number.
    pub seed: u64,
    /// The disabled guards of the store.
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
    /// Repeats a failed run to record its trace.
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
