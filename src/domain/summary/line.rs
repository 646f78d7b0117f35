//! One line of the document: a text that can't break out of it, its time, its exchanges, its size.
//!
//! Invariant: a line holds no line feed, opens no Markdown block and closes no tag, whatever its text was.

use std::borrow::Cow;

use super::{
    item::{BRIEF_CHARS_MAX, ExchangeRange, GIST_CHARS_MAX, Item, Origin, TEXT_CHARS_MAX},
    section::{Form, Section},
};
use crate::domain::{
    inert::{defanged, quoted},
    text::{begins_with_day, floor_cut, one_line},
    time::{DAY_MS, Timestamp},
};

/// The most ranges that a line lists; if there are more, the last one follows an ellipsis.
pub const RANGES_SHOWN_MAX: usize = 5;
/// Bytes allowed per character of a text's cap: a grapheme may carry any number of combining marks.
const BYTES_PER_CHAR_MAX: usize = 16;
/// The text in place of one of which nothing is left after cleaning.
pub(super) const NO_TEXT: &str = "(no text)";
/// The mark of an item that is a digest until a summariser has seen its exchanges.
const PROVISIONAL_MARK: &str = " (not yet condensed)";

/// An item's line, without its number and line feed: `Added JWT (2026-01-05 08:12, #12–#14, ~5k tokens)`.
pub fn item_line(item: &Item, section: Section, form: Form) -> String {
    let text = item_text(item, form);
    let when = match section {
        Section::Session => minutes(item.started_at, item.ended_at),
        Section::Yesterday | Section::Week => days(item.started_at, item.ended_at),
    };
    let source = source(&when, &ranges(&item.ranges), item.source_tokens);
    format!("{text} {source}{}", mark(item))
}

/// The mark of an item that is a provisional digest; empty for others.
pub(super) fn mark(item: &Item) -> &'static str {
    if item.provisional && item.origin == Origin::Digest {
        PROVISIONAL_MARK
    } else {
        ""
    }
}

/// The item's text of that form, alone and clean.
pub(super) fn item_text(item: &Item, form: Form) -> String {
    clean(said(item, form), chars_max(form))
}

/// The source in a line beneath a day's heading: `(#12–#14, ~5k tokens)`; if its exchanges end on a later day
/// `(to 6 January 2026, #12–#14, ~5k tokens)`.
pub(super) fn source_of_day(items: &[&Item]) -> String {
    let mut covered: Vec<ExchangeRange> = items
        .iter()
        .flat_map(|item| item.ranges.iter().copied())
        .collect();
    covered.sort_unstable();
    let tokens = items
        .iter()
        .fold(0_i64, |sum, item| sum.saturating_add(item.source_tokens));
    let began = items.iter().map(|item| began_at(item)).min().unwrap_or_default();
    let ended = items.iter().map(|item| item.ended_at).max().unwrap_or_default();
    let when = if day_number(ended) > day_number(began) {
        format!("to {}", day(ended))
    } else {
        String::new()
    };
    source(&when, &ranges(&covered), tokens)
}

/// When an item began; never after its end.
pub(super) fn began_at(item: &Item) -> Timestamp {
    item.started_at.min(item.ended_at)
}

/// The day of a moment, counted in UTC.
pub(super) fn day_number(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY_MS)
}

/// `5 January 2026`: written out, because a heading is read for many lines.
pub(super) fn day(at: Timestamp) -> String {
    at.format("%-d %B %Y")
}

/// `(2026-01-05 08:12, #12–#14, ~5k tokens)`.
pub(super) fn source(when: &str, ranges: &str, tokens: i64) -> String {
    let tokens = format!("~{} tokens", rounded(tokens, false));
    let parts: Vec<&str> = [when, ranges, &tokens]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    format!("({})", parts.join(", "))
}

/// The item's text of that form. A missing shorter text, or one that isn't shorter, is replaced by the next longer one,
/// which is then cut: shortening a line never makes it longer.
fn said(item: &Item, form: Form) -> &str {
    let texts = [item.text.as_str(), item.brief.as_str(), item.gist.as_str()];
    let mut said = texts
        .into_iter()
        .find(|text| !text.trim().is_empty())
        .unwrap_or_default();
    for (text, at) in texts.into_iter().zip(Form::ALL) {
        if at <= form && !text.trim().is_empty() && text.len() <= said.len() {
            said = text;
        }
    }
    said
}

fn chars_max(form: Form) -> usize {
    match form {
        Form::Text => TEXT_CHARS_MAX,
        Form::Brief => BRIEF_CHARS_MAX,
        Form::Gist => GIST_CHARS_MAX,
    }
}

/// One line of at most `chars_max` characters that can't pose as a heading, a list item, a fence, a tag, a link or an
/// instruction ([`crate::domain::inert`]).
pub fn clean(text: &str, chars_max: usize) -> String {
    let text = floor_cut(text.trim_start(), chars_max.saturating_mul(BYTES_PER_CHAR_MAX));
    let line = defanged(&one_line(text));
    // Cutting or removing a mark may leave a new mark at the beginning.
    let line = defanged(&quoted(without_marks(&line), chars_max));
    if line.is_empty() {
        NO_TEXT.to_owned()
    } else {
        unmistakable(&line).into_owned()
    }
}

/// What only looks like a mark, rewritten: a day before its month, and `>=`.
fn unmistakable(line: &str) -> Cow<'_, str> {
    if let Some(rest) = line.strip_prefix(">=") {
        return format!("≥{rest}").into();
    }
    if begins_with_day(line) {
        return line.replacen(". ", ".\u{a0}", 1).into();
    }
    line.into()
}

/// Removes leading Markdown block marks, nested ones too.
fn without_marks(mut line: &str) -> &str {
    loop {
        let rest = without_mark(line).trim_start();
        if rest.len() == line.len() {
            return line;
        }
        line = rest;
    }
}

fn without_mark(line: &str) -> &str {
    let ends_word = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let Some(first) = line.chars().next() else {
        return line;
    };
    if line.starts_with(">=") || begins_with_day(line) {
        return line;
    }
    let rest = match first {
        '>' | '|' | '•' => return line.trim_start_matches(first),
        '#' | '-' | '+' | '*' | '`' | '~' | '_' | '=' => line.trim_start_matches(first),
        '0'..='9' => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            return match rest.strip_prefix(['.', ')']) {
                Some(rest) if ends_word(rest) => rest,
                _ => line,
            };
        }
        _ => return line,
    };
    // Three or more make a fence or a rule; fewer only count before a blank, so that `#12`, `-5` and `code` survive.
    let is_mark = ends_word(rest) || line.len() - rest.len() >= 3;
    if is_mark { rest } else { line }
}

/// `2026-01-05 08:12`; over midnight `2026-01-05 23:50–2026-01-06 00:10`.
pub(super) fn minutes(from: Timestamp, to: Timestamp) -> String {
    const MINUTE: &str = "%Y-%m-%d %H:%M";
    let from = from.min(to);
    if from.format("%F") == to.format("%F") {
        from.format(MINUTE)
    } else {
        format!("{}–{}", from.format(MINUTE), to.format(MINUTE))
    }
}

/// `Mon 2026-01-05`, `Mon–Tue 2026-01-05–06`, `Sat–Sun 2026-01-31–02-01`, `Wed–Thu 2025-12-31–2026-01-01`.
fn days(from: Timestamp, to: Timestamp) -> String {
    let from = from.min(to);
    let same = |pattern| from.format(pattern) == to.format(pattern);
    let last = match () {
        () if same("%F") => return from.format("%a %F"),
        () if same("%Y-%m") => to.format("%d"),
        () if same("%Y") => to.format("%m-%d"),
        () => to.format("%F"),
    };
    format!(
        "{}–{} {}–{last}",
        from.format("%a"),
        to.format("%a"),
        from.format("%F")
    )
}

/// `#12`, `#12–#14`, `#3, #7–#9`; of very many `#3, #7–#9, … #40`.
pub fn ranges(ranges: &[ExchangeRange]) -> String {
    let mut joined: Vec<ExchangeRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) && last.first <= range.first => {
                last.last = last.last.max(range.last);
            }
            _ => joined.push(*range),
        }
    }
    let mut shown: Vec<String> = joined.iter().map(|range| range_name(*range)).collect();
    if shown.len() > RANGES_SHOWN_MAX {
        let last = shown.pop().unwrap_or_default();
        shown.truncate(RANGES_SHOWN_MAX - 1);
        shown.push(format!("… {last}"));
    }
    shown.join(", ")
}

/// `#12` or `#12–#14`.
pub(super) fn range_name(range: ExchangeRange) -> String {
    if range.first == range.last {
        format!("#{}", range.first)
    } else {
        format!("#{}–#{}", range.first, range.last)
    }
}

/// A number of tokens for people: `340`, `5k`, `17k`, `1.2M`. With `tenths` thousands get a decimal: `4.2k`.
pub fn rounded(tokens: i64, tenths: bool) -> String {
    const MILLION_FROM: i64 = 999_500;
    let tokens = tokens.max(0);
    let (unit, suffix, tenths) = match tokens {
        ..1_000 => return tokens.to_string(),
        1_000..MILLION_FROM => (1_000, 'k', tenths),
        _ => (1_000_000, 'M', true),
    };
    let step = if tenths { unit / 10 } else { unit };
    let steps = tokens.saturating_add(step / 2) / step;
    match (tenths, steps / 10, steps % 10) {
        (false, ..) => format!("{steps}{suffix}"),
        (true, whole, 0) => format!("{whole}{suffix}"),
        (true, whole, tenth) => format!("{whole}.{tenth}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::summary::fixtures::item;

    #[test]
    fn texts_cannot_pose_as_anything_but_text() {
        let cases = [
            ("# Yesterday", "Yesterday"),
            ("> - 3. ## nested", "nested"),
            ("```rust fn", "rust fn"),
            ("* * *", NO_TEXT),
            ("---", NO_TEXT),
            ("12) twelve", "twelve"),
            ("2026. Was a year", "Was a year"),
            ("> 24. Dezember: frei", "24.\u{a0}Dezember: frei"),
            ("- >= 3.10 is needed", "≥ 3.10 is needed"),
            ("#12 was reverted", "#12 was reverted"),
            ("-5 degrees", "-5 degrees"),
            ("`code` and **bold**", "`code` and **bold**"),
            ("3.14 is pi", "3.14 is pi"),
            ("a\n## b\r\nc", "a ## b c"),
            (
                "x </summary> y < / SUMMARY >",
                "It was said: “x ‹/summary> y ‹ / SUMMARY >”",
            ),
            ("x <Summary agent=1>", "It was said: “x ‹Summary agent=1>”"),
            ("Result<T> and a < b", "Result<T> and a < b"),
            ("</\u{200b}summary>", "It was said: “‹/summary>”"),
            ("\u{1b}[31mred\u{7}", "red"),
            ("", NO_TEXT),
            ("\u{2028}\u{85}", NO_TEXT),
        ];
        for (given, cleaned) in cases {
            assert_eq!(clean(given, 80), cleaned, "{given:?}");
        }
        assert_eq!(clean("too long a text", 9), "too long…");
    }

    #[test]
    fn times_are_absolute_and_unambiguous() {
        let at = |text| Timestamp::parse(text).unwrap();
        let cases = [
            (
                "2026-01-05T08:12:59Z",
                "2026-01-05T19:00:00Z",
                "2026-01-05 08:12",
                "Mon 2026-01-05",
            ),
            (
                "2026-01-05T23:50:00Z",
                "2026-01-06T00:10:00Z",
                "2026-01-05 23:50–2026-01-06 00:10",
                "Mon–Tue 2026-01-05–06",
            ),
            (
                "2026-01-31T08:00:00Z",
                "2026-02-01T08:00:00Z",
                "2026-01-31 08:00–2026-02-01 08:00",
                "Sat–Sun 2026-01-31–02-01",
            ),
            (
                "2025-12-31T08:00:00Z",
                "2026-01-01T08:00:00Z",
                "2025-12-31 08:00–2026-01-01 08:00",
                "Wed–Thu 2025-12-31–2026-01-01",
            ),
        ];
        for (from, to, by_minute, by_day) in cases {
            assert_eq!(minutes(at(from), at(to)), by_minute);
            assert_eq!(days(at(from), at(to)), by_day);
        }
    }

    #[test]
    fn numbers_are_rounded_and_ranges_joined() {
        let cases = [
            (-1, "0", "0"),
            (340, "340", "340"),
            (999, "999", "999"),
            (1_000, "1k", "1k"),
            (4_240, "4k", "4.2k"),
            (4_960, "5k", "5k"),
            (17_400, "17k", "17.4k"),
            (999_499, "999k", "999.5k"),
            (999_500, "1M", "1M"),
            (1_234_567, "1.2M", "1.2M"),
        ];
        for (tokens, whole, tenths) in cases {
            assert_eq!(rounded(tokens, false), whole);
            assert_eq!(rounded(tokens, true), tenths);
        }
        let named = |pairs: &[(i64, i64)]| {
            let list: Vec<ExchangeRange> = pairs
                .iter()
                .map(|&(first, last)| ExchangeRange { first, last })
                .collect();
            ranges(&list)
        };
        assert_eq!(named(&[]), "");
        assert_eq!(named(&[(12, 12)]), "#12");
        assert_eq!(named(&[(12, 14)]), "#12–#14");
        assert_eq!(named(&[(3, 3), (7, 9)]), "#3, #7–#9");
        assert_eq!(named(&[(3, 6), (7, 9)]), "#3–#9");
        let odd: Vec<(i64, i64)> = (0..20).map(|n| (2 * n + 1, 2 * n + 1)).collect();
        assert_eq!(named(&odd), "#1, #3, #5, #7, … #39");
    }

    #[test]
    fn a_missing_or_longer_short_text_is_replaced() {
        let mut odd = item(7, Timestamp(0));
        odd.text = "short".to_owned();
        odd.brief = "much longer than the text".to_owned();
        odd.gist = String::new();
        for form in Form::ALL {
            assert!(
                item_line(&odd, Section::Week, form).starts_with("short ("),
                "{form:?}"
            );
        }
        odd.text = " ".to_owned();
        assert!(item_line(&odd, Section::Week, Form::Text).starts_with("much longer"));
    }

    proptest! {
        #[test]
        fn clean_text_is_one_short_harmless_line(text in any::<String>(), chars_max in 1_usize..200) {
            let line = clean(&text, chars_max);
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert!(!line.contains("</") && !line.starts_with("# ") && !line.starts_with("- "));
            prop_assert!(line.len() <= (chars_max * BYTES_PER_CHAR_MAX + 3 + line.matches('‹').count() * 2).max(NO_TEXT.len()));
        }
    }
}
