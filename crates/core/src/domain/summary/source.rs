//! Writes the source of a line: the time, unless a heading above shows it, and the exchanges that the line is about.
//!
//! A section of one day has the day in its heading. In a section of several days, each day gets its own heading if any day has more than
//! one line; otherwise each line shows its day.

use super::{
    item::{ExchangeRange, Item},
    line::{began_at, day_number, minutes, ranges, rounded},
    section::Section,
    span::{Span, UNTIMED},
};

/// Where the document shows the days of a section's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayPlacement {
    /// In the section's heading.
    Section,
    /// In a heading above each day's lines.
    Heading,
    /// On each line.
    Line,
}

/// The headings above a section's lines. The lines don't repeat the dates and times of the headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headings {
    /// The span in the section's heading.
    span: Option<Span>,
    pub(super) placement: DayPlacement,
    /// True if the lines show their times.
    has_times: bool,
}

impl Headings {
    /// Describes the headings for `items`, which are in the document's order. `span` is the section's; `None` if no item has a time.
    pub(super) fn of<'a>(
        span: Option<Span>,
        section: Section,
        items: impl IntoIterator<Item = &'a Item>,
    ) -> Self {
        let days: Vec<i64> = items.into_iter().map(|item| day_number(began_at(item))).collect();
        let placement = match () {
            () if span.is_none_or(Span::is_one_day) => DayPlacement::Section,
            () if has_equal_neighbours(&days) => DayPlacement::Heading,
            () => DayPlacement::Line,
        };
        Self {
            span,
            placement,
            has_times: section == Section::Session && span.is_some_and(|span| !span.is_one_minute()),
        }
    }

    pub(super) fn without_times(self) -> Self {
        Self { has_times: false, ..self }
    }

    /// Returns the heading of the item's day, `Thu 12 March`, if each day has a heading and the item has a time.
    pub(super) fn day(self, item: &Item) -> Option<String> {
        let span =
            self.span.filter(|_| self.placement == DayPlacement::Heading && item.ended_at != UNTIMED)?;
        Some(span.day(began_at(item)))
    }

    /// Returns the source of a line: `(05:29, #98)`, `(#80–#83)`, `(Thu 12 March, #80–#83)`, `(to 13 March, #80–#83)`.
    pub(super) fn source(self, items: &[&Item]) -> String {
        let mut covered: Vec<ExchangeRange> =
            items.iter().flat_map(|item| item.ranges.iter().copied()).collect();
        covered.sort_unstable();
        bracketed(&[self.when(items), ranges(&covered)])
    }

    /// Returns those days and times of the items that the headings don't show.
    fn when(self, items: &[&Item]) -> String {
        let items_span = Span::of(items.iter().copied());
        let (Some(span), Some(items_span), Some(first)) = (self.span, items_span, items.first()) else {
            return String::new();
        };
        if self.placement != DayPlacement::Heading
            && !items_span.is_one_day()
            && items_span.has_same_days(span)
        {
            return String::new();
        }
        let began_at = began_at(first);
        let time = self.has_times.then(|| began_at.format("%H:%M"));
        let parts = match (self.placement, items_span.is_one_day()) {
            (DayPlacement::Line, true) => [Some(span.day(began_at)), time],
            (DayPlacement::Line, false) => [Some(span.dates_of_part(items_span)), None],
            (_, true) => [time, None],
            (_, false) => [time, Some(format!("to {}", items_span.last_day()))],
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Returns true if two neighbours are equal.
fn has_equal_neighbours(days: &[i64]) -> bool {
    days.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the source in the style [`Style::Seed`](super::compaction::Style::Seed): `(2026-01-05 08:12, ~5k tokens)`, `(~5k tokens)`,
/// `(Mon-Tue, ~17k tokens)`.
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

/// Joins the parts that aren't empty into `(08:12, #12–#14)`.
pub(super) fn bracketed(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("({})", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{summary::fixtures::item, time::Timestamp};

    /// Returns item `n`, which lasted from `from` to `to`, both in March 2026.
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
    fn a_line_repeats_nothing_from_its_headings() {
        let morning = lasting(1, "12T08:00", "12T08:30");
        let noon = lasting(2, "12T12:00", "12T12:00");
        let night = lasting(3, "12T23:00", "13T01:00");
        let next = lasting(4, "13T08:00", "13T08:00");
        let [a, b, c, d] = [&morning, &noon, &night, &next].map(Clone::clone);
        let one_day = [a.clone(), b.clone()];
        assert_eq!(sources(Section::Session, &one_day), ["(08:00, #1)", "(12:00, #2)"]);
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
        assert_eq!(sources(Section::Yesterday, &a_line_a_day), ["(Thu 12 March, #1)", "(Fri 13 March, #4)"]);
        let with_night = [a, c.clone()];
        assert_eq!(sources(Section::Yesterday, &with_night)[1], "(to 13 March, #3)");
        assert_eq!(sources(Section::Yesterday, &[c]), ["(#3)"], "the heading shows both days");
    }

    #[test]
    fn a_seed_source_has_a_time_or_a_day_and_the_tokens() {
        let night = lasting(3, "12T23:00", "13T01:00");
        for (section, source) in [
            (Section::Session, "(2026-03-12 23:00–2026-03-13 01:00, ~3k tokens)"),
            (Section::Yesterday, "(~3k tokens)"),
            (Section::Week, "(Thu-Fri, ~3k tokens)"),
            (Section::Earlier, "(2026-03-12-2026-03-13, ~3k tokens)"),
        ] {
            assert_eq!(seed_source(&night, section), source);
        }
    }
}
