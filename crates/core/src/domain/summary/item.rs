//! Summary items: what the document is made of.

use serde::{Deserialize, Serialize};

use super::line::NO_TEXT;
use crate::domain::{exchange::unmarked, number::usize_or_max, time::Timestamp};

/// The longest detailed text of an item that stands for little, in characters.
pub const TEXT_CHARS_MAX: usize = 700;
/// The longest detailed text of any item, in characters.
pub const LONG_TEXT_CHARS_MAX: usize = 6_000;
/// The longest brief of an item that stands for little, in characters.
pub const BRIEF_CHARS_MAX: usize = 240;
/// The longest brief of any item, in characters.
pub const LONG_BRIEF_CHARS_MAX: usize = 1_200;
/// An item that stands for more tokens than this may have longer texts, of several points.
pub const LITTLE_TOKENS_MAX: i64 = 800;
/// How many tokens beyond [`LITTLE_TOKENS_MAX`] make the detailed text one character longer.
const TOKENS_PER_CHAR: i64 = 3;
/// The brief grows by this part of what the detailed text grows by.
const BRIEF_PART: usize = 5;

/// The most characters of the detailed text of an item that stands for `source_tokens`: detail follows substance.
pub fn text_chars_max(source_tokens: i64) -> usize {
    let more = source_tokens.saturating_sub(LITTLE_TOKENS_MAX).max(0) / TOKENS_PER_CHAR;
    TEXT_CHARS_MAX
        .saturating_add(usize_or_max(more))
        .min(LONG_TEXT_CHARS_MAX)
}

/// The most characters of the brief of an item that stands for `source_tokens`.
pub fn brief_chars_max(source_tokens: i64) -> usize {
    let more = (text_chars_max(source_tokens) - TEXT_CHARS_MAX) / BRIEF_PART;
    (BRIEF_CHARS_MAX + more).min(LONG_BRIEF_CHARS_MAX)
}

/// The longest gist of an item, in characters.
pub const GIST_CHARS_MAX: usize = 110;

/// How much an item matters, least first (seed 003, "Dropping Low-Importance Items").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Importance {
    /// Small talk, trivial changes: dropped first.
    Trivial,
    /// Debugging, exploration, dead ends: dropped early.
    Debugging,
    /// Bug fixes, refactoring, tests: compressed.
    Fix,
    /// Features and other results: kept.
    Feature,
    /// What the user demands or forbids: kept to the last.
    Constraint,
    /// Choices made, with lasting effect: kept to the last.
    Decision,
}

impl Importance {
    /// All, least important first.
    pub const ALL: [Self; 6] = [
        Self::Trivial,
        Self::Debugging,
        Self::Fix,
        Self::Feature,
        Self::Constraint,
        Self::Decision,
    ];

    /// The name used in the model's answers and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Debugging => "debugging",
            Self::Fix => "fix",
            Self::Feature => "feature",
            Self::Constraint => "constraint",
            Self::Decision => "decision",
        }
    }

    /// The word by which a model is asked for it: one that fits talk as well as work.
    pub fn word(self) -> &'static str {
        match self {
            Self::Trivial => "chat",
            Self::Debugging => "attempt",
            Self::Fix => "fact",
            Self::Feature => "result",
            Self::Constraint => "demand",
            Self::Decision => "decision",
        }
    }

    /// The importance of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|importance| importance.name() == name)
    }

    /// The importance of that word, or of that name.
    pub fn from_word(word: &str) -> Option<Self> {
        let is_word = |importance: &Self| importance.word() == word;
        Self::ALL
            .into_iter()
            .find(is_word)
            .or_else(|| Self::from_name(word))
    }
}

/// Where an item's texts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ItemOrigin))]
pub enum Origin {
    /// Written by a model.
    Model,
    /// Written by the built-in extractive summariser.
    Offline,
    /// The digest of an exchange that nobody summarised (yet).
    Digest,
    /// Written by an operator: nothing condenses it again.
    Edited,
}

impl Origin {
    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Offline => "offline",
            Self::Digest => "digest",
            Self::Edited => "edited",
        }
    }

    /// The origin of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Model, Self::Offline, Self::Digest, Self::Edited]
            .into_iter()
            .find(|origin| origin.name() == name)
    }
}

/// Exchanges `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExchangeRange {
    /// The first exchange.
    pub first: i64,
    /// The last exchange.
    pub last: i64,
}

impl ExchangeRange {
    /// Whether `exchange` lies in it.
    pub fn contains(self, exchange: i64) -> bool {
        self.first <= exchange && exchange <= self.last
    }
}

/// What a summariser says about a run of exchanges. Everything else in an [`Item`] is filled by recapd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemDraft {
    /// The exchanges that it covers.
    pub exchanges: ExchangeRange,
    /// How important they are.
    pub importance: Importance,
    /// What happened, in detail, identifiers verbatim, a line for each point: at most [`text_chars_max`] characters.
    pub text: String,
    /// The same shorter: at most [`brief_chars_max`] characters.
    pub brief: String,
    /// The same as a headline: at most [`GIST_CHARS_MAX`] characters.
    pub gist: String,
}

/// One line of the summary, in its three lengths, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ItemFigures))]
pub struct Item {
    /// Number within the agent, never reused. 0 until it is stored.
    pub item: i64,
    /// Which exchanges it stands for; sorted, disjoint.
    pub ranges: Vec<ExchangeRange>,
    /// The earliest time in them.
    pub started_at: Timestamp,
    /// The latest time in them.
    pub ended_at: Timestamp,
    /// Their tokens.
    pub source_tokens: i64,
    /// How much they matter.
    pub importance: Importance,
    /// Detailed; a line for each point.
    pub text: String,
    /// Shorter; a line for each point.
    pub brief: String,
    /// Headline.
    pub gist: String,
    /// Where the texts come from.
    pub origin: Origin,
    /// To be condensed again when a model is there.
    pub provisional: bool,
    /// An operator keeps it in the document, in full, as far as pinned items have room ([`super::compaction`]).
    pub pinned: bool,
}

impl Item {
    /// Whether it covers that exchange.
    pub fn covers(&self, exchange: i64) -> bool {
        self.ranges.iter().any(|range| range.contains(exchange))
    }

    /// Whether nothing was said in its exchanges, so that it is there for coverage alone.
    pub fn is_blank(&self) -> bool {
        let is_nothing = |said: &str| unmarked(said) == NO_TEXT;
        self.source_tokens == 0 && self.text.split("; ").all(is_nothing)
    }
}
