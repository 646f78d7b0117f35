//! The brief: a short form of a document for readers with little room. It has the newest lines and a reference to the full document.
//!
//! Coding agents drop the whole output of a hook if it is too long: Claude Code beyond 10,000 characters, Codex beyond 2,500 tokens. The
//! brief stays below both limits.
//!
//! Invariant: no text exceeds its limits.

use serde::Serialize;

use super::{
    pending::PENDING_HEADING,
    reading::{DAY_MARK, ReadLine, SECTION_MARK, name_and_span, read_lines},
    render::is_footer,
    state::HEADING,
};
use crate::domain::{agent::AgentId, legs::RunningExchange, text::cut, tokens::TokenCounter};

/// Limits the brief to this many characters.
pub const BRIEF_DOCUMENT_CHARS_MAX: usize = 9_000;
/// Limits the brief to this many tokens.
pub const BRIEF_DOCUMENT_TOKENS_MAX: i64 = 2_300;
/// If not even the newest line fits, it is shortened, but to no fewer characters than this.
const SHORTENED_CHARS_MIN: usize = 40;

/// Limits of the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most this many characters.
    pub chars_max: usize,
    /// At most this many tokens.
    pub tokens_max: i64,
}

impl Limits {
    /// The limits of the brief.
    pub const BRIEF: Self =
        Self { chars_max: BRIEF_DOCUMENT_CHARS_MAX, tokens_max: BRIEF_DOCUMENT_TOKENS_MAX };

    /// Returns the room that `head` leaves for another text. Subtracts one token more, since two texts may have one token more together
    /// than apart.
    fn minus_head(self, head: &str, counter: &dyn TokenCounter) -> Self {
        Self {
            chars_max: self.chars_max.saturating_sub(head.chars().count()),
            tokens_max: (self.tokens_max - counter.count(head) - 1).max(0),
        }
    }
}

/// The order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The document's order: by section, and within each section the oldest line first.
    Document,
    /// Facts first, then from the newest line to the oldest.
    NewestFirst,
}

/// How much of a document a reader wants, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefOptions {
    order: Order,
    limits: Limits,
}

/// A part of a document, or all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Markdown.
    pub text: String,
    /// Tokens of `text`.
    pub tokens: i64,
    /// True if lines of the document are missing.
    pub truncated: bool,
}

impl BriefOptions {
    /// Returns options for the brief or, if `is_brief` is false, for the document in its own order. Both have at most the given characters
    /// and tokens. Returns `None` if a reader wants the whole document.
    pub fn new(is_brief: bool, chars_max: Option<usize>, tokens_max: Option<i64>) -> Option<Self> {
        if !is_brief && chars_max.is_none() && tokens_max.is_none() {
            return None;
        }
        let (order, most) = if is_brief {
            (Order::NewestFirst, Limits::BRIEF)
        } else {
            let most = Limits { chars_max: usize::MAX, tokens_max: i64::MAX };
            (Order::Document, most)
        };
        let limits = Limits {
            chars_max: chars_max.map_or(most.chars_max, |chars| chars.min(most.chars_max)),
            tokens_max: tokens_max.map_or(most.tokens_max, |tokens| tokens.min(most.tokens_max)),
        };
        Some(Self { order, limits })
    }

    /// Returns true for the brief.
    pub fn is_brief(self) -> bool {
        self.order == Order::NewestFirst
    }

    /// Shortens the `document` of `agent`. Counting a full document takes some milliseconds.
    pub fn of(self, agent: &AgentId, document: &str, counter: &dyn TokenCounter) -> Excerpt {
        self.shorten_below("", document, &closing(agent), counter)
    }

    /// Like [`Self::of`], but begins with lines about the `running` exchange and the agent's notes. Leaves them out if there isn't room
    /// for them and a part of the document.
    pub fn with_head(
        self,
        running: Option<&RunningExchange>,
        notes: &str,
        agent: &AgentId,
        document: &str,
        counter: &dyn TokenCounter,
    ) -> Excerpt {
        let lines = [running.map(RunningExchange::line), Some(notes.to_owned())];
        let lines = lines.into_iter().flatten().filter(|line| !line.is_empty());
        let head: String = lines.map(|line| line + "\n").collect();
        self.shorten_below(&head, document, &closing(agent), counter)
    }

    /// Shortens `document` to the room below `head`. Leaves `head` out if there isn't room for both.
    pub(super) fn shorten_below(
        self,
        head: &str,
        document: &str,
        closing: &str,
        counter: &dyn TokenCounter,
    ) -> Excerpt {
        let cut = |limits| {
            let (text, truncated) = cut_down(document, closing, self.order, limits, counter);
            Excerpt { tokens: counter.count(&text), text, truncated }
        };
        if head.is_empty() {
            return cut(self.limits);
        }
        let head = format!("{head}\n");
        let part = cut(self.limits.minus_head(&head, counter));
        let text = format!("{head}{}", part.text);
        let tokens = counter.count(&text);
        let has_room = text.chars().count() <= self.limits.chars_max && tokens <= self.limits.tokens_max;
        if part.text.trim().is_empty() || !has_room {
            return cut(self.limits);
        }
        Excerpt { text, tokens, ..part }
    }
}

/// Returns the last line of a shortened document, which refers to the full document.
fn closing(agent: &AgentId) -> String {
    format!("*Shortened. The full summary: `recapd summary {agent}` or GET /v1/agents/{agent}/summary.*")
}

/// A section of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SummarySection))]
pub struct DocumentSection<'d> {
    /// Heading, without the dates.
    pub title: &'d str,
    /// Dates in the heading: `9–12 March 2026`.
    pub span: Option<&'d str>,
    /// Text below the heading, as Markdown.
    pub content: &'d str,
}

/// Returns the sections of a document, in order. The footer belongs to no section.
pub fn sections(document: &str) -> Vec<DocumentSection<'_>> {
    let document = document.trim_end();
    let (body, last) = document.rsplit_once('\n').unwrap_or((document, ""));
    let is_footer = last.starts_with('*') && last.ends_with('*');
    let document = if is_footer { body } else { document };
    let mut sections = Vec::new();
    for (index, part) in document.split("\n## ").enumerate() {
        // Text before the first heading is no section.
        let part = match index {
            0 => part.strip_prefix(SECTION_MARK),
            _ => Some(part),
        };
        sections.extend(part.map(|part| {
            let (heading, content) = part.split_once('\n').unwrap_or((part, ""));
            let (title, span) = name_and_span(heading);
            DocumentSection { title, span, content: content.trim() }
        }));
    }
    sections
}

/// Returns true for a line of the section about facts.
fn is_fact(line: &ReadLine<'_>) -> bool {
    line.section() == HEADING
}

/// Returns the lines of `document`, newest first, within [`Limits::BRIEF`], and `closing` as the last line. Returns nothing for an empty
/// document.
pub fn brief(document: &str, closing: &str, counter: &dyn TokenCounter) -> String {
    excerpt(document, closing, Order::NewestFirst, Limits::BRIEF, counter)
}

/// Returns the newest lines of `document`, as many as `limits` allow, with `closing` as the last line. Returns the document unchanged if
/// it fits and `order` is its own order. Returns nothing if not even `closing` fits.
pub fn excerpt(
    document: &str,
    closing: &str,
    order: Order,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> String {
    cut_down(document, closing, order, limits, counter).0
}

/// Like [`excerpt`]; also returns whether lines of the document are missing.
fn cut_down(
    document: &str,
    closing: &str,
    order: Order,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> (String, bool) {
    let fits =
        |text: &str| text.chars().count() <= limits.chars_max && counter.count(text) <= limits.tokens_max;
    let is_in_order = order == Order::Document || is_footer(document.trim_end());
    if document.trim().is_empty() || (is_in_order && fits(document)) {
        return (document.to_owned(), false);
    }
    let newest = sort_newest_first(document);
    let most = estimate_fitting(&newest, closing, limits, counter);
    let mut candidates = (1..=most).rev().map(|count| {
        let lines = newest.get(..count).unwrap_or_default();
        (text(lines, order, closing), count < newest.len())
    });
    let longest = candidates.find(|(text, _)| fits(text));
    longest.unwrap_or_else(|| {
        let shortened = newest.first().and_then(|line| shorten_newest(line, closing, limits, counter));
        let least = || Some(format!("{closing}\n")).filter(|text| fits(text));
        (shortened.or_else(least).unwrap_or_default(), true)
    })
}

/// Estimates how many lines fit, from the sum of their tokens. The estimate is rather too high than too low.
fn estimate_fitting(
    lines: &[ReadLine<'_>],
    closing: &str,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> usize {
    let mut room = (limits.chars_max, limits.tokens_max - counter.count(closing));
    lines
        .iter()
        .take_while(|line| {
            let texts = || std::iter::once(line.text).chain(line.points.iter().copied());
            let chars = room.0.checked_sub(texts().map(|text| text.chars().count()).sum());
            let tokens: i64 = texts().map(|text| counter.count(text)).sum();
            room = (chars.unwrap_or_default(), room.1 - tokens);
            chars.is_some() && room.1 >= 0
        })
        .count()
}

/// Shortens the newest line until it fits together with `closing`. Returns `None` if it doesn't fit.
fn shorten_newest(
    line: &ReadLine<'_>,
    closing: &str,
    limits: Limits,
    counter: &dyn TokenCounter,
) -> Option<String> {
    let lengths = std::iter::successors(Some(limits.chars_max.min(line.text.chars().count())), |chars| {
        Some(chars / 2).filter(|chars| *chars >= SHORTENED_CHARS_MIN)
    });
    lengths
        .map(|chars| {
            let shorter = cut(line.text, chars);
            let line = ReadLine { text: &shorter, points: Vec::new(), ..line.clone() };
            text(&[line], Order::NewestFirst, closing)
        })
        .find(|text| text.chars().count() <= limits.chars_max && counter.count(text) <= limits.tokens_max)
}

/// Returns the lines of a document, newest first. Facts come first, in their own order, since they hold now. The exchanges that just left
/// the window follow, then the sections, newest first. The last line of a section is its newest.
fn sort_newest_first(document: &str) -> Vec<ReadLine<'_>> {
    let lines = read_lines(document);
    let (facts, exchanges): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_fact);
    let (pending, summarised): (Vec<_>, Vec<_>) =
        exchanges.into_iter().partition(|line| line.section() == PENDING_HEADING);
    let sections = summarised.chunk_by(|one, next| one.heading == next.heading);
    facts
        .into_iter()
        .chain(pending.into_iter().rev())
        .chain(sections.flat_map(|section| section.iter().rev().cloned()))
        .collect()
}

/// Writes the lines with their headings, and `closing` at the end.
fn text(newest: &[ReadLine<'_>], order: Order, closing: &str) -> String {
    let lines = match order {
        Order::NewestFirst => newest.to_vec(),
        Order::Document => restore_order(newest),
    };
    let (mut text, mut headings) = (String::new(), ("", None));
    for line in lines {
        if line.heading != headings.0 {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.extend([SECTION_MARK, line.heading, "\n"]);
            headings = (line.heading, None);
        }
        if let Some(day) = line.day.filter(|_| line.day != headings.1) {
            text.extend([DAY_MARK, day, "\n"]);
        }
        headings.1 = line.day;
        text.extend(["- ", line.text, "\n"]);
        for point in line.points {
            text.extend(["  - ", point, "\n"]);
        }
    }
    text.extend(["\n", closing, "\n"]);
    text
}

/// Restores the document's order.
fn restore_order<'d>(newest: &[ReadLine<'d>]) -> Vec<ReadLine<'d>> {
    let sections: Vec<&[ReadLine<'d>]> = newest.chunk_by(|one, next| one.heading == next.heading).collect();
    let (pending, summarised): (Vec<_>, Vec<_>) = sections
        .into_iter()
        .partition(|section| section.first().is_some_and(|line| line.section() == PENDING_HEADING));
    summarised
        .into_iter()
        .chain(pending)
        .flat_map(|section| {
            let mut lines = section.to_vec();
            if !lines.iter().all(is_fact) {
                lines.reverse();
            }
            lines
        })
        .collect()
}

#[cfg(test)]
mod tests;
