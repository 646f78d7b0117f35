//! What is to be forgotten, and what that did.

use super::AppendRules;
use recapd_core::domain::{agent::AgentId, redaction::Redactor, time::Timestamp};

/// The most exchanges that are forgotten at once.
pub const FORGET_EXCHANGES_MAX: usize = 1_000;

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgettable {
    /// Whole exchanges, by number, at most [`FORGET_EXCHANGES_MAX`].
    Exchanges(Vec<i64>),
    /// One message, by number.
    Message(i64),
    /// What is left of earlier requests, which a crash or a failure broke off.
    Begun,
}

/// A request to forget.
#[derive(Clone, Debug)]
pub struct Forget {
    /// Whose archive names it. What was inherited by a fork is forgotten in all agents that share it.
    pub agent: AgentId,
    /// The exchanges or the message to be forgotten.
    pub what: Forgettable,
    /// The rules by which documents are written anew.
    pub rules: AppendRules,
    /// Redacts the headlines that are made anew.
    pub redactor: Redactor,
    /// The current time.
    pub now: Timestamp,
}

/// What forgetting did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Messages that are tombstones now and weren't before.
    pub messages: i64,
    /// The exchanges that they stood in.
    pub exchanges: Vec<i64>,
    /// The agents that held them, knew of them or had a summary of them.
    pub agents: Vec<AgentId>,
    /// Items that were withdrawn or lost their text.
    pub items: i64,
    /// Earlier versions of documents whose text is gone.
    pub versions: i64,
    /// Whether nothing of it is left in SQLite's files, or in the rows of PostgreSQL's tables (the server may keep
    /// more: in its log, keys of indexes, backups). If not, a reader still holds an earlier state, which stays until
    /// the next checkpoint or vacuum.
    pub is_scrubbed: bool,
}

/// What one step of forgetting did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgetStep {
    /// Items that were withdrawn or lost their text.
    pub items: i64,
    /// Earlier versions of documents whose text is gone.
    pub versions: i64,
    /// Exchanges that are still to be forgotten.
    pub left: i64,
}

/// What one step of a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteStep {
    /// Messages deleted.
    pub messages: i64,
    /// Whether the agent is gone.
    pub is_gone: bool,
}

/// What the deletion of an agent did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Messages deleted.
    pub messages: i64,
    /// See [`Forgotten::is_scrubbed`].
    pub is_scrubbed: bool,
}
