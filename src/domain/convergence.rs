//! Convergence: how alike two speakers have begun to sound (seed 002; Pidgin's live calculation).
//!
//! A turn is one message of each speaker. After each turn the last messages of both, as many of one as of the other,
//! are compared in five ways, each from 0 to 1; the score is their weighted sum, or the likeness of the content alone
//! where that is above 0.9.
//!
//! Invariant: memory is bounded by the window, however long the conversation: of each message a few counts are kept,
//! and of each speaker the last text.

mod features;

use std::collections::VecDeque;

use serde::Serialize;

use self::features::{Features, clean, content_likeness};

/// Messages of both speakers together that are looked at.
pub const WINDOW_MESSAGES: usize = 10;
/// Above this the content alone is the score.
const CONTENT_DECIDES_ABOVE: f64 = 0.9;
/// A trend is told by so many scores.
const TREND_SCORES: usize = 3;
/// Scores closer than this are stable.
const STABLE_BELOW: f64 = 0.1;
/// How far the weights of a profile may be from 1 together.
const WEIGHTS_TOLERANCE: f64 = 0.001;

/// How alike, in five ways, each from 0 to 1; also how much each weighs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Components {
    /// The last texts: the same words.
    pub content: f64,
    /// Paragraphs, lists, questions, code blocks.
    pub structure: f64,
    /// Sentences per message.
    pub sentences: f64,
    /// Characters per message.
    pub length: f64,
    /// Marks per character.
    pub punctuation: f64,
}

/// What each component weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile(Components);

/// Why weights are no profile.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("weights must be 0 or more and 1 together, not {sum}")]
pub struct InvalidWeights {
    /// What they are together; not a number if one of them isn't.
    pub sum: f64,
}

impl Profile {
    /// A bit of everything.
    pub const BALANCED: Self = Self::of([0.40, 0.15, 0.20, 0.15, 0.10]);
    /// Above all the form.
    pub const STRUCTURAL: Self = Self::of([0.25, 0.35, 0.20, 0.10, 0.10]);
    /// Above all the words.
    pub const SEMANTIC: Self = Self::of([0.60, 0.10, 0.15, 0.10, 0.05]);
    /// Words and form.
    pub const STRICT: Self = Self::of([0.50, 0.25, 0.15, 0.05, 0.05]);

    const fn of([content, structure, sentences, length, punctuation]: [f64; 5]) -> Self {
        Self(Components {
            content,
            structure,
            sentences,
            length,
            punctuation,
        })
    }

    /// Weights of one's own.
    ///
    /// # Errors
    /// [`InvalidWeights`] when one is negative, or they aren't 1 together (within 0.001).
    pub fn custom(weights: Components) -> Result<Self, InvalidWeights> {
        let sum: f64 = weights.all().iter().sum();
        let is_valid =
            weights.all().iter().all(|weight| *weight >= 0.0) && (sum - 1.0).abs() <= WEIGHTS_TOLERANCE;
        is_valid.then_some(Self(weights)).ok_or(InvalidWeights { sum })
    }

    /// `balanced`, `structural`, `semantic` or `strict`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "balanced" => Some(Self::BALANCED),
            "structural" => Some(Self::STRUCTURAL),
            "semantic" => Some(Self::SEMANTIC),
            "strict" => Some(Self::STRICT),
            _ => None,
        }
    }
}

impl Components {
    fn all(&self) -> [f64; 5] {
        [
            self.content,
            self.structure,
            self.sentences,
            self.length,
            self.punctuation,
        ]
    }

    fn score(&self, profile: &Profile) -> f64 {
        if self.content > CONTENT_DECIDES_ABOVE {
            return self.content;
        }
        let weighed = self.all().into_iter().zip(profile.0.all());
        // Weights may add up to a little more than 1.
        weighed
            .map(|(likeness, weight)| likeness * weight)
            .sum::<f64>()
            .min(1.0)
    }
}

/// From which score on something should happen; `None` never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Somebody should know.
    pub warn_at: Option<f64>,
    /// The conversation should end.
    pub stop_at: Option<f64>,
}

impl Default for Thresholds {
    /// Pidgin's constants and documents warn at 0.80; its command line stops at 0.95.
    fn default() -> Self {
        Self {
            warn_at: Some(0.80),
            stop_at: Some(0.95),
        }
    }
}

/// What a score calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing.
    Continue,
    /// Somebody should know.
    Warn,
    /// The conversation should end, for `high_convergence`.
    Stop,
}

/// Where the last scores go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Fewer than three scores.
    InsufficientData,
    /// Each higher than the one before.
    Increasing,
    /// Each lower than the one before.
    Decreasing,
    /// Each within 0.1 of the one before.
    Stable,
    /// None of these.
    Fluctuating,
}

/// How alike two speakers sound after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// From 0 (nothing alike) to 1 (the same), rounded to two decimals.
    pub score: f64,
    /// What it is made of, not rounded.
    pub components: Components,
    /// Where it goes.
    pub trend: Trend,
    /// What it calls for.
    pub action: Action,
}

/// Listens to a conversation of two.
#[derive(Clone, Debug)]
pub struct Convergence {
    speakers: [String; 2],
    profile: Profile,
    thresholds: Thresholds,
    window: usize,
    messages: VecDeque<(usize, Features)>,
    last_texts: [String; 2],
    /// Who has spoken in a turn that the other has not yet answered.
    opened_by: Option<usize>,
    scores: VecDeque<f64>,
}

impl Convergence {
    /// A conversation between `speakers`, of whose messages the last `window` are looked at ([`WINDOW_MESSAGES`] is
    /// usual; with fewer than 2 there is never a score).
    pub fn new(speakers: [&str; 2], profile: Profile, window: usize) -> Self {
        Self {
            speakers: speakers.map(str::to_owned),
            profile,
            thresholds: Thresholds::default(),
            window,
            messages: VecDeque::with_capacity(window.min(WINDOW_MESSAGES) + 1),
            last_texts: [String::new(), String::new()],
            opened_by: None,
            scores: VecDeque::with_capacity(TREND_SCORES + 1),
        }
    }

    /// The same, with other thresholds.
    #[must_use]
    pub fn with_thresholds(self, thresholds: Thresholds) -> Self {
        Self { thresholds, ..self }
    }

    /// Takes a message in. The score, if it completes a turn; anybody else's message is passed over.
    pub fn push(&mut self, speaker: &str, text: &str) -> Option<Score> {
        let side = self.speakers.iter().position(|known| known == speaker)?;
        let text = clean(text);
        self.messages.push_back((side, Features::of(&text)));
        if self.messages.len() > self.window {
            self.messages.pop_front();
        }
        if let Some(last) = self.last_texts.get_mut(side) {
            *last = text;
        }
        match self.opened_by {
            Some(opener) if opener != side => {
                self.opened_by = None;
                self.score()
            }
            _ => {
                self.opened_by = Some(side);
                None
            }
        }
    }

    /// How many messages are remembered.
    pub fn remembered(&self) -> usize {
        self.messages.len()
    }

    fn score(&mut self) -> Option<Score> {
        let components = self.compare()?;
        let exact = components.score(&self.profile);
        self.scores.push_back(exact);
        if self.scores.len() > TREND_SCORES {
            self.scores.pop_front();
        }
        let score = rounded(exact);
        Some(Score {
            score,
            components,
            trend: trend(self.scores.make_contiguous()),
            action: self.thresholds.action(score),
        })
    }

    /// As many messages of one as of the other: none while one of them hasn't spoken.
    fn compare(&self) -> Option<Components> {
        let of = |side| self.messages.iter().rev().filter(move |(who, _)| *who == side);
        let each = of(0).count().min(of(1).count());
        if each == 0 {
            return None;
        }
        let sum = |side| {
            of(side)
                .take(each)
                .map(|(_, features)| *features)
                .sum::<Features>()
        };
        let [one, other] = &self.last_texts;
        Some(Features::likeness(
            &sum(0),
            &sum(1),
            each,
            content_likeness(one, other),
        ))
    }
}

impl Thresholds {
    fn action(&self, score: f64) -> Action {
        let reaches = |threshold: Option<f64>| threshold.is_some_and(|threshold| score >= threshold);
        if reaches(self.stop_at) {
            Action::Stop
        } else if reaches(self.warn_at) {
            Action::Warn
        } else {
            Action::Continue
        }
    }
}

fn trend(scores: &[f64]) -> Trend {
    let &[first, second, third] = scores else {
        return Trend::InsufficientData;
    };
    if first < second && second < third {
        Trend::Increasing
    } else if first > second && second > third {
        Trend::Decreasing
    } else if (second - first).abs() < STABLE_BELOW && (third - second).abs() < STABLE_BELOW {
        Trend::Stable
    } else {
        Trend::Fluctuating
    }
}

/// To two decimals, by the number's exact value: 0.285 is a little less than that, and becomes 0.28.
fn rounded(score: f64) -> f64 {
    format!("{score:.2}").parse().unwrap_or(score)
}

#[cfg(test)]
mod tests;
