//! The span of a section's lines as its heading shows it, and what each line must add to it.
//!
//! A heading always shows the year of its dates, so that no document changes because a year ends. The lines below it don't repeat the
//! year.

use super::line::{began_at, day_number};
use crate::domain::{
    summary::item::Item,
    time::{DAY_MS, Timestamp},
};

const TIME: &str = "%H:%M";
/// If a section's span is longer than this, the headings of its days have no weekdays.
const WEEKDAYS_MS_MAX: i64 = 31 * DAY_MS;

/// The time of an item that has none.
pub(super) const UNTIMED: Timestamp = Timestamp(i64::MIN);

/// From the first moment of some items to their last, in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl Span {
    /// Returns the span from `from` to `to`. If `from` is the later one, the span is the moment `to`.
    pub(super) fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from: from.min(to), to }
    }

    /// Returns the span of `items`; `None` if none of them has a time.
    pub(super) fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Option<Self> {
        items
            .into_iter()
            .filter(|item| item.ended_at != UNTIMED)
            .map(|item| Self::new(began_at(item), item.ended_at))
            .reduce(|one, other| Self { from: one.from.min(other.from), to: one.to.max(other.to) })
    }

    pub(super) fn is_one_day(self) -> bool {
        day_number(self.from) == day_number(self.to)
    }

    /// Returns true if the span begins and ends on the same days as `other`.
    pub(super) fn has_same_days(self, other: Self) -> bool {
        (day_number(self.from), day_number(self.to)) == (day_number(other.from), day_number(other.to))
    }

    pub(super) fn is_one_minute(self) -> bool {
        self.is_one_day() && self.has_same(TIME)
    }

    fn has_same(self, pattern: &str) -> bool {
        self.from.format(pattern) == self.to.format(pattern)
    }

    /// Writes `13 March 2026`, `9–12 March 2026`, `27 February – 6 March 2026`, `28 December 2025 – 3 January 2026`.
    pub(super) fn dates(self) -> String {
        format!("{}{}", self.days(), self.to.format(" %Y"))
    }

    /// Like [`Self::dates`], but for one day also with the times: `13 March 2026, 05:29–06:25`.
    pub(super) fn times(self) -> String {
        let dates = self.dates();
        match () {
            () if !self.is_one_day() => dates,
            () if self.is_one_minute() => format!("{dates}, {}", self.from.format(TIME)),
            () => format!("{dates}, {}–{}", self.from.format(TIME), self.to.format(TIME)),
        }
    }

    /// Writes the dates of `part`, which stands below a heading with this span. Leaves out the year if this span is within one year.
    pub(super) fn dates_of_part(self, part: Self) -> String {
        if self.has_same("%Y") { part.days() } else { part.dates() }
    }

    /// Writes the dates without the last year: `9–12 March`.
    fn days(self) -> String {
        let last = self.last_day();
        match () {
            () if self.is_one_day() => last,
            () if self.has_same("%Y-%m") => format!("{}–{last}", self.from.format("%-d")),
            () if self.has_same("%Y") => format!("{} – {last}", self.from.format("%-d %B")),
            () => format!("{} – {last}", self.from.format("%-d %B %Y")),
        }
    }

    /// Writes the last day: `13 March`.
    pub(super) fn last_day(self) -> String {
        self.to.format("%-d %B")
    }

    /// Writes a day below a heading with this span: `Thu 12 March`, with the year if this span covers several years. In a long span,
    /// writes `12 March 2026`: a weekday doesn't help there, and people may read the day's heading without the section's.
    pub(super) fn day(self, at: Timestamp) -> String {
        let is_long = self.to.0.saturating_sub(self.from.0) > WEEKDAYS_MS_MAX;
        let pattern = match () {
            () if is_long => "%-d %B %Y",
            () if self.has_same("%Y") => "%a %-d %B",
            () => "%a %-d %B %Y",
        };
        at.format(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: &str, to: &str) -> Span {
        Span::new(Timestamp::parse(from).unwrap(), Timestamp::parse(to).unwrap())
    }

    #[test]
    fn spans_are_short_and_unambiguous() {
        for (from, to, times, day) in [
            ("2026-03-13T05:29:10Z", "2026-03-13T05:29:50Z", "13 March 2026, 05:29", "Fri 13 March"),
            ("2026-03-13T05:29:10Z", "2026-03-13T06:25:00Z", "13 March 2026, 05:29–06:25", "Fri 13 March"),
            ("2026-03-09T23:00:00Z", "2026-03-12T01:00:00Z", "9–12 March 2026", "Mon 9 March"),
            ("2026-02-27T05:00:00Z", "2026-03-06T06:00:00Z", "27 February – 6 March 2026", "Fri 27 February"),
            (
                "2025-12-28T05:00:00Z",
                "2026-01-03T06:00:00Z",
                "28 December 2025 – 3 January 2026",
                "Sun 28 December 2025",
            ),
            ("2026-01-03T05:00:00Z", "2026-05-06T06:00:00Z", "3 January – 6 May 2026", "3 January 2026"),
        ] {
            let span = span(from, to);
            assert_eq!((span.times().as_str(), span.day(span.from).as_str()), (times, day));
        }
        // Clients' clocks may go backwards.
        let backwards = span("2026-03-13T05:29:00Z", "2026-03-12T05:29:00Z");
        assert_eq!(backwards.dates(), "12 March 2026");
    }

    #[test]
    fn several_items_span_from_the_first_to_the_last() {
        use crate::domain::summary::fixtures::item;
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let mut long = item(1, at("2026-03-10T08:00:00Z"));
        long.started_at = at("2026-03-01T08:00:00Z");
        let items = [long, item(2, at("2026-03-05T08:00:00Z"))];
        assert_eq!(Span::of(&items).map(Span::dates).as_deref(), Some("1–10 March 2026"));
        assert_eq!(Span::of(&[]), None);
    }
}
