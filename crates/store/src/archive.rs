//! The interface through which complete histories are exported from a database and restored: see
//! [`recapd_core::domain::journal`].

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::{StoreError, StoreResult};
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::LedgerEntry,
        journal::{ForkRecord, Head, JournalError, MessageRecord},
        lineage::Step,
        message::{Kind, Message},
        redaction::Redactor,
        time::Timestamp,
    },
    formats,
};

#[async_trait]
pub trait Archive: Send + Sync {
    /// Returns the part of an agent's state that its messages don't contain; `None` for an unknown agent.
    ///
    /// # Errors
    /// [`ArchiveError::Forked`].
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError>;

    /// Returns messages of `range` in order: as many as its limits allow, but at least one if there is one.
    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>>;

    /// Restores messages in one transaction. If the request has a head, also sets the boundary and the sessions (even if all
    /// messages exist already), and wakes the queue if exchanges are then pending. Compares existing messages and doesn't change
    /// them.
    ///
    /// # Errors
    /// [`ArchiveError::Journal`] if the messages contradict existing ones; then nothing is changed.
    async fn restore(&self, restore: Restore) -> Result<RestoreOutcome, ArchiveError>;
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal contradicts the database. The caller should skip this agent.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent is a fork whose starting state wasn't recorded.
    #[error("agent `{0}` was forked before recapd recorded what a fork begins with")]
    Forked(AgentId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRange {
    /// Reads only messages after this one.
    pub after_seq: i64,
    /// Reads no messages after this one.
    pub through_seq: i64,
    pub messages_max: i64,
    /// Stops once this many bytes of payload are read.
    pub bytes_max: usize,
}

impl RecordRange {
    /// Returns true if `read`, the result for this range, contains the last message of the range.
    pub fn is_rest(&self, read: &[MessageRecord]) -> bool {
        let bytes: usize = read.iter().map(|record| record.payload.len()).sum();
        let is_short = i64::try_from(read.len()).is_ok_and(|read| read < self.messages_max);
        is_short && bytes < self.bytes_max
    }
}

#[derive(Clone, Debug)]
pub struct Restore {
    pub agent: AgentId,
    /// The agent's head, perhaps from an earlier piece of the journal. Set only in the requests in which it can take effect: the
    /// request with the last message that the head counts (more messages may follow), and the journal's last request.
    pub head: Option<Head>,
    /// Consecutive messages in order.
    pub records: Vec<ReadRecord>,
    /// The agent's settings and starting state, for the creation of a missing agent.
    pub origin: Option<AgentOrigin>,
    pub now: Timestamp,
}

impl Restore {
    /// Returns the number of the last message in the request; 0 if it has no messages.
    pub fn through_seq(&self) -> i64 {
        self.records.last().map_or(0, |recorded| recorded.record.seq)
    }
}

/// An agent's state before its first message.
#[derive(Clone, Debug)]
pub struct AgentOrigin {
    pub project: Option<String>,
    /// The settings in which the agent differs from the configuration, as JSON.
    pub settings: Box<RawValue>,
    pub created_at: Timestamp,
    /// The starting state, if the agent is a fork.
    pub fork: Option<Box<ForkRecord>>,
}

impl From<&Head> for AgentOrigin {
    fn from(head: &Head) -> Self {
        Self {
            project: head.project.clone(),
            settings: head.settings.clone(),
            created_at: head.created_at,
            fork: head.fork.clone(),
        }
    }
}

/// A record with its payload parsed.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    pub record: MessageRecord,
    /// The message's speaker, in a conversation of several.
    pub speaker: Option<String>,
    pub entry: LedgerEntry,
    pub important: bool,
    /// The clear, mark, rewind, pin or unpin that the message is, if it is one.
    pub step: Option<Step>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    pub accepted: i64,
    pub duplicates: i64,
    /// The number of the agent's last message.
    pub last_seq: i64,
    /// True if the agent isn't in the state that the head describes: the head's last message is missing or wasn't compared, the
    /// agent has continued without the head, or a different agent has this name.
    pub lacks_head: bool,
}

impl ReadRecord {
    /// Parses a record's payload. A payload that today's parser refuses becomes a message without content. `redactor` removes
    /// secrets from the message's line.
    pub fn read(record: MessageRecord, redactor: &Redactor) -> Self {
        let kind = Kind::from_name(&record.kind);
        let message = match formats::parse(record.format, &record.payload) {
            Ok(message) => Message { kind, ..message },
            Err(_) => Message { format: record.format, ..Message::new(kind, Vec::new()) },
        };
        let entry = LedgerEntry::new(&message, record.tokens, record.said_at, redactor);
        Self {
            important: message.important && message.kind.is_conversation(),
            step: Step::of(&message),
            speaker: message.speaker,
            entry,
            record,
        }
    }
}
