//! What a search of the archive finds, and an exchange as it was.

use serde::{Deserialize, Serialize};

use super::StoredMessage;
use crate::domain::{agent::AgentId, exchange::Exchange, ledger::Ledger, time::Timestamp};

/// The most messages that a search looks at closely.
pub const HITS_MAX: usize = 300;
/// The most messages that a search reads because they aren't in the index yet: the newest ones of the agent, then of those
/// that it was forked from.
pub const TAIL_MESSAGES_MAX: i64 = 20_000;

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ExchangePlace)]
pub enum Place {
    /// Leading instructions, always in view.
    Preamble,
    /// The model sees it.
    Window,
    /// It has left the window and isn't summarised yet.
    Pending,
    /// It is summarised; what the summary said of it may have aged since.
    Covered,
    /// A rewind has taken it back.
    SetAside,
}

impl Place {
    /// The place of a live exchange of that number.
    pub fn of(exchange: i64, ledger: &Ledger) -> Self {
        if exchange >= ledger.first_exchange {
            Self::Window
        } else if exchange > ledger.summarized_through {
            Self::Pending
        } else {
            Self::Covered
        }
    }

    /// The place in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Preamble => "preamble",
            Self::Window => "in the window",
            Self::Pending => "waiting for the next summary",
            Self::Covered => "summarised",
            Self::SetAside => "set aside by a rewind",
        }
    }
}

/// An exchange and where it stands for an agent that may have inherited it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExchange {
    /// Its row.
    pub exchange: Exchange,
    /// Whose messages it holds: the agent's own, or those of one that it was forked from.
    pub source: AgentId,
    /// Where it stands.
    pub place: Place,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covered it, if one does; none for an inherited one.
    pub summary_version: Option<i64>,
}

impl PlacedExchange {
    /// Whether a search may find it: instructions are in view anyway, and what a rewind took back is nobody's past.
    pub fn is_found(&self) -> bool {
        !matches!(self.place, Place::Preamble | Place::SetAside)
    }
}

/// A message that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// How well it fits, smaller is better; none for one that isn't in the index yet.
    pub rank: Option<f64>,
    /// The message.
    pub message: StoredMessage,
}

/// An exchange in which a search found something.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundExchange {
    /// The exchange.
    pub placed: PlacedExchange,
    /// What was found, in order of the messages.
    pub hits: Vec<Hit>,
}

/// What a search found, in no order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Searched {
    /// The exchanges.
    pub found: Vec<FoundExchange>,
    /// So many of its messages were not searched: they are neither in the index nor among the newest. Of each agent no more
    /// are counted than a search has time for.
    pub unsearched: i64,
}

/// Which messages of an exchange to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRange {
    /// Behind this one.
    pub after_seq: i64,
    /// At most so many.
    pub messages_max: i64,
    /// No more once their payloads have so many bytes.
    pub bytes_max: usize,
    /// Nothing that was written may be missing: a standby isn't asked.
    pub is_current: bool,
}

/// An exchange as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The exchange.
    pub placed: PlacedExchange,
    /// Its messages, in order.
    pub messages: Vec<StoredMessage>,
    /// There are more of them.
    pub has_more: bool,
}
