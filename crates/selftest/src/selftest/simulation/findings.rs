//! The results of the simulation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judge::{Promise, PromiseBreach};
use crate::selftest::work::WorkFindings;

/// The most failing runs that are described, shortest first.
const TOLD_MAX: usize = 3;
/// The last lines of a run that are kept.
const TRACE_LINES_MAX: usize = 120;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Steps between two points at which other actors could run.
    pub steps: u64,
    pub requests: u64,
    pub claims: u64,
    pub model_calls: u64,
    /// Versions that updates wrote.
    pub updates: u64,
    /// Updates refused because of their token.
    pub fenced_by_lease: u64,
    /// Updates refused because of version, watermark or exchanges.
    pub fenced_by_state: u64,
    /// Updates refused for other reasons.
    pub refused: u64,
    pub killed: u64,
    /// Daemons that were stopped for a while.
    pub stalled: u64,
    /// Calls of the store that failed, before or after they took effect.
    pub cut: u64,
    pub clocks_turned: u64,
    /// Queue rows deleted by the simulated operator.
    pub rows_lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    pub seed: u64,
    pub steps: u64,
    pub breaches: Vec<PromiseBreach>,
    /// Its last lines: time, daemon, operation, and the agents that it changed.
    pub trace: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulationFindings {
    pub runs: u64,
    pub counts: Counts,
    /// The number of runs in which each promise was broken.
    pub broken: BTreeMap<Promise, u64>,
    /// The shortest of these runs.
    pub failed: Vec<FailedRun>,
}

impl SimulationFindings {
    /// Returns true if no promise was broken.
    pub fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }

    pub fn broken(&self, promise: Promise) -> u64 {
        self.broken.get(&promise).copied().unwrap_or_default()
    }

    pub(super) fn add_run(&mut self, counts: &Counts, breaches: &[PromiseBreach]) {
        self.runs += 1;
        self.counts.add(counts);
        for breach in breaches {
            *self.broken.entry(breach.promise).or_default() += 1;
        }
    }

    /// Returns true if a failing run of so many steps is among the shortest.
    pub(super) fn is_short(&self, steps: u64) -> bool {
        self.failed.len() < TOLD_MAX || self.failed.iter().any(|failed| steps < failed.steps)
    }

    pub(super) fn tell(&mut self, mut failed: FailedRun) {
        let first = failed.trace.len().saturating_sub(TRACE_LINES_MAX);
        failed.trace.drain(..first);
        self.failed.push(failed);
        self.keep_shortest();
    }

    fn keep_shortest(&mut self) {
        self.failed.sort_by_key(|failed| (failed.steps, failed.seed));
        self.failed.truncate(TOLD_MAX);
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.requests += other.requests;
        self.claims += other.claims;
        self.model_calls += other.model_calls;
        self.updates += other.updates;
        self.fenced_by_lease += other.fenced_by_lease;
        self.fenced_by_state += other.fenced_by_state;
        self.refused += other.refused;
        self.killed += other.killed;
        self.stalled += other.stalled;
        self.cut += other.cut;
        self.clocks_turned += other.clocks_turned;
        self.rows_lost += other.rows_lost;
    }
}

impl WorkFindings for SimulationFindings {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.counts.add(&other.counts);
        for (promise, runs) in other.broken {
            *self.broken.entry(promise).or_default() += runs;
        }
        self.failed.extend(other.failed);
        self.keep_shortest();
    }

    /// A run's seed already identifies it.
    fn of_piece(self, _piece: usize) -> Self {
        self
    }
}
