//! The window in memory: the embedded eviction library, without a daemon or a database.
//!
//! ```
//! use recapd::{domain::window::{Budget, Window}, formats, tokenizer};
//!
//! let counter = tokenizer::counter_for("openai", "gpt-5");
//! let mut window = Window::new(Budget::new(1_000, 0.8), counter);
//! let message = formats::parse(recapd::domain::message::Format::OpenAiChat, r#"{"role":"user","content":"Hi"}"#)?;
//! let evicted = window.push(message, recapd::domain::time::Timestamp(0));
//! assert!(evicted.is_empty());
//! assert_eq!(window.messages().count(), 1);
//! # Ok::<(), recapd::formats::FormatError>(())
//! ```

use std::{collections::VecDeque, sync::Arc};

use super::{
    context::{ContextInput, SourceExchange, SourceMessage},
    exchange::{Entry, Exchange, ExchangeState, FIRST_EXCHANGE},
    ledger::{Cut, Ledger},
    lineage::Step,
    message::Message,
    time::Timestamp,
    tokens::{TokenCounter, count_message},
};

/// How many tokens the window may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    budget_tokens: i64,
    low_water: f64,
}

impl Budget {
    /// A ceiling of `budget_tokens` (0 disables eviction). When it is exceeded, exchanges leave until the window is
    /// at or under `low_water` × the ceiling; 1.0 evicts just enough (seeds 000 and 001), less keeps the provider's
    /// prompt cache warm between evictions. `low_water` is held to 0..=1.
    pub fn new(budget_tokens: i64, low_water: f64) -> Self {
        Self {
            budget_tokens: budget_tokens.max(0),
            low_water: low_water.clamp(0.0, 1.0),
        }
    }

    /// No ceiling: nothing is ever evicted.
    pub fn unlimited() -> Self {
        Self::new(0, 1.0)
    }

    /// The ceiling; 0 means none.
    pub fn budget_tokens(self) -> i64 {
        self.budget_tokens
    }

    /// Where an eviction stops, as a share of the ceiling.
    pub fn low_water(self) -> f64 {
        self.low_water
    }

    /// Where an eviction stops.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "budgets are far below 2^52 tokens"
    )]
    pub fn low_water_tokens(self) -> i64 {
        (self.budget_tokens as f64 * self.low_water).floor() as i64
    }

    /// Whether this ceiling is above one of `budget_tokens`; none is above any.
    pub fn is_above(self, budget_tokens: i64) -> bool {
        budget_tokens > 0 && (self.budget_tokens == 0 || self.budget_tokens > budget_tokens)
    }

    /// Whether `tokens` are too many (seed 001: a ceiling, so equal is fine).
    pub fn is_exceeded_by(self, tokens: i64) -> bool {
        self.budget_tokens > 0 && tokens > self.budget_tokens
    }
}

/// An exchange with its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldExchange {
    /// Its row.
    pub exchange: Exchange,
    /// Its messages, in order.
    pub messages: Vec<Message>,
    /// What each of them costs.
    pub tokens: Vec<i64>,
}

/// A window held in memory. It keeps the preamble and the exchanges in the window, nothing else.
pub struct Window {
    ledger: Ledger,
    budget: Budget,
    counter: Arc<dyn TokenCounter>,
    preamble: Vec<(Message, i64)>,
    held: VecDeque<HeldExchange>,
}

impl Window {
    /// An empty window.
    pub fn new(budget: Budget, counter: Arc<dyn TokenCounter>) -> Self {
        Self {
            ledger: Ledger::default(),
            budget,
            counter,
            preamble: Vec::new(),
            held: VecDeque::new(),
        }
    }

    /// Appends a message, said at `now` unless it brings a time of its own, and returns the exchanges that had to
    /// leave, oldest first. A clear empties the window; a rewind does nothing, since what it would bring back isn't
    /// kept here.
    pub fn push(&mut self, message: Message, now: Timestamp) -> Vec<HeldExchange> {
        let tokens = count_message(self.counter.as_ref(), &message);
        let entry = Entry::new(&message, tokens, message.at.unwrap_or(now));
        let is_clear = Step::of(&message) == Some(Step::Clear);
        let appended = self.ledger.append(&entry, 0);
        self.hold(appended.exchange, message, tokens);
        if is_clear {
            self.ledger.clear(entry.at);
            self.preamble.clear();
            return self.held.drain(..).collect();
        }
        self.evict(entry.at)
    }

    fn hold(&mut self, exchange: i64, message: Message, tokens: i64) {
        let preamble = self.ledger.preamble.as_ref();
        if preamble.is_some_and(|preamble| preamble.exchange == exchange) {
            self.preamble.push((message, tokens));
            return;
        }
        let Some(newest) = &self.ledger.newest else { return };
        match self
            .held
            .back_mut()
            .filter(|held| held.exchange.exchange == exchange)
        {
            Some(held) => {
                held.exchange.clone_from(newest);
                held.messages.push(message);
                held.tokens.push(tokens);
            }
            None => self.held.push_back(HeldExchange {
                exchange: newest.clone(),
                messages: vec![message],
                tokens: vec![tokens],
            }),
        }
    }

    fn evict(&mut self, at: Timestamp) -> Vec<HeldExchange> {
        let Some(overflow) = self.ledger.overflow(self.budget) else {
            return Vec::new();
        };
        // From the oldest on, only as many exchanges are looked at as leave, however many the window holds.
        let cut = self
            .held
            .iter()
            .find(|held| held.exchange.tokens_before >= overflow.tokens_before_min)
            .map(|held| Cut {
                exchange: held.exchange.exchange,
                tokens_before: held.exchange.tokens_before,
            });
        if self.ledger.evict_to(cut, at).is_none() {
            return Vec::new();
        }
        let leaving = self
            .held
            .iter()
            .take_while(|held| held.exchange.exchange < self.ledger.first_exchange)
            .count();
        self.held.drain(..leaving).collect()
    }

    /// The messages that the model sees, in order: preamble, then the exchanges in the window.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.preamble
            .iter()
            .map(|(message, _)| message)
            .chain(self.held.iter().flat_map(|held| held.messages.iter()))
    }

    /// The exchanges in the window, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = &HeldExchange> {
        self.held.iter()
    }

    /// What a context of the window is built from, without a summary and without an anchor, which it doesn't keep.
    /// Messages are numbered from the window's beginning.
    pub fn context_input(&self) -> ContextInput<'_> {
        let mut seq = 0;
        let mut source = |message, tokens| {
            seq += 1;
            SourceMessage {
                seq,
                message,
                tokens: Some(tokens),
            }
        };
        let preamble = self.preamble.iter();
        let preamble = preamble.map(|(message, tokens)| source(message, *tokens));
        ContextInput {
            preamble: preamble.collect(),
            anchor: None,
            summary: None,
            exchanges: self
                .held
                .iter()
                .map(|held| {
                    let messages = held.messages.iter().zip(&held.tokens);
                    SourceExchange {
                        exchange: held.exchange.exchange,
                        is_open: held.exchange.state == ExchangeState::Open,
                        messages: messages
                            .map(|(message, tokens)| source(message, *tokens))
                            .collect(),
                    }
                })
                .collect(),
            evicted: self.ledger.first_exchange > FIRST_EXCHANGE,
        }
    }

    /// Tokens of the preamble and the exchanges in the window.
    pub fn tokens(&self) -> i64 {
        self.ledger.window_tokens()
    }

    /// The newest exchange, or the preamble, is too big alone.
    pub fn is_over_budget(&self) -> bool {
        self.ledger.is_over_budget(self.budget)
    }
}

#[cfg(test)]
mod tests;
