//! The store's requests and rows. Contains no SQL.

use std::borrow::Cow;

use super::seal::Chain;
use recapd_core::{
    domain::{
        agent::AgentId,
        budget::OnOverflow,
        context::{ContextOptions, SourceMessage},
        exchange::{Exchange, LedgerEntry},
        ledger::{Eviction, Ledger, Return, Segmentation},
        message::Message,
        note::NoteName,
        preset::Basis,
        settings::AgentSettings,
        summary::{compaction::SummaryPolicy, empty::WindowFill, section::Ageing},
        time::Timestamp,
        window::Budget,
        zone::Zone,
    },
    hash::short_hash,
};

#[derive(Clone, Debug)]
pub struct PreparedMessage {
    pub message: Message,
    /// The part of the message that the ledger needs, including its tokens.
    pub entry: LedgerEntry,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendRules {
    /// The window's budget, if the agent has none of its own.
    pub budget: Budget,
    /// What to do when the newest leg alone is too big, if the agent's settings don't say.
    pub on_overflow: OnOverflow,
    /// The values from which an agent's preset is expanded.
    pub basis: Basis,
    /// How contexts are built, if the agent's settings don't say. The limit for pins follows from it.
    pub context: ContextOptions,
    /// A silence longer than this begins a new session; 0 means never.
    pub idle_gap_ms: i64,
    /// The number of pending exchanges that makes an update due.
    pub batch_exchanges: i64,
    /// The tokens that these exchanges must also have; 0 means none.
    pub batch_tokens_min: i64,
    /// How long an update waits for more exchanges once it is due.
    pub debounce_ms: i64,
    /// How long an update that isn't due waits at most.
    pub max_wait_ms: i64,
    /// The least time between two revivals of a parked row by evictions (`queue.revive_after_ms`).
    pub revive_after_ms: i64,
    pub policy: SummaryPolicy,
}

impl AppendRules {
    /// Returns the rules that divide messages into sessions and legs.
    pub fn segmentation(&self) -> Segmentation {
        Segmentation { idle_gap_ms: self.idle_gap_ms, leg_tokens: self.budget.leg_tokens() }
    }
}

/// The idempotency key of a request, as the client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// 1 to 200 characters.
    pub key: String,
    /// The SHA-256 of the request, in hexadecimal digits.
    pub digest: String,
}

#[derive(Clone, Debug)]
pub struct AppendRequest {
    pub agent: AgentId,
    pub messages: Vec<PreparedMessage>,
    /// The idempotency key of the request with these messages.
    pub key: Option<RequestKey>,
    pub count_method: String,
    pub rules: AppendRules,
    /// True for a replay. Items are then aged by the messages' times, not by the clock.
    pub replayed: bool,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppendOutcome {
    /// How many messages were new.
    pub accepted: i64,
    /// How many messages were stored already.
    pub duplicates: i64,
    /// Where the new messages were stored.
    pub stored: Vec<StoredAt>,
    /// The newest exchange, or the preamble's number if there is none.
    pub exchange: i64,
    /// The boundary of the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
    pub version: i64,
    /// Tokens in the window, including the preamble.
    pub window_tokens: i64,
    /// What a raised budget brought back into the window before the messages were appended.
    pub returned: Option<Return>,
    pub evictions: Vec<Eviction>,
    /// The steps among the messages (clears, marks, rewinds, pins and notes), and their effects.
    pub steps: Vec<StepOutcome>,
    pub settings: AgentSettings,
    pub budget: Budget,
    /// The session that ended because its newest leg is too big.
    pub session_ended: Option<i64>,
    pub enqueued: Option<EnqueueOutcome>,
    /// When the agent was created. If it is deleted and created again, this differs.
    pub created_at: Timestamp,
}

/// The effect of a step: a clear, mark, rewind, pin, unpin or note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The window is empty, and a new session runs.
    Cleared {
        session: i64,
    },
    Marked {
        label: Option<String>,
        /// The exchange in which the mark is.
        exchange: i64,
    },
    Rewound {
        /// The exchange in which the mark is, or the preamble's number.
        exchange: i64,
        /// How many exchanges with content were set aside.
        set_aside: i64,
        /// The summary's new version, if it had to change.
        version: Option<i64>,
    },
    /// The mark to go back to doesn't exist. Nothing changed.
    Ignored {
        label: Option<String>,
    },
    Pinned {
        seq: i64,
        exchange: i64,
    },
    Unpinned {
        seq: i64,
    },
    /// The message to pin, or the pin to remove, doesn't exist. Nothing changed.
    NotThere {
        seq: i64,
    },
    /// A note has this new version.
    Noted {
        version: i64,
    },
    /// The note to delete doesn't exist. Nothing changed.
    NoNote {
        name: NoteName,
    },
}

/// Which notes to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteQuery {
    /// Reads the versions of this note; `None` reads the present version of all notes.
    pub versions_of: Option<NoteName>,
    /// Reads only the last of a note's versions.
    pub latest: bool,
    /// Includes the texts.
    pub texts: bool,
    /// Reads the notes as they were before this exchange; `None` reads them as they are.
    pub before: Option<i64>,
}

/// A message that stays in view after its exchange has left the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub message: StoredMessage,
    pub exchange: i64,
    /// True if the message is pinned; false if it is only important to the running session.
    pub pinned: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// In order of their messages.
    pub pins: Vec<Pin>,
    /// The exchange of the oldest pin, if older pins than these were left out.
    pub oldest_unread: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkOutcome {
    /// The parent's last exchange at the fork; `None` if it had no exchanges.
    pub fork_exchange: Option<i64>,
    /// How many exchanges the child shares with the parent: those in its window and those pending.
    pub exchanges: i64,
    /// How many items the two documents share.
    pub items: i64,
    pub enqueued: Option<EnqueueOutcome>,
}

/// An agent from which another one was forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub agent: AgentId,
    /// The last exchange of this ancestor at the fork; `None` if it had no exchanges.
    pub fork_exchange: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAt {
    /// The message's index in the request, from 0.
    pub index: usize,
    /// Its number in the agent's history.
    pub seq: i64,
    pub exchange: i64,
    /// The session of that exchange.
    pub session: i64,
    /// True if the message begins a leg that isn't the first of its exchange.
    pub begins_leg: bool,
    /// True if the message keeps its client id; otherwise it has another id ([`Self::client_id`]).
    pub keeps_id: bool,
}

impl StoredAt {
    /// Returns the client id under which `message` was stored.
    pub fn client_id<'m>(&self, message: &'m Message) -> Option<Cow<'m, str>> {
        if self.keeps_id {
            message.client_id.as_deref().map(Cow::Borrowed)
        } else {
            other_id(message).map(Cow::Owned)
        }
    }
}

/// The beginning of the client id that replaces the own id of a replayed message.
const OTHER_ID_PREFIX: &str = "replayed:";

/// Returns a replacement id for a replayed message whose own id belongs to a different message. It is the same each time, so that
/// a second replay is recognised as a duplicate.
pub(super) fn other_id(message: &Message) -> Option<String> {
    let id = message.client_id.as_deref()?;
    let digest = short_hash(&[id.as_bytes(), message.payload.as_bytes()]);
    Some(format!("{OTHER_ID_PREFIX}{digest}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnqueueOutcome {
    /// The agent had no row before.
    pub is_new: bool,
    /// The row was parked before.
    pub revived: bool,
    /// When the row may be claimed.
    pub visible_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnded {
    pub session: i64,
    pub enqueued: Option<EnqueueOutcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow {
    pub agent: AgentId,
    pub project: Option<String>,
    pub ledger: Ledger,
    /// How many exchanges are pending. In a transaction that changes the agent, this is an upper bound: it counts all numbers
    /// between the watermarks, also those of preambles and of exchanges that were set aside.
    pub pending_exchanges: i64,
    pub pending_since: Option<Timestamp>,
    /// The time for which its items are aged; `None` for the clock's time.
    pub as_of: Option<Timestamp>,
    pub created_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
    /// The budget that the last append applied, in tokens; 0 means none.
    pub budget_tokens: i64,
    /// The budget that the last append applied, in messages; 0 means none.
    pub max_messages: i64,
    pub chain: Chain,
    /// The settings in which the agent differs from the configuration.
    pub settings: AgentSettings,
    /// The summary's version that readers get; 0 if there is none yet.
    pub version: i64,
    pub summary_tokens: i64,
}

impl AgentRow {
    /// Returns the budget that the last append applied.
    pub fn kept_budget(&self) -> Budget {
        Budget::new(self.budget_tokens, 1.0).with_max_messages(self.max_messages)
    }

    pub fn fill(&self) -> WindowFill {
        WindowFill { tokens: self.ledger.window_tokens(), budget_tokens: self.budget_tokens }
    }
}

/// How many bytes each message counts in addition to its payload, since even a short message takes memory.
pub const MESSAGE_BYTES: i64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeQuery {
    /// The first exchange; 0 includes the running session's preamble, whatever its number.
    pub from: i64,
    pub through: i64,
    /// Limits the number of exchanges; the newest are read.
    pub limit: i64,
    /// Limits the bytes of messages: payloads, plus [`MESSAGE_BYTES`] for each. The newest exchanges get their messages first,
    /// either all of an exchange or none. 0 reads no messages.
    pub bytes_max: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExchange {
    pub exchange: Exchange,
    /// When the exchange left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covered it.
    pub summary_version: Option<i64>,
    pub messages: Vec<StoredMessage>,
    /// The bytes of the messages, if the query asked for them but they are too many to read ([`ExchangeQuery::bytes_max`]).
    pub unread_bytes: Option<i64>,
    /// The request that a later leg works on. Read only for an update, and only if the update has no earlier leg of the same
    /// exchange.
    pub request: Option<StoredMessage>,
}

/// How many of the newest exchanges are read to find the speakers' last messages.
pub const SAID_EXCHANGES_MAX: i64 = 1_000;
/// Limits how many legs of an exchange are read: the first ones.
pub const LEGS_MAX: i64 = 10_000;

/// A message of a named speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidMessage {
    pub exchange: i64,
    pub stored: StoredMessage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number in the agent's history.
    pub seq: i64,
    /// Parsed from the stored payload.
    pub message: Message,
    pub tokens: i64,
    pub said_at: Timestamp,
}

impl StoredMessage {
    /// Returns the message in the form that builds contexts.
    pub fn source(&self) -> SourceMessage<'_> {
        SourceMessage { seq: self.seq, message: &self.message, tokens: Some(self.tokens) }
    }
}

/// A summary as readers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// 0 if there is none yet.
    pub version: i64,
    /// The document, without pending exchanges.
    pub content: String,
    pub token_count: i64,
    pub updated_at: Timestamp,
    pub summarized_through: i64,
    pub first_exchange: i64,
    /// The agent's own time zone; after [`Self::rendered_by`], the zone in which times are shown.
    pub zone: Option<Zone>,
    pub pending_since: Option<Timestamp>,
    /// The newest pending exchanges, oldest first, at most [`PENDING_SHOWN_MAX`].
    pub pending: Vec<Exchange>,
    /// The pending exchanges before these.
    pub pending_before: PendingBefore,
}

impl SummaryRow {
    /// Sets `zone` to the zone in which times are shown: the agent's own, otherwise that of `ageing`. Sets `None` if sections
    /// don't follow a calendar.
    #[must_use]
    pub fn rendered_by(self, ageing: Ageing) -> Self {
        let zone = match ageing {
            Ageing::Calendar(calendar) => Some(self.zone.unwrap_or(calendar.zone)),
            Ageing::Age { .. } | Ageing::Off => None,
        };
        Self { zone, ..self }
    }
}

/// Limits how many pending exchanges a summary lists. The rest are only counted.
pub const PENDING_SHOWN_MAX: i64 = 200;

/// How many pending exchanges aren't listed, and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingBefore {
    pub exchanges: i64,
    pub tokens: i64,
}
