//! Five-field crontab expressions, in UTC.
//!
//! The `cron` crate does the arithmetic, but differs from crontab in three ways. It requires seconds, and counts weekdays
//! from 1 = Sunday: this wrapper translates both. If an expression names a day of month and a weekday, the crate requires
//! both to match, and crontab only one of them: this wrapper refuses such an expression, because each meaning would surprise
//! somebody.
//!
//! Invariant: an accepted expression means what `crontab(5)` says.

use std::{fmt, ops::RangeInclusive};

use chrono::{DateTime, Utc};
use cron::Schedule;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use recapd_core::domain::time::{SECOND_MS, Timestamp};

pub const EXPRESSION_BYTES_MAX: usize = 256;

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrontabError {
    /// The expression doesn't have five fields, and isn't a known `@` name.
    #[error("expected five fields (minute hour day-of-month month weekday), such as `0 3 * * *`, or @daily")]
    Shape,
    #[error("{field} `{text}` is wrong: {expected}")]
    Field {
        field: &'static str,
        text: String,
        /// The values that the field accepts.
        expected: String,
    },
    #[error("day of month and weekday can't both be given: leave one of them as `*`")]
    BothDays,
    /// The expression is never due, for example on 30 February.
    #[error("the date never comes")]
    Never,
}

/// A crontab expression, and the times at which it is due.
#[derive(Clone, PartialEq)]
pub struct Crontab {
    text: String,
    schedule: Schedule,
}

impl Crontab {
    /// Reads five fields or one of `@hourly @daily @midnight @weekly @monthly @yearly @annually`.
    pub fn parse(text: &str) -> Result<Self, CrontabError> {
        let text = text.trim();
        if EXPRESSION_BYTES_MAX < text.len() {
            return Err(CrontabError::Shape);
        }
        let fields: Vec<&str> = expand_name(text).split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(CrontabError::Shape);
        };
        if *day != "*" && *weekday != "*" {
            return Err(CrontabError::BothDays);
        }
        let expression = format!(
            "0 {} {} {} {} {}",
            MINUTE.translate(minute)?,
            HOUR.translate(hour)?,
            DAY.translate(day)?,
            MONTH.translate(month)?,
            WEEKDAY.translate(weekday)?,
        );
        let schedule = Schedule::try_from(expression).map_err(|_| CrontabError::Shape)?;
        let crontab = Self { text: text.to_owned(), schedule };
        match crontab.next_after(Timestamp(0)) {
            Some(_) => Ok(crontab),
            None => Err(CrontabError::Never),
        }
    }

    /// Returns the first due time after `moment`; `None` if that is after the year 2100.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let after = DateTime::<Utc>::from_timestamp_millis(moment.0)?;
        self.schedule.after(&after).next().map(stamp)
    }

    /// Returns the last due time at or before `moment`; `None` if that is before 1970.
    pub fn last_at_or_before(&self, moment: Timestamp) -> Option<Timestamp> {
        // The crate searches strictly before a whole second, so the search starts at the second after the moment's own.
        let second = moment.0.div_euclid(SECOND_MS) + 1;
        let before = DateTime::<Utc>::from_timestamp(second, 0)?;
        self.schedule.after(&before).next_back().map(stamp)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn stamp(time: DateTime<Utc>) -> Timestamp {
    Timestamp(time.timestamp_millis())
}

fn expand_name(text: &str) -> &str {
    match text {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        other => other,
    }
}

/// A field's range, and the names that it accepts.
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field::numbers("minute", 0, 59);
const HOUR: Field = Field::numbers("hour", 0, 23);
const DAY: Field = Field::numbers("day of month", 1, 31);
const MONTH: Field = Field { name: "month", first: 1, last: 12, names: &MONTHS };
const WEEKDAY: Field = Field { name: "weekday", first: 0, last: 7, names: &WEEKDAYS };

impl Field {
    const fn numbers(name: &'static str, first: u32, last: u32) -> Self {
        Self { name, first, last, names: &[] }
    }

    /// Translates the field for the crate: into a star, or into a list of values without ranges and steps.
    fn translate(&self, text: &str) -> Result<String, CrontabError> {
        if text == "*" {
            return Ok(text.to_owned());
        }
        let mut values = Vec::new();
        for term in text.split(',') {
            values.extend(self.term(term).ok_or_else(|| self.wrong(term))?);
        }
        values.sort_unstable();
        values.dedup();
        let values: Vec<String> = values.into_iter().map(|value| self.spell(value)).collect();
        Ok(values.join(","))
    }

    /// Parses one term of a list: `*`, a value or a range. A star and a range may have a step.
    fn term(&self, term: &str) -> Option<impl Iterator<Item = u32> + use<>> {
        let (span, step) = match term.split_once('/') {
            Some((span, step)) => (span, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
            None => (term, None),
        };
        let values = match span.split_once('-') {
            _ if span == "*" => self.first..=self.last_of_star(),
            Some((from, to)) => self.range(from, to)?,
            None if step.is_some() => return None,
            None => self.value(span).map(|value| value..=value)?,
        };
        Some(values.step_by(step.unwrap_or(1).try_into().ok()?))
    }

    fn range(&self, from: &str, to: &str) -> Option<RangeInclusive<u32>> {
        let from = self.value(from)?;
        let mut to = self.value(to)?;
        // A range may end with Sunday, whose name stands for 0: `FRI-SUN`.
        if self.last == 7 && to == 0 && from > 0 {
            to = 7;
        }
        (from <= to).then_some(from..=to)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let name = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(index) = name {
            return u32::try_from(index).ok().map(|index| index + self.first);
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = digits.then(|| text.parse().ok()).flatten()?;
        (self.first..=self.last).contains(&value).then_some(value)
    }

    /// Returns the last value of a star. Sunday is both 0 and 7, and a star with a step must not count it twice.
    fn last_of_star(&self) -> u32 {
        if self.last == 7 { 6 } else { self.last }
    }

    /// Formats a value for the crate. A weekday gets its name, because the crate counts weekdays otherwise.
    fn spell(&self, value: u32) -> String {
        match WEEKDAYS.get(value as usize % 7) {
            Some(name) if self.last == 7 => (*name).to_owned(),
            _ => value.to_string(),
        }
    }

    fn wrong(&self, text: &str) -> CrontabError {
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        CrontabError::Field {
            field: self.name,
            text: text.to_owned(),
            expected: format!(
                "use `*`, {} to {}{names}, a list, a range or a step such as `*/2`",
                self.first, self.last
            ),
        }
    }
}

impl fmt::Debug for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crontab({:?})", self.text)
    }
}

impl fmt::Display for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Crontab {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Crontab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike as _, Timelike as _};
    use proptest::prelude::*;

    use super::*;
    use recapd_core::domain::time::{DAY_MS, MINUTE_MS};

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// Expression, moment, last time due, next time due. 20 November 2026 is a Friday.
    const TIMES: &str = "
        0 3 * * *        | 2026-11-20T03:00:00Z     | 2026-11-20T03:00:00Z | 2026-11-21T03:00:00Z
        0 3 * * *        | 2026-11-20T02:59:59Z     | 2026-11-19T03:00:00Z | 2026-11-20T03:00:00Z
        0 3 * * *        | 2026-11-20T03:00:00.001Z | 2026-11-20T03:00:00Z | 2026-11-21T03:00:00Z
        0 3 * * *        | 2026-11-20T02:59:59.999Z | 2026-11-19T03:00:00Z | 2026-11-20T03:00:00Z
        */15 * * * *     | 2026-11-20T08:40:00Z     | 2026-11-20T08:30:00Z | 2026-11-20T08:45:00Z
        0 9-17/4 * * *   | 2026-11-20T10:00:00Z     | 2026-11-20T09:00:00Z | 2026-11-20T13:00:00Z
        0 0 * * 1        | 2026-11-20T12:00:00Z     | 2026-11-16T00:00:00Z | 2026-11-23T00:00:00Z
        0 0 * * MON      | 2026-11-20T12:00:00Z     | 2026-11-16T00:00:00Z | 2026-11-23T00:00:00Z
        0 0 * * 0        | 2026-11-20T12:00:00Z     | 2026-11-15T00:00:00Z | 2026-11-22T00:00:00Z
        0 0 * * 7        | 2026-11-20T12:00:00Z     | 2026-11-15T00:00:00Z | 2026-11-22T00:00:00Z
        0 0 * * 6-7      | 2026-11-20T12:00:00Z     | 2026-11-15T00:00:00Z | 2026-11-21T00:00:00Z
        0 0 * * fri-sun  | 2026-11-20T12:00:00Z     | 2026-11-20T00:00:00Z | 2026-11-21T00:00:00Z
        0 0 * * */2      | 2026-11-20T12:00:00Z     | 2026-11-19T00:00:00Z | 2026-11-21T00:00:00Z
        0 0 1 * *        | 2026-11-20T12:00:00Z     | 2026-11-01T00:00:00Z | 2026-12-01T00:00:00Z
        0 0 31 * *       | 2026-11-20T12:00:00Z     | 2026-10-31T00:00:00Z | 2026-12-31T00:00:00Z
        0 0 29 2 *       | 2026-11-20T12:00:00Z     | 2024-02-29T00:00:00Z | 2028-02-29T00:00:00Z
        30 6 1 JAN,jul * | 2026-11-20T12:00:00Z     | 2026-07-01T06:30:00Z | 2027-01-01T06:30:00Z
        @hourly          | 2026-11-20T08:40:00Z     | 2026-11-20T08:00:00Z | 2026-11-20T09:00:00Z
        @daily           | 2026-11-20T08:40:00Z     | 2026-11-20T00:00:00Z | 2026-11-21T00:00:00Z
        @midnight        | 2026-11-20T08:40:00Z     | 2026-11-20T00:00:00Z | 2026-11-21T00:00:00Z
        @weekly          | 2026-11-20T08:40:00Z     | 2026-11-15T00:00:00Z | 2026-11-22T00:00:00Z
        @monthly         | 2026-11-20T08:40:00Z     | 2026-11-01T00:00:00Z | 2026-12-01T00:00:00Z
        @yearly          | 2026-11-20T08:40:00Z     | 2026-01-01T00:00:00Z | 2027-01-01T00:00:00Z
    ";

    #[test]
    fn the_next_and_the_last_time_match_crontab() {
        for line in TIMES.trim().lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [expression, moment, last, next] = cells.as_slice() else {
                panic!("four cells: {line}");
            };
            let crontab = Crontab::parse(expression).unwrap();
            assert_eq!(crontab.last_at_or_before(at(moment)), Some(at(last)), "last {expression} {moment}");
            assert_eq!(crontab.next_after(at(moment)), Some(at(next)), "next {expression} {moment}");
        }
    }

    #[test]
    fn an_invalid_expression_is_refused_with_a_cure() {
        let shape = CrontabError::Shape.to_string();
        let both = CrontabError::BothDays.to_string();
        let cases = [
            ("", shape.as_str()),
            ("0 3 * *", &shape),
            ("0 0 3 * * *", &shape),
            ("@reboot", &shape),
            ("0 3 1 * 1", &both),
            ("0 0 30 2 *", "the date never comes"),
            ("60 3 * * *", "minute `60` is wrong: use `*`, 0 to 59, a list, a range or a step such as `*/2`"),
            (
                "0 3 * * 8",
                "weekday `8` is wrong: use `*`, 0 to 7 or SUN to SAT, a list, a range or a step such as `*/2`",
            ),
            (
                "0 3 * 0 *",
                "month `0` is wrong: use `*`, 1 to 12 or JAN to DEC, a list, a range or a step such as `*/2`",
            ),
        ];
        for (expression, text) in cases {
            assert_eq!(Crontab::parse(expression).unwrap_err().to_string(), text, "{expression}");
        }
        for expression in
            ["5/15 * * * *", "*/0 * * * *", "9-5 * * * *", "1,,2 * * * *", "+5 * * * *", "0 3 ? * *"]
        {
            assert!(Crontab::parse(expression).is_err(), "{expression}");
        }
        assert!(Crontab::parse(&format!("{}0 3 * * *", "0,".repeat(200))).is_err());
    }

    /// A second implementation from crontab's definition: returns true if the expression is due at this minute.
    fn is_due(expression: &str, moment: Timestamp) -> bool {
        let time = DateTime::<Utc>::from_timestamp_millis(moment.0).unwrap();
        let values =
            [time.minute(), time.hour(), time.day(), time.month(), time.weekday().num_days_from_sunday()];
        expression.split(' ').zip(values).all(|(field, value)| {
            field.split(',').any(|term| match (term.strip_prefix("*/"), term.split_once('-')) {
                (Some(step), _) => value % step.parse::<u32>().unwrap() == 0,
                (None, Some((from, to))) => (from.parse().unwrap()..=to.parse().unwrap()).contains(&value),
                (None, None) => term == "*" || term.parse() == Ok(value),
            })
        })
    }

    fn expressions() -> impl Strategy<Value = String> {
        let minute = prop_oneof![Just("*/20".to_owned()), (0_u32..60).prop_map(|m| m.to_string())];
        let hour = prop_oneof![
            Just("*".to_owned()),
            Just("*/6".to_owned()),
            (0_u32..12, 12_u32..24).prop_map(|(a, b)| format!("{a}-{b}")),
            (0_u32..24, 0_u32..24).prop_map(|(a, b)| format!("{a},{b}")),
        ];
        let days = prop_oneof![
            Just("* * *".to_owned()),
            (1_u32..32).prop_map(|day| format!("{day} * *")),
            (0_u32..7).prop_map(|weekday| format!("* * {weekday}")),
            (1_u32..5, 1_u32..13).prop_map(|(weekday, month)| format!("* {month} {weekday}-5")),
        ];
        (minute, hour, days).prop_map(|(minute, hour, days)| format!("{minute} {hour} {days}"))
    }

    proptest! {
        #[test]
        fn next_and_last_agree_with_the_definition(
            expression in expressions(),
            // Around the turn of February 2028, a leap year.
            offset_ms in -3 * DAY_MS..3 * DAY_MS,
        ) {
            let crontab = Crontab::parse(&expression).unwrap();
            let moment = at("2028-02-28T12:00:00Z").plus_ms(offset_ms);
            let minute = Timestamp(moment.0 - moment.0.rem_euclid(MINUTE_MS));

            let reach = 2 * DAY_MS / MINUTE_MS;
            let next = (1..=reach).map(|n| minute.plus_ms(n * MINUTE_MS)).find(|t| is_due(&expression, *t));
            let last = (0..reach).map(|n| minute.plus_ms(-n * MINUTE_MS)).find(|t| is_due(&expression, *t));
            let far = minute.plus_ms(reach * MINUTE_MS);
            let near = minute.plus_ms(-reach * MINUTE_MS);
            prop_assert_eq!(crontab.next_after(moment).filter(|t| *t <= far), next);
            prop_assert_eq!(crontab.last_at_or_before(moment).filter(|t| near < *t), last);
        }
    }
}
