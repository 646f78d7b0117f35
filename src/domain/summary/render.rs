//! The document: Markdown with up to three sections, oldest items first in each.

use serde::Serialize;

use super::{
    item::Item,
    line::item_line,
    section::{Form, Section},
};

/// The document's last line, when it has any other.
pub const FOOTER: &str = "*Older history is archived: look up any #n with recall.*";

/// An item's place in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its index in the items that were given.
    pub index: usize,
    /// Under which heading.
    pub section: Section,
    /// In which length.
    pub form: Form,
}

/// Writes the document. `shown` is in the order of the document: by section, then oldest first; an index outside
/// `items` is skipped. Nothing shown gives the empty string; anything else ends with [`FOOTER`] and a line feed.
pub fn document(items: &[Item], shown: &[Shown]) -> String {
    let sections: Vec<(&str, Vec<String>)> = Section::ALL
        .into_iter()
        .map(|section| {
            let lines = shown
                .iter()
                .filter(|place| place.section == section)
                .filter_map(|place| Some(item_line(items.get(place.index)?, section, place.form)))
                .collect();
            (section.heading(), lines)
        })
        .collect();
    let mut document: String = sections
        .iter()
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(heading, lines)| section_text(heading, lines))
        .collect();
    if !document.is_empty() {
        document.push_str(FOOTER);
        document.push('\n');
    }
    document
}

/// A heading, its numbered lines, and an empty line.
pub(super) fn section_text(heading: &str, lines: &[String]) -> String {
    let mut text = heading_text(heading);
    for (number, line) in (1..).zip(lines) {
        text.push_str(&numbered(number, line));
    }
    text.push('\n');
    text
}

/// `## Yesterday` and a line feed.
pub(super) fn heading_text(heading: &str) -> String {
    format!("## {heading}\n")
}

/// `1. line` and a line feed.
pub(super) fn numbered(number: usize, line: &str) -> String {
    format!("{number}. {line}\n")
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

    #[test]
    fn renders_sections_times_ranges_and_totals() {
        let mut auth = item(12, at("2026-01-05T09:40:00Z"));
        auth.text = "Implemented JWT with RS256 signing, 15min expiry".to_owned();
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
        let place = |index, section: Section| Shown {
            index,
            section,
            form: section.default_form(),
        };
        let items = [week, auth, fresh];
        let shown = [
            place(1, Section::Session),
            place(2, Section::Session),
            place(0, Section::Week),
        ];
        insta::assert_snapshot!(document(&items, &shown), @r"
        ## Previously in This Session
        1. Implemented JWT with RS256 signing, 15min expiry (2026-01-05 08:12, #12–#14, ~5k tokens)
        2. Now add tests → bash ×2 (2026-01-05 10:00, #15, ~340 tokens) (not yet condensed)

        ## This Week
        1. Fixed bug 3 (Thu–Fri 2025-12-25–26, #3, #7–#9, ~17k tokens)

        *Older history is archived: look up any #n with recall.*
        ");
        assert_eq!(document(&items, &[]), "");
    }
}
