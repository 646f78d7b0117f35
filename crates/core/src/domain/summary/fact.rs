//! Facts: how things stand. Items tell what happened; facts say what holds, until it is replaced or closed.
//!
//! An answer changes them: `{"add": [{"kind": "demand", "text": "use pnpm, not npm", "exchange": 4}], "replace": [{"fact": 7,
//! "text": "…", "exchange": 9}], "close": [{"fact": 3, "exchange": 41}]}`.

pub mod edit;

use serde::{Deserialize, Serialize};

use crate::domain::{time::Timestamp, transcript::Voice};

/// The longest text of a fact, in characters.
pub const FACT_CHARS_MAX: usize = 400;
/// The most facts that hold at a time: what is added beyond that is refused.
pub const FACTS_MAX: usize = 200;

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FactKind {
    /// What the work is for.
    Goal,
    /// What the user demands or forbids from then on, in the user's words.
    Demand,
    /// A choice with lasting effect.
    Decision,
    /// How something is now: files, branches, what runs, the last verdict of the tests.
    State,
    /// What is left to do or to be answered.
    Open,
    /// A way that failed, and why.
    DeadEnd,
    /// What is known of somebody.
    Person,
}

impl FactKind {
    /// Whether it gives way to what the user demanded or decided, and to what is open: the items tell most of it, too.
    pub(super) fn is_minor(self) -> bool {
        matches!(self, Self::DeadEnd | Self::State | Self::Person)
    }

    /// All, in the order of the document.
    pub const ALL: [Self; 7] = [
        Self::Goal,
        Self::Demand,
        Self::Decision,
        Self::State,
        Self::Open,
        Self::DeadEnd,
        Self::Person,
    ];

    /// The name used in answers and in the database.
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

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Something that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Number within the agent, never reused. 0 until it is stored.
    pub fact: i64,
    /// What it is about.
    pub kind: FactKind,
    /// One line.
    pub text: String,
    /// Whose words these are; `None` if the summariser put it so.
    pub voice: Option<Voice>,
    /// The name of who said it; empty if unknown.
    pub speaker: String,
    /// Since when it holds.
    pub since: Timestamp,
    /// The exchange that it comes from.
    pub exchange: i64,
    /// An operator keeps it in the document.
    pub pinned: bool,
}

/// A fact that a summariser adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDraft {
    /// What it is about.
    pub kind: FactKind,
    /// One line, at most [`FACT_CHARS_MAX`] characters.
    pub text: String,
    /// The exchange that says so.
    pub exchange: i64,
}

/// A fact of which a summariser says that it is otherwise now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactReplacement {
    /// The fact that no longer holds.
    pub fact: i64,
    /// What holds in its place.
    pub text: String,
    /// The exchange that says so.
    pub exchange: i64,
}

/// A fact of which a summariser says that it is settled or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactClosing {
    /// The fact that no longer holds.
    pub fact: i64,
    /// The exchange that says so.
    pub exchange: i64,
}

/// What an update changes of the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChanges {
    /// New ones.
    #[serde(default)]
    pub add: Vec<FactDraft>,
    /// Those that are otherwise now.
    #[serde(default)]
    pub replace: Vec<FactReplacement>,
    /// Those that no longer hold.
    #[serde(default)]
    pub close: Vec<FactClosing>,
}

impl FactChanges {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.replace.is_empty() && self.close.is_empty()
    }
}
