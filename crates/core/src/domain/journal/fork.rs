//! The state with which a forked agent begins.

use serde::{Deserialize, Serialize};

use super::{MarkRecord, SessionRecord, wire};
use crate::domain::{
    agent::AgentId,
    exchange::{Exchange, ExchangeState, FORGOTTEN_TITLE, Headline},
    ledger::Ledger,
    note::NoteName,
    summary::{
        fact::FactKind,
        item::{ExchangeRange, Importance, Origin},
    },
    time::Timestamp,
};

/// The state of a forked agent at the fork. Its first exchanges belong to its ancestors, whose journals have the messages. The contents
/// of its document are recorded here, since the fork can't make them again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRecord {
    /// The agent that it was forked from.
    pub parent: AgentId,
    /// The parent's last exchange at the fork, if it had one.
    pub fork_exchange: Option<i64>,
    /// When it was forked.
    #[serde(with = "wire::time")]
    pub forked_at: Timestamp,
    /// The number of the parent's last message at the fork. The fork's own messages follow it.
    pub last_seq: i64,
    /// The number of the last exchange.
    pub last_exchange: i64,
    /// The number of the newest live exchange.
    pub newest_exchange: Option<i64>,
    /// The number of the current preamble.
    pub preamble_exchange: Option<i64>,
    /// The current session.
    pub session: i64,
    /// The boundary: the first exchange in the window.
    pub first_exchange: i64,
    /// The tokens of the exchanges before the window.
    pub tokens_before_window: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
    /// The number of the last item.
    pub last_item: i64,
    /// The number of the last eviction; 0 in forks of earlier versions.
    #[serde(default)]
    pub last_eviction: i64,
    /// The tokens of each message of the shared exchanges at the fork. The parent may have recounted the messages since.
    #[serde(default)]
    pub counts: Vec<CountRecord>,
    /// The shared exchanges, and the preamble.
    pub exchanges: Vec<SharedExchange>,
    /// The sessions, oldest first.
    pub sessions: Vec<SessionRecord>,
    /// The marks that a rewind can go back to.
    pub marks: Vec<MarkRecord>,
    /// The messages that stay in view.
    #[serde(default)]
    pub pins: Vec<PinRecord>,
    /// The versions of its notes.
    #[serde(default)]
    pub notes: Vec<NoteRecord>,
    /// The document, if there was one.
    pub document: Option<DocumentRecord>,
    /// The items of the document.
    pub items: Vec<ItemRecord>,
    /// The number of the last fact; 0 in forks of earlier versions.
    #[serde(default)]
    pub last_fact: i64,
    /// The facts that hold.
    #[serde(default)]
    pub facts: Vec<FactRecord>,
}

impl ForkRecord {
    /// Makes the agent's ledger as it is before its first own message.
    pub fn ledger(&self) -> Ledger {
        let shared = |number: Option<i64>| {
            let mut shared = self.exchanges.iter();
            shared.find(|shared| Some(shared.exchange) == number).map(SharedExchange::row)
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
    /// Removes the data that was made from forgotten messages of an exchange. `forgotten` has the messages' numbers and tokens; `headline`
    /// is the exchange's new headline.
    pub fn forget(&mut self, exchange: i64, forgotten: &[(i64, i64)], headline: Headline) {
        let mut forgotten_tokens = 0;
        if let Some(shared) = self.exchanges.iter_mut().find(|shared| shared.exchange == exchange) {
            let is_shared = |seq: &i64| (shared.first_seq..=shared.last_seq).contains(seq);
            for &(seq, tokens) in forgotten.iter().filter(|(seq, _)| is_shared(seq)) {
                // The message may have been recounted before the fork.
                let count = self.counts.iter_mut().find(|count| count.seq == seq);
                forgotten_tokens += count.map_or(tokens, |count| std::mem::take(&mut count.tokens));
            }
            shared.tokens = (shared.tokens - forgotten_tokens).max(0);
            shared.headline = headline;
        }
        let is_preamble = self.preamble_exchange == Some(exchange);
        self.shift_totals(exchange, if is_preamble { 0 } else { forgotten_tokens });
        let facts = self.facts.len();
        self.facts.retain(|fact| fact.exchange != exchange);
        let mut uses_exchange = facts > self.facts.len();
        for item in &mut self.items {
            if item.ranges.iter().any(|range| range.contains(exchange)) {
                uses_exchange = true;
                for text in [&mut item.text, &mut item.brief, &mut item.gist] {
                    FORGOTTEN_TITLE.clone_into(text);
                }
            }
        }
        if let Some(document) = self.document.as_mut().filter(|_| uses_exchange) {
            document.content.clear();
            document.tokens = 0;
        }
    }

    fn shift_totals(&mut self, exchange: i64, forgotten_tokens: i64) {
        let subtract = |total: &mut i64| *total = (*total - forgotten_tokens).max(0);
        for shared in
            self.exchanges.iter_mut().filter(|shared| shared.exchange > exchange && shared.role == "exchange")
        {
            subtract(&mut shared.tokens_before);
        }
        for mark in self.marks.iter_mut().filter(|mark| mark.first_exchange > exchange) {
            subtract(&mut mark.tokens_before_window);
        }
        if self.first_exchange > exchange {
            subtract(&mut self.tokens_before_window);
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
            // A journal doesn't record this count, since the messages show it. Where new messages go doesn't depend on it.
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

/// An exchange with messages of another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedExchange {
    /// The agent that owns the messages.
    pub source: AgentId,
    /// The exchange's number.
    pub exchange: i64,
    /// `preamble` or `exchange`.
    pub role: String,
    /// The exchange's session.
    pub session: i64,
    /// The first message.
    pub first_seq: i64,
    /// The last message.
    pub last_seq: i64,
    /// The exchange's tokens.
    pub tokens: i64,
    /// The tokens of the exchanges before it.
    pub tokens_before: i64,
    /// Open, closed or interrupted.
    pub state: ExchangeState,
    /// When it began.
    #[serde(with = "wire::time")]
    pub opened_at: Timestamp,
    /// The time of its last message.
    #[serde(with = "wire::time")]
    pub last_at: Timestamp,
    /// What its title and digest are made of.
    pub headline: Headline,
}

/// A message that stays in view after its exchange has left the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// The agent that owns the message.
    pub source: AgentId,
    /// The message's number.
    pub seq: i64,
    /// The message's exchange.
    pub exchange: i64,
    /// The session of that exchange.
    pub session: i64,
    /// True if it was pinned.
    pub pinned: bool,
    /// True if it was marked as important to its session.
    pub important: bool,
}

/// A version of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteRecord {
    /// The agent that owns the message.
    pub source: AgentId,
    /// The note's name.
    pub name: NoteName,
    /// The message's number.
    pub seq: i64,
    /// The message's exchange.
    pub exchange: i64,
    /// The message's time.
    #[serde(with = "wire::time")]
    pub written_at: Timestamp,
    /// The length of the text in bytes.
    pub bytes: i64,
    /// The first line of the text.
    pub title: String,
    /// True if this version deleted the note.
    pub deleted: bool,
}

/// The token count of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRecord {
    /// The message's number.
    pub seq: i64,
    /// The number of tokens.
    pub tokens: i64,
    /// The counting method.
    pub method: String,
}

/// A document of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    /// The Markdown.
    pub content: String,
    /// The document's tokens.
    pub tokens: i64,
    /// How it was made: `append`, `merge` or `full`.
    pub path: String,
    /// The time for which its items' ages were computed.
    #[serde(with = "wire::time")]
    pub as_of: Timestamp,
    /// When it was made.
    #[serde(with = "wire::time")]
    pub updated_at: Timestamp,
    /// When an item next changes its section.
    #[serde(with = "wire::optional_time")]
    pub next_ageing_at: Option<Timestamp>,
}

/// An item that a fork copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord {
    /// The agent that owns the item.
    pub source: AgentId,
    /// The item's number.
    pub item: i64,
    /// The exchanges that it covers.
    pub ranges: Vec<ExchangeRange>,
    /// The earliest time of these exchanges.
    #[serde(with = "wire::time")]
    pub started_at: Timestamp,
    /// The latest time of these exchanges.
    #[serde(with = "wire::time")]
    pub ended_at: Timestamp,
    /// The tokens of these exchanges.
    pub source_tokens: i64,
    /// The item's importance.
    pub importance: Importance,
    /// Who wrote the texts.
    pub origin: Origin,
    /// The longest form.
    pub text: String,
    /// The shorter form.
    pub brief: String,
    /// The shortest form.
    pub gist: String,
}

/// A fact that held at the fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRecord {
    /// The agent that the fact comes from.
    pub source: AgentId,
    /// The fact's number.
    pub fact: i64,
    /// The kind of fact.
    pub kind: FactKind,
    /// The text, on one line.
    pub text: String,
    /// Whose words it quotes; `None` for the summariser's own words.
    pub voice: Option<String>,
    /// The speaker's name; empty if unknown.
    pub speaker: String,
    /// Since when it holds.
    #[serde(with = "wire::time")]
    pub since: Timestamp,
    /// The exchange that it comes from.
    pub exchange: i64,
}
