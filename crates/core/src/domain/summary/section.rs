//! Ageing: decides when an item moves from This Session to Yesterday, to This Week and to Earlier. The section decides the default length
//! of the item's line.
//!
//! Invariant: the section depends only on the item's end and on `as_of`, however often and late it is computed.

use serde::{Deserialize, Serialize};

use super::{calendar::Calendar, item::Item};
use crate::domain::{
    time::{DAY_MS, Timestamp},
    zone::Zone,
};

/// A section of the document, newest first (seed 003, "Time-Based Triggers"). Where there is room, every line has its full text, whatever
/// its section ([`super::compaction`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Recent items, in detail.
    Session,
    /// Older items, briefly.
    Yesterday,
    /// Still older items, as headlines.
    Week,
    /// All older items, as headlines; empty if the document drops them.
    Earlier,
}

impl Section {
    /// All sections, in the document's order.
    pub const ALL: [Self; 4] = [Self::Session, Self::Yesterday, Self::Week, Self::Earlier];

    /// Returns the heading, without the Markdown mark and the dates.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Session => "Previously in This Session",
            Self::Yesterday => "Yesterday",
            Self::Week => "This Week",
            Self::Earlier => "Earlier",
        }
    }

    /// Returns the form of the section's lines if not all fit in full (seed 003, "Time-Based Prioritization"). If there is room left,
    /// lines get longer than that. If even these forms don't fit, lines get shorter.
    pub fn default_form(self) -> Form {
        match self {
            Self::Session => Form::Text,
            Self::Yesterday => Form::Brief,
            Self::Week | Self::Earlier => Form::Gist,
        }
    }
}

/// One of an item's three texts, longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The detailed text.
    Text,
    /// The shorter text.
    Brief,
    /// The headline.
    Gist,
}

impl Form {
    /// All forms, longest first.
    pub const ALL: [Self; 3] = [Self::Text, Self::Brief, Self::Gist];

    /// Returns the forms shorter than this one, longest first.
    pub fn shorter(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |form| *form > self)
    }
}

/// The rule by which items move through the sections and out of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ageing {
    /// By age. If a limit is below the one before it, the section between them is empty.
    Age {
        /// Age from which an item is no longer in [`Section::Session`].
        session_ms: i64,
        /// Age from which an item is no longer in [`Section::Yesterday`].
        yesterday_ms: i64,
        /// Age from which an item is no longer in [`Section::Week`].
        week_ms: i64,
        /// True if an item then leaves the document (seed 003) instead of moving to [`Section::Earlier`].
        drops_older: bool,
    },
    /// By days of the calendar.
    Calendar(Calendar),
    /// Not at all: every item stays in [`Section::Session`].
    Off,
}

impl Default for Ageing {
    /// Returns seed 003's limits: 24 hours, 7 days, 14 days. Older items stay.
    fn default() -> Self {
        Self::Age { session_ms: DAY_MS, yesterday_ms: 7 * DAY_MS, week_ms: 14 * DAY_MS, drops_older: false }
    }
}

impl Ageing {
    /// Returns the section of `item` at `as_of`; `None` if it has left the document.
    pub fn section_of(self, item: &Item, as_of: Timestamp) -> Option<Section> {
        self.section_at(item.ended_at, as_of)
    }

    /// Returns the section, at `as_of`, of an item that ended at `ended_at`; `None` if it has left the document.
    pub fn section_at(self, ended_at: Timestamp, as_of: Timestamp) -> Option<Section> {
        let limits_ms = match self {
            Self::Age { .. } => self.limits_ms()?,
            Self::Calendar(calendar) => return calendar.section_of(ended_at, as_of),
            Self::Off => return Some(Section::Session),
        };
        let age_ms = age_ms(ended_at, as_of);
        Section::ALL
            .into_iter()
            .zip(limits_ms)
            .find(|(_, limit_ms)| age_ms < *limit_ms)
            .map(|(section, _)| section)
            .or(self.oldest_section())
    }

    /// Returns the section of items older than all limits; `None` if they leave the document.
    fn oldest_section(self) -> Option<Section> {
        let drops_older = match self {
            Self::Age { drops_older, .. } => drops_older,
            Self::Calendar(calendar) => calendar.drops_older,
            Self::Off => false,
        };
        (!drops_older).then_some(Section::Earlier)
    }

    /// Returns the first moment after `as_of` at which one of `items` changes its section or leaves the document.
    pub fn next_change<'a>(
        self,
        items: impl IntoIterator<Item = &'a Item>,
        as_of: Timestamp,
    ) -> Option<Timestamp> {
        items
            .into_iter()
            .filter_map(|item| {
                let limits_ms = match self {
                    Self::Age { .. } => self.limits_ms()?,
                    Self::Calendar(calendar) => return calendar.next_change(item.ended_at, as_of),
                    Self::Off => return None,
                };
                let age_ms = age_ms(item.ended_at, as_of);
                let next_ms = limits_ms.into_iter().find(|limit_ms| age_ms < *limit_ms)?;
                Some(item.ended_at.plus_ms(next_ms))
            })
            .min()
    }

    /// Returns the time zone of the document's times.
    pub fn zone(self) -> Zone {
        match self {
            Self::Calendar(calendar) => calendar.zone,
            Self::Age { .. } | Self::Off => Zone::UTC,
        }
    }

    /// Returns the limits of the sections, ascending.
    fn limits_ms(self) -> Option<[i64; 3]> {
        let Self::Age { session_ms, yesterday_ms, week_ms, .. } = self else {
            return None;
        };
        let yesterday_ms = yesterday_ms.max(session_ms);
        Some([session_ms, yesterday_ms, week_ms.max(yesterday_ms)])
    }
}

/// Returns an item's age in milliseconds. Returns 0 for an item that ends later than `as_of`: clients' clocks may run ahead.
pub fn age_ms(ended_at: Timestamp, as_of: Timestamp) -> i64 {
    as_of.since_ms(ended_at).max(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{summary::fixtures::item, time::HOUR_MS};

    const AS_OF: Timestamp = Timestamp(1_767_600_000_000);

    fn ageing(drops_older: bool) -> Ageing {
        Ageing::Age { session_ms: DAY_MS, yesterday_ms: 7 * DAY_MS, week_ms: 14 * DAY_MS, drops_older }
    }

    fn aged(age_ms: i64) -> Item {
        item(1, AS_OF.plus_ms(-age_ms))
    }

    #[test]
    fn the_clock_moves_items_through_the_sections() {
        let cases = [
            (-HOUR_MS, Some(Section::Session), DAY_MS + HOUR_MS),
            (0, Some(Section::Session), DAY_MS),
            (DAY_MS - 1, Some(Section::Session), 1),
            (DAY_MS, Some(Section::Yesterday), 6 * DAY_MS),
            (7 * DAY_MS - 1, Some(Section::Yesterday), 1),
            (7 * DAY_MS, Some(Section::Week), 7 * DAY_MS),
            (14 * DAY_MS - 1, Some(Section::Week), 1),
        ];
        for (age_ms, section, change_in_ms) in cases {
            let item = aged(age_ms);
            assert_eq!(Ageing::default().section_of(&item, AS_OF), section, "{age_ms}");
            assert_eq!(
                Ageing::default().next_change([&item], AS_OF),
                Some(AS_OF.plus_ms(change_in_ms)),
                "{age_ms}"
            );
        }
        let old = aged(14 * DAY_MS);
        for (drops_older, section) in [(false, Some(Section::Earlier)), (true, None)] {
            assert_eq!(ageing(drops_older).section_of(&old, AS_OF), section);
            assert_eq!(ageing(drops_older).next_change([&old], AS_OF), None);
        }
        assert_eq!(Ageing::Off.section_of(&aged(900 * DAY_MS), AS_OF), Some(Section::Session));
        assert_eq!(Ageing::Off.next_change([&old], AS_OF), None);
    }

    proptest! {
        #[test]
        fn nothing_changes_before_the_next_change_and_something_does_at_it(
            ages in prop::collection::vec(-DAY_MS..20 * DAY_MS, 1..20),
            limits in prop::array::uniform3(-1..20 * DAY_MS),
            drops_older in any::<bool>(),
        ) {
            let [session_ms, yesterday_ms, week_ms] = limits;
            let ageing = Ageing::Age { session_ms, yesterday_ms, week_ms, drops_older };
            let oldest = (!drops_older).then_some(Section::Earlier);
            let items: Vec<Item> = ages.iter().map(|&age| aged(age)).collect();
            let sections = |at| items.iter().map(|item| ageing.section_of(item, at)).collect::<Vec<_>>();
            match ageing.next_change(&items, AS_OF) {
                Some(change) => {
                    prop_assert!(change > AS_OF);
                    prop_assert_eq!(sections(AS_OF), sections(change.plus_ms(-1)));
                    prop_assert_ne!(sections(AS_OF), sections(change));
                }
                None => prop_assert!(sections(AS_OF).iter().all(|section| *section == oldest)),
            }
        }
    }
}
