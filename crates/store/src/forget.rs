//! Requests to forget, and their results.

use super::AppendRules;
use recapd_core::domain::{agent::AgentId, redaction::Redactor, time::Timestamp};

pub const FORGET_EXCHANGES_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgettable {
    /// Whole exchanges, by their numbers, at most [`FORGET_EXCHANGES_MAX`].
    Exchanges(Vec<i64>),
    Message(i64),
    /// What is left of earlier requests that a crash or a failure interrupted.
    Begun,
}

#[derive(Clone, Debug)]
pub struct Forget {
    /// The agent whose numbers the request uses. Inherited exchanges are forgotten in all agents that share them.
    pub agent: AgentId,
    pub what: Forgettable,
    pub rules: AppendRules,
    /// Redacts the new headlines.
    pub redactor: Redactor,
    pub now: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Messages that became tombstones.
    pub messages: i64,
    /// The exchanges of these messages.
    pub exchanges: Vec<i64>,
    /// The agents that had these messages, inherited them or had a summary of them.
    pub agents: Vec<AgentId>,
    /// Items that were withdrawn or lost their text.
    pub items: i64,
    /// Earlier versions of documents that lost their text.
    pub versions: i64,
    /// True if nothing is left in SQLite's files, or in the rows of PostgreSQL's tables. (PostgreSQL may keep more in its
    /// write-ahead log, in index keys and in backups.) If false, a reader still uses an earlier state, which stays until the next
    /// checkpoint or vacuum.
    pub is_scrubbed: bool,
}

/// The result of one step of forgetting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgetStep {
    pub items: i64,
    pub versions: i64,
    /// How many exchanges are still to be forgotten.
    pub remaining: i64,
}

/// The result of one step of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteStep {
    pub messages: i64,
    pub is_gone: bool,
}

/// The result of deleting an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    pub messages: i64,
    pub is_scrubbed: bool,
}
