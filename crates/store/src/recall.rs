//! The results of searching the archive and of expanding an exchange.

use serde::{Deserialize, Serialize};

use super::StoredMessage;
use recapd_core::domain::{
    agent::AgentId, exchange::Exchange, ledger::Ledger, recall::Term, time::Timestamp,
};

/// Limits how many unindexed messages a search reads: the agent's newest first, then those of its ancestors.
pub const TAIL_MESSAGES_MAX: i64 = 20_000;

/// Where an exchange is, from the view of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ExchangePlace)]
pub enum ExchangePlace {
    /// The preamble: leading instructions, which are always in view.
    Preamble,
    /// The model sees it.
    Window,
    /// It has left the window and isn't summarised yet.
    Pending,
    /// It is summarised; the summary may since have shortened or dropped it.
    Covered,
    /// A rewind has set it aside.
    SetAside,
}

impl ExchangePlace {
    /// Returns the place of a live exchange.
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

/// An exchange and its place for an agent that may have inherited it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExchange {
    pub exchange: Exchange,
    /// The agent that owns its messages: this one, or an ancestor.
    pub source: AgentId,
    pub place: ExchangePlace,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covered it; `None` for an inherited one.
    pub summary_version: Option<i64>,
}

impl PlacedExchange {
    /// Returns true if a search may find the exchange. Instructions are always in view, and set-aside exchanges don't belong to
    /// the past.
    pub fn is_found(&self) -> bool {
        !matches!(self.place, ExchangePlace::Preamble | ExchangePlace::SetAside)
    }
}

/// An exchange that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundExchange {
    pub placed: PlacedExchange,
    /// Its best messages, best first.
    pub hits: Vec<StoredMessage>,
    /// The query's terms that the exchange doesn't contain, as indexes of [`SearchHits::terms`].
    pub missing: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHits {
    /// The terms that the search used: only the rarest, if a query has very many.
    pub terms: Vec<Term>,
    /// In the order that the search asks for.
    pub found: Vec<FoundExchange>,
    /// True if more exchanges match.
    pub has_more: bool,
    /// How many messages were not searched, because they are neither indexed nor among the newest. Counted only up to a limit per
    /// agent.
    pub unsearched: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRange {
    /// Reads only messages after this one.
    pub after_seq: i64,
    pub messages_max: i64,
    /// Stops once this many bytes of payload are read.
    pub bytes_max: usize,
    /// True if the newest writes must be included, so that no standby is asked.
    pub is_current: bool,
    pub scope: MessageScope,
}

/// Which messages of an exchange are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageScope {
    #[default]
    All,
    /// Texts, tool calls and a host's summaries, without instructions and events.
    Conversation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedExchange {
    pub placed: PlacedExchange,
    /// In order.
    pub messages: Vec<StoredMessage>,
    /// True if the exchange has more messages.
    pub has_more: bool,
}
