//! Adds dates to words that depend on the day on which they are said, because a summary is read later: `yesterday (7 May)`.

use std::borrow::Cow;

use recapd_core::domain::time::{DAY_MS, Timestamp, WEEKDAYS};

/// A text longer than this, in bytes, gets no dates.
const TEXT_BYTES_MAX: usize = 4_096;
/// Larger numbers of days, weeks, months or years ago get no date.
const AGO_MAX: i64 = 99;

/// Days relative to the day of speaking, in English, German, Spanish, Portuguese and Italian. A phrase comes before those that it
/// contains. Words that also mean the morning, or something else in another language (`hier`), are left out.
const DAYS: [(&str, i64); 30] = [
    ("day before yesterday", -2),
    ("day after tomorrow", 2),
    ("antes de ayer", -2),
    ("antes de ontem", -2),
    ("depois de amanhã", 2),
    ("l altro ieri", -2),
    ("altro ieri", -2),
    ("ieri l altro", -2),
    ("vorgestern", -2),
    ("anteayer", -2),
    ("anteontem", -2),
    ("übermorgen", 2),
    ("dopodomani", 2),
    ("yesterday", -1),
    ("gestern", -1),
    ("ayer", -1),
    ("ontem", -1),
    ("ieri", -1),
    ("tomorrow", 1),
    ("amanhã", 1),
    ("domani", 1),
    ("today", 0),
    ("tonight", 0),
    ("this morning", 0),
    ("this afternoon", 0),
    ("this evening", 0),
    ("heute", 0),
    ("hoy", 0),
    ("hoje", 0),
    ("oggi", 0),
];
/// Words between a length of time and a day that change the date: `two days before yesterday`.
const SHIFTS: [&str; 3] = ["before", "after", "from"];
/// Words before a number that make it a limit, a guess or another number: `more than 10 days ago`, `twenty two years ago`.
const BOUNDS: [&str; 21] = [
    "over", "under", "than", "almost", "nearly", "least", "most", "or", "to", "hundred", "thousand", "half",
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "every",
];
/// Words before `last` and `next` that make them a span or somebody's last one: `over the last year`, `her last night`.
const OWNERS: [&str; 16] = [
    "the", "a", "one", "my", "your", "his", "her", "its", "our", "their", "whose", "this", "that", "every",
    "s", "at",
];
/// Number words, from one on.
const NUMBERS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

#[derive(Clone, Copy)]
enum Unit {
    Day,
    Month,
    Year,
}

/// A word in lower case and its range in bytes.
struct DateWord {
    begin: usize,
    end: usize,
    text: String,
}

/// Returns `text`, which was spoken at the local time `at`, with a date in brackets after each word that needs one. Words for
/// today get a date only if the text may appear under another day, that of `begin`.
pub(super) fn with_dates(text: &str, at: Timestamp, begin: Timestamp) -> Cow<'_, str> {
    if text.len() > TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let words = words(text);
    let is_same_day = at.0.div_euclid(DAY_MS) == begin.0.div_euclid(DAY_MS);
    let mut dated = String::new();
    let (mut copied_end, mut index) = (0, 0);
    while index < words.len() {
        let (previous, rest) = words.split_at(index);
        let Some((date, length)) = date(previous, rest, at, is_same_day) else {
            index += 1;
            continue;
        };
        index += length;
        let phrase = rest.get(..length).unwrap_or_default();
        if let Some(end) = date_position(text, phrase) {
            dated.push_str(text.get(copied_end..end).unwrap_or_default());
            dated.extend([" (", date.as_str(), ")"]);
            copied_end = end;
        }
    }
    if copied_end == 0 {
        return Cow::Borrowed(text);
    }
    dated.push_str(text.get(copied_end..).unwrap_or_default());
    Cow::Owned(dated)
}

/// Returns where `phrase` ends in `text`, if a date can follow the phrase. No date follows in `last night's table`, `yesterday
/// (Sunday)`, `2.5 years ago`, `/logs/yesterday.md` and `at last, Friday`.
fn date_position(text: &str, phrase: &[DateWord]) -> Option<usize> {
    let (first, last) = (phrase.first()?, phrase.last()?);
    let before = text.get(..first.begin)?;
    let after = text.get(last.end..)?;
    let phrase_text = text.get(first.begin..last.end)?;
    let rest = after.trim_start_matches(['.', ',', ';', ':', '!', '?', '…', ')']);
    let ends = after.starts_with(['—', '–']) || !rest.starts_with(is_name_char);
    let can_take_date =
        ends && !before.ends_with(is_name_char) && !phrase_text.contains(['-', '_', '/', '.', ',', ':']);
    (can_take_date && !after.trim_start().starts_with(['(', '-'])).then_some(last.end)
}

/// Returns true if `c` joins its neighbours into one name or number.
fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || "_/\\'’-.,:@#=$+".contains(c)
}

fn words(text: &str) -> Vec<DateWord> {
    let mut words = Vec::new();
    let mut begin = None;
    for (index, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_alphanumeric(), begin) {
            (true, None) => begin = Some(index),
            (false, Some(from)) => {
                words.push(DateWord {
                    begin: from,
                    end: index,
                    text: text.get(from..index).unwrap_or_default().to_lowercase(),
                });
                begin = None;
            }
            _ => {}
        }
    }
    words
}

/// Returns the date of the phrase at the beginning of `rest`, which follows the words `previous`, and how many words the phrase
/// has.
fn date(
    previous: &[DateWord],
    rest: &[DateWord],
    at: Timestamp,
    is_same_day: bool,
) -> Option<(String, usize)> {
    let word = |index: usize| rest.get(index).map_or("", |word| word.text.as_str());
    let word_before = |count: usize| {
        let index = previous.len().checked_sub(count)?;
        previous.get(index).map(|word| word.text.as_str())
    };
    let lead = word_before(1).unwrap_or_default();
    if SHIFTS.contains(&lead) && word_before(2).is_some_and(is_span) {
        return None;
    }
    let is_match = |(phrase, days): &&(&str, i64)| (*days != 0 || !is_same_day) && begins(rest, phrase);
    if let Some((phrase, days)) = DAYS.iter().find(is_match) {
        return Some((date_after(at, Unit::Day, *days), phrase.split(' ').count()));
    }
    if let (Some(count), Some((unit, days)), "ago") = (number(word(0)), unit(word(1)), word(2)) {
        let is_bound = BOUNDS.contains(&lead) || number(lead).is_some();
        return (!is_bound).then(|| (date_after(at, unit, -count * days), 3));
    }
    if OWNERS.contains(&lead) || word(2) == "of" {
        return None;
    }
    Some((relative_date(word(0), word(1), at)?, 2))
}

fn begins(words: &[DateWord], phrase: &str) -> bool {
    let mut texts = words.iter().map(|word| word.text.as_str());
    phrase.split(' ').all(|word| texts.next() == Some(word))
}

/// Returns true if `word` is a length of time or a part of a day.
fn is_span(word: &str) -> bool {
    const SPANS: [&str; 8] = ["day", "night", "morning", "evening", "weekend", "week", "month", "year"];
    SPANS.contains(&word.strip_suffix('s').unwrap_or(word))
}

/// Returns the date of `last night`, `this friday`, `next month`.
fn relative_date(which: &str, name: &str, at: Timestamp) -> Option<String> {
    let direction = match which {
        "last" => -1,
        "this" => 0,
        "next" => 1,
        _ => return None,
    };
    Some(match name {
        "night" if direction < 0 => date_after(at, Unit::Day, -1),
        "month" if direction != 0 => date_after(at, Unit::Month, direction),
        "year" if direction != 0 => date_after(at, Unit::Year, direction),
        _ => {
            let day = WEEKDAYS.iter().position(|weekday| *weekday == name)?;
            date_after(at, Unit::Day, days_to(i64::try_from(day).ok()?, at, direction)?)
        }
    })
}

fn number(word: &str) -> Option<i64> {
    let spelled_index = NUMBERS.iter().position(|number| *number == word);
    let number = match spelled_index {
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

/// Counts the days from `at` to a weekday. `None` where usage differs: on Monday, `next Friday` may be in 4 or in 11 days.
fn days_to(weekday: i64, at: Timestamp, direction: i64) -> Option<i64> {
    // 1970-01-01 was a Thursday.
    let today = (at.0.div_euclid(DAY_MS) + 3).rem_euclid(7);
    let ahead = (weekday - today).rem_euclid(7);
    let is_this_week = weekday > today;
    match direction {
        // On Saturday, `last Friday` may not mean yesterday.
        ..0 => (ahead != 6).then_some(ahead - 7),
        0 => is_this_week.then_some(ahead),
        _ => (!is_this_week && ahead != 1).then_some(if ahead == 0 { 7 } else { ahead }),
    }
}

/// Returns the date that is this many days, months or years from `at`, as precise as the unit. Includes the year only if it
/// differs.
fn date_after(at: Timestamp, unit: Unit, count: i64) -> String {
    let read = |time: Timestamp, pattern: &str| time.format(pattern).parse::<i64>().unwrap_or_default();
    let months = match unit {
        Unit::Day => {
            let then = at.plus_ms(count * DAY_MS);
            return then.format(if read(then, "%Y") == read(at, "%Y") { "%-d %B" } else { "%-d %B %Y" });
        }
        Unit::Year => return (read(at, "%Y") + count).to_string(),
        Unit::Month => count,
    };
    let mut then = at;
    for _ in 0..months.abs() {
        let day = read(then, "%-d");
        // To the last day of the previous month, or to the first days of the next one.
        let days = if months < 0 { -day } else { 33 - day };
        then = then.plus_ms(days * DAY_MS);
    }
    then.format(if read(then, "%Y") == read(at, "%Y") { "%B" } else { "%B %Y" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_a_date_get_it() {
        // A Monday.
        let at = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        let cases = [
            ("I went there yesterday and it was good", "I went there yesterday (7 May) and it was good"),
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
            ("See you the day after tomorrow.", "See you the day after tomorrow (10 May)."),
            ("It broke the day before yesterday", "It broke the day before yesterday (6 May)"),
            ("Depois de amanhã eu viajo", "Depois de amanhã (10 May) eu viajo"),
            ("L'altro ieri pioveva", "L'altro ieri (6 May) pioveva"),
            ("Vorgestern kam sie", "Vorgestern (6 May) kam sie"),
            ("this Friday or last Tuesday", "this Friday (12 May) or last Tuesday (2 May)"),
            ("this time last year", "this time last year (2022)"),
        ];
        for (said, expected) in cases {
            assert_eq!(with_dates(said, at, at), expected);
        }
        let january = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(with_dates("yesterday", january, january), "yesterday (31 December 2025)");
        let end = Timestamp::parse("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(with_dates("next month", end, end), "next month (February)");
    }

    #[test]
    fn today_gets_its_date_where_it_may_stand_under_another_day() {
        let begin = Timestamp::parse("2023-05-07T23:50:00Z").unwrap();
        let at = Timestamp::parse("2023-05-08T00:10:00Z").unwrap();
        let said = "It broke this morning, I fix it today.";
        assert_eq!(with_dates(said, begin, begin), said);
        assert_eq!(with_dates(said, at, begin), "It broke this morning (8 May), I fix it today (8 May).");
    }

    #[test]
    fn other_phrases_get_no_date() {
        // A Monday.
        let at = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        for said in [
            "two days before yesterday",
            "a week from tomorrow",
            "the night before last Friday",
            "twenty two years ago",
            "twenty-two years ago",
            "2.5 years ago",
            "1,010 days ago",
            "more than 10 days ago",
            "two or three days ago",
            "over the last year",
            "It was her last night there.",
            "Last month of school",
            "next Friday",
            "last Sunday",
            "At last, Friday came.",
            "see logs/yesterday.md and last-month.csv",
            "yesterday_report",
            "two weeks ago, last week",
            "the day before yesterday's lunch",
            "il giornale dell'altro ieri",
        ] {
            assert_eq!(with_dates(said, at, at), said);
        }
    }
}
