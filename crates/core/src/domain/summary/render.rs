//! Writes the document: Markdown with up to four sections, by days, the oldest items first in each section.

use serde::Serialize;

use super::{
    item::Item,
    line::{BULLET, chosen_points, item_text, mark, write_points},
    point::Choice,
    section::{Form, Section},
    source::{Headings, seed_source},
    span::Span,
};

/// The last line of every document that isn't empty.
pub const FOOTER: &str = "*Older history is archived: look up any #n with recall.*";
/// Every footer begins like this, and no other line does.
const FOOTER_HEAD: &str = "*Older history";
/// Every footer ends like this.
const FOOTER_TAIL: &str = " is archived: look up any #n with recall.*";

/// Begins the heading of a day.
pub(super) const DAY_MARK: &str = "###";
/// The name of a speaker at the beginning of a text has at most this many words.
const SPEAKER_WORDS_MAX: usize = 3;

/// A shown item: its section, its text and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShownItem {
    /// Index of the item.
    pub index: usize,
    /// The section that it is in.
    pub section: Section,
    /// Which of its texts is shown.
    pub form: Form,
    /// Which points of that text are shown.
    pub points: Choice,
    /// How its line is laid out.
    pub layout: Layout,
}

/// The layout of an item's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// A line for the first point, with the time in the newest section, and a line for each further point.
    Line,
    /// Like `Line` without the time. For a full document.
    Dense,
    /// On the line of the item before it, which is of the same day. For a full document.
    Joined,
    /// A numbered line, as in seed 003.
    Numbered,
}

/// Writes the document. `shown_items` must be in the document's order: by section, and the oldest first. Skips an index outside `items`.
/// Ends the document with [`FOOTER`] and a line feed. Returns an empty string if nothing is shown.
pub fn document(items: &[Item], shown_items: &[ShownItem]) -> String {
    let mut document = String::new();
    for section in Section::ALL {
        let section_items = items_of_section(items, shown_items, section);
        if !section_items.is_empty() {
            let span = span_of(&section_items);
            document.push_str(&heading_of(section, span, &section_items));
            push_lines(&mut document, &section_items, (section, span), DAY_MARK);
            document.push('\n');
        }
    }
    if !document.is_empty() {
        document.push_str(FOOTER);
        document.push('\n');
    }
    document
}

/// Returns the text for a document that shows no item although it covers the exchanges up to `through`, which is included. These exchanges
/// have left the window, so without this text nothing would mention the archive.
pub fn archived(through: i64) -> String {
    format!("{FOOTER_HEAD}, up to #{through},{FOOTER_TAIL}\n")
}

pub(super) fn is_footer(line: &str) -> bool {
    line.starts_with(FOOTER_HEAD) && line.ends_with(FOOTER_TAIL)
}

/// Returns the items of `section` in the document's order. Skips an index outside `items`.
pub(super) fn items_of_section<'a>(
    items: &'a [Item],
    shown_items: &'a [ShownItem],
    section: Section,
) -> Vec<(&'a Item, &'a ShownItem)> {
    shown_items
        .iter()
        .filter(|shown_item| shown_item.section == section)
        .filter_map(|shown_item| Some((items.get(shown_item.index)?, shown_item)))
        .collect()
}

/// Returns the span of these lines; `None` if none of them has a time.
pub(super) fn span_of(items: &[(&Item, &ShownItem)]) -> Option<Span> {
    Span::of(items.iter().map(|(item, _)| *item))
}

/// Writes the heading of `section` with the dates of `span`, and a line feed. A section of numbered lines has no dates.
pub(super) fn heading_of(section: Section, span: Option<Span>, items: &[(&Item, &ShownItem)]) -> String {
    if items.iter().any(|(_, shown_item)| shown_item.layout == Layout::Numbered) {
        heading_text(section.heading())
    } else {
        heading_text(&dated_heading(section, span))
    }
}

/// Writes `Yesterday (9–12 March 2026)`. In the newest section a heading of one day also has the times.
pub(super) fn dated_heading(section: Section, span: Option<Span>) -> String {
    let Some(span) = span else {
        return section.heading().to_owned();
    };
    let span = match section {
        Section::Session => span.times(),
        Section::Yesterday | Section::Week | Section::Earlier => span.dates(),
    };
    format!("{} ({span})", section.heading())
}

/// Writes a section's lines below its heading, which shows `span`. `day_mark` begins a day's heading.
pub(super) fn push_lines(
    document: &mut String,
    items: &[(&Item, &ShownItem)],
    (section, span): (Section, Option<Span>),
    day_mark: &str,
) {
    let headings = Headings::of(span, section, items.iter().map(|(item, _)| *item));
    let (mut number, mut current_day) = (0, String::new());
    for line in items.chunk_by(|_, (_, next)| next.layout == Layout::Joined) {
        let Some((first, shown_item)) = line.first() else {
            continue;
        };
        if shown_item.layout == Layout::Numbered {
            number += 1;
            document.push_str(&seed_line(number, first, shown_item));
            continue;
        }
        let day = headings.day(first);
        if let Some(day) = day.filter(|day| *day != current_day) {
            document.push_str(&day_text(&day, day_mark));
            current_day = day;
        }
        document.push_str(&bulleted_line(line, headings));
    }
}

/// Writes `1. Added JWT (Mon-Tue, ~17k tokens)` and a line feed.
fn seed_line(number: usize, item: &Item, shown_item: &ShownItem) -> String {
    let bullet = format!("{number}. ");
    let source = format!("{}{}", seed_source(item, shown_item.section), mark(item));
    let line = write_points(&chosen_points(item, shown_item.form, shown_item.points), &source, &bullet);
    format!("{bullet}{line}\n")
}

/// Writes one line for one or more items, `- Asked for X. Did Y; found Z (#12–#14)`, and a line feed.
fn bulleted_line(line: &[(&Item, &ShownItem)], headings: Headings) -> String {
    let points = match line {
        [(item, shown_item)] => chosen_points(item, shown_item.form, shown_item.points),
        _ => vec![joined_text(line)],
    };
    let is_timed = line.iter().all(|(_, shown_item)| shown_item.layout == Layout::Line);
    let headings = if is_timed { headings } else { headings.without_times() };
    let items: Vec<&Item> = line.iter().map(|(item, _)| *item).collect();
    let mark = items.iter().map(|item| mark(item)).find(|mark| !mark.is_empty());
    let source = format!("{}{}", headings.source(&items), mark.unwrap_or_default());
    format!("{BULLET}{}\n", write_points(&points, &source, BULLET))
}

/// Joins the texts of several items into `Asked for X. Did Y; found Z`.
fn joined_text(line: &[(&Item, &ShownItem)]) -> String {
    let mut text = String::new();
    for (item, shown_item) in line {
        let more = item_text(item, shown_item.form);
        if text.is_empty() {
            text.push_str(&more);
        } else {
            text.push_str(separator(&text));
            text.push_str(without_same_speaker(&text, &more));
        }
    }
    text
}

/// Removes the speaker's name from the beginning of `text` if the text at the end of `line` has the same speaker: `Ida: I moved.` and
/// `Ida: It rained.` become `Ida: I moved. It rained.`
fn without_same_speaker<'a>(line: &str, text: &'a str) -> &'a str {
    const MARK: &str = ": ";
    let Some((name, rest)) = text.split_once(MARK) else {
        return text;
    };
    let is_name =
        name.split(' ').count() <= SPEAKER_WORDS_MAX && name.chars().all(|c| c.is_alphanumeric() || c == ' ');
    let is_same_speaker = line
        .rsplit_once(MARK)
        .and_then(|(head, _)| head.strip_suffix(name))
        .is_some_and(|head| head.is_empty() || head.ends_with(' '));
    if is_name && is_same_speaker { rest } else { text }
}

/// Returns what separates `text` from the next text on a line: a blank if `text` ends a sentence, else a semicolon.
fn separator(text: &str) -> &'static str {
    if text.ends_with(['.', '!', '?', '…', '。', '！', '？', '।', '”']) { " " } else { "; " }
}

/// Writes `### Thu 12 March` and a line feed.
pub(super) fn day_text(day: &str, day_mark: &str) -> String {
    format!("{day_mark} {day}\n")
}

/// Writes `## Yesterday` and a line feed.
pub(super) fn heading_text(heading: &str) -> String {
    format!("## {heading}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        summary::{
            fixtures::item,
            item::{ExchangeRange, Origin},
        },
        time::Timestamp,
    };

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn shown_item(index: usize, section: Section, layout: Layout) -> ShownItem {
        ShownItem { index, section, form: Form::Text, points: Choice::ALL, layout }
    }

    #[test]
    fn renders_sections_days_times_and_ranges() {
        let mut auth = item(12, at("2026-01-05T09:40:00Z"));
        auth.text = "Implemented JWT:\n- RS256 signing\n- 15min expiry".to_owned();
        auth.started_at = at("2026-01-05T08:12:00Z");
        auth.ranges = vec![ExchangeRange { first: 12, last: 14 }];
        auth.source_tokens = 5_200;
        let mut fresh = item(15, at("2026-01-05T10:00:00Z"));
        fresh.text = "Now add tests → bash ×2".to_owned();
        fresh.source_tokens = 340;
        (fresh.origin, fresh.provisional) = (Origin::Digest, true);
        let mut week = item(3, at("2025-12-26T12:00:00Z"));
        week.started_at = at("2025-12-25T12:00:00Z");
        week.ranges.push(ExchangeRange { first: 7, last: 9 });
        week.source_tokens = 17_000;
        let other = item(10, at("2025-12-25T13:00:00Z"));
        let items = [week, auth, fresh, other];
        let shown = |layout| {
            let of = |(index, section)| shown_item(index, section, layout);
            [(1, Section::Session), (2, Section::Session), (0, Section::Week), (3, Section::Week)].map(of)
        };
        insta::assert_snapshot!(document(&items, &shown(Layout::Line)), @r"
        ## Previously in This Session (5 January 2026, 08:12–10:00)
        - Implemented JWT: (08:12, #12–#14)
          - RS256 signing
          - 15min expiry
        - Now add tests → bash ×2 (10:00, #15) (not yet condensed)

        ## This Week (25–26 December 2025)
        ### Thu 25 December
        - Fixed bug 3 in the parser: a trailing comma was refused in src/parser.rs (to 26 December, #3, #7–#9)
        - Fixed bug 10 in the parser: a trailing comma was refused in src/parser.rs (#10)

        *Older history is archived: look up any #n with recall.*
        ");
        insta::assert_snapshot!(document(&items, &shown(Layout::Numbered)), @r"
        ## Previously in This Session
        1. Implemented JWT: (2026-01-05 08:12, ~5k tokens)
           - RS256 signing
           - 15min expiry
        2. Now add tests → bash ×2 (2026-01-05 10:00, ~340 tokens) (not yet condensed)

        ## This Week
        1. Fixed bug 3 in the parser: a trailing comma was refused in src/parser.rs (Thu-Fri, ~17k tokens)
        2. Fixed bug 10 in the parser: a trailing comma was refused in src/parser.rs (Thu, ~10k tokens)

        *Older history is archived: look up any #n with recall.*
        ");
        assert_eq!(document(&items, &[]), "");
    }

    #[test]
    fn footers_are_recognised() {
        assert_eq!(archived(101), "*Older history, up to #101, is archived: look up any #n with recall.*\n");
        assert!(is_footer(archived(101).trim_end()) && is_footer(FOOTER));
        let tail = "1. Older history is archived: look up any #n with recall.*";
        for line in ["", "*Older history*", tail] {
            assert!(!is_footer(line), "{line}");
        }
    }

    #[test]
    fn dense_lines_have_no_times_and_joined_items_share_a_line() {
        let text = |n: i64, at_text: &str, gist: &str| Item {
            text: gist.to_owned(),
            brief: gist.to_owned(),
            gist: gist.to_owned(),
            ..item(n, at(at_text))
        };
        let mut over_night = text(5, "2026-01-06T00:10:00Z", "Ida: It snowed all night");
        over_night.started_at = at("2026-01-05T23:50:00Z");
        let items = [
            text(1, "2026-01-05T08:00:00Z", "Ida: I moved to Bergen."),
            text(2, "2026-01-05T08:10:00Z", "Ida: It rains: every day"),
            text(4, "2026-01-05T09:00:00Z", "Omar: Come back; Ida: Never!"),
            over_night,
            text(6, "2026-01-07T09:00:00Z", "Ida: I have a boat"),
        ];
        let layouts = [Layout::Dense, Layout::Joined, Layout::Joined, Layout::Dense, Layout::Dense];
        let shown: Vec<ShownItem> = layouts
            .into_iter()
            .enumerate()
            .map(|(index, layout)| ShownItem {
                index,
                section: Section::Session,
                form: Form::Gist,
                points: Choice::ALL,
                layout,
            })
            .collect();
        insta::assert_snapshot!(document(&items, &shown), @r"
        ## Previously in This Session (5–7 January 2026)
        ### Mon 5 January
        - Ida: I moved to Bergen. It rains: every day; Omar: Come back; Ida: Never! (#1–#2, #4)
        - Ida: It snowed all night (to 6 January, #5)
        ### Wed 7 January
        - Ida: I have a boat (#6)

        *Older history is archived: look up any #n with recall.*
        ");
    }

    #[test]
    fn a_speaker_is_named_again_only_after_another_speaker() {
        for (line, text, expected) in [
            ("Ida: I moved.", "Ida: It rained.", "It rained."),
            ("Ida: I moved. Omar: Why?", "Ida: It rained.", "Ida: It rained."),
            ("Ida: I said: no", "Ida: It rained.", "Ida: It rained."),
            ("Florida: sun", "Ida: It rained.", "Ida: It rained."),
            ("no name", "nor here", "nor here"),
        ] {
            assert_eq!(without_same_speaker(line, text), expected, "{line}");
        }
    }
}
