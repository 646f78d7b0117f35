//! What all benches share: samples with percentiles, ratios, and a table.
//!
//! Machines differ and are noisy: trust ratios of two things measured alternately in one run.

#[path = "size.rs"]
mod size;
#[path = "table.rs"]
mod table;

use std::time::Duration;

pub(crate) use size::size;
pub(crate) use table::Table;

#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Returns the duration that `percent` % of the samples don't exceed; zero if there are none.
    pub(crate) fn percentile(&mut self, percent: usize) -> Duration {
        self.per_mille(percent * 10)
    }

    /// Returns what [`Self::percentile`] returns, for thousandths.
    pub(crate) fn per_mille(&mut self, per_mille: usize) -> Duration {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0.get((self.0.len() * per_mille / 1_000).min(last)).copied().unwrap_or_default()
    }

    /// The median.
    pub(crate) fn p50(&mut self) -> Duration {
        self.percentile(50)
    }
}

pub(crate) fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}

pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 1e-3 {
        format!("{:.2} ms", seconds * 1e3)
    } else if seconds >= 1e-6 {
        format!("{:.1} µs", seconds * 1e6)
    } else {
        format!("{:.0} ns", seconds * 1e9)
    }
}
