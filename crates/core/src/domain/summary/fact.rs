//! Facts: how things stand. Items say what happened; a fact holds until it is replaced or closed.
//!
//! An answer changes facts: `{"add": [{"kind": "demand", "text": "use pnpm, not npm", "exchange": 4}], "replace": [{"fact": 7, "text":
//! "…", "exchange": 9}], "close": [{"fact": 3, "exchange": 41}]}`.

pub mod edit;

use serde::{Deserialize, Serialize};

use crate::domain::{time::Timestamp, transcript::Voice};

/// Limits the text of a fact to this many characters.
pub const FACT_CHARS_MAX: usize = 400;
/// Limits how many facts hold at a time. A further one is refused, unless it can replace an older minor one.
pub const FACTS_MAX: usize = 200;

/// The subject of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FactKind {
    /// The purpose of the work.
    Goal,
    /// A demand or a prohibition that holds from then on, in the user's words.
    Demand,
    /// A choice with lasting effect.
    Decision,
    /// A current state: files, branches, running programs, the last test results.
    State,
    /// Work left to do, or a question left to answer.
    Open,
    /// An approach that failed, and the reason.
    DeadEnd,
    /// Something known about a person.
    Person,
}

impl FactKind {
    /// Returns true for a fact that a new demand, decision or open point may replace when there are [`FACTS_MAX`] facts. The items contain
    /// most of what such a fact says.
    pub(super) fn is_minor(self) -> bool {
        matches!(self, Self::DeadEnd | Self::State | Self::Person)
    }

    /// All kinds, in the document's order.
    pub const ALL: [Self; 7] =
        [Self::Goal, Self::Demand, Self::Decision, Self::State, Self::Open, Self::DeadEnd, Self::Person];

    /// Returns the name used in answers and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Demand => "demand",
            Self::Decision => "decision",
            Self::State => "state",
            Self::Open => "open",
            Self::DeadEnd => "dead_end",
            Self::Person => "person",
        }
    }

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A statement that holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Number within the agent, never reused. 0 until it is stored.
    pub fact: i64,
    /// Its subject.
    pub kind: FactKind,
    /// The statement, on one line.
    pub text: String,
    /// Whose words these are; `None` if they are the summariser's.
    pub voice: Option<Voice>,
    /// The speaker's name; empty if unknown.
    pub speaker: String,
    /// Since when it holds.
    pub since: Timestamp,
    /// The exchange that it comes from; 0 if an operator added it.
    pub exchange: i64,
    /// True if an operator keeps it in the document.
    pub pinned: bool,
}

/// A new fact from a summariser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDraft {
    /// Its subject.
    pub kind: FactKind,
    /// The statement, on one line of at most [`FACT_CHARS_MAX`] characters.
    pub text: String,
    /// The exchange that it comes from.
    pub exchange: i64,
}

/// A fact that has changed, by a summariser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactReplacement {
    /// The fact that no longer holds.
    pub fact: i64,
    /// The text of the fact that holds instead.
    pub text: String,
    /// The exchange that the change comes from.
    pub exchange: i64,
}

/// A fact that is settled or taken back, by a summariser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactClosing {
    /// The fact that no longer holds.
    pub fact: i64,
    /// The exchange that settles it or takes it back.
    pub exchange: i64,
}

/// The changes that an update makes to the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChanges {
    /// New facts.
    #[serde(default)]
    pub add: Vec<FactDraft>,
    /// Facts that have changed.
    #[serde(default)]
    pub replace: Vec<FactReplacement>,
    /// Facts that no longer hold.
    #[serde(default)]
    pub close: Vec<FactClosing>,
}

impl FactChanges {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.replace.is_empty() && self.close.is_empty()
    }
}
