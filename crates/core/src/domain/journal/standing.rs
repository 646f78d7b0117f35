//! Compares an agent that has all its messages with the state in the head of its journal.
//!
//! If an agent was imported in parts, and no part had both the head and the last message, the agent has all messages but not the head's
//! state. The messages don't show that, so the rest of the state is compared.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Head, SessionRecord};

/// Why a session ended if someone ended it explicitly: the only reason that no message shows.
const ENDED_BY_HAND: &str = "end";
const NO_CEILINGS: (i64, i64) = (0, 0);

/// What comparing an agent with the head of its journal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportState {
    /// The agent has the head's state, or has continued from it.
    Settled,
    /// The agent has all messages and no state that the head lacks: applying the head loses nothing.
    Due,
    /// Messages are missing, or the agent has continued without the head's state, or it has another history.
    Open,
}

impl Head {
    /// Compares this head with `there`, the agent's state in the database. Messages were compared up to `compared_through`.
    pub fn compare(&self, there: &Self, compared_through: i64) -> ImportState {
        // A live journal continues after its head.
        let is_compared = compared_through >= self.last_seq;
        match self.last_seq.cmp(&there.last_seq) {
            Ordering::Less if self.is_contained_in(there) => ImportState::Settled,
            Ordering::Equal if self.is_in_force(there) => ImportState::Settled,
            Ordering::Equal if is_compared && self.covers(there) => ImportState::Due,
            Ordering::Less | Ordering::Equal | Ordering::Greater => ImportState::Open,
        }
    }

    /// Returns true if the head was applied and there were no new messages. Exchanges may have left the window and sessions may have
    /// ended; nothing else changes then.
    fn is_in_force(&self, there: &Self) -> bool {
        self.is_contained_in(there) && self.as_of == there.as_of && self.ceilings() == there.ceilings()
    }

    /// Returns true if the agent has the part of the head's state that never changes. Only applying a head undoes evictions or reopens an
    /// ended session.
    fn is_contained_in(&self, there: &Self) -> bool {
        let mut ended = self.sessions.iter().filter(|session| session.ended_at.is_some());
        self.created_at == there.created_at
            && there.evictions.starts_with(&self.evictions)
            && ended.all(|session| there.has(session))
    }

    /// Returns true if applying the head loses nothing: the agent was made from this journal and hasn't changed since.
    fn covers(&self, there: &Self) -> bool {
        let settings = |head: &Self| serde_json::from_str::<Value>(head.settings.get()).ok();
        let mut ended_sessions =
            there.sessions.iter().filter(|session| session.end_reason.as_deref() == Some(ENDED_BY_HAND));
        self.created_at == there.created_at
            && self.project == there.project
            && settings(self) == settings(there)
            && (there.as_of.is_none() || there.as_of == self.as_of)
            && (there.ceilings() == NO_CEILINGS || there.ceilings() == self.ceilings())
            && there.evictions.len() <= self.evictions.len()
            && ended_sessions.all(|session| self.has(session))
    }

    fn ceilings(&self) -> (i64, i64) {
        (self.budget_tokens, self.max_messages)
    }

    fn has(&self, session: &SessionRecord) -> bool {
        let index = self.sessions.binary_search_by_key(&session.session, |existing| existing.session);
        index.is_ok_and(|index| self.sessions.get(index) == Some(session))
    }
}
