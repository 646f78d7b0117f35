//! Dates beside the words that only mean one on the day they are said: `yesterday (7 May)`. A summary is read later.

use std::borrow::Cow;

use crate::domain::time::{DAY_MS, Timestamp};

/// The longest text that is looked at, in bytes.
const TEXT_BYTES_MAX: usize = 4_096;
/// The most days, weeks, months or years ago that are reckoned back.
const AGO_MAX: i64 = 99;

/// The day before, the day after, in one word (English, German, Spanish, Portuguese, Italian). Words that also mean the
/// morning, or something else in another language (`hier`), are left out.
const DAYS: [(&str, i64); 8] = [
    ("yesterday", -1),
    ("gestern", -1),
    ("ayer", -1),
    ("ontem", -1),
    ("ieri", -1),
    ("tomorrow", 1),
    ("amanhã", 1),
    ("domani", 1),
];
/// Monday first, as days after a Monday.
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
/// From one on.
const NUMBERS: [&str; 10] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
];

/// A length of time.
#[derive(Clone, Copy)]
enum Unit {
    Day,
    Month,
    Year,
}

/// `said` when clocks showed `at`, with the date in brackets after each word that needs one.
pub(super) fn dated(said: &str, at: Timestamp) -> Cow<'_, str> {
    if said.len() > TEXT_BYTES_MAX {
        return Cow::Borrowed(said);
    }
    let words: Vec<(usize, String)> = words(said);
    let mut text = String::new();
    let mut told = 0;
    for index in 0..words.len() {
        let Some((date, length)) = date(words.get(index..).unwrap_or_default(), at) else {
            continue;
        };
        let end = words.get(index + length - 1).map_or(0, |(end, _)| *end);
        let (Some(before), Some(after)) = (said.get(told..end), said.get(end..)) else {
            continue;
        };
        // `last night's table` and `yesterday (Sunday)` stay as they are.
        if after.trim_start().starts_with(['(', '\'', '’', '-']) {
            continue;
        }
        text.push_str(before);
        text.extend([" (", date.as_str(), ")"]);
        told = end;
    }
    if told == 0 {
        return Cow::Borrowed(said);
    }
    text.push_str(said.get(told..).unwrap_or_default());
    Cow::Owned(text)
}

/// The words of a text in lower case, each with its end.
fn words(said: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut begin = None;
    for (at, c) in said.char_indices().chain([(said.len(), ' ')]) {
        match (c.is_alphanumeric(), begin) {
            (true, None) => begin = Some(at),
            (false, Some(from)) => {
                words.push((at, said.get(from..at).unwrap_or_default().to_lowercase()));
                begin = None;
            }
            _ => {}
        }
    }
    words
}

/// The date that the first of `words` mean, and how many words that are.
fn date(words: &[(usize, String)], at: Timestamp) -> Option<(String, usize)> {
    let word = |index: usize| words.get(index).map_or("", |(_, word)| word.as_str());
    if let Some((_, days)) = DAYS.iter().find(|(name, _)| *name == word(0)) {
        return Some((moved(at, Unit::Day, *days), 1));
    }
    let number = number(word(0));
    if let (Some(count), Some((unit, days)), "ago") = (number, unit(word(1)), word(2)) {
        return Some((moved(at, unit, -count * days), 3));
    }
    let direction = match word(0) {
        "last" => -1,
        "next" => 1,
        _ => return None,
    };
    let date = match word(1) {
        "night" if direction < 0 => moved(at, Unit::Day, -1),
        "month" => moved(at, Unit::Month, direction),
        "year" => moved(at, Unit::Year, direction),
        name => {
            let day = i64::try_from(WEEKDAYS.iter().position(|weekday| *weekday == name)?).ok()?;
            moved(at, Unit::Day, days_to(day, at, direction))
        }
    };
    Some((date, 2))
}

fn number(word: &str) -> Option<i64> {
    let spelt = NUMBERS.iter().position(|number| *number == word);
    let number = match spelt {
        Some(index) => i64::try_from(index + 1).ok()?,
        None => word.parse().ok()?,
    };
    (1..=AGO_MAX).contains(&number).then_some(number)
}

fn unit(word: &str) -> Option<(Unit, i64)> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "day" => (Unit::Day, 1),
        "month" => (Unit::Month, 1),
        "year" => (Unit::Year, 1),
        _ => return None,
    })
}

/// How many days it is from `at` to the last or the next such weekday, never 0.
fn days_to(weekday: i64, at: Timestamp, direction: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    let today = (at.0.div_euclid(DAY_MS) + 3).rem_euclid(7);
    let ahead = (weekday - today).rem_euclid(7);
    match (direction > 0, ahead) {
        (true, 0) => 7,
        (true, ahead) => ahead,
        (false, ahead) => ahead - 7,
    }
}

/// The date so many days, months or years from `at`, as precise as its unit; the year only where it is another one.
fn moved(at: Timestamp, unit: Unit, count: i64) -> String {
    let read = |time: Timestamp, pattern: &str| time.format(pattern).parse::<i64>().unwrap_or_default();
    let months = match unit {
        Unit::Day => {
            let then = at.plus_ms(count * DAY_MS);
            return then.format(if read(then, "%Y") == read(at, "%Y") {
                "%-d %B"
            } else {
                "%-d %B %Y"
            });
        }
        Unit::Year => return (read(at, "%Y") + count).to_string(),
        Unit::Month => count,
    };
    let mut then = at;
    for _ in 0..months.abs() {
        let day = read(then, "%-d");
        // To the last day of the month before, or to the first ones of the next.
        let days = if months < 0 { -day } else { 33 - day };
        then = then.plus_ms(days * DAY_MS);
    }
    then.format(if read(then, "%Y") == read(at, "%Y") {
        "%B"
    } else {
        "%B %Y"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_a_date_get_it() {
        // A Monday.
        let at = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        let cases = [
            (
                "I went there yesterday and it was good",
                "I went there yesterday (7 May) and it was good",
            ),
            ("Last night, I slept.", "Last night (7 May), I slept."),
            ("We met last Friday.", "We met last Friday (5 May)."),
            ("See you next monday!", "See you next monday (15 May)!"),
            ("It began three years ago", "It began three years ago (2020)"),
            ("It broke 10 days ago", "It broke 10 days ago (28 April)"),
            ("I moved 6 months ago", "I moved 6 months ago (November 2022)"),
            ("next month or next year", "next month (June) or next year (2024)"),
            ("Gestern war ich da", "Gestern (7 May) war ich da"),
            ("Füge hier einen Test hinzu", "Füge hier einen Test hinzu"),
            ("yesterday (Sunday)", "yesterday (Sunday)"),
            ("last night's table", "last night's table"),
            ("at last she saw the year", "at last she saw the year"),
            ("999 years ago", "999 years ago"),
            ("", ""),
        ];
        for (said, expected) in cases {
            assert_eq!(dated(said, at), expected);
        }
        let january = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(dated("yesterday", january), "yesterday (31 December 2025)");
        let end = Timestamp::parse("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(dated("next month", end), "next month (February)");
    }
}
