//! An agent's ledger: it places each message, and holds the window's boundary and the extent of the summary.
//!
//! The ledger is arithmetic on two watermarks (`first_exchange`, `summarized_through`) and a running total. So it can't drift, and a
//! message costs the same after ten exchanges as after ten million. The same ledger decides in memory ([`super::window::Window`]) and in
//! a store's append transaction.
//!
//! Invariant: `summarized_through < first_exchange`: no exchange is both covered and in the window.
//! Invariant: the result depends only on the messages and the rules, never on how messages were batched.

use super::{
    exchange::{Exchange, FIRST_EXCHANGE, LedgerEntry, Leg, PREAMBLE},
    message::Kind,
    settings::OnOverflow,
    time::Timestamp,
    window::Budget,
};

/// The place of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the preamble.
    Preamble,
    /// In the newest exchange, or its newest leg.
    Joins,
    /// In a new exchange.
    Opens,
    /// In a new row of the newest exchange, whose leg is full or closed.
    Continues(Leg),
}

/// The rules for splitting messages into sessions and legs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segmentation {
    /// A longer silence before a new exchange starts a new session; 0 means never.
    pub idle_gap_ms: i64,
    /// Once a leg has this many tokens, the next round begins another leg; 0 means no limit.
    pub leg_tokens: i64,
}

/// The state of one agent between two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The sequence number of the last message; 0 before the first.
    pub last_seq: i64,
    /// The number of the last exchange ever opened. Numbers are never reused.
    pub last_exchange: i64,
    /// The current session, from 1.
    pub session: i64,
    /// The leading system messages of the session, if there are any.
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

/// The changes of one append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendEffect {
    /// The message's sequence number.
    pub seq: i64,
    /// The number of the message's exchange.
    pub exchange: i64,
    /// The exchange that this message completed by opening the next one.
    pub left: Option<Exchange>,
    /// True if the message began a leg that isn't the first one of its exchange.
    pub begins_leg: bool,
    /// True if the message began a new session after an idle gap.
    pub new_session: bool,
}

/// The window is over budget. The new first exchange must have at least `tokens_before_min` tokens before it, or be the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The fewest tokens before the new first exchange.
    pub tokens_before_min: i64,
    /// The first exchange that must stay: see [`Ledger::floor`].
    pub floor: i64,
}

impl Overflow {
    /// Returns true if the window may begin at `cut`.
    pub fn is_met_by(self, cut: CutPoint) -> bool {
        cut.tokens_before >= self.tokens_before_min || cut.exchange >= self.floor
    }
}

/// A possible begin of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutPoint {
    /// The first exchange of the window after the cut.
    pub exchange: i64,
    /// Its running total.
    pub tokens_before: i64,
}

impl CutPoint {
    /// Makes the cut that lets the window begin with `exchange`.
    pub fn before(exchange: &Exchange) -> Self {
        Self {
            exchange: exchange.exchange,
            tokens_before: exchange.tokens_before,
        }
    }
}

/// An exchange as the limit on messages sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowExchange {
    /// The cut that lets the window begin with it.
    pub cut: CutPoint,
    /// The number of its messages without metadata.
    pub messages: i64,
}

impl From<&Exchange> for WindowExchange {
    fn from(exchange: &Exchange) -> Self {
        Self {
            cut: CutPoint::before(exchange),
            messages: exchange.messages,
        }
    }
}

/// The newest leg alone would be over the budget, and the settings refuse that.
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

/// Pending exchanges that came back into the window together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The first exchange that came back.
    pub from_exchange: i64,
    /// The last exchange that came back.
    pub through_exchange: i64,
    /// The tokens of all of them.
    pub tokens: i64,
}

/// Exchanges that left the window together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The first exchange that left.
    pub from_exchange: i64,
    /// The last exchange that left.
    pub through_exchange: i64,
    /// The tokens of all of them.
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
    /// The first leg of the last exchange, if that is a later leg and not set aside.
    pub fn continues(&self) -> Option<i64> {
        let newest = self.newest.as_ref()?;
        newest
            .headline
            .continues
            .filter(|_| newest.exchange == self.last_exchange)
    }

    /// Chooses the place of the next message (DESIGN 4.2; seed 000, "Boundary Detection"; seed 004, "a user message that is not a tool
    /// result"). With several named speakers an exchange is one message of each, whether they speak as users, as models, or one as each.
    /// A leg with `leg_tokens` ends where the next round begins.
    pub fn place(&self, entry: &LedgerEntry, leg_tokens: i64) -> Placement {
        let is_full = |newest: &Exchange| newest.ends_leg_before(entry, leg_tokens);
        match (&entry.kind, &self.newest) {
            (Kind::User, Some(newest)) if self.takes_more(newest) && newest.is_answered_by(entry) => {
                Placement::Joins
            }
            (Kind::User, _) if entry.is_request && !entry.interrupts => Placement::Opens,
            (Kind::Assistant | Kind::ToolCall, Some(newest)) if newest.is_over_by(entry) => Placement::Opens,
            (_, Some(newest)) if self.takes_more(newest) && !is_full(newest) => Placement::Joins,
            (Kind::System | Kind::Metadata(_), None) if self.follows(self.preamble.as_ref()) => {
                Placement::Preamble
            }
            (_, Some(newest)) if newest.exchange >= self.first_exchange => {
                Placement::Continues(if is_full(newest) { Leg::Next } else { Leg::Same })
            }
            _ => Placement::Opens,
        }
    }

    /// The first row of the newest leg, which is never evicted. After a fork or a rewind the leg may have several rows.
    pub fn floor(&self) -> Option<i64> {
        let newest = self.newest.as_ref()?;
        Some(newest.leg_from().max(self.first_exchange))
    }

    /// Returns true if the newest leg accepts messages. It doesn't before the boundary, or if a rewind went back to it, as the messages
    /// in between are set aside.
    fn takes_more(&self, newest: &Exchange) -> bool {
        newest.exchange >= self.first_exchange && self.follows(Some(newest))
    }

    fn follows(&self, exchange: Option<&Exchange>) -> bool {
        exchange.is_none_or(|exchange| exchange.last_seq == self.last_seq)
    }

    /// The number of a preamble that opens now: 0, or the next number after a clear.
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
                    exchange: self
                        .preamble
                        .as_ref()
                        .map_or(PREAMBLE, |preamble| preamble.exchange),
                    left: None,
                    begins_leg: false,
                    new_session: false,
                }
            }
            Placement::Opens => self.open(seq, entry, None, rules),
            Placement::Continues(leg) => self.open(seq, entry, Some(leg), rules),
            Placement::Joins => {
                // `place` returns `Joins` only with an exchange to join.
                let newest = self
                    .newest
                    .get_or_insert_with(|| Exchange::open(FIRST_EXCHANGE, 1, 0, seq, entry));
                newest.add(seq, entry);
                AppendEffect {
                    seq,
                    exchange: newest.exchange,
                    left: None,
                    begins_leg: false,
                    new_session: false,
                }
            }
        }
    }

    /// Opens a row: a new exchange, or, with a `leg`, the next row of the newest exchange.
    fn open(&mut self, seq: i64, entry: &LedgerEntry, leg: Option<Leg>, rules: Segmentation) -> AppendEffect {
        let tokens_before = self.tokens_through();
        let left = self.newest.take().map(Exchange::left);
        // An exchange stays in its session, however long a tool takes, even if the session has ended.
        let going_on = left.as_ref().filter(|_| leg == Some(Leg::Next));
        let session = going_on.map(|left| left.session);
        let new_session = session.is_none() && self.is_idle_before(entry, left.as_ref(), rules.idle_gap_ms);
        self.session += i64::from(new_session);
        self.last_exchange += 1;
        let session = session.unwrap_or(self.session);
        let opened = Exchange::open(self.last_exchange, session, tokens_before, seq, entry);
        self.newest = Some(match (&left, leg) {
            (Some(left), Some(leg)) => opened.continuing(left, leg),
            _ => opened,
        });
        AppendEffect {
            seq,
            exchange: self.last_exchange,
            left,
            begins_leg: leg == Some(Leg::Next),
            new_session,
        }
    }

    /// Returns true if the silence between the exchange `left` and `entry` ended the current session. After an explicit end the new
    /// session is current already, and includes the silence.
    fn is_idle_before(&self, entry: &LedgerEntry, left: Option<&Exchange>, idle_gap_ms: i64) -> bool {
        let left = left.filter(|left| idle_gap_ms > 0 && left.session == self.session);
        left.is_some_and(|left| entry.at.since_ms(left.last_at) > idle_gap_ms)
    }

    /// Tokens of the preamble and of the live exchanges in the window.
    pub fn window_tokens(&self) -> i64 {
        self.preamble_tokens() + (self.tokens_through() - self.tokens_before_window).max(0)
    }

    /// Tokens of all live exchanges.
    pub fn tokens_through(&self) -> i64 {
        let newest = self.newest.as_ref();
        newest.map_or(self.tokens_before_window, Exchange::tokens_through)
    }

    /// Tokens of the preamble.
    pub fn preamble_tokens(&self) -> i64 {
        self.preamble.as_ref().map_or(0, |preamble| preamble.tokens)
    }

    /// Checks if legs must leave. The newest one always stays, even if it is too big alone (seed 001, "Safety floor"): then nothing can
    /// be evicted, and [`Self::is_over_budget`] returns true.
    pub fn overflow(&self, budget: Budget) -> Option<Overflow> {
        let floor = self.floor()?;
        if !budget.is_exceeded_by(self.window_tokens()) || floor <= self.first_exchange {
            return None;
        }
        let target = budget.low_water_tokens() - self.preamble_tokens();
        Some(Overflow {
            tokens_before_min: self.tokens_through() - target,
            floor,
        })
    }

    /// The cut for a window with too many messages; `None` if there aren't too many. `held` are the window's exchanges in order. The
    /// newest leg always stays; its count comes from this ledger.
    pub fn message_overflow(
        &self,
        budget: Budget,
        held: impl Iterator<Item = WindowExchange> + Clone,
    ) -> Option<CutPoint> {
        let newest = self.newest.as_ref().filter(|_| budget.max_messages() > 0)?;
        let floor = self.floor()?;
        let earlier = held.filter(|held| held.cut.exchange < newest.exchange);
        let mut messages = newest.messages + earlier.clone().map(|held| held.messages).sum::<i64>();
        if !budget.is_exceeded_by_messages(messages) {
            return None;
        }
        for held in earlier {
            if held.cut.exchange >= floor || !budget.is_exceeded_by_messages(messages) {
                return Some(held.cut);
            }
            messages -= held.messages;
        }
        Some(CutPoint::before(newest))
    }

    /// The cut that meets both limits, for [`Self::evict_to`]: the later one of `by_tokens`, the cut found for an overflow in tokens, and
    /// `by_messages`, the one for an overflow in messages. `None` if nothing has to leave.
    pub fn later_cut(
        &self,
        by_tokens: Option<Option<CutPoint>>,
        by_messages: Option<CutPoint>,
    ) -> Option<Option<CutPoint>> {
        match (by_tokens, by_messages) {
            (None, None) => None,
            (Some(by_tokens), None) => Some(by_tokens),
            (None, by_messages) => Some(by_messages),
            // If no cut is far enough, only the newest leg stays.
            (Some(by_tokens), Some(by_messages)) => {
                Some(by_tokens.map(|by_tokens| by_tokens.max(by_messages)))
            }
        }
    }

    /// Moves the boundary forward to `cut`, but never past the newest row. Returns the eviction, if there is one.
    pub fn evict_to(&mut self, cut: Option<CutPoint>, at: Timestamp) -> Option<Eviction> {
        let newest = self.newest.as_ref().map(CutPoint::before)?;
        let cut = cut.filter(|cut| cut.exchange < newest.exchange).unwrap_or(newest);
        self.move_boundary(cut, at)
    }

    /// Checks if a raised budget has room for pending exchanges, and from which running total on. It makes no more room than an eviction
    /// would leave, so that the next message doesn't evict them again.
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
        (tokens_before_min < self.tokens_before_window).then_some(Overflow {
            tokens_before_min,
            floor: newest.exchange,
        })
    }

    /// Moves the boundary back to `cut`, only over pending exchanges. Returns the exchanges that came back, if any.
    pub fn take_back(&mut self, cut: CutPoint) -> Option<Return> {
        if cut.exchange <= self.summarized_through || cut.exchange >= self.first_exchange {
            return None;
        }
        let back = Return {
            from_exchange: cut.exchange,
            through_exchange: self.first_exchange - 1,
            tokens: self.tokens_before_window - cut.tokens_before,
        };
        self.first_exchange = cut.exchange;
        self.tokens_before_window = cut.tokens_before;
        Some(back)
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

    /// Applies the setting for a newest leg that is over budget alone, with the preamble. It is checked after each message with tokens
    /// (`entry`) and its evictions, so the batching of messages doesn't matter. Returns the session that this ended; the next exchange
    /// begins another one.
    ///
    /// # Errors
    /// [`TooBig`] if the message is to be refused; the caller must then discard this ledger.
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
            OnOverflow::Refuse => Err(TooBig {
                tokens,
                budget_tokens: budget.budget_tokens(),
            }),
            OnOverflow::End if is_running => {
                self.session += 1;
                Ok(Some(self.session - 1))
            }
            OnOverflow::End | OnOverflow::Evict => Ok(None),
        }
    }

    /// The number of exchange numbers between the summary and the window. It includes set-aside exchanges, so it is an upper bound, and
    /// serves only scheduling.
    pub fn pending_numbers(&self) -> i64 {
        self.first_exchange - 1 - self.summarized_through
    }
}

#[cfg(test)]
mod tests;
