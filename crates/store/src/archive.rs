//! The seam through which whole histories leave a database and come back: see [`recapd_core::domain::journal`].

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

/// Reads whole histories, and writes them as they were.
#[async_trait]
pub trait Archive: Send + Sync {
    /// What an agent's messages alone don't tell; `None` for an unknown agent.
    ///
    /// # Errors
    /// [`ArchiveError::Forked`].
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError>;

    /// Messages in order, from the first one of `range`: as many as its limits allow, but at least one if there is one.
    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>>;

    /// Writes messages as they were, in one transaction. With a head that counts the last of them it also sets the
    /// boundary and the sessions, and queues what is then pending. Messages that are there already are compared and not
    /// changed; the boundary and the sessions are set even then, if only they are missing.
    ///
    /// # Errors
    /// [`ArchiveError::Journal`] when the messages don't fit those that are there; nothing is changed then.
    async fn restore(&self, restore: Restore) -> Result<RestoreOutcome, ArchiveError>;
}

/// Why an agent can't be exported or restored, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal doesn't fit: leave this agent out.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent is a fork, and what it began with wasn't recorded.
    #[error("agent `{0}` was forked from another one before recapd kept what a fork begins with")]
    Forked(AgentId),
}

/// Which messages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRange {
    /// Only messages after this one.
    pub after_seq: i64,
    /// No messages after this one.
    pub through_seq: i64,
    pub messages_max: i64,
    /// The bytes of payload after which no further message is read.
    pub bytes_max: usize,
}

impl RecordRange {
    /// Whether `read`, by this range, are all that were left of it.
    pub fn is_rest(&self, read: &[MessageRecord]) -> bool {
        let bytes: usize = read.iter().map(|record| record.payload.len()).sum();
        let is_short = i64::try_from(read.len()).is_ok_and(|read| read < self.messages_max);
        is_short && bytes < self.bytes_max
    }
}

/// Messages to be restored as they were.
#[derive(Clone, Debug)]
pub struct Restore {
    /// The agent that they belong to.
    pub agent: AgentId,
    /// The head that stood before the agent's messages, perhaps in an earlier piece of the journal. Given only where it
    /// takes effect: with the last message that it counts, even if others follow, and with the last message that is
    /// there.
    pub head: Option<Head>,
    /// In order, without a gap.
    pub records: Vec<ReadRecord>,
    /// Its settings, and what it began with: from this an agent that doesn't exist yet is made.
    pub origin: Option<AgentOrigin>,
    /// When they are written.
    pub now: Timestamp,
}

impl Restore {
    /// Number of the last message among them; 0: there is none.
    pub fn through_seq(&self) -> i64 {
        self.records.last().map_or(0, |recorded| recorded.record.seq)
    }
}

/// What an agent is before its first message.
#[derive(Clone, Debug)]
pub struct AgentOrigin {
    pub project: Option<String>,
    /// What it overrides in the configuration, as JSON.
    pub settings: Box<RawValue>,
    /// When it was made.
    pub created_at: Timestamp,
    /// What it began with, if it was forked.
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

/// A record with its payload read.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    pub record: MessageRecord,
    /// Who said it, in a shared conversation.
    pub speaker: Option<String>,
    /// What the ledger needs to know of it.
    pub entry: LedgerEntry,
    /// Whether it was marked as important to its session.
    pub important: bool,
    /// The step that the message stands for, if any.
    pub step: Option<Step>,
}

/// The result of restoring messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// Messages written.
    pub accepted: i64,
    /// Messages that were there already.
    pub duplicates: i64,
    /// Number of the agent's last message now.
    pub last_seq: i64,
    /// Whether the agent isn't in the state that the head describes: the head's last message is missing or wasn't
    /// compared, or the agent has gone on without the head, or it is another agent of that name.
    pub lacks_head: bool,
}

impl ReadRecord {
    /// Reads a record's payload. One that today's reader refuses is kept without content. Secrets in its line are redacted by
    /// the rules of `redactor`.
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
