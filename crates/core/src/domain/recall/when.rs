//! Finds the time that a question names: `yesterday`, `last Tuesday`, `two weeks ago`, `in March`, `2026-03-05`.
//!
//! Days are those of the agent's time zone. The names of months and weekdays are English; the words for days are also German, Spanish,
//! Portuguese and Italian.

use std::ops::Range;

use chrono::{Datelike as _, Months, NaiveDate, TimeDelta};

use super::{
    TimeSpan,
    words::{Word, words},
};
use crate::domain::{
    time::{Timestamp, WEEKDAYS, duration_ms},
    zone::Zone,
};

/// Words for a day, and how many days ago it is. A phrase comes before the phrases that it contains.
const DAYS: [(&str, i64); 17] = [
    ("day before yesterday", 2),
    ("yesterday", 1),
    ("last night", 1),
    ("today", 0),
    ("this morning", 0),
    ("vorgestern", 2),
    ("gestern", 1),
    ("heute", 0),
    ("anteayer", 2),
    ("ayer", 1),
    ("hoy", 0),
    ("anteontem", 2),
    ("ontem", 1),
    ("hoje", 0),
    ("altro ieri", 2),
    ("ieri", 1),
    ("oggi", 0),
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// The numbers from 1 on.
const NUMBERS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// Words that make a month or a year after them a time.
const LEADS: [&str; 7] = ["in", "during", "since", "last", "this", "of", "from"];
/// The largest number in `99 days ago`.
const COUNT_MAX: i64 = 99;
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2100;

/// A time that a question names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSpan {
    /// The span of that time.
    pub span: TimeSpan,
    /// The words that name it, as the question has them.
    pub words: String,
    /// The question without these words. A date stays, since the texts may name it as well.
    pub rest: String,
}

/// The days from the first date up to the second one, which isn't included.
struct Days(NaiveDate, NaiveDate);

impl Days {
    fn one(day: NaiveDate) -> Option<Self> {
        Some(Self(day, day.succ_opt()?))
    }

    /// Returns the month of a day.
    fn month(day: NaiveDate) -> Option<Self> {
        let first = day.with_day(1)?;
        Some(Self(first, first.checked_add_months(Months::new(1))?))
    }

    fn year(year: i32) -> Option<Self> {
        Some(Self(NaiveDate::from_ymd_opt(year, 1, 1)?, NaiveDate::from_ymd_opt(year + 1, 1, 1)?))
    }

    /// Returns the days from Monday to Sunday around a day.
    fn week(day: NaiveDate) -> Option<Self> {
        let monday = ago(day, day.weekday().num_days_from_monday().into())?;
        Some(Self(monday, ago(monday, -7)?))
    }

    /// Returns the day, week, month or year that was `count` of these units ago. `name` is the unit.
    fn unit(name: &str, count: i64, today: NaiveDate) -> Option<Self> {
        let months = |count: i64| today.checked_sub_months(Months::new(u32::try_from(count).ok()?));
        match name.strip_suffix('s').unwrap_or(name) {
            "day" => Self::one(ago(today, count)?),
            "week" => Self::week(ago(today, 7 * count)?),
            "month" => Self::month(months(count)?),
            "year" => Self::year(months(12 * count)?.year()),
            _ => None,
        }
    }
}

fn ago(day: NaiveDate, days: i64) -> Option<NaiveDate> {
    day.checked_sub_signed(TimeDelta::try_days(days)?)
}

/// What some consecutive words of a question mean.
struct Meaning {
    days: Days,
    /// How many words name the days.
    word_count: usize,
    /// True for words like `yesterday`, which the searched texts don't have.
    is_relative: bool,
}

impl TimeSpan {
    /// Parses what `--since` and `--until` accept: a time, a date, a duration before `now` such as `12h`, or words such as
    /// `last week`. Days are those of `zone`.
    pub fn parse(text: &str, now: Timestamp, zone: Zone) -> Option<Self> {
        let ago = || now.plus_ms(-duration_ms(text)?).in_calendar();
        match Timestamp::parse(text).or_else(ago) {
            Some(at) => Some(Self { since: at, until: at }),
            None => named_span(&format!("in {text}"), now, zone).map(|named| named.span),
        }
    }
}

/// Returns the first time that the question names. `now` is the time of the question.
pub fn named_span(question: &str, now: Timestamp, zone: Zone) -> Option<NamedSpan> {
    let words: Vec<Word> = words(question).collect();
    let today = NaiveDate::from_epoch_days(i32::try_from(zone.day(now)).ok()?)?;
    (0..words.len()).find_map(|index| {
        let (earlier, rest) = words.split_at(index);
        let texts: Vec<&str> = rest.iter().take(4).map(|word| word.folded.as_str()).collect();
        let lead = earlier.last().map_or("", |word| word.folded.as_str());
        let meaning = read_relative(&texts, today).or_else(|| date(lead, &texts, today))?;
        let named = rest.first()?.span.start..rest.get(meaning.word_count - 1)?.span.end;
        let is_quoted = question.get(..named.start)?.matches('"').count() % 2 == 1;
        (!is_quoted).then(|| span_from(question, named, &meaning, zone))?
    })
}

/// Makes the span that the bytes `named` of the question mean.
fn span_from(question: &str, named: Range<usize>, meaning: &Meaning, zone: Zone) -> Option<NamedSpan> {
    let moment = |day: NaiveDate| zone.begin_of(day.to_epoch_days().into());
    let (head, tail) = (question.get(..named.start)?, question.get(named.end..)?);
    Some(NamedSpan {
        span: TimeSpan { since: moment(meaning.days.0), until: moment(meaning.days.1) },
        words: question.get(named)?.to_owned(),
        rest: if meaning.is_relative { format!("{head} {tail}") } else { question.to_owned() },
    })
}

/// Reads `yesterday`, `last Tuesday`, `last week`, `past three days` or `two weeks ago`.
fn read_relative(texts: &[&str], today: NaiveDate) -> Option<Meaning> {
    let word = |index: usize| texts.get(index).copied().unwrap_or_default();
    let meaning =
        |days: Option<Days>, word_count: usize| Some(Meaning { days: days?, word_count, is_relative: true });
    let begins = |phrase: &str| phrase.split(' ').enumerate().all(|(index, part)| word(index) == part);
    if let Some((phrase, days)) = DAYS.iter().find(|(phrase, _)| begins(phrase)) {
        return meaning(Days::one(ago(today, *days)?), phrase.split(' ').count());
    }
    let first_word = word(0);
    if let (true, Some(weekday)) =
        (["last", "on", "this"].contains(&first_word), WEEKDAYS.iter().position(|day| *day == word(1)))
    {
        let days_ago =
            (i64::from(today.weekday().num_days_from_monday()) - i64::try_from(weekday).ok()?).rem_euclid(7);
        return meaning(Days::one(ago(today, if days_ago == 0 { 7 } else { days_ago })?), 2);
    }
    if let ("last" | "past", Some(count)) = (first_word, number(word(1))) {
        let Days(first, _) = Days::unit(word(2), count, today).filter(|_| word(2) != "year")?;
        return meaning(Some(Days(first, today.succ_opt()?)), 3);
    }
    if let (Some(count), "ago") = (number(first_word), word(2)) {
        return meaning(Days::unit(word(1), count, today), 3);
    }
    match (first_word, word(1)) {
        ("last", unit @ ("week" | "month" | "year")) => meaning(Days::unit(unit, 1, today), 2),
        ("this", unit @ ("week" | "month" | "year")) => meaning(Days::unit(unit, 0, today), 2),
        _ => None,
    }
}

/// Reads `2026-03-05`, `March 5` or `5 March 2026`; after a word such as `in` also `March`, `March 2026` or `2026`. Without a year, takes
/// the newest such date that isn't in the future.
fn date(lead: &str, texts: &[&str], today: NaiveDate) -> Option<Meaning> {
    let word = |index: usize| texts.get(index).copied().unwrap_or_default();
    let meaning =
        |days: Option<Days>, word_count: usize| Some(Meaning { days: days?, word_count, is_relative: false });
    if let (Some(year), Ok(month), Some(day)) = (year(word(0)), word(1).parse(), day(word(2))) {
        return meaning(Days::one(NaiveDate::from_ymd_opt(year, month, day)?), 3);
    }
    // The month and the day, each with its index among the words.
    let ((month, month_index), day) = match (month(word(0)), month(word(1))) {
        (Some(month), _) => ((month, 0), day(word(1)).map(|day| (day, 1))),
        (_, Some(month)) => ((month, 1), Some((day(word(0))?, 0))),
        _ => {
            let year = year(word(0)).filter(|_| LEADS.contains(&lead))?;
            return meaning(Days::year(year), 1);
        }
    };
    if day.is_none() && !LEADS.contains(&lead) && year(word(1)).is_none() {
        return None;
    }
    let word_count = 1 + month_index.max(day.map_or(0, |(_, index)| index));
    let named_year = year(word(word_count));
    let date_in = |year: i32| NaiveDate::from_ymd_opt(year, month, day.map_or(1, |(day, _)| day));
    let date = match named_year {
        Some(year) => date_in(year)?,
        None => date_in(today.year()).filter(|date| *date <= today).or_else(|| date_in(today.year() - 1))?,
    };
    let days = if day.is_some() { Days::one(date) } else { Days::month(date) };
    meaning(days, word_count + usize::from(named_year.is_some()))
}

fn number(word: &str) -> Option<i64> {
    let spelt = NUMBERS.iter().position(|number| *number == word);
    let number = spelt.map_or_else(|| word.parse().ok(), |index| i64::try_from(index + 1).ok())?;
    (1..=COUNT_MAX).contains(&number).then_some(number)
}

fn month(word: &str) -> Option<u32> {
    let index = MONTHS.iter().position(|month| *month == word)?;
    u32::try_from(index + 1).ok()
}

/// Reads `5`, `05` or `5th`.
fn day(word: &str) -> Option<u32> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let is_ordinal = ["", "st", "nd", "rd", "th"].contains(&word.get(digits.len()..)?);
    digits.parse().ok().filter(|day| is_ordinal && (1..=31).contains(day))
}

fn year(word: &str) -> Option<i32> {
    word.parse().ok().filter(|year| word.len() == 4 && YEARS.contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_times() {
        // A Monday.
        let now = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        for (question, since, until, words) in [
            ("What broke yesterday?", "2023-05-07", "2023-05-08", "yesterday"),
            ("what was it last Tuesday", "2023-05-02", "2023-05-03", "last Tuesday"),
            ("and on monday?", "2023-05-01", "2023-05-02", "on monday"),
            ("plans of two weeks ago", "2023-04-24", "2023-05-01", "two weeks ago"),
            ("3 days ago", "2023-05-05", "2023-05-06", "3 days ago"),
            ("in the past three days", "2023-05-05", "2023-05-09", "past three days"),
            ("the trip last month", "2023-04-01", "2023-05-01", "last month"),
            ("the race in March", "2023-03-01", "2023-04-01", "March"),
            ("the race in June", "2022-06-01", "2022-07-01", "June"),
            ("in October 2021", "2021-10-01", "2021-11-01", "October 2021"),
            ("on March 5th", "2023-03-05", "2023-03-06", "March 5th"),
            ("on 5 March 2022", "2022-03-05", "2022-03-06", "5 March 2022"),
            ("since 2022", "2022-01-01", "2023-01-01", "2022"),
            ("the run of 2023-01-31", "2023-01-31", "2023-02-01", "2023-01-31"),
            ("Was war gestern?", "2023-05-07", "2023-05-08", "gestern"),
        ] {
            let named = named_span(question, now, Zone::UTC).unwrap_or_else(|| panic!("{question}"));
            let day = |at: Timestamp| at.format("%Y-%m-%d");
            assert_eq!(
                (day(named.span.since).as_str(), day(named.span.until).as_str()),
                (since, until),
                "{question}"
            );
            assert_eq!(named.words, words, "{question}");
        }
    }

    #[test]
    fn other_questions_name_no_time() {
        let now = Timestamp(0);
        for question in [
            "May I march?",
            "port 8080 in use",
            "the last word",
            "\"yesterday\" by the Beatles",
            "in 1812",
            "",
        ] {
            assert_eq!(named_span(question, now, Zone::UTC), None, "{question}");
        }
    }

    #[test]
    fn relative_words_are_not_looked_for() {
        let now = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        let rest = |question| named_span(question, now, Zone::UTC).unwrap().rest;
        assert_eq!(rest("What broke last week in CI?"), "What broke   in CI?");
        assert_eq!(rest("the race in March"), "the race in March");
    }
}
