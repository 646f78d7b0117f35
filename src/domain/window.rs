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

use std::{borrow::Borrow, collections::VecDeque, sync::Arc};

use super::{
    exchange::{Entry, Exchange},
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
pub struct HeldExchange<M = Message> {
    /// Its row.
    pub exchange: Exchange,
    /// Its messages, in order.
    pub messages: Vec<M>,
}

/// A window held in memory. It keeps the preamble and the exchanges in the window, nothing else. Messages are its own,
/// or, as `Window<&Message>` or `Window<Arc<Message>>`, those of whoever keeps the history.
pub struct Window<M = Message> {
    ledger: Ledger,
    budget: Budget,
    counter: Arc<dyn TokenCounter>,
    preamble: Vec<M>,
    held: VecDeque<HeldExchange<M>>,
}

impl<M: Borrow<Message>> Window<M> {
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
    pub fn push(&mut self, message: M, now: Timestamp) -> Vec<HeldExchange<M>> {
        let tokens = count_message(self.counter.as_ref(), message.borrow());
        self.push_counted(message, tokens, now)
    }

    /// As [`Self::push`], with a message whose tokens are known: counted before, or reported by the provider.
    pub fn push_counted(&mut self, message: M, tokens: i64, now: Timestamp) -> Vec<HeldExchange<M>> {
        let said: &Message = message.borrow();
        let entry = Entry::new(said, tokens, said.at.unwrap_or(now));
        let is_clear = Step::of(said) == Some(Step::Clear);
        let appended = self.ledger.append(&entry, 0);
        self.hold(appended.exchange, message);
        if is_clear {
            self.ledger.clear(entry.at);
            self.preamble.clear();
            return self.held.drain(..).collect();
        }
        self.evict(entry.at)
    }

    fn hold(&mut self, exchange: i64, message: M) {
        let preamble = self.ledger.preamble.as_ref();
        if preamble.is_some_and(|preamble| preamble.exchange == exchange) {
            self.preamble.push(message);
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
            }
            None => self.held.push_back(HeldExchange {
                exchange: newest.clone(),
                messages: vec![message],
            }),
        }
    }

    fn evict(&mut self, at: Timestamp) -> Vec<HeldExchange<M>> {
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
        let held = self.held.iter().flat_map(|held| held.messages.iter());
        self.preamble.iter().chain(held).map(Borrow::borrow)
    }

    /// The exchanges in the window, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = &HeldExchange<M>> {
        self.held.iter()
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
