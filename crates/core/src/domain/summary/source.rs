//! What stands in brackets behind a line: when it was, as far as no heading above says so, and which exchanges it is about.
//!
//! A section of one day says the day in its heading. In one of several days the days are headings, if any of them has
//! more than one line; otherwise each line says its own.

use super::{
    item::{ExchangeRange, Item},
    line::{began_at, day_number, minutes, ranges, rounded},
    section::Section,
    span::{Span, UNTIMED},
};

/// Where the day of a line is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayPlace {
    /// In the heading of the section.
    Section,
    /// In a heading of its own.
    Heading,
    /// On the line itself.
    Line,
}

/// What the headings above some lines say, so that the lines needn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headings {
    span: Option<Span>,
    pub(super) place: DayPlace,
    has_times: bool,
}

impl Headings {
    /// For the lines of `items`, in the document's order, in a `section` of which the heading says `span`; `None` if none
    /// of them has a time.
    pub(super) fn of<'a>(
        span: Option<Span>,
        section: Section,
        items: impl IntoIterator<Item = &'a Item>,
    ) -> Self {
        let days: Vec<i64> = items.into_iter().map(|item| day_number(began_at(item))).collect();
        let place = match () {
            () if span.is_none_or(Span::is_one_day) => DayPlace::Section,
            () if has_twins(&days) => DayPlace::Heading,
            () => DayPlace::Line,
        };
        Self {
            span,
            place,
            has_times: section == Section::Session && span.is_some_and(|span| !span.is_one_minute()),
        }
    }

    /// The same for lines that don't say at which time of the day something was.
    pub(super) fn without_times(self) -> Self {
        Self {
            has_times: false,
            ..self
        }
    }

    /// `Thu 12 March`: the heading of the day of `item`, if days have headings and it has a day.
    pub(super) fn day(self, item: &Item) -> Option<String> {
        let span = self
            .span
            .filter(|_| self.place == DayPlace::Heading && item.ended_at != UNTIMED)?;
        Some(span.day(began_at(item)))
    }

    /// `(05:29, #98)`, `(#80–#83)`, `(Thu 12 March, #80–#83)`, `(to 13 March, #80–#83)`: the source of a line about
    /// `items`.
    pub(super) fn source(self, items: &[&Item]) -> String {
        let mut covered: Vec<ExchangeRange> = items
            .iter()
            .flat_map(|item| item.ranges.iter().copied())
            .collect();
        covered.sort_unstable();
        bracketed(&[self.when(items), ranges(&covered)])
    }

    fn when(self, items: &[&Item]) -> String {
        let of_items = Span::of(items.iter().copied());
        let (Some(span), Some(of_items), Some(first)) = (self.span, of_items, items.first()) else {
            return String::new();
        };
        if self.place != DayPlace::Heading && !of_items.is_one_day() && of_items.has_days_of(span) {
            return String::new();
        }
        let began_at = began_at(first);
        let time = self.has_times.then(|| began_at.format("%H:%M"));
        let parts = match (self.place, of_items.is_one_day()) {
            (DayPlace::Line, true) => [Some(span.day(began_at)), time],
            (DayPlace::Line, false) => [Some(span.dates_of(of_items)), None],
            (_, true) => [time, None],
            (_, false) => [time, Some(format!("to {}", of_items.last_day()))],
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Whether any two neighbours are the same.
fn has_twins(days: &[i64]) -> bool {
    days.windows(2).any(|pair| pair[0] == pair[1])
}

/// The source as seed 003 has it: `(2026-01-05 08:12, ~5k tokens)`, `(~5k tokens)`, `(Mon-Tue, ~17k tokens)`.
pub(super) fn seed_source(item: &Item, section: Section) -> String {
    let (from, to) = (began_at(item), item.ended_at);
    let span = |pattern| match (from.format(pattern), to.format(pattern)) {
        (from, to) if from == to => from,
        (from, to) => format!("{from}-{to}"),
    };
    let when = match section {
        _ if to == UNTIMED => String::new(),
        Section::Session => minutes(from, to),
        Section::Yesterday => String::new(),
        Section::Week => span("%a"),
        Section::Earlier => span("%F"),
    };
    bracketed(&[when, format!("~{} tokens", rounded(item.source_tokens, false))])
}

/// `(08:12, #12–#14)`, of the parts that say something.
pub(super) fn bracketed(parts: &[String]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    format!("({})", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{summary::fixtures::item, time::Timestamp};

    fn lasting(n: i64, from: &str, to: &str) -> Item {
        let at = |text: &str| Timestamp::parse(&format!("2026-03-{text}:00Z")).unwrap();
        let mut lasting = item(n, at(to));
        lasting.started_at = at(from);
        lasting
    }

    fn sources(section: Section, items: &[Item]) -> Vec<String> {
        let headings = Headings::of(Span::of(items), section, items);
        items.iter().map(|item| headings.source(&[item])).collect()
    }

    #[test]
    fn a_line_says_what_no_heading_says() {
        let morning = lasting(1, "12T08:00", "12T08:30");
        let noon = lasting(2, "12T12:00", "12T12:00");
        let night = lasting(3, "12T23:00", "13T01:00");
        let next = lasting(4, "13T08:00", "13T08:00");
        let [a, b, c, d] = [&morning, &noon, &night, &next].map(Clone::clone);
        let one_day = [a.clone(), b.clone()];
        assert_eq!(
            sources(Section::Session, &one_day),
            ["(08:00, #1)", "(12:00, #2)"]
        );
        assert_eq!(sources(Section::Yesterday, &one_day), ["(#1)", "(#2)"]);
        let one_minute = [b.clone(), b.clone()];
        assert_eq!(sources(Section::Session, &one_minute), ["(#2)", "(#2)"]);
        let two_days = [a.clone(), b, c.clone()];
        assert_eq!(
            sources(Section::Session, &two_days),
            ["(08:00, #1)", "(12:00, #2)", "(23:00 to 13 March, #3)"]
        );
        assert_eq!(sources(Section::Week, &two_days)[2], "(to 13 March, #3)");
        let a_line_a_day = [a.clone(), d];
        assert_eq!(
            sources(Section::Session, &a_line_a_day),
            ["(Thu 12 March 08:00, #1)", "(Fri 13 March 08:00, #4)"]
        );
        assert_eq!(
            sources(Section::Yesterday, &a_line_a_day),
            ["(Thu 12 March, #1)", "(Fri 13 March, #4)"]
        );
        let with_night = [a, c.clone()];
        assert_eq!(sources(Section::Yesterday, &with_night)[1], "(to 13 March, #3)");
        assert_eq!(sources(Section::Yesterday, &[c]), ["(#3)"], "as the heading says");
    }

    #[test]
    fn the_seeds_lines_have_times_days_and_tokens() {
        let night = lasting(3, "12T23:00", "13T01:00");
        for (section, source) in [
            (
                Section::Session,
                "(2026-03-12 23:00–2026-03-13 01:00, ~3k tokens)",
            ),
            (Section::Yesterday, "(~3k tokens)"),
            (Section::Week, "(Thu-Fri, ~3k tokens)"),
            (Section::Earlier, "(2026-03-12-2026-03-13, ~3k tokens)"),
        ] {
            assert_eq!(seed_source(&night, section), source);
        }
    }
}
