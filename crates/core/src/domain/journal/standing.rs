//! Whether an agent that has its messages already is also in the state that its journal's head describes.
//!
//! If an agent was imported in pieces, of which none had both the head and the last message, it has all messages but
//! nothing that only the head tells. Its messages don't show that, so the rest of its state is compared.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Head, SessionRecord};

/// The reason of a session's end that no message shows.
const ENDED_BY_HAND: &str = "end";
/// The ceilings of a window that nothing was appended to yet.
const NO_CEILINGS: (i64, i64) = (0, 0);

/// How an existing agent compares with the head of its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportState {
    /// It is as the head says, or has gone on from there.
    Settled,
    /// It has all messages and nothing else than the head says: applying the head takes nothing away.
    Due,
    /// Messages are missing, or it has gone on without the head's state, or it has another history.
    Open,
}

impl Head {
    /// How the agent described by `there` compares with this head, once its messages were compared up to
    /// `compared_through`.
    pub fn standing_of(&self, there: &Self, compared_through: i64) -> ImportState {
        // A live journal goes on after its head.
        let is_compared = compared_through >= self.last_seq;
        match self.last_seq.cmp(&there.last_seq) {
            Ordering::Less if self.is_kept_in(there) => ImportState::Settled,
            Ordering::Equal if self.is_in_force(there) => ImportState::Settled,
            Ordering::Equal if is_compared && self.tells_all_of(there) => ImportState::Due,
            Ordering::Less | Ordering::Equal | Ordering::Greater => ImportState::Open,
        }
    }

    /// Whether the head was applied there. Without further messages none of this changes any more, except that more
    /// exchanges leave the window and more sessions end.
    fn is_in_force(&self, there: &Self) -> bool {
        self.is_kept_in(there) && self.as_of == there.as_of && self.ceilings() == there.ceilings()
    }

    /// Whether the part of the state that never changes is there, however long the agent goes on: only applying a head
    /// takes back evictions, or reopens a session that has ended.
    fn is_kept_in(&self, there: &Self) -> bool {
        let mut ended = self.sessions.iter().filter(|session| session.ended_at.is_some());
        self.created_at == there.created_at
            && there.evictions.starts_with(&self.evictions)
            && ended.all(|session| there.has(session))
    }

    /// Whether applying the head takes nothing away: the agent was made from this journal, and wasn't changed since.
    fn tells_all_of(&self, there: &Self) -> bool {
        let settings = |head: &Self| serde_json::from_str::<Value>(head.settings.get()).ok();
        let mut by_hand = there
            .sessions
            .iter()
            .filter(|session| session.end_reason.as_deref() == Some(ENDED_BY_HAND));
        self.created_at == there.created_at
            && self.project == there.project
            && settings(self) == settings(there)
            && (there.as_of.is_none() || there.as_of == self.as_of)
            && (there.ceilings() == NO_CEILINGS || there.ceilings() == self.ceilings())
            && there.evictions.len() <= self.evictions.len()
            && by_hand.all(|session| self.has(session))
    }

    fn ceilings(&self) -> (i64, i64) {
        (self.budget_tokens, self.max_messages)
    }

    fn has(&self, session: &SessionRecord) -> bool {
        let place = self
            .sessions
            .binary_search_by_key(&session.session, |kept| kept.session);
        place.is_ok_and(|place| self.sessions.get(place) == Some(session))
    }
}
