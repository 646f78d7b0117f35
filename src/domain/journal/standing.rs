//! Whether what a head tells is so of an agent that has its messages already.
//!
//! An agent that came in pieces, of which none had both the head and the last message, has all messages and nothing that
//! only the head tells. It can't be told from its messages, so what stands beside them is compared.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Head, SessionRecord};

/// Why a session ended, where its messages don't say so.
const ENDED_BY_HAND: &str = "end";
/// The ceilings of a window to which nothing was appended yet.
const NO_CEILINGS: (i64, i64) = (0, 0);

/// How an agent that is there stands to the head of its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is as the head tells, or has gone on from there.
    Settled,
    /// It has all messages and nothing that the head doesn't tell: setting the head takes nothing away.
    Due,
    /// Messages are missing, or it has gone on without what the head tells, or lived a life that it doesn't tell.
    Open,
}

impl Head {
    /// How the agent that `there` tells of stands to this head, once its messages were compared up to `compared_through`.
    pub fn standing_of(&self, there: &Self, compared_through: i64) -> Standing {
        // A live journal goes on behind its head.
        let is_compared = compared_through >= self.last_seq;
        match self.last_seq.cmp(&there.last_seq) {
            Ordering::Less if self.is_kept_in(there) => Standing::Settled,
            Ordering::Equal if self.is_in_force(there) => Standing::Settled,
            Ordering::Equal if is_compared && self.tells_all_of(there) => Standing::Due,
            Ordering::Less | Ordering::Equal | Ordering::Greater => Standing::Open,
        }
    }

    /// Whether it was set there. Without a further message none of this changes any more, but that more exchanges leave the
    /// window and more sessions end.
    fn is_in_force(&self, there: &Self) -> bool {
        self.is_kept_in(there) && self.as_of == there.as_of && self.ceilings() == there.ceilings()
    }

    /// Whether what never changes is there, however long the agent goes on: nothing but setting a head takes back what was
    /// evicted, or opens a session again that has ended.
    fn is_kept_in(&self, there: &Self) -> bool {
        let mut ended = self.sessions.iter().filter(|session| session.ended_at.is_some());
        self.created_at == there.created_at
            && there.evictions.starts_with(&self.evictions)
            && ended.all(|session| there.has(session))
    }

    /// Whether setting it there takes nothing away: the agent was made from this journal, and nobody has changed it since.
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
