//! Conversations of several speakers.

use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

use super::{Register, labels::Convergence};
use recapd_core::domain::convergence::{ConvergenceScore, ConvergenceState};

/// The bounds include the usual thresholds.
const SCORES: [f64; 11] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];

#[derive(Debug)]
pub struct Talk {
    scores: Histogram,
    crossings: Family<Convergence, Counter>,
}

impl Talk {
    pub(super) fn register(to: &mut Register<'_>) -> Self {
        Self {
            scores: to.histogram(
                "convergence_score",
                "How alike two speakers sound, from 0 to 1, after each turn",
                &SCORES,
            ),
            crossings: to.counters(
                "convergence_crossings",
                "Turns with which the similarity of two speakers crossed a threshold: to warn, or to stop",
                Convergence::ALL,
            ),
        }
    }

    pub fn scored(&self, reading: &ConvergenceScore) {
        self.scores.observe(reading.score.score);
        let state = match reading.score.state {
            ConvergenceState::Ok => return,
            ConvergenceState::Warn => Convergence::Warn,
            ConvergenceState::Stop => Convergence::Stop,
        };
        if reading.before < Some(reading.score.state) {
            self.crossings.get_or_create(&state).inc();
        }
    }
}
