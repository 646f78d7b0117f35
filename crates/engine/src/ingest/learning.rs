//! Calibrates the token counters from the usage that providers report.
//!
//! After an append's commit, the calibration is learned in memory from what was stored. It is saved to the database from time to
//! time and when the daemon ends. So learning costs an append only some arithmetic and can't make it fail. A crash loses a few
//! samples.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hashlink::LruCache;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use super::counters::{AGENTS_MAX, AgentCounter, ModelName};
use recapd_core::{
    domain::{
        agent::AgentId,
        calibration::{
            Calibrations, GuardedCounter, Observation, Observer, ReportedSample, Reporter, WindowView,
        },
        message::{Kind, Message, Part},
        tokens::TokenCounter,
    },
    formats::reported_usage,
};
use recapd_store::{AppendOutcome, KeptCalibration};
use recapd_telemetry::metrics::Metrics;

/// The calibrations are saved after this many new samples.
const SAMPLES_UNSAVED_MAX: usize = 16;

/// The calibrations and the observations from which they are learned.
#[derive(Default)]
pub(super) struct Learner {
    state: Mutex<LearnerState>,
    /// Wakes the background task to save, or to count messages again.
    pub(super) work: Notify,
}

#[derive(Default)]
struct LearnerState {
    calibrations: Calibrations,
    observers: Observers,
    /// The models whose calibrations have changed since the last save.
    unsaved: BTreeSet<Arc<ModelName>>,
    samples_unsaved: usize,
    /// True if the saved calibrations were read from the database.
    is_loaded: bool,
}

/// The observer of each agent, up to a limit. The least recently used one is dropped.
struct Observers(LruCache<AgentId, Observer>);

impl Default for Observers {
    fn default() -> Self {
        Self(LruCache::new(AGENTS_MAX))
    }
}

impl LearnerState {
    /// Returns true if the calibration of the model of `saved` is missing here, or is older and has no unsaved samples.
    fn is_older_than(&self, saved: &KeptCalibration) -> bool {
        let provider_model = (saved.provider.clone(), saved.model.clone());
        let mut calibrations = self.calibrations.iter();
        let calibration = calibrations
            .find(|(provider, model, ..)| (*provider, *model) == (&provider_model.0, &provider_model.1));
        calibration.is_none_or(|(_, _, learned, _)| {
            learned < saved.learned && !self.unsaved.contains(&provider_model)
        })
    }
}

impl Learner {
    /// Returns the counter with the learned correction. It counts rather too many tokens than too few.
    pub(super) fn guarded(&self, agent: &AgentId, counting: &AgentCounter) -> Arc<dyn TokenCounter> {
        let plain = || Arc::clone(&counting.plain);
        let Some(provider_model) = &counting.provider_model else {
            return plain();
        };
        let state = self.state();
        let calibration = state.calibrations.of(&provider_model.0, &provider_model.1);
        let permille = calibration.map(|calibration| calibration.guard_permille(reporter(agent)));
        permille.map_or_else(plain, |permille| GuardedCounter::over(plain(), permille))
    }

    /// Learns from the stored messages of an append.
    pub(super) fn learn(
        &self,
        agent: &AgentId,
        counting: &AgentCounter,
        observations: &[Observation],
        outcome: &AppendOutcome,
        metrics: &Metrics,
    ) {
        let Some(provider_model) = &counting.provider_model else {
            return;
        };
        let stored = outcome.stored.iter();
        let stored = stored.filter_map(|stored| observations.get(stored.index));
        let stored: Vec<Observation> = stored.cloned().collect();
        let window = WindowView {
            first_exchange: outcome.first_exchange,
            summarized_through: outcome.summarized_through,
        };
        let mut state = self.state();
        let observer = state.observers.0.entry(agent.clone());
        let observer = observer.or_insert_with(Observer::default);
        for sample in observer.samples_of(&stored, window, !outcome.steps.is_empty()) {
            let reported = ReportedSample { reporter: reporter(agent), sample };
            if state.calibrations.learn(&provider_model.0, &provider_model.1, reported) {
                metrics.window.token_count_compared(&provider_model.0, sample);
                state.unsaved.insert(Arc::clone(provider_model));
                state.samples_unsaved += 1;
            }
        }
        if state.samples_unsaved >= SAMPLES_UNSAVED_MAX {
            self.work.notify_one();
        }
    }

    /// Returns true if the saved calibrations must still be read from the database.
    pub(super) fn needs_load(&self) -> bool {
        !self.state().is_loaded
    }

    /// Loads calibrations that this or other daemons saved. Keeps this daemon's unsaved ones, which are newer.
    pub(super) fn load(&self, saved: Vec<KeptCalibration>) {
        let mut state = self.state();
        state.is_loaded = true;
        for one in saved {
            if state.is_older_than(&one) {
                let KeptCalibration { learned, calibration, .. } = one;
                state.calibrations.put(&one.provider, &one.model, learned, calibration);
            }
        }
    }

    /// Returns the calibrations that changed since the last save, and marks them as saved.
    pub(super) fn take_unsaved(&self) -> Vec<KeptCalibration> {
        let mut state = self.state();
        state.samples_unsaved = 0;
        let unsaved = std::mem::take(&mut state.unsaved);
        let all = state.calibrations.iter();
        all.filter(|(provider, model, ..)| {
            unsaved.iter().any(|provider_model| {
                (provider_model.0.as_str(), provider_model.1.as_str()) == (*provider, *model)
            })
        })
        .map(|(provider, model, learned, calibration)| KeptCalibration {
            provider: provider.to_owned(),
            model: model.to_owned(),
            learned,
            calibration: calibration.clone(),
        })
        .collect()
    }

    /// Marks calibrations as unsaved again, because the save failed.
    pub(super) fn give_back(&self, unsaved: Vec<KeptCalibration>) {
        let models =
            unsaved.into_iter().map(|calibration| Arc::new((calibration.provider, calibration.model)));
        self.state().unsaved.extend(models);
    }

    fn state(&self) -> MutexGuard<'_, LearnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Derives an agent's reporter id from a hash of its name, so that nobody can choose a name with another agent's reporter id.
fn reporter(agent: &AgentId) -> Reporter {
    let digest = Sha256::digest(agent.as_str());
    let number = digest.iter().take(size_of::<u64>());
    Reporter(number.fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Returns what `message`, which `counter` counted as `tokens`, teaches about the counter of `model`.
pub(super) fn observe(
    message: &Message,
    tokens: i64,
    counter: &dyn TokenCounter,
    model: &str,
) -> Observation {
    let is_metadata = !message.kind.is_conversation();
    let is_answer = matches!(message.kind, Kind::Assistant | Kind::ToolCall);
    let is_opaque =
        |part: &Part| matches!(part, Part::Thinking(_) | Part::Attachment { .. } | Part::Opaque { .. });
    let usage = (is_answer || is_metadata).then(|| reported_usage(message)).flatten();
    Observation {
        tokens: counter.without_guard(tokens),
        is_answer,
        is_metadata,
        is_opaque: message.parts.iter().any(is_opaque),
        usage: usage.filter(|usage| usage.is_about(model)),
    }
}
