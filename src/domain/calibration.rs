//! How far estimates of tokens are from what providers report, learned per provider and model.
//!
//! Two figures come out: a high quantile for guarding a ceiling, and an average for showing to people. They follow only
//! the last samples, so a model whose tokenizer changes is learned anew, and memory stays bounded.
//!
//! Invariant: the guard is below the plain estimate only when enough samples say so.

mod guarded;
mod observer;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::number::i64_or_max;
pub use guarded::GuardedCounter;
pub use observer::{Observer, ReportedUsage, Seen, Shown};

/// The most samples that a calibration keeps.
pub const SAMPLES_MAX: usize = 128;
/// Fewer samples than this can raise the guard, but not lower it.
pub const SAMPLES_MIN: usize = 16;
/// The percentage of samples that the guard covers.
const GUARD_PERCENT: usize = 95;
/// The least tokens of a sample: smaller ones say more about overhead than about the tokenizer.
pub const SAMPLE_TOKENS_MIN: i64 = 200;
/// The most by which a report and its estimate may differ, as a factor: beyond it the report is about something else
/// (what a program adds to its prompts and doesn't record). Estimates hold their vendor's factor already, and no
/// tokenizer is further off.
const RATIO_MAX: i64 = 2;
/// The most models that are remembered; beyond it the one that hasn't learned for longest is dropped.
pub const MODELS_MAX: usize = 64;

/// What was estimated and what the provider reported for the same text, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The estimated tokens.
    pub estimated_tokens: i64,
    /// The reported tokens.
    pub reported_tokens: i64,
}

impl Sample {
    /// Whether it is large enough to say something, and the report is about the same text.
    pub fn is_plausible(self) -> bool {
        let Self {
            estimated_tokens: estimated,
            reported_tokens: reported,
        } = self;
        estimated >= SAMPLE_TOKENS_MIN
            && reported >= SAMPLE_TOKENS_MIN
            && reported <= estimated.saturating_mul(RATIO_MAX)
            && estimated <= reported.saturating_mul(RATIO_MAX)
    }

    /// Reported tokens per thousand estimated ones, rounded up.
    fn permille(self) -> i64 {
        let permille = i128::from(self.reported_tokens) * 1_000;
        let permille =
            (permille + i128::from(self.estimated_tokens) - 1) / i128::from(self.estimated_tokens.max(1));
        i64_or_max(permille)
    }
}

/// Makes samples of whole requests, from the difference between one request and the next: instructions and tools are in
/// both and cancel out, so they needn't be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    last: Option<Sample>,
}

impl Meter {
    /// Takes in the next request of the same conversation, of which `whole` holds the tokens. Returns a sample if the
    /// request has grown; after an eviction or a rewind there is none.
    pub fn next(&mut self, whole: Sample) -> Option<Sample> {
        let last = self.last.replace(whole)?;
        let grown = Sample {
            estimated_tokens: whole.estimated_tokens.saturating_sub(last.estimated_tokens),
            reported_tokens: whole.reported_tokens.saturating_sub(last.reported_tokens),
        };
        grown.is_plausible().then_some(grown)
    }
}

/// What was learned about one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// The last samples, oldest first.
    samples: VecDeque<Sample>,
}

impl Calibration {
    /// Learns from a sample. Returns false if the sample says nothing.
    pub fn learn(&mut self, sample: Sample) -> bool {
        if !sample.is_plausible() {
            return false;
        }
        while self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        true
    }

    /// The samples that it is based on, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// How many samples it is based on.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// The factor on estimates that holds for nearly all samples, in thousandths; at least 1,000 as long as there are
    /// few.
    pub fn guard_permille(&self) -> i64 {
        let mut ratios: Vec<i64> = self.samples.iter().map(|sample| sample.permille()).collect();
        ratios.sort_unstable();
        let place = (ratios.len() * GUARD_PERCENT).div_ceil(100).saturating_sub(1);
        let quantile = ratios.get(place).copied().unwrap_or(1_000);
        if ratios.len() < SAMPLES_MIN {
            quantile.max(1_000)
        } else {
            quantile
        }
    }

    /// The factor on estimates that is right on the whole, in thousandths: a large sample weighs more.
    pub fn average_permille(&self) -> i64 {
        let sum = |tokens: fn(&Sample) -> i64| self.samples.iter().map(tokens).fold(0, i64::saturating_add);
        if self.samples.is_empty() {
            return 1_000;
        }
        Sample {
            estimated_tokens: sum(|sample| sample.estimated_tokens),
            reported_tokens: sum(|sample| sample.reported_tokens),
        }
        .permille()
    }

    /// The estimate corrected for guarding a ceiling.
    pub fn guard(&self, estimated_tokens: i64) -> i64 {
        scaled(estimated_tokens, self.guard_permille())
    }

    /// The estimate corrected for showing it to a person.
    pub fn average(&self, estimated_tokens: i64) -> i64 {
        scaled(estimated_tokens, self.average_permille())
    }
}

fn scaled(tokens: i64, permille: i64) -> i64 {
    i64_or_max((i128::from(tokens.max(0)) * i128::from(permille) + 999) / 1_000)
}

/// What was learned about all models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibrations {
    /// By provider, then by model.
    models: BTreeMap<String, BTreeMap<String, Learned>>,
    /// How many samples were learned in all.
    learned: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Learned {
    calibration: Calibration,
    /// The value of [`Calibrations::learned`] when this model learned last.
    at: u64,
}

impl Calibrations {
    /// Learns about a provider's model. Returns false if the sample says nothing.
    pub fn learn(&mut self, provider: &str, model: &str, sample: Sample) -> bool {
        if !sample.is_plausible() {
            return false;
        }
        if self.of(provider, model).is_none() && self.len() >= MODELS_MAX {
            self.forget_the_most_silent();
        }
        self.learned += 1;
        let models = self.models.entry(provider.to_owned()).or_default();
        let found = models.entry(model.to_owned()).or_default();
        found.at = self.learned;
        found.calibration.learn(sample)
    }

    /// Replaces what is known about a provider's model by a saved calibration, which was the `learned`th to learn.
    pub fn put(&mut self, provider: &str, model: &str, learned: u64, calibration: Calibration) {
        if self.of(provider, model).is_none() && self.len() >= MODELS_MAX {
            self.forget_the_most_silent();
        }
        self.learned = self.learned.max(learned);
        let models = self.models.entry(provider.to_owned()).or_default();
        let at = learned;
        models.insert(model.to_owned(), Learned { calibration, at });
    }

    /// All that is known: provider, model, when it learned last (larger is later), and its calibration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64, &Calibration)> {
        let all = self.models.iter();
        all.flat_map(|(provider, models)| {
            let models = models.iter();
            models.map(move |(model, learned)| {
                (
                    provider.as_str(),
                    model.as_str(),
                    learned.at,
                    &learned.calibration,
                )
            })
        })
    }

    /// What is known about a provider's model.
    pub fn of(&self, provider: &str, model: &str) -> Option<&Calibration> {
        let found = self.models.get(provider)?.get(model)?;
        Some(&found.calibration)
    }

    /// How many models are known.
    pub fn len(&self) -> usize {
        self.models.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was learned yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn forget_the_most_silent(&mut self) {
        let all = self.models.iter().flat_map(|(provider, models)| {
            models
                .iter()
                .map(move |(model, learned)| (learned.at, provider.clone(), model.clone()))
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
