//! What a search of the archive finds, and an exchange as it was.

use serde::{Deserialize, Serialize};

use super::StoredMessage;
use recapd_core::domain::{agent::AgentId, exchange::Exchange, ledger::Ledger, time::Timestamp};

/// The most matching messages that a search ranks.
pub const HITS_MAX: usize = 300;
/// The most messages that a search reads because they aren't indexed yet: the newest ones of the agent, then of its
/// ancestors.
pub const TAIL_MESSAGES_MAX: i64 = 20_000;

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ExchangePlace)]
pub enum ExchangePlace {
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

impl ExchangePlace {
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
    /// The agent whose messages it holds: this one, or an ancestor.
    pub source: AgentId,
    /// Where it stands.
    pub place: ExchangePlace,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covered it, if one does; none for an inherited one.
    pub summary_version: Option<i64>,
}

impl PlacedExchange {
    /// Whether a search may find it: instructions are always in view, and what a rewind set aside is no part of the
    /// past.
    pub fn is_found(&self) -> bool {
        !matches!(self.place, ExchangePlace::Preamble | ExchangePlace::SetAside)
    }
}

/// A message that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// How well it matches, smaller is better; `None` for a message that isn't indexed yet.
    pub rank: Option<f64>,
    pub message: StoredMessage,
}

/// An exchange in which a search found something.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundExchange {
    pub placed: PlacedExchange,
    /// What was found, in order of the messages.
    pub hits: Vec<Hit>,
}

/// What a search found, in no order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHits {
    /// The exchanges.
    pub found: Vec<FoundExchange>,
    /// How many messages were not searched, since they are neither indexed nor among the newest. Per agent they are
    /// counted only up to a limit.
    pub unsearched: i64,
}

/// Which messages of an exchange to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRange {
    /// Only messages after this one.
    pub after_seq: i64,
    pub messages_max: i64,
    /// The bytes of payload after which no further message is read.
    pub bytes_max: usize,
    /// Whether nothing written may be missing: then no standby is asked.
    pub is_current: bool,
}

/// An exchange as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedExchange {
    pub placed: PlacedExchange,
    /// Its messages, in order.
    pub messages: Vec<StoredMessage>,
    /// Whether the exchange has more messages.
    pub has_more: bool,
}
