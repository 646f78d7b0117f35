//! Time zones: the calendar days where an agent works. The IANA database is compiled in, so that the same history gives the same summary
//! on every machine.
//!
//! Invariant: days follow one another, even if a zone changes its clocks at midnight. [`Zone::day`] never decreases as time passes. A day
//! that a zone skipped begins with the next day.

use std::fmt;

use chrono::{DateTime, MappedLocalTime, Offset as _, TimeZone as _, Utc};
use chrono_tz::Tz;

use super::time::{DAY_MS, HOUR_MS, SECOND_MS, Timestamp};

/// More than the largest offset from UTC and the largest change of clocks (a skipped day) together.
const REACH_MS: i64 = 50 * HOUR_MS;

/// A time zone of the IANA database, such as `Europe/Berlin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

impl Zone {
    /// UTC: every day has 24 hours.
    pub const UTC: Self = Self(Tz::UTC);

    /// Parses the name of a zone in the IANA database.
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok().map(Self)
    }

    /// Returns the name in the IANA database.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the local wall-clock time of `at` as if it were UTC. For rendering only.
    #[must_use]
    pub fn wall(self, at: Timestamp) -> Timestamp {
        let Some(moment) = DateTime::<Utc>::from_timestamp_millis(at.0) else {
            return at;
        };
        let offset = self.0.offset_from_utc_datetime(&moment.naive_utc());
        at.plus_ms(i64::from(offset.fix().local_minus_utc()) * SECOND_MS)
    }

    /// Returns the day of `at`, in days since 1970-01-01.
    pub fn day(self, at: Timestamp) -> i64 {
        let day = self.wall(at).0.div_euclid(DAY_MS);
        // If a clock is set back over midnight, the day before doesn't come back.
        if self.begin_of(day + 1) <= at { day + 1 } else { day }
    }

    /// Returns the first moment of that day.
    pub fn begin_of(self, day: i64) -> Timestamp {
        let midnight = Timestamp(day.saturating_mul(DAY_MS));
        let Some(moment) = DateTime::<Utc>::from_timestamp_millis(midnight.0) else {
            return midnight;
        };
        match self.0.from_local_datetime(&moment.naive_utc()) {
            MappedLocalTime::Single(first) | MappedLocalTime::Ambiguous(first, _) => {
                Timestamp(first.timestamp_millis())
            }
            MappedLocalTime::None => self.first_at_or_past(midnight),
        }
    }

    /// Returns the first moment at which clocks show `wall` or later, if they skip `wall`.
    fn first_at_or_past(self, wall: Timestamp) -> Timestamp {
        let (mut early, mut late) = (wall.plus_ms(-REACH_MS), wall.plus_ms(REACH_MS));
        while early.plus_ms(1) < late {
            let middle = early.plus_ms(late.since_ms(early) / 2);
            if self.wall(middle) < wall {
                early = middle;
            } else {
                late = middle;
            }
        }
        late
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn days_begin_by_the_zones_clock() {
        // An hour lost and gained, at midnight and across it; a skipped day; a quarter of an hour.
        for (zone, day, begins) in [
            ("UTC", "2026-03-29", "2026-03-29T00:00:00Z"),
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z"),
            ("Europe/Berlin", "2026-03-30", "2026-03-29T22:00:00Z"),
            ("Europe/Berlin", "2026-10-26", "2026-10-25T23:00:00Z"),
            ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"),
            ("Asia/Beirut", "2026-10-25", "2026-10-24T22:00:00Z"),
            ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
            ("America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00Z"),
            ("America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z"),
            ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
            ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
            ("Asia/Kathmandu", "2026-01-01", "2025-12-31T18:15:00Z"),
        ] {
            let number = at(&format!("{day}T00:00:00Z")).0 / DAY_MS;
            let found = Zone::parse(zone).unwrap().begin_of(number);
            assert_eq!(found, at(begins), "{zone} {day}: {found}");
        }
    }

    #[test]
    fn only_iana_names_are_zones() {
        for name in ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC", "Asia/Tokyo"] {
            assert_eq!(Zone::parse(name).map(Zone::name), Some(name));
        }
        for name in ["", "Berlin", "europe/berlin", "+02:00", "../etc/passwd"] {
            assert_eq!(Zone::parse(name), None, "{name}");
        }
    }

    #[test]
    fn extreme_moments_are_handled() {
        for moment in [i64::MIN, i64::MIN / 2, i64::MAX / 2, i64::MAX] {
            let zone = Zone::parse("Europe/Berlin").unwrap();
            assert_eq!(zone.wall(Timestamp(moment)), Timestamp(moment));
            zone.day(Timestamp(moment));
        }
    }

    proptest! {
        #[test]
        fn a_day_contains_the_moments_up_to_the_next(
            zone in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec()),
            at_ms in 0_i64..2_000_000_000_000,
            later_ms in 0_i64..3 * DAY_MS,
        ) {
            let (zone, at) = (Zone(zone), Timestamp(at_ms));
            let day = zone.day(at);
            prop_assert!(zone.begin_of(day) <= at && at < zone.begin_of(day + 1));
            prop_assert!(zone.day(at.plus_ms(later_ms)) >= day);
        }
    }
}
