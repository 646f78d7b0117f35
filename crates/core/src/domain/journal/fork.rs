//! What a forked agent began with.

use serde::{Deserialize, Serialize};

use super::{MarkRecord, SessionRecord, wire};
use crate::domain::{
    agent::AgentId,
    exchange::{Exchange, ExchangeState, FORGOTTEN_TITLE, Headline},
    ledger::Ledger,
    summary::{
        fact::FactKind,
        item::{ExchangeRange, Importance, Origin},
    },
    time::Timestamp,
};

/// What a forked agent began with, as of the fork. Its first exchanges are its parent's: their messages are in the
/// journals of the agents they came from. What its document showed then is recorded here, since the fork has no
/// exchanges to make it from again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRecord {
    /// The agent it came from.
    pub parent: AgentId,
    /// The parent's last exchange then, if it had one.
    pub fork_exchange: Option<i64>,
    /// When it was forked.
    #[serde(with = "wire::time")]
    pub forked_at: Timestamp,
    /// The number after which its own messages are numbered.
    pub last_seq: i64,
    /// Number of the last exchange.
    pub last_exchange: i64,
    /// Number of the newest live exchange.
    pub newest_exchange: Option<i64>,
    /// Number of the running preamble.
    pub preamble_exchange: Option<i64>,
    /// The running session.
    pub session: i64,
    /// The boundary.
    pub first_exchange: i64,
    /// Tokens of the exchanges before it.
    pub tokens_before_window: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
    /// Number of the last item.
    pub last_item: i64,
    /// Number of the last eviction. Not told by forks of earlier versions, which began anew.
    #[serde(default)]
    pub last_eviction: i64,
    /// The tokens of each message of these exchanges at the fork: its source may have counted it anew since.
    #[serde(default)]
    pub counts: Vec<CountRecord>,
    /// The exchanges that it shares, and the preamble.
    pub exchanges: Vec<SharedExchange>,
    /// Its sessions.
    pub sessions: Vec<SessionRecord>,
    /// The marks it can go back to.
    pub marks: Vec<MarkRecord>,
    /// The messages that stay in view.
    #[serde(default)]
    pub pins: Vec<PinRecord>,
    /// Its document, if there was one.
    pub document: Option<DocumentRecord>,
    /// What the document showed.
    pub items: Vec<ItemRecord>,
    /// Number of the last fact. Forks of earlier versions have none.
    #[serde(default)]
    pub last_fact: i64,
    /// The facts that held.
    #[serde(default)]
    pub facts: Vec<FactRecord>,
}

impl ForkRecord {
    /// The agent's ledger before its first own message.
    pub fn ledger(&self) -> Ledger {
        let shared = |number: Option<i64>| {
            let mut shared = self.exchanges.iter();
            shared
                .find(|shared| Some(shared.exchange) == number)
                .map(SharedExchange::row)
        };
        Ledger {
            last_seq: self.last_seq,
            last_exchange: self.last_exchange,
            session: self.session,
            preamble: shared(self.preamble_exchange),
            newest: shared(self.newest_exchange),
            first_exchange: self.first_exchange,
            tokens_before_window: self.tokens_before_window,
            summarized_through: self.summarized_through,
        }
    }
}

impl ForkRecord {
    /// Removes what was derived from forgotten messages of an exchange: `forgotten` are their numbers and tokens,
    /// `headline` is the exchange's new headline.
    pub fn forget(&mut self, exchange: i64, forgotten: &[(i64, i64)], headline: Headline) {
        let mut gone_tokens = 0;
        if let Some(shared) = self
            .exchanges
            .iter_mut()
            .find(|shared| shared.exchange == exchange)
        {
            let within = |seq: &i64| (shared.first_seq..=shared.last_seq).contains(seq);
            for &(seq, tokens) in forgotten.iter().filter(|(seq, _)| within(seq)) {
                // The message may have been counted anew before the fork.
                let count = self.counts.iter_mut().find(|count| count.seq == seq);
                gone_tokens += count.map_or(tokens, |count| std::mem::take(&mut count.tokens));
            }
            shared.tokens = (shared.tokens - gone_tokens).max(0);
            shared.headline = headline;
        }
        let is_preamble = self.preamble_exchange == Some(exchange);
        self.shift_totals(exchange, if is_preamble { 0 } else { gone_tokens });
        let facts = self.facts.len();
        self.facts.retain(|fact| fact.exchange != exchange);
        let mut has_told = facts > self.facts.len();
        for item in &mut self.items {
            if item.ranges.iter().any(|range| range.contains(exchange)) {
                has_told = true;
                for text in [&mut item.text, &mut item.brief, &mut item.gist] {
                    FORGOTTEN_TITLE.clone_into(text);
                }
            }
        }
        if let Some(document) = self.document.as_mut().filter(|_| has_told) {
            document.content.clear();
            document.tokens = 0;
        }
    }

    /// Reduces the running totals of everything after `exchange` by `gone_tokens`.
    fn shift_totals(&mut self, exchange: i64, gone_tokens: i64) {
        let less = |total: &mut i64| *total = (*total - gone_tokens).max(0);
        for shared in self
            .exchanges
            .iter_mut()
            .filter(|shared| shared.exchange > exchange && shared.role == "exchange")
        {
            less(&mut shared.tokens_before);
        }
        for mark in self
            .marks
            .iter_mut()
            .filter(|mark| mark.first_exchange > exchange)
        {
            less(&mut mark.tokens_before_window);
        }
        if self.first_exchange > exchange {
            less(&mut self.tokens_before_window);
        }
    }
}

impl SharedExchange {
    fn row(&self) -> Exchange {
        Exchange {
            exchange: self.exchange,
            session: self.session,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            // Not recorded, since the messages show it; where messages go doesn't depend on it.
            messages: 0,
            tokens: self.tokens,
            tokens_before: self.tokens_before,
            state: self.state,
            opened_at: self.opened_at,
            last_at: self.last_at,
            headline: self.headline.clone(),
            set_aside_at: None,
        }
    }
}

/// An exchange whose messages belong to another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedExchange {
    /// The agent that the messages belong to.
    pub source: AgentId,
    /// Its number.
    pub exchange: i64,
    /// `preamble` or `exchange`.
    pub role: String,
    /// Its session.
    pub session: i64,
    /// Its first message.
    pub first_seq: i64,
    /// Its last message.
    pub last_seq: i64,
    /// Its tokens.
    pub tokens: i64,
    /// Tokens of the exchanges before it.
    pub tokens_before: i64,
    /// Whether more messages were expected.
    pub state: ExchangeState,
    /// When it began.
    #[serde(with = "wire::time")]
    pub opened_at: Timestamp,
    /// When it was last added to.
    #[serde(with = "wire::time")]
    pub last_at: Timestamp,
    /// Its headline.
    pub headline: Headline,
}

/// A message that stays in view when its exchange has left the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// The agent that the message belongs to.
    pub source: AgentId,
    /// Its number.
    pub seq: i64,
    /// Its exchange.
    pub exchange: i64,
    /// The session of that.
    pub session: i64,
    /// Whether it was pinned by hand.
    pub pinned: bool,
    /// Whether it was marked as important to its session.
    pub important: bool,
}

/// The tokens of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRecord {
    /// The message's number.
    pub seq: i64,
    /// Its tokens.
    pub tokens: i64,
    /// How they were counted.
    pub method: String,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    /// Its text.
    pub content: String,
    /// Its tokens.
    pub tokens: i64,
    /// How it was made: `append`, `merge` or `full`.
    pub path: String,
    /// The time its items were aged by.
    #[serde(with = "wire::time")]
    pub as_of: Timestamp,
    /// When it was made.
    #[serde(with = "wire::time")]
    pub updated_at: Timestamp,
    /// When an item changes its section next.
    #[serde(with = "wire::optional_time")]
    pub next_ageing_at: Option<Timestamp>,
}

/// An item that a fork copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord {
    /// The agent that it belongs to.
    pub source: AgentId,
    /// Its number.
    pub item: i64,
    /// The exchanges that it covers.
    pub ranges: Vec<ExchangeRange>,
    /// The earliest time in these.
    #[serde(with = "wire::time")]
    pub started_at: Timestamp,
    /// The latest time in these.
    #[serde(with = "wire::time")]
    pub ended_at: Timestamp,
    /// Their tokens.
    pub source_tokens: i64,
    /// How important it is.
    pub importance: Importance,
    /// Who wrote the texts.
    pub origin: Origin,
    /// The detailed text.
    pub text: String,
    /// The shorter text.
    pub brief: String,
    /// The headline.
    pub gist: String,
}

/// A fact that held at the fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRecord {
    /// The agent that it comes from.
    pub source: AgentId,
    /// Its number.
    pub fact: i64,
    /// What it is about.
    pub kind: FactKind,
    /// One line.
    pub text: String,
    /// The name of whose words it has; `None` for the summariser's.
    pub voice: Option<String>,
    /// The name of who said it; empty if unknown.
    pub speaker: String,
    /// Since when it holds.
    #[serde(with = "wire::time")]
    pub since: Timestamp,
    /// The exchange that it comes from.
    pub exchange: i64,
}
