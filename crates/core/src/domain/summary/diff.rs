//! The changes between two documents, line by line.
//!
//! Matches lines by the exchanges that they cover, not by their position: each document is written anew, so numbers, days and sections
//! change even where the texts don't.

use serde::Serialize;

use super::{
    item::ExchangeRange,
    line::{PROVISIONAL_MARK, ranges},
    reading::{ReadLine, read_lines},
};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The line is new.
    Added,
    /// The line is gone.
    Removed,
    /// The line is shorter.
    Shortened,
    /// The line has another text, or more text.
    Rewritten,
    /// Several lines became one.
    Merged,
    /// The line is in another section.
    Moved,
}

impl ChangeKind {
    /// Returns the kind in one word.
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

/// A line of a document, without its bullet or number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DocumentLine {
    /// The name of its section; empty before the first section.
    pub section: String,
    /// The text with its source.
    pub text: String,
    /// Further points below the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<String>,
    #[serde(skip)]
    exchanges: Vec<ExchangeRange>,
}

impl From<&ReadLine<'_>> for DocumentLine {
    fn from(line: &ReadLine<'_>) -> Self {
        Self {
            section: line.section().to_owned(),
            text: line.text.to_owned(),
            points: line.points.iter().map(|point| (*point).to_owned()).collect(),
            exchanges: named_exchanges(line.text),
        }
    }
}

impl DocumentLine {
    /// Returns the exchanges that the line's source names, sorted.
    pub fn exchanges(&self) -> &[ExchangeRange] {
        &self.exchanges
    }

    /// Splits `Added JWT (08:12, #12)` into its text `Added JWT` and its source `(08:12, #12)`, which may be empty.
    pub fn parts(&self) -> (&str, &str) {
        parts(&self.text)
    }

    /// Returns the line's text without the source, and its points.
    fn text_and_points(&self) -> (&str, &[String]) {
        (self.parts().0, &self.points)
    }

    /// Compares texts, exchanges and section. Ignores the times in the source, which depend on neighbouring lines.
    fn is_same(&self, other: &Self) -> bool {
        (&self.section, &self.exchanges, self.text_and_points())
            == (&other.section, &other.exchanges, other.text_and_points())
    }

    fn chars(&self) -> usize {
        let points: usize = self.points.iter().map(|point| point.chars().count()).sum();
        self.parts().0.chars().count() + points
    }
}

/// Lines about the same exchanges in the earlier and in the later document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffHunk {
    /// How the lines changed.
    pub kind: ChangeKind,
    /// `#12–#14, #20`; empty if the lines name none.
    pub exchanges: String,
    /// Lines of the earlier document.
    pub before: Vec<DocumentLine>,
    /// Lines of the later document.
    pub after: Vec<DocumentLine>,
}

/// Returns the changes from the document `before` to the document `after`, in the order of the exchanges. Ignores a line that both
/// documents have in the same section, whatever its position there.
pub fn diff(before: &str, after: &str) -> Vec<DiffHunk> {
    let (mut before, mut after) = (lines(before), lines(after));
    before.retain(|line| {
        let position = after.iter().position(|other| other.is_same(line));
        position.map(|at| after.remove(at)).is_none()
    });
    let mut groups: Vec<LineGroup> = Vec::new();
    for (is_after, line) in
        before.into_iter().map(|line| (false, line)).chain(after.into_iter().map(|line| (true, line)))
    {
        add(&mut groups, is_after, line);
    }
    groups.sort_by_key(|group| group.exchanges.first().copied());
    groups.into_iter().map(LineGroup::into_hunk).collect()
}

/// Changed lines about the same exchanges.
#[derive(Default)]
struct LineGroup {
    exchanges: Vec<ExchangeRange>,
    before: Vec<DocumentLine>,
    after: Vec<DocumentLine>,
}

impl LineGroup {
    fn is_about(&self, exchanges: &[ExchangeRange]) -> bool {
        let overlap = |a: &ExchangeRange, b: &ExchangeRange| a.first <= b.last && b.first <= a.last;
        self.exchanges.iter().any(|one| exchanges.iter().any(|other| overlap(one, other)))
    }

    fn join(&mut self, other: Self) {
        self.exchanges.extend(other.exchanges);
        self.exchanges.sort_unstable();
        self.before.extend(other.before);
        self.after.extend(other.after);
    }

    fn into_hunk(self) -> DiffHunk {
        DiffHunk {
            kind: kind(&self.before, &self.after),
            exchanges: ranges(&self.exchanges),
            before: self.before,
            after: self.after,
        }
    }
}

/// Adds a line to the group about the same exchanges. If the line is about exchanges of several groups, joins these groups.
fn add(groups: &mut Vec<LineGroup>, is_after: bool, line: DocumentLine) {
    let mut group = LineGroup { exchanges: line.exchanges.clone(), ..LineGroup::default() };
    let mut index = 0;
    while index < groups.len() {
        if groups[index].is_about(&group.exchanges) {
            let mut other = groups.remove(index);
            other.join(group);
            group = other;
        } else {
            index += 1;
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
    let chars = |lines: &[DocumentLine]| lines.iter().map(DocumentLine::chars).sum::<usize>();
    let has_same_texts = || {
        before.iter().map(DocumentLine::text_and_points).eq(after.iter().map(DocumentLine::text_and_points))
    };
    match (before.len(), after.len()) {
        (0, _) => ChangeKind::Added,
        (_, 0) => ChangeKind::Removed,
        _ if has_same_texts() => ChangeKind::Moved,
        (2.., 1) => ChangeKind::Merged,
        _ if chars(after) < chars(before) => ChangeKind::Shortened,
        _ => ChangeKind::Rewritten,
    }
}

/// Returns the lines of the document, without headings and footer.
fn lines(document: &str) -> Vec<DocumentLine> {
    read_lines(document).iter().map(DocumentLine::from).collect()
}

/// Returns the exchanges that a line's source names, sorted: `Added JWT (08:12, #12–#14)` names 12 to 14.
fn named_exchanges(text: &str) -> Vec<ExchangeRange> {
    let source = parts(text).1.strip_suffix(PROVISIONAL_MARK).unwrap_or(parts(text).1);
    let source = source.trim_start_matches('(').trim_end_matches(')');
    let mut ranges: Vec<ExchangeRange> = source.split(", ").filter_map(range).collect();
    ranges.sort_unstable();
    ranges
}

/// Splits a line into its text and its source. In old documents and in seed 003's style the source also has a number of tokens.
fn parts(text: &str) -> (&str, &str) {
    let unmarked = text.strip_suffix(PROVISIONAL_MARK).unwrap_or(text);
    let names = |part: &str| range(part).is_some() || part.ends_with(" tokens");
    let is_source = |source: &str| {
        let inside = source.strip_suffix(')');
        inside.is_some_and(|inside| inside.split(", ").any(names))
    };
    match unmarked.rsplit_once(" (") {
        Some((head, source)) if is_source(source) => (head, text.get(head.len() + 1..).unwrap_or_default()),
        _ => (text, ""),
    }
}

/// Parses `#12` and `#12–#14`, also after an ellipsis.
fn range(name: &str) -> Option<ExchangeRange> {
    let name = name.strip_prefix("… ").unwrap_or(name).strip_prefix('#')?;
    let (first, last) = name.split_once("–#").unwrap_or((name, name));
    Some(ExchangeRange { first: first.parse().ok()?, last: last.parse().ok()? })
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

    fn describe(changes: &[DiffHunk]) -> String {
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
    fn each_changed_line_is_reported_with_the_kind_of_its_change() {
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
            describe(&diff(&composed(&earlier, as_of), &composed(&later, as_of))),
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
    fn a_moved_line_is_reported_as_moved() {
        let before = "## Yesterday (3 March 2026)\n- Moved on (#3)\n  - at last\n";
        let after = "## This Week (3–9 March 2026)\n### Tue 3 March\n- Moved on (#3)\n  - at last\n";
        let [change] = diff(before, after).try_into().unwrap();
        assert_eq!((change.kind, change.exchanges.as_str()), (ChangeKind::Moved, "#3"));
        assert_eq!(change.after[0].section, "This Week");
    }

    #[test]
    fn the_exchanges_of_a_line_are_those_of_its_source() {
        for (text, ranges) in [
            ("Added JWT (2026-01-05 08:12, #12–#14, ~5k tokens)", vec![(12, 14)]),
            ("See (#7) (#2, ~340 tokens) (not yet condensed)", vec![(2, 2)]),
            ("Many (#1, #3, #5, #7, … #30–#31, ~9k tokens)", vec![(1, 1), (3, 3), (5, 5), (7, 7), (30, 31)]),
            ("Added JWT (Thu 12 March, #12)", vec![(12, 12)]),
            ("See (#7) (23:50 to 13 March, #2) (not yet condensed)", vec![(2, 2)]),
            ("Added JWT (Mon-Tue, ~5k tokens)", vec![]),
            ("Said (#1) only", vec![]),
            ("Said (so: #1)", vec![]),
            ("", vec![]),
        ] {
            let ranges: Vec<ExchangeRange> =
                ranges.into_iter().map(|(first, last)| ExchangeRange { first, last }).collect();
            assert_eq!(named_exchanges(text), ranges, "{text}");
        }
    }

    #[test]
    fn a_line_is_split_into_text_and_source() {
        for (text, words, source) in [
            ("Added JWT (#12, ~5k tokens)", "Added JWT", "(#12, ~5k tokens)"),
            (
                "See (#7) (#2, ~3 tokens) (not yet condensed)",
                "See (#7)",
                "(#2, ~3 tokens) (not yet condensed)",
            ),
            ("Ran it (twice) (05:29, #98)", "Ran it (twice)", "(05:29, #98)"),
            ("Added JWT (Mon-Tue, ~5k tokens)", "Added JWT", "(Mon-Tue, ~5k tokens)"),
            ("Said (#1) only", "Said (#1) only", ""),
        ] {
            let document = format!("## Yesterday\n3. {text}\n");
            let [line] = lines(&document).try_into().unwrap();
            assert_eq!((line.section.as_str(), line.parts()), ("Yesterday", (words, source)));
        }
    }

    #[test]
    fn a_lines_position_in_its_section_is_no_change() {
        let before = "## Yesterday (3 March 2026)\n- Moved on (#3)\n";
        let after =
            "## Yesterday (3–4 March 2026)\n- Moved on (Tue 3 March, #3)\n- Rested (Wed 4 March, #4)\n";
        let [change] = diff(before, after).try_into().unwrap();
        assert_eq!((change.kind, change.exchanges.as_str()), (ChangeKind::Added, "#4"));
    }

    proptest! {
        #[test]
        fn every_changed_line_is_reported_once(
            items in prop::collection::vec(any_item(AT), 0..24),
            keep in prop::collection::vec(any::<bool>(), 24),
            later_ms in 0..20 * DAY_MS,
        ) {
            let some: Vec<Item> = items.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(item, _)| item.clone()).collect();
            let (before, after) = (composed(&items, AT), composed(&some, AT.plus_ms(later_ms)));
            prop_assert_eq!(diff(&before, &before), vec![]);
            let changes = diff(&before, &after);
            let count = |side: &dyn Fn(&DiffHunk) -> usize| changes.iter().map(side).sum::<usize>();
            let (gone, came) = (count(&|change| change.before.len()), count(&|change| change.after.len()));
            prop_assert_eq!(lines(&before).len() - gone, lines(&after).len() - came);
            // The reverse comparison gives the reverse changes.
            let back = diff(&after, &before);
            prop_assert_eq!(back.len(), changes.len());
        }
    }
}
