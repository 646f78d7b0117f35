//! A journal: agents' full histories as lines of JSON, to be kept apart from the database and imported into one.
//!
//! One [`Head`] per agent, then one [`MessageRecord`] per message, in order. Payloads stand in it verbatim. The
//! summary is not part of it: it is derived, and made again from the messages.
//!
//! Invariant: what is written is read back the same, and written again it is the same text.

mod fork;
mod standing;
mod wire;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::{
    fork::{CountRecord, DocumentRecord, FactRecord, ForkRecord, ItemRecord, PinRecord, SharedExchange},
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

/// The version of the lines that are written, and the newest that is read.
pub const JOURNAL_VERSION: u32 = 1;

/// The line before an agent's messages: what the messages alone don't tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The version of the journal's lines.
    pub journal: u32,
    /// The agent whose history follows.
    pub agent_id: AgentId,
    /// Its project.
    pub project: Option<String>,
    /// What it overrides in the configuration, as JSON.
    pub settings: Box<RawValue>,
    /// When it was made.
    #[serde(with = "wire::time")]
    pub created_at: Timestamp,
    /// The time its items are aged by, if not the clock.
    #[serde(with = "wire::optional_time")]
    pub as_of: Option<Timestamp>,
    /// The window's ceiling that the last append kept, in tokens; 0: none.
    pub budget_tokens: i64,
    /// The window's ceiling in messages that the last append kept; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_messages: i64,
    /// Number of its last message.
    pub last_seq: i64,
    /// Number of its last exchange.
    pub last_exchange: i64,
    /// The boundary: first exchange in the window.
    pub first_exchange: i64,
    /// Its sessions, oldest first; the last one runs.
    pub sessions: Vec<SessionRecord>,
    /// What left the window, oldest first.
    pub evictions: Vec<EvictionRecord>,
    /// The marks that a rewind can go back to, oldest first.
    pub marks: Vec<MarkRecord>,
    /// What it began with, if it was forked from another agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<ForkRecord>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A mark. Where the window began at that time can't be told from the messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRecord {
    /// Its number; larger is newer.
    pub mark: i64,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// The exchange that it is in.
    pub exchange: i64,
    /// Where the window began when it was set.
    pub first_exchange: i64,
    /// Tokens of all live exchanges before that.
    pub tokens_before_window: i64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its number, from 1.
    pub session: i64,
    /// Its first exchange.
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

/// Exchanges that left the window together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionRecord {
    /// The first of them.
    pub from_exchange: i64,
    /// The last of them.
    pub through_exchange: i64,
    /// Their tokens.
    pub tokens: i64,
    /// When they left the window.
    #[serde(with = "wire::time")]
    pub evicted_at: Timestamp,
}

/// A message with everything in its row that its payload doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// The agent whose message it is.
    pub agent_id: AgentId,
    /// Its place in the agent's history, from 1 without a gap.
    pub seq: i64,
    /// The exchange it belongs to.
    pub exchange: i64,
    /// The session of that exchange.
    pub session: i64,
    /// Whether a leg begins with it that isn't the first one of its exchange.
    pub begins_leg: bool,
    /// The name of its kind.
    pub kind: String,
    /// The format of its payload.
    pub format: Format,
    /// Its tokens.
    pub tokens: i64,
    /// How they were counted.
    pub count_method: String,
    /// The client's id, by which the same message is recognised as a duplicate.
    pub client_id: Option<String>,
    /// When it was said.
    pub said_at: Timestamp,
    /// When it arrived.
    pub received_at: Timestamp,
    /// What the client sent, verbatim.
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
        /// The number that was expected.
        expected: i64,
        /// The number that was found.
        found: i64,
    },
    /// A message names an exchange that it can't be in.
    #[error("message {seq} can't belong to exchange {exchange}; export the agent again")]
    Misplaced {
        /// The message.
        seq: i64,
        /// The exchange that it names.
        exchange: i64,
    },
    /// The agent in the database has other messages.
    #[error(
        "message {seq} is another one in the database; import into a fresh database, or rename the agent"
    )]
    Differs {
        /// The first message that differs.
        seq: i64,
    },
    /// A rewind would take back what the summary in the database covers.
    #[error("message {seq} rewinds what is summarised in the database already; import into a fresh database")]
    Summarised {
        /// The message that is the rewind.
        seq: i64,
    },
    /// The messages that a forked agent shares with the one it came from aren't there.
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
        /// Where the window begins according to the head.
        first_exchange: i64,
    },
}

/// Takes a recorded message into `ledger` where its record says, instead of where today's rules would put it. Returns
/// the exchange that is complete, if this message opened the next. The boundary doesn't move; if the message is a step,
/// the caller has to take it.
///
/// # Errors
/// [`JournalError::Gap`] and [`JournalError::Misplaced`]; the ledger is unchanged then.
pub fn take_in(
    ledger: &mut Ledger,
    record: &MessageRecord,
    entry: &LedgerEntry,
) -> Result<Option<Exchange>, JournalError> {
    let (seq, exchange) = (record.seq, record.exchange);
    if seq != ledger.last_seq + 1 {
        return Err(JournalError::Gap {
            expected: ledger.last_seq + 1,
            found: seq,
        });
    }
    let may_open_preamble = ledger.newest.is_none()
        && ledger.preamble.is_none()
        && matches!(entry.kind, Kind::System | Kind::Metadata(_))
        && exchange == ledger.next_preamble();
    let tokens_before = ledger.tokens_through();
    // Where legs begin is as it was: today's rules may say otherwise.
    let leg = match ledger.place(entry, 0) {
        _ if record.begins_leg => Some(Leg::Next),
        Placement::Continues(leg) => Some(leg),
        Placement::Preamble | Placement::Joins | Placement::Opens => None,
    };
    let open = |tokens_before| Exchange::open(exchange, record.session, tokens_before, seq, entry);
    let mut left = None;
    match (&mut ledger.newest, &mut ledger.preamble) {
        (Some(newest), _) if exchange == newest.exchange => newest.add(seq, entry),
        (None, Some(preamble)) if exchange == preamble.exchange => preamble.add(seq, entry),
        (_, preamble) if may_open_preamble => {
            *preamble = Some(open(0));
            ledger.last_exchange = exchange;
        }
        (newest, _) if exchange == ledger.last_exchange + 1 => {
            let opened = open(tokens_before);
            left = newest.take().map(Exchange::left);
            *newest = Some(match (&left, leg) {
                (Some(left), Some(leg)) => opened.continuing(left, leg),
                _ => opened,
            });
            ledger.last_exchange = exchange;
        }
        _ => return Err(JournalError::Misplaced { seq, exchange }),
    }
    if is_tombstone(&record.payload) {
        let mut exchanges = [&mut ledger.newest, &mut ledger.preamble].into_iter().flatten();
        if let Some(taker) = exchanges.find(|taker| taker.exchange == exchange) {
            taker.headline.note_forgotten();
        }
    }
    ledger.last_seq = seq;
    ledger.session = ledger.session.max(record.session);
    Ok(left)
}

#[cfg(test)]
mod tests;
