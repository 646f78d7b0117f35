//! Facts as operators see them: requests and rows, without a word of SQL.

use recapd_core::domain::{
    agent::AgentId,
    summary::{
        compaction::SummaryPolicy,
        fact::{
            FACTS_MAX, Fact,
            edit::{FactEdit, NewFact},
        },
    },
    time::Timestamp,
};

/// A fact with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactRow {
    pub fact: Fact,
    /// The version that brought it.
    pub added_version: i64,
    /// The version since which it holds no longer.
    pub closed_version: Option<i64>,
    /// The exchange that ended it, if one did.
    pub closed_by_exchange: Option<i64>,
    /// The fact that holds in its place.
    pub replaced_by: Option<i64>,
}

/// Which facts to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactQuery {
    /// Only those with larger numbers.
    pub after: i64,
    /// The most facts, in the order of their numbers.
    pub limit: i64,
    /// Whether to read those, too, that hold no longer.
    pub all: bool,
}

/// What an operator does to the facts of an agent.
#[derive(Clone, Debug)]
pub enum FactChange {
    Add(NewFact),
    /// Changes one that holds.
    Edit {
        /// Its number.
        fact: i64,
        edit: FactEdit,
    },
}

/// A change of the facts by hand.
#[derive(Clone, Debug)]
pub struct FactRequest {
    pub agent: AgentId,
    pub hand: FactChange,
    /// The limits and rules of the new document.
    pub policy: SummaryPolicy,
    /// The current time.
    pub now: Timestamp,
}

/// What a change by hand did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactEdited {
    /// The new version.
    pub version: i64,
    /// The fact as it is now; a new text gave it a new number.
    pub row: FactRow,
}

/// Why facts can't be changed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactFault {
    /// No such fact holds.
    #[error("there is no fact {0} that holds")]
    Unknown(i64),
    /// One of that kind says the same.
    #[error("fact {0} says so already")]
    Duplicate(i64),
    /// As many facts hold as may.
    #[error("{FACTS_MAX} facts hold, and no more can")]
    Full,
}
