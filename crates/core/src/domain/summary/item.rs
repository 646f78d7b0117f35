//! The items of a summary. The document is made of them.

use serde::{Deserialize, Serialize};

use super::line::NO_TEXT;
use crate::domain::{exchange::without_marks, number::usize_or_max, time::Timestamp};

/// Limits the detailed text of an item about few tokens to this many characters.
pub const TEXT_CHARS_MAX: usize = 700;
/// Limits every detailed text to this many characters.
pub const LONG_TEXT_CHARS_MAX: usize = 6_000;
/// Limits the brief of an item about few tokens to this many characters.
pub const BRIEF_CHARS_MAX: usize = 240;
/// Limits every brief to this many characters.
pub const LONG_BRIEF_CHARS_MAX: usize = 1_200;
/// An item about more than this many tokens may have longer texts, of several points.
pub const LITTLE_TOKENS_MAX: i64 = 400;
/// The brief may have one character more for each of this many characters that the detailed text may have beyond [`TEXT_CHARS_MAX`].
const TEXT_CHARS_PER_BRIEF_CHAR: usize = 5;

/// Returns how many characters the detailed text of an item about `source_tokens` may have: one more for each token beyond
/// [`LITTLE_TOKENS_MAX`].
pub fn text_chars_max(source_tokens: i64) -> usize {
    let more = source_tokens.saturating_sub(LITTLE_TOKENS_MAX).max(0);
    TEXT_CHARS_MAX.saturating_add(usize_or_max(more)).min(LONG_TEXT_CHARS_MAX)
}

/// Returns how many characters the brief of an item about `source_tokens` may have.
pub fn brief_chars_max(source_tokens: i64) -> usize {
    let more = (text_chars_max(source_tokens) - TEXT_CHARS_MAX) / TEXT_CHARS_PER_BRIEF_CHAR;
    (BRIEF_CHARS_MAX + more).min(LONG_BRIEF_CHARS_MAX)
}

/// Limits every gist to this many characters.
pub const GIST_CHARS_MAX: usize = 110;

/// The importance of an item, least important first (seed 003, "Dropping Low-Importance Items").
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
    /// Demands and prohibitions of the user: kept to the last.
    Constraint,
    /// Choices with lasting effect: kept to the last.
    Decision,
}

impl Importance {
    /// Least important first.
    pub const ALL: [Self; 6] =
        [Self::Trivial, Self::Debugging, Self::Fix, Self::Feature, Self::Constraint, Self::Decision];

    /// Returns the name used in the database and the API.
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

    /// Returns the prompt's word for it, which fits talk as well as work.
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

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|importance| importance.name() == name)
    }

    /// Parses a word of the prompt or a name.
    pub fn from_word(word: &str) -> Option<Self> {
        let is_word = |importance: &Self| importance.word() == word;
        Self::ALL.into_iter().find(is_word).or_else(|| Self::from_name(word))
    }
}

/// Who wrote an item's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ItemOrigin))]
pub enum Origin {
    /// A model.
    Model,
    /// The built-in summariser, without a model.
    Offline,
    /// Nobody: the texts are digests of exchanges that aren't summarised yet, or can't be.
    Digest,
    /// An operator. No model condenses the item again.
    Edited,
}

impl Origin {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Offline => "offline",
            Self::Digest => "digest",
            Self::Edited => "edited",
        }
    }

    /// Parses a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Model, Self::Offline, Self::Digest, Self::Edited]
            .into_iter()
            .find(|origin| origin.name() == name)
    }
}

/// The exchanges `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExchangeRange {
    /// First exchange of the range.
    pub first: i64,
    /// Last exchange of the range.
    pub last: i64,
}

impl ExchangeRange {
    /// Returns true if `exchange` is in the range.
    pub fn contains(self, exchange: i64) -> bool {
        self.first <= exchange && exchange <= self.last
    }
}

/// A summariser's text about a run of exchanges. recapd fills in the rest of an [`Item`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemDraft {
    /// The exchanges that it covers.
    pub exchanges: ExchangeRange,
    /// The importance of what happened in them.
    pub importance: Importance,
    /// What happened, in detail: identifiers verbatim, a line for each point, at most [`text_chars_max`] characters.
    pub text: String,
    /// The same, shorter: at most [`brief_chars_max`] characters.
    pub brief: String,
    /// The same as a headline: at most [`GIST_CHARS_MAX`] characters.
    pub gist: String,
}

/// An item of the summary: what happened in some exchanges, in three lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ItemFigures))]
pub struct Item {
    /// Number within the agent, never reused. 0 until it is stored.
    pub item: i64,
    /// The exchanges that it covers; sorted, disjoint.
    pub ranges: Vec<ExchangeRange>,
    /// Time of the first message in its exchanges.
    pub started_at: Timestamp,
    /// Time of the last message in its exchanges.
    pub ended_at: Timestamp,
    /// Tokens of its exchanges.
    pub source_tokens: i64,
    /// Importance of its exchanges.
    pub importance: Importance,
    /// Detailed text; a line for each point.
    pub text: String,
    /// Shorter text; a line for each point.
    pub brief: String,
    /// Headline.
    pub gist: String,
    /// Who wrote the texts.
    pub origin: Origin,
    /// True if a model will condense it again.
    pub provisional: bool,
    /// True if an operator keeps it in the document, in full while pinned items have room.
    pub pinned: bool,
}

impl Item {
    /// Returns true if the item covers `exchange`.
    pub fn covers(&self, exchange: i64) -> bool {
        self.ranges.iter().any(|range| range.contains(exchange))
    }

    /// Returns true if the item's exchanges have no content. Such an item exists only to cover its exchanges.
    pub fn is_blank(&self) -> bool {
        let is_empty = |text: &str| without_marks(text) == NO_TEXT;
        self.source_tokens == 0 && self.text.split("; ").all(is_empty)
    }
}
