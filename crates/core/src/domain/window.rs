//! The window in memory: a library that evicts exchanges within an agent's own process, without a daemon or a database.
//!
//! ```
//! use recapd_core::{domain::window::{Budget, Window}, formats, tokenizer};
//!
//! let counter = tokenizer::counter_for("openai", "gpt-5");
//! let mut window = Window::new(Budget::new(1_000, 0.8), counter);
//! let message = formats::parse(recapd_core::domain::message::Format::OpenAiChat, r#"{"role":"user","content":"Hi"}"#)?;
//! let evicted = window.push(message, recapd_core::domain::time::Timestamp(1_795_250_400_000));
//! assert!(evicted.is_empty());
//! assert_eq!(window.messages().count(), 1);
//! # Ok::<(), recapd_core::formats::FormatError>(())
//! ```

use std::{borrow::Borrow, collections::VecDeque, sync::Arc};

use super::{
    budget::OnOverflow,
    context::{ContextInput, SourceExchange, SourceMessage, SourceRequest, is_safe_boundary},
    exchange::{Exchange, FIRST_EXCHANGE, LedgerEntry},
    ledger::{CutPoint, Ledger, Segmentation, TooBig, WindowExchange},
    legs::are_open,
    lineage::Step,
    message::Message,
    redaction::Redactor,
    time::Timestamp,
    tokens::{TokenCounter, count_message},
};

pub use super::budget::Budget;

/// An exchange with its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldExchange<M = Message> {
    /// Its row of the ledger.
    pub exchange: Exchange,
    /// Its messages, in order.
    pub messages: Vec<M>,
    /// The tokens of each message.
    pub tokens: Vec<i64>,
}

/// A window in memory. It keeps only the preamble and the exchanges in the window. It owns its messages, unless they are shared: see
/// `Window<&Message>` and `Window<Arc<Message>>`.
pub struct Window<M = Message> {
    ledger: Ledger,
    budget: Budget,
    on_overflow: OnOverflow,
    counter: Arc<dyn TokenCounter>,
    redactor: Redactor,
    preamble: Vec<(M, i64)>,
    exchanges: VecDeque<HeldExchange<M>>,
    request: Option<HeldRequest>,
}

/// The request of the newest exchange. The window keeps it after its leg was evicted, as long as later legs are in the window.
struct HeldRequest {
    exchange: i64,
    seq: i64,
    message: Message,
    tokens: i64,
}

/// What pushing a message did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOutcome<M = Message> {
    /// The evicted exchanges, oldest first.
    pub evicted: Vec<HeldExchange<M>>,
    /// The session that ended because its newest leg alone is too big ([`OnOverflow::End`]).
    pub session_ended: Option<i64>,
}

impl<M> Default for PushOutcome<M> {
    fn default() -> Self {
        Self { evicted: Vec::new(), session_ended: None }
    }
}

impl<M: Borrow<Message>> Window<M> {
    /// Makes an empty window. It redacts secrets in headlines by the built-in rules; [`Self::redacting`] sets others.
    pub fn new(budget: Budget, counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            ledger: Ledger::default(),
            budget,
            on_overflow: OnOverflow::Evict,
            counter,
            redactor: Redactor::standard(),
            preamble: Vec::new(),
            exchanges: VecDeque::new(),
            request: None,
        }
    }

    /// Sets what happens if the newest leg alone is too big.
    #[must_use]
    pub fn on_overflow(self, on_overflow: OnOverflow) -> Self {
        Self { on_overflow, ..self }
    }

    /// Sets the rules for redacting secrets in headlines.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Appends a message and returns the evicted exchanges, oldest first. The message's time is its own or `now`, whichever is earlier. A
    /// clear empties the window. A rewind does nothing, since the window doesn't keep evicted exchanges. Refuses no message; see
    /// [`Self::try_push`].
    pub fn push(&mut self, message: M, now: Timestamp) -> Vec<HeldExchange<M>> {
        let tokens = count_message(self.counter.as_ref(), message.borrow());
        self.push_counted(message, tokens, now)
    }

    /// Like [`Self::push`], for a message whose tokens are known: counted before, or reported by the provider.
    pub fn push_counted(&mut self, message: M, tokens: i64, now: Timestamp) -> Vec<HeldExchange<M>> {
        let entry = self.entry(message.borrow(), tokens, now);
        self.append(message, &entry).evicted
    }

    /// Like [`Self::push`], but applies `on_overflow` if the message makes the newest leg alone too big: refuses the message or ends the
    /// session.
    ///
    /// # Errors
    /// [`TooBig`] under [`OnOverflow::Refuse`]. The window is then unchanged.
    pub fn try_push(&mut self, message: M, now: Timestamp) -> Result<PushOutcome<M>, TooBig> {
        let tokens = count_message(self.counter.as_ref(), message.borrow());
        let entry = self.entry(message.borrow(), tokens, now);
        if self.on_overflow == OnOverflow::Refuse {
            let mut trial = self.ledger.clone();
            trial.append(&entry, self.segmentation());
            trial.evict_to(None, entry.at);
            trial.check_overflow(&entry, self.budget, self.on_overflow)?;
        }
        let outcome = self.append(message, &entry);
        let session_ended = self.ledger.check_overflow(&entry, self.budget, self.on_overflow)?;
        Ok(PushOutcome { session_ended, ..outcome })
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation { idle_gap_ms: 0, leg_tokens: self.budget.leg_tokens() }
    }

    fn entry(&self, message: &Message, tokens: i64, now: Timestamp) -> LedgerEntry {
        // A message isn't later than its arrival, whatever the client's clock says.
        let at = message.at.map_or(now, |at| at.min(now));
        LedgerEntry::new(message, tokens, at, &self.redactor)
    }

    fn append(&mut self, message: M, entry: &LedgerEntry) -> PushOutcome<M> {
        let is_clear = Step::of(message.borrow()) == Some(Step::Clear);
        let outcome = self.ledger.append(entry, self.segmentation());
        self.store(outcome.exchange, message, entry.tokens);
        let evicted = if is_clear {
            self.ledger.clear(entry.at);
            self.preamble.clear();
            self.exchanges.drain(..).collect()
        } else {
            self.evict(entry.at)
        };
        PushOutcome { evicted, session_ended: None }
    }

    fn store(&mut self, exchange: i64, message: M, tokens: i64) {
        let preamble = self.ledger.preamble.as_ref();
        if preamble.is_some_and(|preamble| preamble.exchange == exchange) {
            self.preamble.push((message, tokens));
            return;
        }
        let Some(newest) = &self.ledger.newest else { return };
        self.request = self.request.take().filter(|request| request.exchange == newest.first_leg());
        if self.request.is_none() && newest.is_later_leg() {
            self.request = self.find_request(newest.first_leg());
        }
        match self.exchanges.back_mut().filter(|row| row.exchange.exchange == exchange) {
            Some(row) => {
                row.exchange.clone_from(newest);
                row.messages.push(message);
                row.tokens.push(tokens);
            }
            None => self.exchanges.push_back(HeldExchange {
                exchange: newest.clone(),
                messages: vec![message],
                tokens: vec![tokens],
            }),
        }
    }

    /// Finds the request of the exchange that begins with this leg, if the leg is still in the window.
    fn find_request(&self, exchange: i64) -> Option<HeldRequest> {
        let row = self.exchanges.iter().find(|row| row.exchange.exchange == exchange)?;
        let mut messages = (row.exchange.first_seq..).zip(row.messages.iter().zip(&row.tokens));
        let (seq, (message, tokens)) =
            messages.find(|(_, (message, _))| is_safe_boundary((*message).borrow()))?;
        Some(HeldRequest { exchange, seq, message: message.borrow().clone(), tokens: *tokens })
    }

    fn evict(&mut self, at: Timestamp) -> Vec<HeldExchange<M>> {
        let by_tokens = self.ledger.overflow(self.budget).map(|overflow| {
            // Visits only the exchanges that leave, oldest first, however many the window has.
            let mut cuts = self.exchanges.iter().map(|row| CutPoint::before(&row.exchange));
            cuts.find(|cut| overflow.allows(*cut))
        });
        let by_messages = self.ledger.message_overflow(
            self.budget,
            self.exchanges.iter().map(|row| WindowExchange::from(&row.exchange)),
        );
        let Some(cut) = self.ledger.later_cut(by_tokens, by_messages) else {
            return Vec::new();
        };
        if self.ledger.evict_to(cut, at).is_none() {
            return Vec::new();
        }
        let leaving = self
            .exchanges
            .iter()
            .take_while(|row| row.exchange.exchange < self.ledger.first_exchange)
            .count();
        self.exchanges.drain(..leaving).collect()
    }

    /// Returns the messages that the model sees, in order: the preamble, then the exchanges in the window.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let preamble = self.preamble.iter().map(|(message, _)| message);
        let window = self.exchanges.iter().flat_map(|row| row.messages.iter());
        preamble.chain(window).map(Borrow::borrow)
    }

    /// Returns the exchanges in the window, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = &HeldExchange<M>> {
        self.exchanges.iter()
    }

    /// Returns the input for a context of the window. It has no summary and no anchor, since the window keeps neither.
    pub fn context_input(&self) -> ContextInput<'_> {
        let are_open = are_open(self.exchanges.iter().map(|row| &row.exchange));
        let exchanges = self.exchanges.iter().zip(are_open).map(|(row, is_open)| {
            let messages = row.messages.iter().zip(row.tokens.iter().copied());
            SourceExchange {
                exchange: row.exchange.exchange,
                first_leg: row.exchange.first_leg(),
                is_open,
                messages: sources(row.exchange.first_seq, messages),
            }
        });
        let preamble = self.preamble.iter().map(|(message, tokens)| (message, *tokens));
        let first_seq = self.ledger.preamble.as_ref().map_or(1, |preamble| preamble.first_seq);
        ContextInput {
            preamble: sources(first_seq, preamble),
            request: self.request.as_ref().map(|request| SourceRequest {
                exchange: request.exchange,
                message: SourceMessage {
                    seq: request.seq,
                    message: &request.message,
                    tokens: Some(request.tokens),
                },
            }),
            exchanges: exchanges.collect(),
            evicted: self.ledger.first_exchange > FIRST_EXCHANGE,
            ..ContextInput::default()
        }
    }

    /// Returns the tokens of the preamble and of the exchanges in the window.
    pub fn tokens(&self) -> i64 {
        self.ledger.window_tokens()
    }

    /// Returns true if the window is over budget because the preamble and the newest leg alone are too big.
    pub fn is_over_budget(&self) -> bool {
        self.ledger.is_over_budget(self.budget)
    }
}

fn sources<'m, M: Borrow<Message> + 'm>(
    first_seq: i64,
    messages: impl Iterator<Item = (&'m M, i64)>,
) -> Vec<SourceMessage<'m>> {
    let numbered = (first_seq..).zip(messages);
    let sources = numbered.map(|(seq, (message, tokens))| SourceMessage {
        seq,
        message: message.borrow(),
        tokens: Some(tokens),
    });
    sources.collect()
}

#[cfg(test)]
mod tests;
