//! Ages items by days of the calendar, in the agent's time zone.

use super::section::Section;
use crate::domain::{time::Timestamp, zone::Zone};

/// The current session of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningSession {
    /// When the session was opened.
    pub opened_at: Timestamp,
    /// The time of the session's last message.
    pub last_at: Timestamp,
}

/// The time zone and the current session of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentTime {
    /// The agent's time zone; `None` for the configured one.
    pub zone: Option<Zone>,
    /// The current session, if any.
    pub session: Option<RunningSession>,
}

/// Ageing by days:
///
/// - *This Session*: items of the current session, items younger than [`Self::session_ms`], and items of today;
/// - *Yesterday*: items of the day before;
/// - *This Week*: older items, up to [`Self::days`] days;
/// - *Earlier*: all older items, unless they leave the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The time zone in which days begin and end.
    pub zone: Zone,
    /// Items younger than this are in [`Section::Session`].
    pub session_ms: i64,
    /// An item leaves [`Section::Week`] this many days after its own day.
    pub days: i64,
    /// True if an item then leaves the document (seed 003) instead of moving to [`Section::Earlier`].
    pub drops_older: bool,
    /// A session ends this long after its last message; 0 never ends one.
    pub idle_gap_ms: i64,
    /// The agent's current session, if there is one.
    pub session: Option<RunningSession>,
}

impl Calendar {
    /// Returns this configured calendar with an agent's time zone and session.
    #[must_use]
    pub fn for_agent(self, time: AgentTime) -> Self {
        Self { zone: time.zone.unwrap_or(self.zone), session: time.session, ..self }
    }

    /// Returns the section, at `as_of`, of an item that ended at `ended_at`; `None` if it has left the document.
    pub(super) fn section_of(&self, ended_at: Timestamp, as_of: Timestamp) -> Option<Section> {
        let days_ago = self.zone.day(as_of) - self.zone.day(ended_at);
        let is_new = days_ago <= 0 || as_of.since_ms(ended_at) < self.session_ms;
        match days_ago {
            days_ago if days_ago >= self.days.max(1) => (!self.drops_older).then_some(Section::Earlier),
            _ if is_new || self.is_in_session(ended_at, as_of) => Some(Section::Session),
            1 => Some(Section::Yesterday),
            _ => Some(Section::Week),
        }
    }

    /// Returns the first moment after `as_of` at which an item that ended at `ended_at` changes its section or leaves the document.
    pub(super) fn next_change(&self, ended_at: Timestamp, as_of: Timestamp) -> Option<Timestamp> {
        let now = self.section_of(ended_at, as_of)?;
        let day = self.zone.day(ended_at);
        // The section can only change at these moments.
        let mut moments = vec![
            ended_at.plus_ms(self.session_ms),
            self.zone.begin_of(day + 1),
            self.zone.begin_of(day + 2),
            self.zone.begin_of(day.saturating_add(self.days.max(1))),
        ];
        moments.extend(self.session_ends_at());
        moments.sort_unstable();
        moments.into_iter().find(|moment| *moment > as_of && self.section_of(ended_at, *moment) != Some(now))
    }

    fn is_in_session(&self, ended_at: Timestamp, as_of: Timestamp) -> bool {
        let is_over = self.session_ends_at().is_some_and(|end| end <= as_of);
        !is_over && self.session.is_some_and(|session| session.opened_at <= ended_at)
    }

    fn session_ends_at(&self) -> Option<Timestamp> {
        let session = self.session.filter(|_| self.idle_gap_ms > 0)?;
        Some(session.last_at.plus_ms(self.idle_gap_ms))
    }
}

#[cfg(test)]
mod tests;
