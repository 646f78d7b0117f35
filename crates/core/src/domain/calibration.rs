//! Learns, for each provider and model, how far recapd's token estimates are from the numbers that the provider reports.
//!
//! A calibration has two factors: the guard, a high quantile of the samples, which corrects estimates so that texts stay below their
//! ceilings; and an average, for people to read. Both are computed from the last samples only. So memory stays bounded, and recapd learns
//! anew if a model's tokenizer changes.
//!
//! Agents may belong to people who don't trust each other, and a client can report any usage. So an agent's guard is computed
//! from its own samples. Until there are enough of them, it also depends on the shared guard: the median of the other agents' guards, one
//! for each agent. The reports of a single agent move that median no further than to the next agent's guard.
//!
//! Invariant: the guard is below the plain estimate only if enough samples support that.

mod guarded;
mod observer;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::number::i64_or_max;
pub use guarded::GuardedCounter;
pub use observer::{Observation, Observer, ReportedUsage, WindowView};

/// A calibration keeps at most this many samples.
pub const SAMPLES_MAX: usize = 512;
/// A calibration keeps at most this many samples of one agent.
pub const SAMPLES_PER_AGENT_MAX: usize = 32;
/// With fewer samples than this, an agent's own guard is at least 1,000: it raises estimates, and doesn't lower them.
pub const SAMPLES_MIN: usize = 16;
/// With fewer agents than this, the shared guard is 1,000: it leaves estimates as they are.
pub const AGENTS_MIN: usize = 3;
/// With fewer agents than this, the shared guard is at least 1,000.
pub const LOWERING_AGENTS_MIN: usize = 8;
/// At least this share of the samples, in percent, is at most the guard.
const GUARD_PERCENT: usize = 95;
/// A sample must have at least this many tokens: smaller ones measure overhead rather than the tokenizer.
pub const SAMPLE_TOKENS_MIN: i64 = 200;
/// If a report and its estimate differ by more than this factor, the report counts something else, such as text that a program adds to
/// its prompts and doesn't record. Estimates include their vendor's factor already, and no tokenizer is further off.
const RATIO_MAX: i64 = 2;
/// Remembers at most this many models. A further model replaces the one that learned least recently.
pub const MODELS_MAX: usize = 64;

/// How many tokens the same text has by recapd's estimate and by the provider's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationSample {
    /// By recapd's estimate.
    pub estimated_tokens: i64,
    /// By the provider's report.
    pub reported_tokens: i64,
}

impl CalibrationSample {
    /// Returns true if the sample is large enough and the report is probably about the same text.
    pub fn is_plausible(self) -> bool {
        let Self { estimated_tokens: estimated, reported_tokens: reported } = self;
        estimated >= SAMPLE_TOKENS_MIN
            && reported >= SAMPLE_TOKENS_MIN
            && reported <= estimated.saturating_mul(RATIO_MAX)
            && estimated <= reported.saturating_mul(RATIO_MAX)
    }

    /// Returns the reported tokens per thousand estimated tokens, rounded up.
    fn permille(self) -> i64 {
        let permille = i128::from(self.reported_tokens) * 1_000;
        let permille =
            (permille + i128::from(self.estimated_tokens) - 1) / i128::from(self.estimated_tokens.max(1));
        i64_or_max(permille)
    }
}

/// Makes samples from whole requests: from the difference between one request and the next. Instructions and tools are in both and cancel
/// out, so recapd needn't know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    last: Option<CalibrationSample>,
}

impl Meter {
    /// Records the next request of the same conversation, with all its tokens. Returns a sample if the request has grown. After an eviction
    /// or a rewind it has shrunk, and there is no sample.
    pub fn add_request(&mut self, request: CalibrationSample) -> Option<CalibrationSample> {
        let last = self.last.replace(request)?;
        let growth = CalibrationSample {
            estimated_tokens: request.estimated_tokens.saturating_sub(last.estimated_tokens),
            reported_tokens: request.reported_tokens.saturating_sub(last.reported_tokens),
        };
        growth.is_plausible().then_some(growth)
    }
}

/// The number of an agent that reports usage. No other agent ever gets the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reporter(pub u64);

/// A sample and the agent that reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedSample {
    /// The agent.
    pub reporter: Reporter,
    /// The sample.
    pub sample: CalibrationSample,
}

/// The samples of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    samples: VecDeque<ReportedSample>,
}

impl Calibration {
    /// Adds a sample. Returns false if the sample is implausible.
    pub fn learn(&mut self, reported: ReportedSample) -> bool {
        if !reported.sample.is_plausible() {
            return false;
        }
        let is_from_reporter = |stored: &&ReportedSample| stored.reporter == reported.reporter;
        let agent_count = self.samples.iter().filter(is_from_reporter).count();
        let oldest = self.samples.iter().position(|stored| is_from_reporter(&stored));
        if let Some(oldest) = oldest.filter(|_| agent_count >= SAMPLES_PER_AGENT_MAX) {
            self.samples.remove(oldest);
        }
        while self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(reported);
        true
    }

    /// Returns the samples, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &ReportedSample> {
        self.samples.iter()
    }

    /// Returns how many samples there are.
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// Returns the factor, in thousandths, for estimates of `reporter`'s messages. It is at least as high as nearly all of that agent's
    /// samples.
    pub fn guard_permille(&self, reporter: Reporter) -> i64 {
        let own_samples = self.samples.iter().filter(|stored| stored.reporter == reporter);
        let permilles: Vec<i64> = own_samples.map(|stored| stored.sample.permille()).collect();
        let has_enough = permilles.len() >= SAMPLES_MIN;
        match guard_of(permilles) {
            Some(guard) if has_enough => guard,
            // With few samples, the agent's own guard counts only if it is above the shared one.
            Some(guard) => guard.max(self.shared_permille(Some(reporter))),
            None => self.shared_permille(None),
        }
    }

    /// Returns the factor, in thousandths, for an agent that has reported nothing yet: the median of all agents' guards. It is 1,000
    /// while fewer than [`AGENTS_MIN`] agents report, and at least 1,000 while fewer than [`LOWERING_AGENTS_MIN`] do.
    pub fn shared_guard_permille(&self) -> i64 {
        self.shared_permille(None)
    }

    fn shared_permille(&self, except: Option<Reporter>) -> i64 {
        let mut by_agent: BTreeMap<Reporter, Vec<i64>> = BTreeMap::new();
        for stored in self.samples.iter().filter(|stored| Some(stored.reporter) != except) {
            by_agent.entry(stored.reporter).or_default().push(stored.sample.permille());
        }
        let mut guards: Vec<i64> = by_agent.into_values().filter_map(guard_of).collect();
        guards.sort_unstable();
        let median = guards.get(guards.len().saturating_sub(1) / 2).copied();
        match (guards.len(), median) {
            (AGENTS_MIN.., Some(median)) if guards.len() >= LOWERING_AGENTS_MIN => median,
            (AGENTS_MIN.., Some(median)) => median.max(1_000),
            _ => 1_000,
        }
    }

    /// Returns the average factor, in thousandths. Large samples weigh more.
    pub fn average_permille(&self) -> i64 {
        let all = || self.samples.iter().map(|stored| &stored.sample);
        let sum = |tokens: fn(&CalibrationSample) -> i64| all().map(tokens).fold(0, i64::saturating_add);
        if self.samples.is_empty() {
            return 1_000;
        }
        CalibrationSample {
            estimated_tokens: sum(|sample| sample.estimated_tokens),
            reported_tokens: sum(|sample| sample.reported_tokens),
        }
        .permille()
    }

    /// Corrects an estimate by the guard for an agent that has reported nothing yet, so that it is seldom too low.
    pub fn scale_by_guard(&self, estimated_tokens: i64) -> i64 {
        scale(estimated_tokens, self.shared_guard_permille())
    }

    /// Corrects an estimate for people to read.
    pub fn scale_by_average(&self, estimated_tokens: i64) -> i64 {
        scale(estimated_tokens, self.average_permille())
    }
}

/// Returns a factor at least as high as nearly all of one agent's samples. It is at least 1,000 while there are few; `None` without
/// samples.
fn guard_of(mut permilles: Vec<i64>) -> Option<i64> {
    permilles.sort_unstable();
    let index = (permilles.len() * GUARD_PERCENT).div_ceil(100).saturating_sub(1);
    let quantile = permilles.get(index).copied()?;
    Some(if permilles.len() < SAMPLES_MIN { quantile.max(1_000) } else { quantile })
}

fn scale(tokens: i64, permille: i64) -> i64 {
    i64_or_max((i128::from(tokens.max(0)) * i128::from(permille) + 999) / 1_000)
}

/// The calibrations of all models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibrations {
    /// The calibrations by provider and model.
    models: BTreeMap<String, BTreeMap<String, ModelCalibration>>,
    /// A number that grows with each learned sample. It serves as a clock.
    learned: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ModelCalibration {
    calibration: Calibration,
    /// The value of [`Calibrations::learned`] when this model last learned.
    at: u64,
}

impl Calibrations {
    /// Adds a sample of a provider's model. Returns false if the sample is implausible.
    pub fn learn(&mut self, provider: &str, model: &str, reported: ReportedSample) -> bool {
        if !reported.sample.is_plausible() {
            return false;
        }
        if self.of(provider, model).is_none() && self.len() >= MODELS_MAX {
            self.drop_least_recent();
        }
        self.learned += 1;
        let models = self.models.entry(provider.to_owned()).or_default();
        let entry = models.entry(model.to_owned()).or_default();
        entry.at = self.learned;
        entry.calibration.learn(reported)
    }

    /// Replaces the calibration of a provider's model with a saved one. `learned_at` is when the model last learned; a larger number is
    /// later.
    pub fn put(&mut self, provider: &str, model: &str, learned_at: u64, calibration: Calibration) {
        if self.of(provider, model).is_none() && self.len() >= MODELS_MAX {
            self.drop_least_recent();
        }
        self.learned = self.learned.max(learned_at);
        let models = self.models.entry(provider.to_owned()).or_default();
        let at = learned_at;
        models.insert(model.to_owned(), ModelCalibration { calibration, at });
    }

    /// Returns all calibrations: provider, model, when it last learned (a larger number is later), and calibration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64, &Calibration)> {
        let all = self.models.iter();
        all.flat_map(|(provider, models)| {
            let models = models.iter();
            models
                .map(move |(model, entry)| (provider.as_str(), model.as_str(), entry.at, &entry.calibration))
        })
    }

    /// Returns the calibration of a provider's model, if there is one.
    pub fn of(&self, provider: &str, model: &str) -> Option<&Calibration> {
        let entry = self.models.get(provider)?.get(model)?;
        Some(&entry.calibration)
    }

    /// Returns how many models there are.
    pub fn len(&self) -> usize {
        self.models.values().map(BTreeMap::len).sum()
    }

    /// Returns true if nothing has been learned yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn drop_least_recent(&mut self) {
        let all = self.models.iter().flat_map(|(provider, models)| {
            models.iter().map(move |(model, entry)| (entry.at, provider.clone(), model.clone()))
        });
        let Some((_, provider, model)) = all.min() else {
            return;
        };
        if let Some(models) = self.models.get_mut(&provider) {
            models.remove(&model);
        }
        self.models.retain(|_, models| !models.is_empty());
    }
}

#[cfg(test)]
mod observer_tests;
#[cfg(test)]
mod tests;
