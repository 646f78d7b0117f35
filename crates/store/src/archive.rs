//! The seam through which complete histories leave a database and come back: see [`recapd_core::domain::journal`].

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
    /// Returns an agent's state that its messages alone don't give; `None` for an unknown agent.
    ///
    /// # Errors
    /// [`ArchiveError::Forked`].
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError>;

    /// Returns messages in order, from the first of `range` on: as many as its limits allow, but at least one if there is one.
    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>>;

    /// Restores messages in one transaction. If a head comes with them, also sets the boundary and the sessions, and queues what is then
    /// pending. Existing messages are compared, not changed; the boundary and the sessions are set even if only they are missing.
    ///
    /// # Errors
    /// [`ArchiveError::Journal`] when the messages contradict existing ones; nothing is changed then.
    async fn restore(&self, restore: Restore) -> Result<RestoreOutcome, ArchiveError>;
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal contradicts the database: leave this agent out.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent is a fork, and its starting state wasn't recorded.
    #[error("agent `{0}` was forked before recapd recorded what a fork begins with")]
    Forked(AgentId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRange {
    /// Only messages after this one.
    pub after_seq: i64,
    /// No messages after this one.
    pub through_seq: i64,
    pub messages_max: i64,
    /// Once this many bytes of payload are read, no further message is.
    pub bytes_max: usize,
}

impl RecordRange {
    /// Returns true if `read`, which this range gave, reaches the end of the range.
    pub fn is_rest(&self, read: &[MessageRecord]) -> bool {
        let bytes: usize = read.iter().map(|record| record.payload.len()).sum();
        let is_short = i64::try_from(read.len()).is_ok_and(|read| read < self.messages_max);
        is_short && bytes < self.bytes_max
    }
}

#[derive(Clone, Debug)]
pub struct Restore {
    pub agent: AgentId,
    /// The agent's head, perhaps from an earlier piece of the journal. Set only where it takes effect: with the last message that it
    /// counts, even if others follow, and with the last message of all.
    pub head: Option<Head>,
    /// In order, without a gap.
    pub records: Vec<ReadRecord>,
    /// The agent's settings and starting state, from which a missing agent is created.
    pub origin: Option<AgentOrigin>,
    pub now: Timestamp,
}

impl Restore {
    /// Returns the number of the last message among them; 0 if there is none.
    pub fn through_seq(&self) -> i64 {
        self.records.last().map_or(0, |recorded| recorded.record.seq)
    }
}

/// An agent's state before its first message.
#[derive(Clone, Debug)]
pub struct AgentOrigin {
    pub project: Option<String>,
    /// What it overrides in the configuration, as JSON.
    pub settings: Box<RawValue>,
    pub created_at: Timestamp,
    /// What it began with, if it is a fork.
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
    /// Set in a conversation of several speakers.
    pub speaker: Option<String>,
    pub entry: LedgerEntry,
    pub important: bool,
    /// The clear, mark, rewind, pin or unpin that the message is, if any.
    pub step: Option<Step>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    pub accepted: i64,
    pub duplicates: i64,
    /// The number of the agent's last message.
    pub last_seq: i64,
    /// True if the agent isn't in the state that the head describes: the head's last message is missing or wasn't compared, the agent has
    /// continued without the head, or it is another agent of that name.
    pub lacks_head: bool,
}

impl ReadRecord {
    /// Parses a record's payload. Keeps a payload that today's parser refuses without content. `redactor` removes secrets from its line.
    pub fn read(record: MessageRecord, redactor: &Redactor) -> Self {
        let kind = Kind::from_name(&record.kind);
        let message = match formats::parse(record.format, &record.payload) {
            Ok(message) => Message { kind, ..message },
            Err(_) => Message {
                format: record.format,
                ..Message::new(kind, Vec::new())
            },
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
