//! The changes between two documents, line by line.
//!
//! Lines are matched by the exchanges they cover, not by their places: a document is written anew each time, so
//! numbers, days and sections change although the texts stay the same.

use serde::Serialize;

use super::{item::ExchangeRange, line::ranges, render::FOOTER};

/// How some lines changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New lines.
    Added,
    /// Removed lines.
    Removed,
    /// Shorter lines.
    Shortened,
    /// Lines that say something else, or more.
    Rewritten,
    /// Several lines became one.
    Merged,
    /// Lines that are in another section.
    Moved,
}

impl ChangeKind {
    /// The kind in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Shortened => "shortened",
            Self::Rewritten => "rewritten",
            Self::Merged => "merged",
            Self::Moved => "moved",
        }
    }
}

/// A line of a document, without its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DocumentLine {
    /// The heading of its section; empty before the first one.
    pub section: String,
    /// Its text, source included.
    pub text: String,
    #[serde(skip)]
    exchanges: Vec<ExchangeRange>,
}

impl DocumentLine {
    /// A line under the heading `section`; `None` if it isn't an item's: headings, the footer, blanks.
    pub fn read(section: &str, line: &str) -> Option<Self> {
        if line.is_empty() || line.starts_with('#') || line == FOOTER {
            return None;
        }
        let text = without_number(line);
        Some(Self {
            section: section.to_owned(),
            text: text.to_owned(),
            exchanges: named(text),
        })
    }

    /// The exchanges that its source names, sorted.
    pub fn exchanges(&self) -> &[ExchangeRange] {
        &self.exchanges
    }

    /// Its text without its source, and the source (empty if there is none): `Added JWT (#12, ~5k tokens)` gives
    /// `Added JWT` and `(#12, ~5k tokens)`.
    pub fn parts(&self) -> (&str, &str) {
        let source = source_of(&self.text);
        let at = self.text.rfind(source).filter(|_| !source.is_empty());
        let split = at.and_then(|at| self.text.split_at_checked(at.saturating_sub(1)));
        split.map_or((&self.text, ""), |(said, source)| (said.trim_end(), source))
    }
}

/// Lines about the same exchanges, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// How they changed.
    pub kind: ChangeKind,
    /// The exchanges: `#12–#14, #20`; empty if the lines name none.
    pub exchanges: String,
    /// The lines of the earlier document.
    pub before: Vec<DocumentLine>,
    /// The lines of the later one.
    pub after: Vec<DocumentLine>,
}

/// The changes from the document `before` to the document `after`, in the order of the exchanges. Lines that both have
/// in the same section are no change, wherever they are in it.
pub fn diff(before: &str, after: &str) -> Vec<Change> {
    let (mut before, mut after) = (lines(before), lines(after));
    before.retain(|line| {
        let same = after.iter().position(|other| other == line);
        same.map(|at| after.remove(at)).is_none()
    });
    let mut groups: Vec<Group> = Vec::new();
    for (is_after, line) in before
        .into_iter()
        .map(|line| (false, line))
        .chain(after.into_iter().map(|line| (true, line)))
    {
        add(&mut groups, is_after, line);
    }
    groups.sort_by_key(|group| group.exchanges.first().copied());
    groups.into_iter().map(Group::told).collect()
}

#[derive(Default)]
struct Group {
    exchanges: Vec<ExchangeRange>,
    before: Vec<DocumentLine>,
    after: Vec<DocumentLine>,
}

impl Group {
    fn is_about(&self, exchanges: &[ExchangeRange]) -> bool {
        let overlap = |a: &ExchangeRange, b: &ExchangeRange| a.first <= b.last && b.first <= a.last;
        self.exchanges
            .iter()
            .any(|one| exchanges.iter().any(|other| overlap(one, other)))
    }

    fn join(&mut self, other: Self) {
        self.exchanges.extend(other.exchanges);
        self.exchanges.sort_unstable();
        self.before.extend(other.before);
        self.after.extend(other.after);
    }

    fn told(self) -> Change {
        Change {
            kind: kind(&self.before, &self.after),
            exchanges: ranges(&self.exchanges),
            before: self.before,
            after: self.after,
        }
    }
}

/// Adds a line to the group of lines about the same exchanges, which may join groups.
fn add(groups: &mut Vec<Group>, is_after: bool, line: DocumentLine) {
    let mut group = Group {
        exchanges: line.exchanges.clone(),
        ..Group::default()
    };
    let mut at = 0;
    while at < groups.len() {
        if groups[at].is_about(&group.exchanges) {
            let mut found = groups.remove(at);
            found.join(group);
            group = found;
        } else {
            at += 1;
        }
    }
    if is_after {
        group.after.push(line);
    } else {
        group.before.push(line);
    }
    groups.push(group);
}

fn kind(before: &[DocumentLine], after: &[DocumentLine]) -> ChangeKind {
    let chars = |lines: &[DocumentLine]| lines.iter().map(|line| line.text.chars().count()).sum::<usize>();
    let same_words = || {
        before
            .iter()
            .map(|line| &line.text)
            .eq(after.iter().map(|line| &line.text))
    };
    match (before.len(), after.len()) {
        (0, _) => ChangeKind::Added,
        (_, 0) => ChangeKind::Removed,
        _ if same_words() => ChangeKind::Moved,
        (2.., 1) => ChangeKind::Merged,
        _ if chars(after) < chars(before) => ChangeKind::Shortened,
        _ => ChangeKind::Rewritten,
    }
}

/// The lines of items: no headings, no footer.
fn lines(document: &str) -> Vec<DocumentLine> {
    let mut section = String::new();
    let mut lines = Vec::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        } else {
            lines.extend(DocumentLine::read(&section, line));
        }
    }
    lines
}

/// The text of `1. text` and `- text`.
fn without_number(line: &str) -> &str {
    let unnumbered = line
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .strip_prefix(". ");
    unnumbered.or_else(|| line.strip_prefix("- ")).unwrap_or(line)
}

/// The exchanges that a line's source names, sorted: of `Added JWT (2026-01-05 08:12, #12–#14, ~5k tokens)` 12 to 14.
fn named(text: &str) -> Vec<ExchangeRange> {
    let mut ranges: Vec<ExchangeRange> = source_of(text).split(", ").filter_map(range).collect();
    ranges.sort_unstable();
    ranges
}

/// `2026-01-05 08:12, #12–#14, ~5k tokens)`; empty if the text names no source.
fn source_of(text: &str) -> &str {
    let source = text.rsplit(" (").find(|part| part.ends_with(" tokens)"));
    source.unwrap_or_default()
}

/// `#12`, `#12–#14`, and the same behind an ellipsis.
fn range(name: &str) -> Option<ExchangeRange> {
    let name = name.strip_prefix("… ").unwrap_or(name).strip_prefix('#')?;
    let (first, last) = name.split_once("–#").unwrap_or((name, name));
    Some(ExchangeRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        domain::{
            summary::{
                compaction::{SummaryPolicy, compose},
                fixtures::{any_item, item},
                item::Item,
            },
            time::{DAY_MS, HOUR_MS, Timestamp},
        },
        tokenizer::BytesCounter,
    };

    const AT: Timestamp = Timestamp(1_795_000_000_000);

    fn composed(items: &[Item], as_of: Timestamp) -> String {
        compose(items, as_of, &SummaryPolicy::default(), &BytesCounter).document
    }

    fn told(changes: &[Change]) -> String {
        let lines = changes.iter().map(|change| {
            format!(
                "{} {}: {} -> {}",
                change.kind.name(),
                change.exchanges,
                change.before.len(),
                change.after.len()
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn tells_what_became_of_lines() {
        let earlier: Vec<Item> = (1..=5).map(|n| item(n, AT.plus_ms(n * 1_000))).collect();
        let mut later = earlier.clone();
        later.remove(0);
        later[0].text = "Fixed bug 2".to_owned();
        later[1].text.push_str(", and wrote a test");
        later[2].ranges[0].last = 5;
        later.remove(3);
        later.push(item(6, AT.plus_ms(6_000)));
        let as_of = AT.plus_ms(HOUR_MS);
        insta::assert_snapshot!(
            told(&diff(&composed(&earlier, as_of), &composed(&later, as_of))),
            @r"
        removed #1: 1 -> 0
        shortened #2: 1 -> 1
        rewritten #3: 1 -> 1
        merged #4–#5: 2 -> 1
        added #6: 0 -> 1
        "
        );
    }

    #[test]
    fn a_line_that_only_moves_is_said_to() {
        let text = "1. Moved on (#3, ~1k tokens)\n";
        let (before, after) = (format!("## Yesterday\n{text}"), format!("## This Week\n{text}"));
        let [change] = diff(&before, &after).try_into().unwrap();
        assert_eq!(
            (change.kind, change.exchanges.as_str()),
            (ChangeKind::Moved, "#3")
        );
        assert_eq!(change.after[0].section, "This Week");
    }

    #[test]
    fn sources_are_told_from_what_was_said() {
        for (text, ranges) in [
            (
                "Added JWT (2026-01-05 08:12, #12–#14, ~5k tokens)",
                vec![(12, 14)],
            ),
            ("See (#7) (#2, ~340 tokens) (not yet condensed)", vec![(2, 2)]),
            (
                "Many (#1, #3, #5, #7, … #30–#31, ~9k tokens)",
                vec![(1, 1), (3, 3), (5, 5), (7, 7), (30, 31)],
            ),
            ("Said (#1) only", vec![]),
            ("", vec![]),
        ] {
            let ranges: Vec<ExchangeRange> = ranges
                .into_iter()
                .map(|(first, last)| ExchangeRange { first, last })
                .collect();
            assert_eq!(named(text), ranges, "{text}");
        }
    }

    #[test]
    fn a_line_has_two_parts() {
        for (text, said, source) in [
            ("Added JWT (#12, ~5k tokens)", "Added JWT", "(#12, ~5k tokens)"),
            (
                "See (#7) (#2, ~3 tokens) (not yet condensed)",
                "See (#7)",
                "(#2, ~3 tokens) (not yet condensed)",
            ),
            ("Said (#1) only", "Said (#1) only", ""),
        ] {
            let line = DocumentLine::read("Yesterday", &format!("3. {text}")).unwrap();
            assert_eq!(line.parts(), (said, source));
        }
        assert_eq!(DocumentLine::read("", FOOTER), None);
    }

    proptest! {
        #[test]
        fn every_line_that_differs_is_told_once(
            items in prop::collection::vec(any_item(AT), 0..24),
            keep in prop::collection::vec(any::<bool>(), 24),
            later_ms in 0..20 * DAY_MS,
        ) {
            let some: Vec<Item> = items.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(item, _)| item.clone()).collect();
            let (before, after) = (composed(&items, AT), composed(&some, AT.plus_ms(later_ms)));
            prop_assert_eq!(diff(&before, &before), vec![]);
            let changes = diff(&before, &after);
            let count = |side: &dyn Fn(&Change) -> usize| changes.iter().map(side).sum::<usize>();
            let (gone, came) = (count(&|change| change.before.len()), count(&|change| change.after.len()));
            prop_assert_eq!(lines(&before).len() - gone, lines(&after).len() - came);
            // And back again it is the same the other way round.
            let back = diff(&after, &before);
            prop_assert_eq!(back.len(), changes.len());
        }
    }
}
