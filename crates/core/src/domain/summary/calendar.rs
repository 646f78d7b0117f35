//! Ageing by the calendar: yesterday is yesterday in the agent's time zone, whatever its clocks do.

use super::section::Section;
use crate::domain::{time::Timestamp, zone::Zone};

/// The session that an agent is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningSession {
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When something was said in it last.
    pub last_at: Timestamp,
}

/// What an agent's calendar depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentTime {
    /// Its time zone; `None` for the configuration's.
    pub zone: Option<Zone>,
    /// The session that it is in, if any.
    pub session: Option<RunningSession>,
}

/// How items age by days:
///
/// - *This Session*: of the running session, younger than [`Self::session_ms`], or of today;
/// - *Yesterday*: of the day before;
/// - *This Week*: older, up to [`Self::days`] days;
/// - *Earlier*: what is older still, if it doesn't leave the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The time zone by which its days begin and end.
    pub zone: Zone,
    /// Up to this age an item is in [`Section::Session`].
    pub session_ms: i64,
    /// How many days after its own an item leaves [`Section::Week`].
    pub days: i64,
    /// Whether it leaves the document then (seed 003), instead of going to [`Section::Earlier`].
    pub drops_older: bool,
    /// A session without a message for so long is over; 0 never ends one.
    pub idle_gap_ms: i64,
    /// The agent's running session, if there is one.
    pub session: Option<RunningSession>,
}

impl Calendar {
    /// The calendar of an agent; this one is the configuration's.
    #[must_use]
    pub fn for_agent(self, time: AgentTime) -> Self {
        Self {
            zone: time.zone.unwrap_or(self.zone),
            session: time.session,
            ..self
        }
    }

    /// The section, at `as_of`, of an item that ended at `ended_at`; `None` when it has left the document.
    pub(super) fn section_of(&self, ended_at: Timestamp, as_of: Timestamp) -> Option<Section> {
        let days_ago = self.zone.day(as_of) - self.zone.day(ended_at);
        let is_new = days_ago <= 0 || as_of.since_ms(ended_at) < self.session_ms;
        match days_ago {
            days_ago if days_ago >= self.days.max(1) => (!self.drops_older).then_some(Section::Earlier),
            _ if is_new || self.is_of_session(ended_at, as_of) => Some(Section::Session),
            1 => Some(Section::Yesterday),
            _ => Some(Section::Week),
        }
    }

    /// The first moment after `as_of` at which an item that ended at `ended_at` changes its section or leaves.
    pub(super) fn next_change(&self, ended_at: Timestamp, as_of: Timestamp) -> Option<Timestamp> {
        let now = self.section_of(ended_at, as_of)?;
        let day = self.zone.day(ended_at);
        let mut moments = vec![
            ended_at.plus_ms(self.session_ms),
            self.zone.begin_of(day + 1),
            self.zone.begin_of(day + 2),
            self.zone.begin_of(day.saturating_add(self.days.max(1))),
        ];
        moments.extend(self.session_ends_at());
        moments.sort_unstable();
        moments
            .into_iter()
            .find(|moment| *moment > as_of && self.section_of(ended_at, *moment) != Some(now))
    }

    fn is_of_session(&self, ended_at: Timestamp, as_of: Timestamp) -> bool {
        let is_over = self.session_ends_at().is_some_and(|end| end <= as_of);
        !is_over && self.session.is_some_and(|session| session.opened_at <= ended_at)
    }

    /// When the running session ends if nothing more is said in it.
    fn session_ends_at(&self) -> Option<Timestamp> {
        let session = self.session.filter(|_| self.idle_gap_ms > 0)?;
        Some(session.last_at.plus_ms(self.idle_gap_ms))
    }
}

#[cfg(test)]
mod tests;
