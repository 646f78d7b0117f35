//! Convergence: measures how similar two speakers sound (seed 002; Pidgin's live calculation).
//!
//! A turn is one message of each speaker. After each turn, the last messages are compared in five ways, each from 0 to 1; equally many
//! messages of each speaker count. The score is the weighted sum, or the likeness of the content alone if that is above 0.9.
//!
//! Invariant: memory is bounded, however long the conversation is. It holds a few counts for each message of the window, and the last
//! text of each speaker.

mod features;

use std::collections::VecDeque;

use serde::Serialize;

use self::features::{Features, clean, content_likeness};
use super::number::i64_or_max;

/// Compares this many last messages of both speakers together.
pub const WINDOW_MESSAGES: usize = 10;
/// If the contents are more alike than this, their likeness alone is the score.
const CONTENT_DECIDES_ABOVE: f64 = 0.9;
/// A trend is the direction of this many last scores.
const TREND_SCORES: usize = 3;
/// A trend is stable if neighbouring scores differ by less than this.
const STABLE_BELOW: f64 = 0.1;
/// The names of the components, in the order of the fields.
const COMPONENTS: [&str; 5] = ["content", "structure", "sentences", "length", "punctuation"];
/// The sum of the weights may differ from 1 by this much.
const WEIGHTS_TOLERANCE: f64 = 0.001;

/// How alike two speakers are in five ways, each from 0 to 1. As weights: how much each way counts in the score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConvergenceComponents))]
pub struct Components {
    /// Words in common, in the last text of each.
    pub content: f64,
    /// Paragraphs, list items, question marks and code fences per message.
    pub structure: f64,
    /// Sentences in the compared messages.
    pub sentences: f64,
    /// Characters in the compared messages.
    pub length: f64,
    /// Punctuation marks per character.
    pub punctuation: f64,
}

/// The weights of the components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile(Components);

/// Why weights are invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidWeights {
    /// Their sum isn't 1, or one of them is negative.
    #[error("weights must be 0 or more and 1 together, not {sum}")]
    Sum {
        /// The sum of the weights; NaN if one of them is.
        sum: f64,
    },
    /// A name is missing, unknown or repeated, or a value isn't a number.
    #[error("weights must be content=… structure=… sentences=… length=… punctuation=…, each once")]
    Names,
}

impl Profile {
    /// A mix of all.
    pub const BALANCED: Self = Self::of([0.40, 0.15, 0.20, 0.15, 0.10]);
    /// Most weight on structure.
    pub const STRUCTURAL: Self = Self::of([0.25, 0.35, 0.20, 0.10, 0.10]);
    /// Most weight on content.
    pub const SEMANTIC: Self = Self::of([0.60, 0.10, 0.15, 0.10, 0.05]);
    /// Most weight on content and structure.
    pub const STRICT: Self = Self::of([0.50, 0.25, 0.15, 0.05, 0.05]);

    const fn of([content, structure, sentences, length, punctuation]: [f64; 5]) -> Self {
        Self(Components { content, structure, sentences, length, punctuation })
    }

    /// Makes a profile with custom weights.
    ///
    /// # Errors
    /// [`InvalidWeights`] if a weight is negative or the sum isn't 1 (within 0.001).
    pub fn custom(weights: Components) -> Result<Self, InvalidWeights> {
        let sum: f64 = weights.all().iter().sum();
        let is_valid =
            weights.all().iter().all(|weight| *weight >= 0.0) && (sum - 1.0).abs() <= WEIGHTS_TOLERANCE;
        is_valid.then_some(Self(weights)).ok_or(InvalidWeights::Sum { sum })
    }

    /// Parses weights such as `content=0.4 structure=0.15 sentences=0.2 length=0.15 punctuation=0.1`, in any order.
    ///
    /// # Errors
    /// [`InvalidWeights`] if a component doesn't appear exactly once, or the sum isn't 1.
    pub fn parse(text: &str) -> Result<Self, InvalidWeights> {
        let mut weights = [None; COMPONENTS.len()];
        let pairs = text.split([' ', ',']).filter(|pair| !pair.is_empty());
        for pair in pairs {
            let (name, weight) = pair.split_once('=').ok_or(InvalidWeights::Names)?;
            let index = COMPONENTS.iter().position(|component| *component == name.trim());
            let slot = index.and_then(|index| weights.get_mut(index));
            let weight: f64 = weight.trim().parse().map_err(|_| InvalidWeights::Names)?;
            match slot {
                Some(empty @ None) => *empty = Some(weight),
                _ => return Err(InvalidWeights::Names),
            }
        }
        let [Some(content), Some(structure), Some(sentences), Some(length), Some(punctuation)] = weights
        else {
            return Err(InvalidWeights::Names);
        };
        Self::custom(Components { content, structure, sentences, length, punctuation })
    }
}

impl Components {
    fn all(&self) -> [f64; 5] {
        [self.content, self.structure, self.sentences, self.length, self.punctuation]
    }

    fn score(&self, profile: &Profile) -> f64 {
        if self.content > CONTENT_DECIDES_ABOVE {
            return self.content;
        }
        let pairs = self.all().into_iter().zip(profile.0.all());
        // The weights' sum may be slightly above 1.
        pairs.map(|(likeness, weight)| likeness * weight).sum::<f64>().min(1.0)
    }
}

/// From which scores on to warn or to stop; `None` means never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Warn from this score on.
    pub warn_at: Option<f64>,
    /// Stop the conversation from this score on.
    pub stop_at: Option<f64>,
}

impl Default for Thresholds {
    /// Pidgin's constants and documentation warn at 0.80; its command line stops at 0.95.
    fn default() -> Self {
        Self { warn_at: Some(0.80), stop_at: Some(0.95) }
    }
}

/// The rules for comparing speakers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The components' weights.
    pub profile: Profile,
    /// How many last messages of both speakers together are compared.
    pub window_messages: usize,
    /// From which scores on to warn or to stop.
    pub thresholds: Thresholds,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            profile: Profile::BALANCED,
            window_messages: WINDOW_MESSAGES,
            thresholds: Thresholds::default(),
        }
    }
}

/// What a score demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConvergenceState))]
pub enum ConvergenceState {
    /// Nothing.
    Ok,
    /// A warning.
    Warn,
    /// The end of the conversation, for the reason `high_convergence`.
    Stop,
}

impl ConvergenceState {
    /// Returns `ok`, `warn` or `stop`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Stop => "stop",
        }
    }
}

/// The direction of the last three scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConvergenceTrend))]
pub enum Trend {
    /// There are fewer than three scores.
    InsufficientData,
    /// Each is higher than the one before.
    Increasing,
    /// Each is lower than the one before.
    Decreasing,
    /// Each is within 0.1 of the one before.
    Stable,
    /// None of the others.
    Fluctuating,
}

impl Trend {
    /// Returns the trend as a word; `None` if there are too few scores.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::InsufficientData => None,
            Self::Increasing => Some("increasing"),
            Self::Decreasing => Some("decreasing"),
            Self::Stable => Some("stable"),
            Self::Fluctuating => Some("fluctuating"),
        }
    }
}

/// How alike two speakers are after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConvergenceScore))]
pub struct Score {
    /// From 0 (different) to 1 (the same), rounded to two decimals.
    pub score: f64,
    /// The components, not rounded.
    pub components: Components,
    /// The direction of the last scores.
    pub trend: Trend,
    /// What the score demands.
    pub state: ConvergenceState,
}

/// A message of one of the speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeakerMessage {
    /// The number of its exchange.
    pub exchange: i64,
    /// The speaker's name.
    pub speaker: String,
    /// The text of the message.
    pub text: String,
}

/// The convergence of the last two speakers at the end of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Convergence))]
pub struct ConvergenceScore {
    /// The compared speakers: the last two.
    pub speakers: [String; 2],
    /// The score after the last complete turn.
    #[serde(flatten)]
    pub score: Score,
    /// What the score of the turn before demanded, if there was one.
    #[serde(skip)]
    pub before: Option<ConvergenceState>,
    /// True if the last message completed a turn.
    #[serde(skip)]
    pub is_fresh: bool,
}

impl Rules {
    /// Returns how many last messages [`compare_last_speakers`] needs: the compared ones for each score of a trend, and one more
    /// exchange, since the first may be incomplete.
    pub fn messages_needed(&self) -> i64 {
        i64_or_max(self.window_messages + 2 * TREND_SCORES)
    }
}

/// Compares the last two speakers by their last `messages`, which are in order. Unless these are the whole conversation (`is_complete`),
/// skips the first exchange, which may be incomplete. Returns `None` before the first turn.
pub fn compare_last_speakers(
    messages: &[SpeakerMessage],
    is_complete: bool,
    rules: &Rules,
) -> Option<ConvergenceScore> {
    let first = messages.first()?.exchange;
    let start = messages.iter().position(|message| is_complete || message.exchange != first);
    let messages = messages.get(start.unwrap_or(0)..)?;
    let last = &messages.last()?.speaker;
    let other = messages.iter().rev().map(|message| &message.speaker).find(|name| *name != last)?;
    let opener = messages.iter().map(|message| &message.speaker).find(|name| [last, other].contains(name))?;
    let second = if opener == last { other } else { last };
    let mut talk = Convergence::new([opener, second], rules.profile, rules.window_messages)
        .with_thresholds(rules.thresholds);
    let (mut previous, mut newest, mut is_fresh) = (None, None, false);
    for message in messages {
        let score = talk.push(&message.speaker, &message.text);
        is_fresh = score.is_some();
        if let Some(score) = score {
            previous = newest.replace(score).map(|score| score.state);
        }
    }
    Some(ConvergenceScore {
        speakers: [opener.clone(), second.clone()],
        score: newest?,
        before: previous,
        is_fresh,
    })
}

/// Compares two speakers, message by message.
#[derive(Clone, Debug)]
pub struct Convergence {
    speakers: [String; 2],
    profile: Profile,
    thresholds: Thresholds,
    window: usize,
    messages: VecDeque<(usize, Features)>,
    last_texts: [String; 2],
    /// The index of the speaker who began a turn that the other speaker hasn't answered yet.
    opened_by: Option<usize>,
    scores: VecDeque<f64>,
}

impl Convergence {
    /// Starts a conversation between `speakers`. Compares the last `window` messages; [`WINDOW_MESSAGES`] is usual. With a window of
    /// fewer than 2 messages there is never a score.
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

    /// Sets the thresholds.
    #[must_use]
    pub fn with_thresholds(self, thresholds: Thresholds) -> Self {
        Self { thresholds, ..self }
    }

    /// Adds a message. Returns the score if the message completes a turn. Ignores messages of other speakers.
    pub fn push(&mut self, speaker: &str, text: &str) -> Option<Score> {
        let side = self.speakers.iter().position(|name| name == speaker)?;
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

    /// Returns how many messages are in memory.
    pub fn messages_in_memory(&self) -> usize {
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
            state: self.thresholds.state(score),
        })
    }

    /// Compares equally many messages of both speakers; `None` if the window has no message of one of them.
    fn compare(&self) -> Option<Components> {
        let messages_of = |side| self.messages.iter().rev().filter(move |(speaker, _)| *speaker == side);
        let count = messages_of(0).count().min(messages_of(1).count());
        if count == 0 {
            return None;
        }
        let sum = |side| messages_of(side).take(count).map(|(_, features)| *features).sum::<Features>();
        let [one, other] = &self.last_texts;
        Some(Features::likeness(&sum(0), &sum(1), count, content_likeness(one, other)))
    }
}

impl Thresholds {
    fn state(&self, score: f64) -> ConvergenceState {
        let reaches = |threshold: Option<f64>| threshold.is_some_and(|threshold| score >= threshold);
        if reaches(self.stop_at) {
            ConvergenceState::Stop
        } else if reaches(self.warn_at) {
            ConvergenceState::Warn
        } else {
            ConvergenceState::Ok
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

/// Rounds to two decimals. Rounds the exact value: 0.285 is stored as slightly less, and becomes 0.28.
fn rounded(score: f64) -> f64 {
    format!("{score:.2}").parse().unwrap_or(score)
}

#[cfg(test)]
mod tests;
