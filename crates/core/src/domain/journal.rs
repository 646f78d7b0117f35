//! Journals: agents' full histories as JSON lines, outside of the database. The database can import them.
//!
//! A journal has one [`Head`] per agent, followed by one [`MessageRecord`] per message, in order, with its verbatim payload. It has no
//! summary, since that can be made again from the messages.
//!
//! Invariant: a line that is read and written again is the same text.

mod fork;
mod standing;
mod wire;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::{
    fork::{
        CountRecord, DocumentRecord, FactRecord, ForkRecord, ItemRecord, NoteRecord, PinRecord,
        SharedExchange,
    },
    standing::ImportState,
    wire::{JournalLine, LineError},
};
use super::{
    agent::AgentId,
    exchange::{Exchange, LedgerEntry, Leg},
    ledger::{Ledger, Placement},
    message::{Format, Kind, is_tombstone},
    time::Timestamp,
};

/// The version of the lines that recapd writes, and the newest version that it reads.
pub const JOURNAL_VERSION: u32 = 1;

/// The line before an agent's messages. It has the state that the messages don't show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The version of the journal's lines.
    pub journal: u32,
    /// The agent whose history follows.
    pub agent_id: AgentId,
    /// The agent's project.
    pub project: Option<String>,
    /// The agent's own settings as JSON.
    pub settings: Box<RawValue>,
    /// When the agent was created.
    #[serde(with = "wire::time")]
    pub created_at: Timestamp,
    /// The fixed time for which ages are computed; `None` for the clock.
    #[serde(with = "wire::optional_time")]
    pub as_of: Option<Timestamp>,
    /// The window's budget in tokens at the last append; 0 for none.
    pub budget_tokens: i64,
    /// The window's limit in messages at the last append; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_messages: i64,
    /// The number of the last message.
    pub last_seq: i64,
    /// The number of the last exchange.
    pub last_exchange: i64,
    /// The boundary: the first exchange in the window.
    pub first_exchange: i64,
    /// The sessions, oldest first. The last one is the current one.
    pub sessions: Vec<SessionRecord>,
    /// The evictions, oldest first.
    pub evictions: Vec<EvictionRecord>,
    /// The marks that a rewind can go back to, oldest first.
    pub marks: Vec<MarkRecord>,
    /// For an agent forked from another one: the state that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<ForkRecord>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A mark, and where the window began at that time, which the messages don't show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRecord {
    /// The number; a larger number is newer.
    pub mark: i64,
    /// The name, if it has one.
    pub label: Option<String>,
    /// The exchange that it is in.
    pub exchange: i64,
    /// The first exchange of the window when the mark was set.
    pub first_exchange: i64,
    /// The tokens of all live exchanges before the window at that time.
    pub tokens_before_window: i64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The number, from 1.
    pub session: i64,
    /// The first exchange.
    pub first_exchange: i64,
    /// When it began.
    #[serde(with = "wire::time")]
    pub opened_at: Timestamp,
    /// When it ended, if it did.
    #[serde(with = "wire::optional_time")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended: `idle`, `end` or `clear`.
    pub end_reason: Option<String>,
}

/// One eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionRecord {
    /// The first evicted exchange.
    pub from_exchange: i64,
    /// The last evicted exchange.
    pub through_exchange: i64,
    /// The tokens of all evicted exchanges.
    pub tokens: i64,
    /// When they left the window.
    #[serde(with = "wire::time")]
    pub evicted_at: Timestamp,
}

/// A message: its payload, and everything else in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// The agent that it belongs to.
    pub agent_id: AgentId,
    /// The sequence number, from 1 without a gap.
    pub seq: i64,
    /// The exchange it belongs to.
    pub exchange: i64,
    /// The session of that exchange.
    pub session: i64,
    /// True if it begins a second or later leg of its exchange.
    pub begins_leg: bool,
    /// The name of its kind.
    pub kind: String,
    /// The format of its payload.
    pub format: Format,
    /// The message's tokens.
    pub tokens: i64,
    /// The counting method.
    pub count_method: String,
    /// The client's id of the message. It identifies duplicates.
    pub client_id: Option<String>,
    /// The time of the message.
    pub said_at: Timestamp,
    /// When it arrived.
    pub received_at: Timestamp,
    /// The client's data, verbatim.
    pub payload: String,
}

/// Why a journal can't be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Messages are missing.
    #[error(
        "message {found} comes where message {expected} should; import what comes before it first, or export the agent again"
    )]
    Gap {
        /// The expected number.
        expected: i64,
        /// The number found.
        found: i64,
    },
    /// A message names an exchange that it can't be in.
    #[error("message {seq} can't belong to exchange {exchange}; export the agent again")]
    Misplaced {
        /// The message that names it.
        seq: i64,
        /// The exchange that the message names.
        exchange: i64,
    },
    /// The agent in the database has another history.
    #[error(
        "message {seq} is another one in the database; import into a fresh database, or rename the agent"
    )]
    Differs {
        /// The first message that differs.
        seq: i64,
    },
    /// A rewind would undo exchanges that the summary in the database covers.
    #[error("message {seq} rewinds what is summarised in the database already; import into a fresh database")]
    Summarised {
        /// The message of the rewind.
        seq: i64,
    },
    /// The database lacks the messages that a forked agent shares with its parent.
    #[error("it was forked from `{from}`, whose messages are not there; import `{from}` first, or with it")]
    NoParent {
        /// The agent whose messages are missing.
        from: AgentId,
    },
    /// The agent in the database was forked elsewhere, or not at all.
    #[error("it was forked from another agent or place in the database; import into a fresh database")]
    OtherFork,
    /// The settings aren't valid.
    #[error("its settings can't be read: {0}; export the agent again")]
    Settings(String),
    /// The head doesn't fit the messages.
    #[error("the window can't begin at exchange {first_exchange}; export the agent again")]
    WrongBoundary {
        /// The first exchange of the window according to the head.
        first_exchange: i64,
    },
}

/// Adds a recorded message to `ledger` in the exchange that the journal names, even if the current rules would decide otherwise. Returns
/// the exchange that the message completes, because it opens the next one. The boundary doesn't move: if the message is a clear or a
/// rewind, the caller applies it.
///
/// # Errors
/// [`JournalError::Gap`] and [`JournalError::Misplaced`]. The ledger is then unchanged.
pub fn add_recorded(
    ledger: &mut Ledger,
    record: &MessageRecord,
    entry: &LedgerEntry,
) -> Result<Option<Exchange>, JournalError> {
    let (seq, exchange) = (record.seq, record.exchange);
    if seq != ledger.last_seq + 1 {
        return Err(JournalError::Gap { expected: ledger.last_seq + 1, found: seq });
    }
    let may_open_preamble = ledger.newest.is_none()
        && ledger.preamble.is_none()
        && matches!(entry.kind, Kind::System | Kind::Metadata(_))
        && exchange == ledger.next_preamble();
    let tokens_before = ledger.tokens_through();
    // Legs begin as recorded; the current rules might cut elsewhere.
    let leg = match ledger.place(entry, 0) {
        _ if record.begins_leg => Some(Leg::Next),
        Placement::Continues(leg) => Some(leg),
        Placement::Preamble | Placement::Joins | Placement::Opens => None,
    };
    let open = |tokens_before| Exchange::open(exchange, record.session, tokens_before, seq, entry);
    let mut completed = None;
    match (&mut ledger.newest, &mut ledger.preamble) {
        (Some(newest), _) if exchange == newest.exchange => newest.add(seq, entry),
        (None, Some(preamble)) if exchange == preamble.exchange => preamble.add(seq, entry),
        (_, preamble) if may_open_preamble => {
            *preamble = Some(open(0));
            ledger.last_exchange = exchange;
        }
        (newest, _) if exchange == ledger.last_exchange + 1 => {
            let opened = open(tokens_before);
            completed = newest.take().map(Exchange::without_round);
            *newest = Some(match (&completed, leg) {
                (Some(completed), Some(leg)) => opened.continuing(completed, leg),
                _ => opened,
            });
            ledger.last_exchange = exchange;
        }
        _ => return Err(JournalError::Misplaced { seq, exchange }),
    }
    if is_tombstone(&record.payload) {
        let mut exchanges = [&mut ledger.newest, &mut ledger.preamble].into_iter().flatten();
        if let Some(row) = exchanges.find(|row| row.exchange == exchange) {
            row.headline.note_forgotten();
        }
    }
    ledger.last_seq = seq;
    ledger.session = ledger.session.max(record.session);
    Ok(completed)
}

#[cfg(test)]
mod tests;
