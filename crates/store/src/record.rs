//! What goes into a store and what comes out: requests and rows, without a word of SQL.

use std::borrow::Cow;

use super::seal::Chain;
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{ContextOptions, SourceMessage},
        exchange::{Exchange, LedgerEntry},
        ledger::{Eviction, Ledger, Return, Segmentation},
        message::Message,
        preset::Basis,
        settings::{AgentSettings, OnOverflow},
        summary::{compaction::SummaryPolicy, section::Ageing},
        time::Timestamp,
        window::Budget,
        zone::Zone,
    },
    hash::short_hash,
};

/// A message, counted and ready to be written.
#[derive(Clone, Debug)]
pub struct PreparedMessage {
    pub message: Message,
    /// What the ledger needs of it, its tokens among it.
    pub entry: LedgerEntry,
}

/// The rules that decide an append.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendRules {
    /// How much the window holds, of an agent that doesn't say itself.
    pub budget: Budget,
    /// What happens when the newest leg alone is too big, unless the agent says.
    pub on_overflow: OnOverflow,
    /// What an agent's preset is expanded with.
    pub basis: Basis,
    /// How contexts are built, unless the agent says: the room for pins follows from it.
    pub context: ContextOptions,
    /// A longer silence begins a new session; 0 never does.
    pub idle_gap_ms: i64,
    /// The number of pending exchanges that makes an update due.
    pub batch_exchanges: i64,
    /// The tokens that these must have, too; 0 asks for none.
    pub batch_tokens_min: i64,
    /// How long an update waits for more once there are so many.
    pub debounce_ms: i64,
    /// The longest that an update waits while there are fewer.
    pub max_wait_ms: i64,
    /// The least time between two revivals of a parked row by evictions.
    pub revive_after_ms: i64,
    /// The limits and rules of a document that a rewind writes.
    pub policy: SummaryPolicy,
}

impl AppendRules {
    /// How messages are parted into sessions and legs.
    pub fn segmentation(&self) -> Segmentation {
        Segmentation {
            idle_gap_ms: self.idle_gap_ms,
            leg_tokens: self.budget.leg_tokens(),
        }
    }
}

/// The key of a request that may be sent again, as an agent's client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The key, of 1 to 200 characters.
    pub key: String,
    /// What was asked under it: the SHA-256 of that, in hexadecimal digits.
    pub digest: String,
}

/// Messages for one agent.
#[derive(Clone, Debug)]
pub struct AppendRequest {
    pub agent: AgentId,
    /// In order.
    pub messages: Vec<PreparedMessage>,
    /// The key of the request that brought them, if it had one.
    pub key: Option<RequestKey>,
    /// How they were counted.
    pub count_method: String,
    /// The rules that decide the append.
    pub rules: AppendRules,
    /// Whether this is a replay: items are aged by the messages' times and not by the clock.
    pub replayed: bool,
    /// When they arrived.
    pub now: Timestamp,
}

/// What an append did.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendOutcome {
    /// Messages stored.
    pub accepted: i64,
    /// Messages known already.
    pub duplicates: i64,
    /// Where each stored message went, in order.
    pub stored: Vec<StoredAt>,
    /// The newest exchange.
    pub exchange: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
    /// The summary's version, 0 before the first.
    pub version: i64,
    /// Tokens in the window, preamble included.
    pub window_tokens: i64,
    /// What a raised budget took back into the window, before the messages came.
    pub returned: Option<Return>,
    /// What left the window.
    pub evictions: Vec<Eviction>,
    /// The clears, marks and rewinds among the messages, and what they did.
    pub steps: Vec<StepOutcome>,
    /// The agent's settings, by which it was decided.
    pub settings: AgentSettings,
    /// The ceiling that was kept.
    pub budget: Budget,
    /// The session that ended because its newest exchange is too big.
    pub session_ended: Option<i64>,
    /// What it did to the queue, if anything.
    pub enqueued: Option<EnqueueOutcome>,
    /// When the agent was made: one that was deleted and made again has another.
    pub created_at: Timestamp,
}

/// What a clear, a mark or a rewind did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The window is empty, and this session runs now.
    Cleared {
        /// The new session.
        session: i64,
    },
    /// A mark was set.
    Marked {
        /// Its name.
        label: Option<String>,
        /// Where it stands.
        exchange: i64,
    },
    /// The conversation went back to a mark.
    Rewound {
        /// The exchange that holds the mark, or the preamble's number.
        exchange: i64,
        /// How many exchanges were set aside in which something was said.
        set_aside: i64,
        /// The summary's new version, if it had to change.
        version: Option<i64>,
    },
    /// There was no such mark to go back to, and nothing happened.
    Ignored {
        /// Its name.
        label: Option<String>,
    },
    /// A message stays in view.
    Pinned {
        /// Its number.
        seq: i64,
        exchange: i64,
    },
    /// A message no longer stays in view.
    Unpinned {
        /// Its number.
        seq: i64,
    },
    /// There was no such message to pin, or no such pin, and nothing happened.
    NotThere {
        /// The number.
        seq: i64,
    },
}

/// A message that stays in view when its exchange has left the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub message: StoredMessage,
    pub exchange: i64,
    /// It was pinned by hand; else it is important to the running session.
    pub pinned: bool,
}

/// The pins in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// In order of their messages.
    pub pins: Vec<Pin>,
    /// The exchange of the oldest one in force, if there are older ones than these.
    pub oldest_unread: Option<i64>,
}

/// What a fork made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkOutcome {
    /// The parent's last exchange at the fork; `None` if it had none yet.
    pub fork_exchange: Option<i64>,
    /// How many exchanges the child shares with it: those in its window, and those pending.
    pub exchanges: i64,
    /// How many items its document shares.
    pub items: i64,
    /// What it did to the queue, if anything is pending.
    pub enqueued: Option<EnqueueOutcome>,
}

/// An agent that another one came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// The agent's name.
    pub agent: AgentId,
    /// Its last exchange at the fork; `None` if it had none yet.
    pub fork_exchange: Option<i64>,
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAt {
    /// Its index in the request, from 0.
    pub place: usize,
    /// Its place in the agent's history.
    pub seq: i64,
    pub exchange: i64,
    /// The session of that exchange.
    pub session: i64,
    /// Whether a leg begins with it that isn't the first one of its exchange.
    pub begins_leg: bool,
    /// Whether its client id is kept; if not, it has another one instead ([`Self::client_id`]).
    pub keeps_id: bool,
}

impl StoredAt {
    /// The client id under which `message`, which went here, is kept.
    pub fn client_id<'m>(&self, message: &'m Message) -> Option<Cow<'m, str>> {
        if self.keeps_id {
            message.client_id.as_deref().map(Cow::Borrowed)
        } else {
            other_id(message).map(Cow::Owned)
        }
    }
}

/// What an id begins with that a replayed message has instead of its own.
const OTHER_ID_PREFIX: &str = "replayed:";

/// An id for a replayed message whose own stands for another message: the same whenever it comes again, so that it is
/// known then.
pub(super) fn other_id(message: &Message) -> Option<String> {
    let own = message.client_id.as_deref()?;
    let digest = short_hash(&[own.as_bytes(), message.payload.as_bytes()]);
    Some(format!("{OTHER_ID_PREFIX}{digest}"))
}

/// What an enqueue did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnqueueOutcome {
    /// There was no row before.
    pub is_new: bool,
    /// A parked row was revived.
    pub revived: bool,
    /// When the row may be claimed.
    pub visible_at: Timestamp,
}

/// What the end of a session did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnded {
    pub session: i64,
    /// What it did to the queue, if anything was pending.
    pub enqueued: Option<EnqueueOutcome>,
}

/// An agent's row.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow {
    /// Its name.
    pub agent: AgentId,
    pub project: Option<String>,
    pub ledger: Ledger,
    /// How many exchanges are pending. In a transaction that changes the agent they aren't counted, and it is how many
    /// numbers they have at most: what was set aside has some, and so have preambles.
    pub pending_exchanges: i64,
    /// Since when exchanges are pending.
    pub pending_since: Option<Timestamp>,
    /// The time its items are aged by, if not the clock.
    pub as_of: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
    /// The window's ceiling that the last append kept; 0: none.
    pub budget_tokens: i64,
    /// The window's ceiling in messages that the last append kept; 0: none.
    pub max_messages: i64,
    /// The end of the chain of its messages' seals.
    pub chain: Chain,
    /// What it overrides in the configuration.
    pub settings: AgentSettings,
    /// The version of its summary that readers get, 0 before the first.
    pub version: i64,
    /// Its summary's tokens.
    pub summary_tokens: i64,
}

impl AgentRow {
    /// The ceilings that the last append kept.
    pub fn kept_budget(&self) -> Budget {
        Budget::new(self.budget_tokens, 1.0).with_max_messages(self.max_messages)
    }
}

/// What a message counts beside its payload where bytes are limited, since it takes memory however short it is.
pub const MESSAGE_BYTES: i64 = 256;

/// Which exchanges to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeQuery {
    /// The first; 0 includes the running session's preamble, whatever its number.
    pub from: i64,
    /// The last.
    pub through: i64,
    /// At most so many, the newest ones.
    pub limit: i64,
    /// With their messages, as far as the payloads, and [`MESSAGE_BYTES`] for each, are no more than this together: those of the
    /// newest exchanges, of each all or none. 0 is without.
    pub bytes_max: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExchange {
    /// Its row.
    pub exchange: Exchange,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covered it, if one does.
    pub summary_version: Option<i64>,
    /// Its messages, if asked for.
    pub messages: Vec<StoredMessage>,
    /// Set if they were asked for and not read, since they are too much ([`ExchangeQuery::bytes_max`]): their bytes.
    pub unread_bytes: Option<i64>,
    /// What its exchange works on, if it is a later leg: read only for an update, and only where no earlier leg comes with it.
    pub request: Option<StoredMessage>,
}

/// In how many of the last exchanges the speakers' last messages are looked for.
pub const SAID_EXCHANGES_MAX: i64 = 1_000;
/// The most legs of an exchange that are read: of one with more the first ones.
pub const LEGS_MAX: i64 = 10_000;

/// What a named speaker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidMessage {
    /// The exchange that it stands in.
    pub exchange: i64,
    pub stored: StoredMessage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its place in the agent's history.
    pub seq: i64,
    /// The message, read again from its payload.
    pub message: Message,
    pub tokens: i64,
    /// When it was said.
    pub said_at: Timestamp,
}

impl StoredMessage {
    /// The message for a context.
    pub fn source(&self) -> SourceMessage<'_> {
        SourceMessage {
            seq: self.seq,
            message: &self.message,
            tokens: Some(self.tokens),
        }
    }
}

/// A summary as a reader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// Its version; 0 before the first.
    pub version: i64,
    /// The document, without what is pending.
    pub content: String,
    pub token_count: i64,
    /// When it was written.
    pub updated_at: Timestamp,
    /// The last exchange it covers.
    pub summarized_through: i64,
    /// The first exchange in the window.
    pub first_exchange: i64,
    /// The agent's time zone, if it has one; after [`Self::rendered_by`] the zone in which its times are shown.
    pub zone: Option<Zone>,
    /// Since when exchanges are pending.
    pub pending_since: Option<Timestamp>,
    /// The newest pending exchanges, oldest first, at most [`PENDING_SHOWN_MAX`].
    pub pending: Vec<Exchange>,
    /// Pending exchanges that are not among them.
    pub pending_before: PendingBefore,
}

impl SummaryRow {
    /// The row with its times in the zone in which a summary that ages by `ageing` shows them.
    #[must_use]
    pub fn rendered_by(self, ageing: Ageing) -> Self {
        let zone = match ageing {
            Ageing::Calendar(calendar) => Some(self.zone.unwrap_or(calendar.zone)),
            Ageing::Age { .. } | Ageing::Off => None,
        };
        Self { zone, ..self }
    }
}

/// The most pending exchanges that a summary names one by one.
pub const PENDING_SHOWN_MAX: i64 = 200;

/// Pending exchanges too many to name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingBefore {
    /// How many exchanges.
    pub exchanges: i64,
    pub tokens: i64,
}
