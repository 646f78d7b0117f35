//! Requests and rows for facts as operators see them. Contains no SQL.

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

/// A fact with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactRow {
    pub fact: Fact,
    /// The version that added the fact.
    pub added_version: i64,
    /// The version in which the fact ended.
    pub closed_version: Option<i64>,
    /// The exchange that ended the fact, if an exchange did.
    pub closed_by_exchange: Option<i64>,
    /// The fact that replaced it.
    pub replaced_by: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactQuery {
    /// Returns only facts with a higher number.
    pub after: i64,
    /// Limits the number of facts; the first by number are returned.
    pub limit: i64,
    /// If true, includes facts that no longer hold.
    pub all: bool,
}

#[derive(Clone, Debug)]
pub enum FactChange {
    Add(NewFact),
    /// Changes a fact that holds.
    Edit {
        fact: i64,
        edit: FactEdit,
    },
}

#[derive(Clone, Debug)]
pub struct FactRequest {
    pub agent: AgentId,
    /// What the operator changes by hand.
    pub hand: FactChange,
    pub policy: SummaryPolicy,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactEdited {
    pub version: i64,
    /// The fact after the change. With a new text it has a new number.
    pub row: FactRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactFault {
    #[error("there is no fact {0} that holds")]
    Unknown(i64),
    /// A fact of that kind has the same text.
    #[error("fact {0} says so already")]
    Duplicate(i64),
    #[error("{FACTS_MAX} facts hold, and no more can")]
    Full,
}
