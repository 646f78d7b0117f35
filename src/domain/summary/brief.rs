//! A shorter form of a document, for readers without room for all of it: its newest lines, and where the rest is.
//!
//! Coding agents drop what a hook adds entirely if it is too long: Claude Code beyond 10,000 characters, Codex beyond
//! 2,500 tokens. The brief stays below both.
//!
//! Invariant: the text never exceeds the limits it is given.

use serde::Serialize;

use super::pending::PENDING_HEADING;
use super::render::is_footer;
use crate::domain::{agent::AgentId, legs::Running, text::cut, tokens::TokenCounter};

/// The longest brief, in characters.
pub const BRIEF_DOCUMENT_CHARS_MAX: usize = 9_000;
/// The longest brief, in tokens.
pub const BRIEF_DOCUMENT_TOKENS_MAX: i64 = 2_300;
/// What marks the heading of a section, and that of a day.
const SECTION_MARK: &str = "## ";
const DAY_MARK: &str = "### ";
/// The shortest piece of a line that is worth showing, in characters.
const PIECE_CHARS_MIN: usize = 40;

/// The limits on a text's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most characters.
    pub chars_max: usize,
    /// The most tokens.
    pub tokens_max: i64,
}

impl Limits {
    /// The limits of the brief.
    pub const BRIEF: Self = Self {
        chars_max: BRIEF_DOCUMENT_CHARS_MAX,
        tokens_max: BRIEF_DOCUMENT_TOKENS_MAX,
    };

    /// What is left of them beside `head`. Two texts may have a token more together than apart.
    fn less(self, head: &str, counter: &dyn TokenCounter) -> Self {
        Self {
            chars_max: self.chars_max.saturating_sub(head.chars().count()),
            tokens_max: (self.tokens_max - counter.count(head) - 1).max(0),
        }
    }
}

/// The order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the document: by section, within each the oldest first.
    Document,
    /// The newest first.
    NewestFirst,
}

/// How much of a document is wanted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    order: Order,
    limits: Limits,
}

/// A part of a document, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Markdown.
    pub text: String,
    /// Its tokens.
    pub tokens: i64,
    /// Whether lines of the document are missing.
    pub truncated: bool,
}

impl Wanted {
    /// The brief, or the document in its own order, within these limits; `None` if the whole document is wanted.
    pub fn new(is_brief: bool, chars_max: Option<usize>, tokens_max: Option<i64>) -> Option<Self> {
        if !is_brief && chars_max.is_none() && tokens_max.is_none() {
            return None;
        }
        let (order, most) = if is_brief {
            (Order::NewestFirst, Limits::BRIEF)
        } else {
            let most = Limits {
                chars_max: usize::MAX,
                tokens_max: i64::MAX,
            };
            (Order::Document, most)
        };
        let limits = Limits {
            chars_max: chars_max.map_or(most.chars_max, |chars| chars.min(most.chars_max)),
            tokens_max: tokens_max.map_or(most.tokens_max, |tokens| tokens.min(most.tokens_max)),
        };
        Some(Self { order, limits })
    }

    /// Whether it is the brief.
    pub fn is_brief(self) -> bool {
        self.order == Order::NewestFirst
    }

    /// The wanted part of the `document` of `agent`. Counting a full document takes some milliseconds.
    pub fn of(self, agent: &AgentId, document: &str, counter: &dyn TokenCounter) -> Excerpt {
        let closing = closing(agent);
        let (text, truncated) = cut_down(document, &closing, self.order, self.limits, counter);
        Excerpt {
            tokens: counter.count(&text),
            text,
            truncated,
        }
    }

    /// The same with a line in front that says what is `running`, as far as there is room for both.
    pub fn with_running(
        self,
        running: &Running,
        agent: &AgentId,
        document: &str,
        counter: &dyn TokenCounter,
    ) -> Excerpt {
        let head = running.line() + "\n\n";
        let less = self.limits.less(&head, counter);
        let part = Self { limits: less, ..self }.of(agent, document, counter);
        let text = format!("{head}{}", part.text);
        let tokens = counter.count(&text);
        let has_room = text.chars().count() <= self.limits.chars_max && tokens <= self.limits.tokens_max;
        if part.text.trim().is_empty() || !has_room {
            return self.of(agent, document, counter);
        }
        Excerpt { text, tokens, ..part }
    }
}

/// The line that says where the whole document is.
fn closing(agent: &AgentId) -> String {
    format!("*Shortened. The full summary: `recapd summary {agent}` or GET /v1/agents/{agent}/summary.*")
}

/// A section of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "daemon", derive(utoipa::ToSchema), schema(as = SummarySection))]
pub struct DocumentSection<'d> {
    /// Its heading.
    pub title: &'d str,
    /// What stands below it, as Markdown.
    pub content: &'d str,
}

/// The sections of a document, in order. A footer belongs to none.
pub fn sections(document: &str) -> Vec<DocumentSection<'_>> {
    let document = document.trim_end();
    let (above, last) = document.rsplit_once('\n').unwrap_or((document, ""));
    let is_remark = last.starts_with('*') && last.ends_with('*');
    let document = if is_remark { above } else { document };
    let mut sections = Vec::new();
    for (place, part) in document.split("\n## ").enumerate() {
        // Text before the first heading is no section.
        let part = match place {
            0 => part.strip_prefix(SECTION_MARK),
            _ => Some(part),
        };
        sections.extend(part.map(|part| {
            let (title, content) = part.split_once('\n').unwrap_or((part, ""));
            DocumentSection {
                title,
                content: content.trim(),
            }
        }));
    }
    sections
}

/// A line of the document, with the headings above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'d> {
    section: &'d str,
    day: Option<&'d str>,
    /// The text, without its number.
    text: &'d str,
}

/// The brief of `document`: the newest lines first, within [`Limits::BRIEF`]. Its last line is `closing`, which says
/// where the whole is. The brief of an empty document is empty.
pub fn brief(document: &str, closing: &str, counter: &dyn TokenCounter) -> String {
    excerpt(document, closing, Order::NewestFirst, Limits::BRIEF, counter)
}

/// The newest lines of `document`, as many as `limits` allow, with `closing` as the last line. A document within the
/// limits is returned unchanged if it is wanted in its own order. If there is no room even for `closing`, the text is
/// empty.
pub fn excerpt(
    document: &str,
    closing: &str,
    order: Order,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> String {
    cut_down(document, closing, order, limits, counter).0
}

/// As [`excerpt`]; returns also whether lines of the document are missing.
fn cut_down(
    document: &str,
    closing: &str,
    order: Order,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> (String, bool) {
    let fits =
        |text: &str| text.chars().count() <= limits.chars_max && counter.count(text) <= limits.tokens_max;
    let is_as_wanted = order == Order::Document || is_footer(document.trim_end());
    if document.trim().is_empty() || (is_as_wanted && fits(document)) {
        return (document.to_owned(), false);
    }
    let newest = newest_first(document);
    let most = fitting(&newest, closing, limits, counter);
    let mut tried = (1..=most).rev().map(|kept| {
        let shown = newest.get(..kept).unwrap_or_default();
        (text(shown, order, closing), kept < newest.len())
    });
    let found = tried.find(|(text, _)| fits(text));
    found.unwrap_or_else(|| {
        let piece = newest
            .first()
            .and_then(|line| piece(line, closing, limits, counter));
        let least = || Some(format!("{closing}\n")).filter(|text| fits(text));
        (piece.or_else(least).unwrap_or_default(), true)
    })
}

/// How many lines may fit, by the sum of their tokens; rather a few too many than too few.
fn fitting(lines: &[Line<'_>], closing: &str, limits: Limits, counter: &dyn TokenCounter) -> usize {
    let mut room = (limits.chars_max, limits.tokens_max - counter.count(closing));
    lines
        .iter()
        .take_while(|line| {
            let chars = room.0.checked_sub(line.text.chars().count());
            room = (chars.unwrap_or_default(), room.1 - counter.count(line.text));
            chars.is_some() && room.1 >= 0
        })
        .count()
}

/// As much of the newest line as fits, if not even that fits whole.
fn piece(line: &Line<'_>, closing: &str, limits: Limits, counter: &dyn TokenCounter) -> Option<String> {
    let lengths = std::iter::successors(Some(limits.chars_max.min(line.text.chars().count())), |chars| {
        Some(chars / 2).filter(|chars| *chars >= PIECE_CHARS_MIN)
    });
    lengths
        .map(|chars| {
            let shorter = cut(line.text, chars);
            let line = Line {
                text: &shorter,
                ..*line
            };
            text(&[line], Order::NewestFirst, closing)
        })
        .find(|text| text.chars().count() <= limits.chars_max && counter.count(text) <= limits.tokens_max)
}

/// The lines of a document, the newest first: exchanges that just left the window come after the sections, of which the
/// first is the newest; within each the last line is.
fn newest_first(document: &str) -> Vec<Line<'_>> {
    let lines = lines(document);
    let (pending, summarised): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|line| line.section == PENDING_HEADING);
    let sections = summarised.chunk_by(|one, next| one.section == next.section);
    pending
        .into_iter()
        .rev()
        .chain(sections.flat_map(|section| section.iter().rev().copied()))
        .collect()
}

fn lines(document: &str) -> Vec<Line<'_>> {
    let (mut section, mut day, mut found) = ("", None, Vec::new());
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix(DAY_MARK) {
            day = Some(heading);
        } else if let Some(heading) = line.strip_prefix(SECTION_MARK) {
            (section, day) = (heading, None);
        } else if !line.trim().is_empty() && !is_footer(line) {
            found.push(Line {
                section,
                day,
                text: bare(line),
            });
        }
    }
    found
}

/// `12. Fixed it` and `- Fixed it` without the number or dash.
fn bare(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.strip_prefix(". ").filter(|_| rest.len() < line.len());
    numbered.or_else(|| line.strip_prefix("- ")).unwrap_or(line)
}

/// The text of `newest` with their headings, and `closing` at the end.
fn text(newest: &[Line<'_>], order: Order, closing: &str) -> String {
    let lines = match order {
        Order::NewestFirst => newest.to_vec(),
        Order::Document => in_order(newest),
    };
    let (mut text, mut above) = (String::new(), ("", None));
    for line in lines {
        if line.section != above.0 {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.extend([SECTION_MARK, line.section, "\n"]);
            above = (line.section, None);
        }
        if let Some(day) = line.day.filter(|_| line.day != above.1) {
            text.extend([DAY_MARK, day, "\n"]);
        }
        above.1 = line.day;
        text.extend(["- ", line.text, "\n"]);
    }
    text.extend(["\n", closing, "\n"]);
    text
}

/// The newest lines, in the document's order again.
fn in_order<'d>(newest: &[Line<'d>]) -> Vec<Line<'d>> {
    let sections: Vec<&[Line<'d>]> = newest.chunk_by(|one, next| one.section == next.section).collect();
    let (pending, summarised): (Vec<_>, Vec<_>) = sections.into_iter().partition(|section| {
        section
            .first()
            .is_some_and(|line| line.section == PENDING_HEADING)
    });
    summarised
        .into_iter()
        .chain(pending)
        .flat_map(|section| section.iter().rev().copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{
        exchange::ExchangeState,
        redaction::Redactor,
        summary::{fixtures::exchange, render::archived},
        time::Timestamp,
        zone::Zone,
    };

    struct Bytes;

    impl TokenCounter for Bytes {
        fn count(&self, text: &str) -> i64 {
            i64::try_from(text.len().div_ceil(3)).unwrap()
        }

        fn method(&self) -> &'static str {
            "bytes/3"
        }
    }

    const CLOSING: &str = "*The whole: `recapd summary coder`.*";
    const DOCUMENT: &str = "\
## Previously in This Session
### 8 May 2023
- Asked for X (#5)
- Did Y (#6)

### 9 May 2023
- Found Z (#7)

## Yesterday
1. Chose SQLite (#3)
2. Chose WAL (#4)

## Just Left the Window
1. Asked for tests (#8)
2. Ran them (#9)

*Older history is archived: look up any #n with recall.*
";

    #[test]
    fn the_newest_come_first() {
        insta::assert_snapshot!(brief(DOCUMENT, CLOSING, &Bytes), @r"
        ## Just Left the Window
        - Ran them (#9)
        - Asked for tests (#8)

        ## Previously in This Session
        ### 9 May 2023
        - Found Z (#7)
        ### 8 May 2023
        - Did Y (#6)
        - Asked for X (#5)

        ## Yesterday
        - Chose WAL (#4)
        - Chose SQLite (#3)

        *The whole: `recapd summary coder`.*
        ");
    }

    #[test]
    fn a_part_says_whether_lines_are_missing() {
        let agent: AgentId = "coder".parse().unwrap();
        assert_eq!(Wanted::new(false, None, None), None);
        let of = |is_brief, chars_max| {
            let wanted = Wanted::new(is_brief, chars_max, Some(1_000)).unwrap();
            let excerpt = wanted.of(&agent, DOCUMENT, &Bytes);
            assert_eq!(excerpt.tokens, Bytes.count(&excerpt.text));
            (excerpt.text == DOCUMENT, excerpt.truncated)
        };
        assert_eq!(of(false, None), (true, false));
        assert_eq!(of(true, None), (false, false), "all lines, in another order");
        for chars_max in [250, 150, 100, 1] {
            assert_eq!(of(false, Some(chars_max)), (false, true), "{chars_max}");
            assert_eq!(of(true, Some(chars_max)), (false, true), "{chars_max}");
        }
    }

    #[test]
    fn a_document_is_read_in_sections() {
        let told = |document: &str| {
            let sections = sections(document).into_iter();
            sections
                .map(|section| format!("{}: {}", section.title, section.content.replace('\n', " / ")))
                .collect::<Vec<_>>()
        };
        let expected = [
            "Previously in This Session: ### 8 May 2023 / - Asked for X (#5) / - Did Y (#6) /  / ### 9 May 2023 / - Found Z (#7)",
            "Yesterday: 1. Chose SQLite (#3) / 2. Chose WAL (#4)",
            "Just Left the Window: 1. Asked for tests (#8) / 2. Ran them (#9)",
        ];
        assert_eq!(told(DOCUMENT), expected);
        assert_eq!(told(""), Vec::<String>::new());
        let short = excerpt(
            DOCUMENT,
            CLOSING,
            Order::Document,
            Limits {
                chars_max: 120,
                tokens_max: 1_000,
            },
            &Bytes,
        );
        assert_eq!(told(&short).len(), 1, "{short}");
        assert!(!told(&short)[0].contains("The whole"), "{short}");
    }

    #[test]
    fn a_document_without_lines_is_its_own_brief() {
        let document = archived(101);
        assert_eq!(brief(&document, CLOSING, &Bytes), document);
        assert_eq!(sections(&document), []);
        let agent: AgentId = "coder".parse().unwrap();
        let wanted = |tokens_max| Wanted::new(true, None, Some(tokens_max)).unwrap();
        assert!(!wanted(1_000).of(&agent, &document, &Bytes).truncated);
        let none = wanted(5).of(&agent, &document, &Bytes);
        assert_eq!((none.text.as_str(), none.truncated), ("", true));
    }

    #[test]
    fn a_shorter_document_keeps_its_order() {
        let limits = Limits {
            chars_max: 200,
            tokens_max: 1_000,
        };
        insta::assert_snapshot!(excerpt(DOCUMENT, CLOSING, Order::Document, limits, &Bytes), @r"
        ## Previously in This Session
        ### 8 May 2023
        - Did Y (#6)
        ### 9 May 2023
        - Found Z (#7)

        ## Just Left the Window
        - Asked for tests (#8)
        - Ran them (#9)

        *The whole: `recapd summary coder`.*
        ");
        let enough = Limits::BRIEF;
        assert_eq!(
            excerpt(DOCUMENT, CLOSING, Order::Document, enough, &Bytes),
            DOCUMENT
        );
        assert_eq!(brief("", CLOSING, &Bytes), "");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let document = format!("## Yesterday\n1. {}\n", "word ".repeat(5_000));
        let text = brief(&document, CLOSING, &Bytes);
        assert!(
            text.contains("word…") && text.ends_with(&format!("{CLOSING}\n")),
            "{text}"
        );
    }

    fn running() -> Running {
        let mut row = exchange(14, Timestamp(1_767_604_320_000));
        row.state = ExchangeState::Open;
        row.headline.title = "Port the shop to Rust".to_owned();
        Running::of(&[row], Zone::UTC, &Redactor::standard()).unwrap()
    }

    #[test]
    fn what_runs_stands_first() {
        let agent: AgentId = "coder".parse().unwrap();
        let of = |chars_max| {
            let wanted = Wanted::new(true, Some(chars_max), None).unwrap();
            (
                wanted.with_running(&running(), &agent, DOCUMENT, &Bytes).text,
                wanted.of(&agent, DOCUMENT, &Bytes).text,
            )
        };
        let (told, plain) = of(9_000);
        let head = "Running: exchange #14 since 09:12: \"Port the shop to Rust\"\n\n";
        assert_eq!(told, format!("{head}{plain}"));
        let (told, plain) = of(250);
        assert!(told.starts_with(head) && told.chars().count() <= 250, "{told}");
        assert!(told.len() - head.len() < plain.len(), "{told}");
        // What was done comes before what runs.
        let (told, plain) = of(100);
        assert_eq!(told, plain);
        let wanted = Wanted::new(true, None, None).unwrap();
        assert_eq!(wanted.with_running(&running(), &agent, "", &Bytes).text, "");
    }

    fn any_document() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            4 => "- [a-zé ]{1,200}",
            2 => "[1-9]\\. [a-z😀 ]{1,900}",
            1 => Just("## Yesterday".to_owned()),
            1 => Just(format!("## {PENDING_HEADING}")),
            1 => "### [0-9]{1,2} May",
            1 => Just(String::new()),
        ];
        proptest::collection::vec(line, 0..120).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn no_text_exceeds_its_limits(document in any_document(), chars_max in 1_usize..12_000, tokens_max in 1_i64..3_000) {
            for order in [Order::Document, Order::NewestFirst] {
                let limits = Limits { chars_max, tokens_max };
                let text = excerpt(&document, CLOSING, order, limits, &Bytes);
                prop_assert!(document.trim().is_empty() || text.chars().count() <= chars_max);
                prop_assert!(document.trim().is_empty() || Bytes.count(&text) <= tokens_max);
            }
        }

        #[test]
        fn what_runs_keeps_the_limits(document in any_document(), chars_max in 1_usize..3_000, tokens_max in 1_i64..3_000) {
            let wanted = Wanted::new(true, Some(chars_max), Some(tokens_max)).unwrap();
            let agent: AgentId = "coder".parse().unwrap();
            let told = wanted.with_running(&running(), &agent, &document, &Bytes);
            prop_assert!(document.trim().is_empty() || told.text.chars().count() <= chars_max);
            prop_assert!(document.trim().is_empty() || told.tokens <= tokens_max);
            prop_assert_eq!(told.tokens, Bytes.count(&told.text));
        }

        #[test]
        fn a_brief_ends_with_where_the_whole_is(document in any_document()) {
            let text = brief(&document, CLOSING, &Bytes);
            let last = format!("{CLOSING}\n");
            prop_assert!(text.trim().is_empty() || text.ends_with(&last));
            prop_assert!(text.chars().count() <= BRIEF_DOCUMENT_CHARS_MAX);
        }
    }
}
