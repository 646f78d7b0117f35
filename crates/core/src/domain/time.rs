//! The only type for points in time: milliseconds since 1970-01-01 UTC.

use std::{fmt, ops::RangeInclusive};

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The English names of the weekdays. Monday comes first, so an index is the number of days after a Monday.
pub const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Milliseconds in a second, a minute, an hour and a day.
pub const SECOND_MS: i64 = 1_000;
/// See [`SECOND_MS`].
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
/// See [`SECOND_MS`].
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
/// See [`SECOND_MS`].
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// The units of a duration as text, from the largest to the smallest.
const UNITS: [(&str, i64); 5] =
    [("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1)];
/// A clock that goes back by less than this isn't counted as set back, since clocks are adjusted all the time.
pub const CLOCK_JUMP_MS_MIN: i64 = 1_000;

/// The years 1 to 9999: RFC 3339 can write them, and every database can store them.
const CALENDAR: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// A point in time, in milliseconds since 1970-01-01 UTC. Its text form is RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The first time that databases can store.
    pub const MIN: Self = Self(*CALENDAR.start());
    /// The last time that databases can store.
    pub const MAX: Self = Self(*CALENDAR.end());

    /// Parses RFC 3339 (`2026-11-20T08:40:00Z`) in the years 1 to 9999. A time without a zone is UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            return Self(time.timestamp_millis()).in_calendar();
        }
        NaiveDateTime::parse_from_str(&text.replace(' ', "T"), "%Y-%m-%dT%H:%M:%S%.f")
            .ok()
            .and_then(|time| Self(time.and_utc().timestamp_millis()).in_calendar())
    }

    /// Returns the time if it is in the years 1 to 9999 (UTC). Times from outside must be, since databases can't store others.
    pub fn in_calendar(self) -> Option<Self> {
        CALENDAR.contains(&self.0).then_some(self)
    }

    /// Adds `span_ms`, which may be negative.
    #[must_use]
    pub fn plus_ms(self, span_ms: i64) -> Self {
        Self(self.0.saturating_add(span_ms))
    }

    /// Returns the milliseconds from `earlier` to this time; negative if `earlier` is later.
    pub fn since_ms(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Writes the time in UTC by a strftime pattern of chrono's.
    pub fn format(self, pattern: &str) -> String {
        self.utc().format(pattern).to_string()
    }

    fn utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = if self.0 % SECOND_MS == 0 { SecondsFormat::Secs } else { SecondsFormat::Millis };
        f.write_str(&self.utc().to_rfc3339_opts(precision, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not an RFC 3339 time")))
    }
}

/// Parses a duration such as `90s`, `15m` or `1h30m`; returns milliseconds.
pub fn duration_ms(text: &str) -> Option<i64> {
    let digits_end = text.find(|character: char| !character.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(digits_end)?;
    let unit_end = rest.find(|character: char| character.is_ascii_digit());
    let (unit, rest) = rest.split_at_checked(unit_end.unwrap_or(rest.len()))?;
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = digits.parse::<i64>().ok()?.checked_mul(*factor)?;
    match rest {
        "" => Some(ms),
        rest => ms.checked_add(duration_ms(rest)?),
    }
}

/// Formats a duration as [`duration_ms`] parses it: 5,400,000 becomes `1h30m`.
pub fn duration_text(duration_ms: i64) -> String {
    let mut rest = duration_ms.max(0);
    let mut text = String::new();
    for (unit, factor) in UNITS {
        if rest >= factor {
            text.push_str(&(rest / factor).to_string());
            text.push_str(unit);
            rest %= factor;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_with_units() {
        for (text, ms) in [
            ("15m", 15 * MINUTE_MS),
            ("1h30m", 90 * MINUTE_MS),
            ("250ms", 250),
            ("1s500ms", 1_500),
            ("7d", 7 * DAY_MS),
            ("0s", 0),
        ] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
            assert_eq!(duration_text(ms), text);
        }
        for wrong in ["", "15", "m", "15x", "-1s", "1h 30m", "ö", "99999999999999999d"] {
            assert_eq!(duration_ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn reads_and_writes_rfc_3339_in_utc() {
        let cases = [
            ("2026-11-20T08:40:00Z", "2026-11-20T08:40:00Z"),
            ("2026-11-20T09:40:00+01:00", "2026-11-20T08:40:00Z"),
            ("2026-01-05T08:00:07.000000Z", "2026-01-05T08:00:07Z"),
            ("2026-01-05T08:00:07.25", "2026-01-05T08:00:07.250Z"),
            ("2026-01-05 08:00:07", "2026-01-05T08:00:07Z"),
        ];
        for (text, shown) in cases {
            assert_eq!(Timestamp::parse(text).map(|t| t.to_string()).as_deref(), Some(shown), "{text}");
        }
        assert_eq!(Timestamp::parse("1:56 pm on 8 May, 2023"), None);
    }

    #[test]
    fn the_years_1_to_9999_are_read() {
        for known in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"] {
            let read = Timestamp::parse(known).map(|time| time.to_string());
            assert_eq!(read.as_deref(), Some(known));
        }
        for unknown in [
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "-29700-01-01T00:00:00",
            "+12345-01-01T00:00:00",
        ] {
            assert_eq!(Timestamp::parse(unknown), None, "{unknown}");
        }
    }
}
