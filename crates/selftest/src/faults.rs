//! Faults on purpose: real daemons under load, over a real database, killed, stopped, cut off, starved of disk and given
//! other times, with a model server that can't be relied on. Then everything is mended, the queue has to run dry, and
//! what is stored is held against what was acknowledged.
//!
//! A run is short, and follows from the seed and its number: which faults, where, and after which pauses. How they meet
//! what the processes do at that moment doesn't, so a seed that fails may have to be tried more than once.

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

/// So many faults, in runs that follow from the seed.
pub struct Faults {
    /// The program that serves.
    pub program: PathBuf,
    /// How many faults.
    pub faults: u64,
    /// Seeds the random choices.
    pub seed: u64,
    /// Under the daemons.
    pub database: Database,
    pub kinds: Vec<Kind>,
    /// How long a claim holds without a sign of life.
    pub lease_ms: i64,
    /// Where runs have their folders. Those of runs that find something stay.
    pub folder: PathBuf,
    /// No run is begun after that.
    pub until: Option<Instant>,
    /// What the runs' servers are copied from.
    pub template: Template,
}

impl Work for Faults {
    type Findings = FaultFindings;

    fn fingerprint(&self) -> String {
        let Self {
            faults,
            seed,
            lease_ms,
            ..
        } = self;
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        format!(
            "faults {faults} {seed} {lease_ms} {} {}",
            self.database.name(),
            kinds.join(",")
        )
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
    /// How the daemons of all runs are set up, as `KEY=VALUE`.
    pub fn settings(&self) -> Vec<String> {
        settings::common(self.lease_ms)
    }

    fn size_of(&self, piece: usize) -> u64 {
        self.size(piece)
    }

    /// Runs of neighbouring seeds have nothing in common.
    fn seed_of(&self, piece: usize) -> u64 {
        fastrand::Rng::with_seed(self.seed).u64(..) ^ piece as u64
    }
}
