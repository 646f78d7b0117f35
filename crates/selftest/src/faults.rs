//! Fault injection: real daemons under load, on a real database, are killed, stopped, disconnected, deprived of disk space
//! and given wrong times, with an unreliable model server. Then everything is repaired, the queue has to drain, and the
//! stored data is compared with what was acknowledged.
//!
//! A run is short. Its seed and number determine which faults occur, where, and after which pauses, but not what the
//! processes are doing at that moment, so a failing seed may have to be tried more than once.

mod daemon;
mod disk;
mod findings;
mod judge;
mod kind;
mod ledger;
mod load;
mod look;
mod model;
mod place;
mod power;
mod proxy;
mod roster;
mod run;
mod server;
mod settings;
mod spans;
mod steps;
mod witness;

use std::path::PathBuf;

use tokio::time::Instant;

pub use findings::{FaultFindings, median_and_max};
pub use kind::{Database, Kind};
pub use server::Template;
pub use spans::Spans;
pub use witness::{APPEND_P99_MS_MAX, KNOWN_MS_MAX, UNKNOWN_MS_MAX};

use crate::selftest::work::Work;
use recapd_core::domain::number::usize_or_max;

pub const FAULTS_OF_RUN: u64 = 20;

/// A number of faults, in runs that follow from the seed.
pub struct Faults {
    pub program: PathBuf,
    pub faults: u64,
    pub seed: u64,
    pub database: Database,
    pub kinds: Vec<Kind>,
    /// The lease of a claim, in milliseconds.
    pub lease_ms: i64,
    /// The parent folder of the runs' folders, which stay if a run finds something.
    pub folder: PathBuf,
    /// No run starts after this time.
    pub until: Option<Instant>,
    pub template: Template,
}

impl Work for Faults {
    type Findings = FaultFindings;

    fn fingerprint(&self) -> String {
        let Self { faults, seed, lease_ms, .. } = self;
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        format!("faults {faults} {seed} {lease_ms} {} {}", self.database.name(), kinds.join(","))
    }

    fn beginning(&self) -> FaultFindings {
        FaultFindings::default()
    }

    fn pieces(&self) -> usize {
        usize_or_max(self.faults.div_ceil(FAULTS_OF_RUN))
    }

    fn size(&self, piece: usize) -> u64 {
        let before = piece as u64 * FAULTS_OF_RUN;
        self.faults.saturating_sub(before).min(FAULTS_OF_RUN)
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn try_piece(&self, piece: usize) -> FaultFindings {
        run::run(self, piece)
    }
}

impl Faults {
    /// The settings of the daemons in all runs, as `KEY=VALUE`.
    pub fn settings(&self) -> Vec<String> {
        settings::common(self.lease_ms)
    }

    fn size_of(&self, piece: usize) -> u64 {
        self.size(piece)
    }

    /// Runs with neighbouring seeds have nothing in common.
    fn seed_of(&self, piece: usize) -> u64 {
        fastrand::Rng::with_seed(self.seed).u64(..) ^ piece as u64
    }
}
