//! An agent's ledger. It puts each message into an exchange, evicts exchanges from the window, and records how far the summary reaches.
//!
//! The ledger is arithmetic on two watermarks (`first_exchange`, `summarized_through`) and a running total. So it can't drift, and a
//! message costs the same after ten exchanges as after ten million. The window in memory ([`super::window::Window`]) and a store's append
//! transaction use the same ledger.
//!
//! Invariant: `summarized_through < first_exchange`: no exchange is both covered and in the window.
//!
//! Invariant: the result depends only on the messages and the rules, never on the batches in which messages arrive.

use super::{
    budget::{Budget, OnOverflow},
    exchange::{Exchange, FIRST_EXCHANGE, LedgerEntry, Leg, PREAMBLE},
    message::Kind,
    time::Timestamp,
};

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into the preamble.
    Preamble,
    /// Into the newest leg.
    Joins,
    /// Into a new exchange.
    Opens,
    /// Into a new row of the newest exchange, since its newest row accepts no more messages.
    Continues(Leg),
}

/// The rules that split messages into sessions and legs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segmentation {
    /// A new exchange after a longer silence begins a new session; 0 means never.
    pub idle_gap_ms: i64,
    /// Once a leg has this many tokens, the next round begins a new leg; 0 means no limit.
    pub leg_tokens: i64,
}

/// The state of one agent between two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The number of the last message; 0 before the first.
    pub last_seq: i64,
    /// The number of the last exchange that was ever opened. Numbers are never reused.
    pub last_exchange: i64,
    /// The current session, from 1.
    pub session: i64,
    /// The session's leading system messages, if there are any.
    pub preamble: Option<Exchange>,
    /// The newest live exchange, if there is one.
    pub newest: Option<Exchange>,
    /// The boundary: the first exchange in the window.
    pub first_exchange: i64,
    /// Tokens of all live exchanges before the boundary.
    pub tokens_before_window: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
}

/// What the append of one message changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendEffect {
    /// The message's sequence number.
    pub seq: i64,
    /// The number of the message's exchange.
    pub exchange: i64,
    /// The row that this message completed because it opened the next one.
    pub completed: Option<Exchange>,
    /// True if the message began a second or later leg of its exchange.
    pub begins_leg: bool,
    /// True if the message began a new session after an idle gap.
    pub new_session: bool,
}

/// How far to move the boundary: to the first exchange with at least `tokens_before_min` tokens before it, but not past the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The new first exchange has at least this many tokens before it.
    pub tokens_before_min: i64,
    /// The first exchange that must stay in the window: see [`Ledger::floor`].
    pub floor: i64,
}

impl Overflow {
    /// Returns true if the window may begin at `cut`.
    pub fn allows(self, cut: CutPoint) -> bool {
        cut.tokens_before >= self.tokens_before_min || cut.exchange >= self.floor
    }
}

/// An exchange with which the window may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutPoint {
    /// The first exchange of the window.
    pub exchange: i64,
    /// The tokens of all live exchanges before it.
    pub tokens_before: i64,
}

impl CutPoint {
    /// Returns the cut that makes `exchange` the first one of the window.
    pub fn before(exchange: &Exchange) -> Self {
        Self { exchange: exchange.exchange, tokens_before: exchange.tokens_before }
    }
}

/// The data of an exchange that the limit on messages needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowExchange {
    /// The cut that makes it the first exchange of the window.
    pub cut: CutPoint,
    /// How many messages it has, without metadata.
    pub messages: i64,
}

impl From<&Exchange> for WindowExchange {
    fn from(exchange: &Exchange) -> Self {
        Self { cut: CutPoint::before(exchange), messages: exchange.messages }
    }
}

/// The settings refuse a message that makes the newest leg alone bigger than the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the newest leg, which never leaves the window, would have {tokens} tokens with the preamble, and the window's budget is \
     {budget_tokens}"
)]
pub struct TooBig {
    /// Tokens of the preamble and the newest leg.
    pub tokens: i64,
    /// The window's budget.
    pub budget_tokens: i64,
}

/// Pending exchanges that come back into the window together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The first of them.
    pub from_exchange: i64,
    /// The last of them.
    pub through_exchange: i64,
    /// Their tokens.
    pub tokens: i64,
}

/// Exchanges that are evicted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The first of them.
    pub from_exchange: i64,
    /// The last of them.
    pub through_exchange: i64,
    /// Their tokens.
    pub tokens: i64,
    /// The time of the message that caused the eviction.
    pub at: Timestamp,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            last_seq: 0,
            last_exchange: PREAMBLE,
            session: 1,
            preamble: None,
            newest: None,
            first_exchange: FIRST_EXCHANGE,
            tokens_before_window: 0,
            summarized_through: 0,
        }
    }
}

impl Ledger {
    /// Returns the number of the exchange that the newest row continues; `None` if the newest row begins an exchange or was set aside.
    pub fn continues(&self) -> Option<i64> {
        let newest = self.newest.as_ref()?;
        newest.headline.continues.filter(|_| newest.exchange == self.last_exchange)
    }

    /// Decides where the next message goes (DESIGN 4.2; seed 000, "Boundary Detection"; seed 004, "a user message that is not a tool
    /// result"). If several named speakers talk, an exchange has one message of each; it doesn't matter which of them have the user's
    /// role. A leg with `leg_tokens` ends where the next round begins.
    pub fn place(&self, entry: &LedgerEntry, leg_tokens: i64) -> Placement {
        let is_full = |newest: &Exchange| newest.ends_leg_before(entry, leg_tokens);
        match (&entry.kind, &self.newest) {
            (Kind::User, Some(newest)) if self.accepts_messages(newest) && newest.is_answered_by(entry) => {
                Placement::Joins
            }
            (Kind::User, _) if entry.is_request && !entry.interrupts => Placement::Opens,
            (Kind::Assistant | Kind::ToolCall, Some(newest)) if newest.is_ended_by(entry) => Placement::Opens,
            (_, Some(newest)) if self.accepts_messages(newest) && !is_full(newest) => Placement::Joins,
            (Kind::System | Kind::Metadata(_), None) if self.is_last_row(self.preamble.as_ref()) => {
                Placement::Preamble
            }
            (_, Some(newest)) if newest.exchange >= self.first_exchange => {
                Placement::Continues(if is_full(newest) { Leg::Next } else { Leg::Same })
            }
            _ => Placement::Opens,
        }
    }

    /// Returns the first row of the newest leg, which is never evicted. After a fork or a rewind a leg may have several rows.
    pub fn floor(&self) -> Option<i64> {
        let newest = self.newest.as_ref()?;
        Some(newest.leg_from().max(self.first_exchange))
    }

    /// Returns true if the newest row accepts messages. It accepts none once it has left the window. After a rewind to it, it accepts
    /// none either, since its messages would no longer have consecutive numbers.
    fn accepts_messages(&self, newest: &Exchange) -> bool {
        newest.exchange >= self.first_exchange && self.is_last_row(Some(newest))
    }

    fn is_last_row(&self, exchange: Option<&Exchange>) -> bool {
        exchange.is_none_or(|exchange| exchange.last_seq == self.last_seq)
    }

    /// Returns the number of a preamble that begins now: 0, or the next number after a clear.
    pub(super) fn next_preamble(&self) -> i64 {
        self.last_exchange + i64::from(self.session > 1 || self.last_exchange > PREAMBLE)
    }

    /// Adds one message.
    pub fn append(&mut self, entry: &LedgerEntry, rules: Segmentation) -> AppendEffect {
        let placement = self.place(entry, rules.leg_tokens);
        self.last_seq += 1;
        let seq = self.last_seq;
        match placement {
            Placement::Preamble => {
                if let Some(preamble) = &mut self.preamble {
                    preamble.add(seq, entry);
                } else {
                    let number = self.next_preamble();
                    self.last_exchange = number;
                    self.preamble = Some(Exchange::open(number, self.session, 0, seq, entry));
                }
                AppendEffect {
                    seq,
                    exchange: self.preamble.as_ref().map_or(PREAMBLE, |preamble| preamble.exchange),
                    completed: None,
                    begins_leg: false,
                    new_session: false,
                }
            }
            Placement::Opens => self.open(seq, entry, None, rules),
            Placement::Continues(leg) => self.open(seq, entry, Some(leg), rules),
            Placement::Joins => {
                // `place` returns `Joins` only if there is an exchange to join.
                let newest =
                    self.newest.get_or_insert_with(|| Exchange::open(FIRST_EXCHANGE, 1, 0, seq, entry));
                newest.add(seq, entry);
                AppendEffect {
                    seq,
                    exchange: newest.exchange,
                    completed: None,
                    begins_leg: false,
                    new_session: false,
                }
            }
        }
    }

    /// Opens a row: the next row of the newest exchange if there is a `leg`, otherwise a new exchange.
    fn open(&mut self, seq: i64, entry: &LedgerEntry, leg: Option<Leg>, rules: Segmentation) -> AppendEffect {
        let tokens_before = self.tokens_through();
        let completed = self.newest.take().map(Exchange::without_round);
        // A new leg stays in the session of its exchange, even if a tool took long or the session has ended.
        let continued = completed.as_ref().filter(|_| leg == Some(Leg::Next));
        let session = continued.map(|row| row.session);
        let new_session =
            session.is_none() && self.is_idle_before(entry, completed.as_ref(), rules.idle_gap_ms);
        self.session += i64::from(new_session);
        self.last_exchange += 1;
        let session = session.unwrap_or(self.session);
        let opened = Exchange::open(self.last_exchange, session, tokens_before, seq, entry);
        self.newest = Some(match (&completed, leg) {
            (Some(completed), Some(leg)) => opened.continuing(completed, leg),
            _ => opened,
        });
        AppendEffect {
            seq,
            exchange: self.last_exchange,
            completed,
            begins_leg: leg == Some(Leg::Next),
            new_session,
        }
    }

    /// Returns true if the silence between the row `previous` and `entry` ends the current session. After an explicit end, the silence
    /// belongs to the session that began with it.
    fn is_idle_before(&self, entry: &LedgerEntry, previous: Option<&Exchange>, idle_gap_ms: i64) -> bool {
        let previous = previous.filter(|row| idle_gap_ms > 0 && row.session == self.session);
        previous.is_some_and(|row| entry.at.since_ms(row.last_at) > idle_gap_ms)
    }

    /// Returns the tokens of the preamble and of the live exchanges in the window.
    pub fn window_tokens(&self) -> i64 {
        self.preamble_tokens() + (self.tokens_through() - self.tokens_before_window).max(0)
    }

    /// Returns the tokens of all live exchanges.
    pub fn tokens_through(&self) -> i64 {
        let newest = self.newest.as_ref();
        newest.map_or(self.tokens_before_window, Exchange::tokens_through)
    }

    /// Returns the tokens of the preamble.
    pub fn preamble_tokens(&self) -> i64 {
        self.preamble.as_ref().map_or(0, |preamble| preamble.tokens)
    }

    /// Returns what to evict if the window has too many tokens. Never evicts the newest leg. If that leg alone is too big (seed 001,
    /// "Safety floor"), there is nothing to evict, and [`Self::is_over_budget`] returns true.
    pub fn overflow(&self, budget: Budget) -> Option<Overflow> {
        let floor = self.floor()?;
        if !budget.is_exceeded_by(self.window_tokens()) || floor <= self.first_exchange {
            return None;
        }
        let target = budget.low_water_tokens() - self.preamble_tokens();
        Some(Overflow { tokens_before_min: self.tokens_through() - target, floor })
    }

    /// Returns where to cut if the window has too many messages. The newest leg always stays. `exchanges` are the window's exchanges,
    /// oldest first; the number of messages of the newest row is taken from this ledger.
    pub fn message_overflow(
        &self,
        budget: Budget,
        exchanges: impl Iterator<Item = WindowExchange> + Clone,
    ) -> Option<CutPoint> {
        let newest = self.newest.as_ref().filter(|_| budget.max_messages() > 0)?;
        let floor = self.floor()?;
        let earlier = exchanges.filter(|exchange| exchange.cut.exchange < newest.exchange);
        let mut messages = newest.messages + earlier.clone().map(|exchange| exchange.messages).sum::<i64>();
        if !budget.is_exceeded_by_messages(messages) {
            return None;
        }
        for exchange in earlier {
            if exchange.cut.exchange >= floor || !budget.is_exceeded_by_messages(messages) {
                return Some(exchange.cut);
            }
            messages -= exchange.messages;
        }
        Some(CutPoint::before(newest))
    }

    /// Returns the eviction that meets both limits, for [`Self::evict_to`]: the later of the cuts for too many tokens and for too many
    /// messages. The outer `None` means that nothing is evicted; an inner `None`, that no cut is far enough.
    pub fn later_cut(
        &self,
        by_tokens: Option<Option<CutPoint>>,
        by_messages: Option<CutPoint>,
    ) -> Option<Option<CutPoint>> {
        match (by_tokens, by_messages) {
            (None, None) => None,
            (Some(by_tokens), None) => Some(by_tokens),
            (None, by_messages) => Some(by_messages),
            // If no cut is far enough, only the newest row stays.
            (Some(by_tokens), Some(by_messages)) => {
                Some(by_tokens.map(|by_tokens| by_tokens.max(by_messages)))
            }
        }
    }

    /// Evicts everything before `cut`, but never the newest row. With `None`, evicts everything before the newest row.
    pub fn evict_to(&mut self, cut: Option<CutPoint>, at: Timestamp) -> Option<Eviction> {
        let newest = self.newest.as_ref().map(CutPoint::before)?;
        let cut = cut.filter(|cut| cut.exchange < newest.exchange).unwrap_or(newest);
        self.move_boundary(cut, at)
    }

    /// Returns which pending exchanges may come back into the window after the budget was raised. Leaves as much room as an eviction does,
    /// so that the next message doesn't evict them again.
    pub fn room(&self, budget: Budget) -> Option<Overflow> {
        let newest = self.newest.as_ref()?;
        if self.pending_numbers() == 0 || newest.exchange < self.first_exchange {
            return None;
        }
        let target = budget.low_water_tokens() - self.preamble_tokens();
        let tokens_before_min = match budget.budget_tokens() {
            0 => 0,
            _ => newest.tokens_through() - target,
        };
        (tokens_before_min < self.tokens_before_window)
            .then_some(Overflow { tokens_before_min, floor: newest.exchange })
    }

    /// Moves the boundary back to `cut`, over pending exchanges only. Returns the exchanges that come back, if any.
    pub fn take_back(&mut self, cut: CutPoint) -> Option<Return> {
        if cut.exchange <= self.summarized_through || cut.exchange >= self.first_exchange {
            return None;
        }
        let returned = Return {
            from_exchange: cut.exchange,
            through_exchange: self.first_exchange - 1,
            tokens: self.tokens_before_window - cut.tokens_before,
        };
        self.first_exchange = cut.exchange;
        self.tokens_before_window = cut.tokens_before;
        Some(returned)
    }

    pub(super) fn move_boundary(&mut self, cut: CutPoint, at: Timestamp) -> Option<Eviction> {
        if cut.exchange <= self.first_exchange {
            return None;
        }
        let eviction = Eviction {
            from_exchange: self.first_exchange,
            through_exchange: cut.exchange - 1,
            tokens: cut.tokens_before - self.tokens_before_window,
            at,
        };
        self.first_exchange = cut.exchange;
        self.tokens_before_window = cut.tokens_before;
        Some(eviction)
    }

    /// Returns true if the window is over budget.
    pub fn is_over_budget(&self, budget: Budget) -> bool {
        budget.is_exceeded_by(self.window_tokens())
    }

    /// Applies the setting for a newest leg that, with the preamble, is bigger than the budget. Callers check after each message
    /// (`entry`) and its evictions, so the batches in which messages arrive make no difference. A message without tokens has no effect.
    /// Returns the session that ends here, if one does; the next exchange begins another session.
    ///
    /// # Errors
    /// [`TooBig`] if the message must be refused. The caller must then discard this ledger.
    pub fn check_overflow(
        &mut self,
        entry: &LedgerEntry,
        budget: Budget,
        on_overflow: OnOverflow,
    ) -> Result<Option<i64>, TooBig> {
        let newest = self.newest.as_ref();
        let tokens = self.window_tokens();
        if entry.tokens == 0 || !budget.is_exceeded_by(tokens) {
            return Ok(None);
        }
        let is_running = newest.is_some_and(|newest| newest.session == self.session);
        match on_overflow {
            OnOverflow::Refuse => Err(TooBig { tokens, budget_tokens: budget.budget_tokens() }),
            OnOverflow::End if is_running => {
                self.session += 1;
                Ok(Some(self.session - 1))
            }
            OnOverflow::End | OnOverflow::Evict => Ok(None),
        }
    }

    /// Returns how many exchange numbers lie between the summary and the window. Exchanges that are set aside count as well, so this is
    /// an upper bound, for scheduling only.
    pub fn pending_numbers(&self) -> i64 {
        self.first_exchange - 1 - self.summarized_through
    }
}

#[cfg(test)]
mod tests;
