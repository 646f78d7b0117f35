//! Adds pending exchanges to a document: exchanges that have left the window and aren't summarised yet. Their digests are added when the
//! document is read, so that no exchange is ever invisible. Exchanges without room share a line (`#120–#180: 61 exchanges … waiting to be
//! summarised`).
//!
//! Invariant: the text never exceeds `max_tokens`.

use super::{
    item::ExchangeRange,
    line::{BULLET, clean, range_name, rounded},
    render::{FOOTER, heading_text, is_footer},
    source::bracketed,
    span::Span,
};
use crate::domain::{number::count, time::Timestamp, tokens::TokenCounter};

/// The section's heading, without the Markdown mark and the dates.
pub const PENDING_HEADING: &str = "Just Left the Window";
/// Exchanges between the summary and the window.
const PENDING: PendingSection =
    PendingSection { heading: PENDING_HEADING, fold_label: "waiting to be summarised" };
/// Exchanges of the window that have no room in a request.
const LEFT_OUT: PendingSection =
    PendingSection { heading: "Left Out of This Request", fold_label: "not shown" };
/// Limits a digest on a pending line to this many characters.
pub const PENDING_CHARS_MAX: usize = 360;
/// Tokens reserved for the heading and for the line that exchanges without room share.
const FOLD_TOKENS: i64 = 60;

/// An exchange between the summary and the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLine {
    /// Number of the exchange.
    pub exchange: i64,
    /// When the exchange began, in the agent's local time.
    pub at: Timestamp,
    /// Tokens of the exchange.
    pub tokens: i64,
    /// Its digest, on one line.
    pub digest: String,
}

#[derive(Clone, Copy)]
struct PendingSection {
    heading: &'static str,
    /// Ends the line that exchanges without room share.
    fold_label: &'static str,
}

/// How much of the document and of the pending exchanges to show.
#[derive(Clone, Copy)]
struct PendingShare {
    /// How many of the document's first lines are shown.
    document_lines: usize,
    /// How many of the newest pending lines are shown; `None` leaves out the whole section.
    pending_lines: Option<usize>,
}

/// Appends the pending exchanges (in any order) to `document` and returns the text with its tokens.
///
/// Each exchange has a line, the newest last. If not all lines fit into `max_tokens`, the oldest exchanges share one line before the
/// others. If even that line doesn't fit, the document is cut from its end, where the oldest items are. The text is empty if nothing fits.
/// A document that is only a footer keeps its footer.
pub fn with_pending(
    document: &str,
    pending: &[PendingLine],
    max_tokens: i64,
    counter: &dyn TokenCounter,
) -> (String, i64) {
    with_section(document, pending, PENDING, max_tokens, counter)
}

/// Like [`with_pending`], for exchanges of the window that have no room in a request. Their section gets up to half of `max_tokens`, and
/// the document is cut for it, since nothing else mentions these exchanges.
pub fn with_left_out(
    document: &str,
    left_out: &[PendingLine],
    max_tokens: i64,
    counter: &dyn TokenCounter,
) -> String {
    let (_, section_tokens) = with_section("", left_out, LEFT_OUT, max_tokens / 2, counter);
    let (shortened, _) = with_pending(document, &[], max_tokens - section_tokens - FOLD_TOKENS, counter);
    with_section(&shortened, left_out, LEFT_OUT, max_tokens, counter).0
}

fn with_section(
    document: &str,
    pending: &[PendingLine],
    section: PendingSection,
    max_tokens: i64,
    counter: &dyn TokenCounter,
) -> (String, i64) {
    let mut pending: Vec<&PendingLine> = pending.iter().collect();
    pending.sort_by_key(|line| line.exchange);
    let footer = document.trim_end().lines().next_back();
    let footer = footer.filter(|line| is_footer(line));
    let body = footer.and_then(|footer| document.trim_end().strip_suffix(footer));
    let lines: Vec<&str> = body.unwrap_or(document).lines().collect();
    let fitting_count = match pending.as_slice() {
        [] => 0,
        pending => estimate_fitting(pending, max_tokens - counter.count(document) - FOLD_TOKENS, counter),
    };
    shares(lines.len(), pending.len(), fitting_count)
        .map(|share| text(&lines, section, &pending, share, footer))
        .map(|text| (counter.count(&text), text))
        .find(|(tokens, text)| *tokens <= max_tokens || text.is_empty())
        .map(|(tokens, text)| (text, tokens))
        .unwrap_or_default()
}

/// Returns the shares to try, from everything to nothing: first fewer pending lines, then less of the document, then no pending lines.
fn shares(document_lines: usize, pending: usize, fitting_count: usize) -> impl Iterator<Item = PendingShare> {
    let all = (pending > 0).then_some(fitting_count);
    let fewer_pending = count_down(fitting_count)
        .map(move |count| PendingShare { document_lines, pending_lines: all.map(|_| count) });
    let less_document = count_down(document_lines)
        .map(move |document_lines| PendingShare { document_lines, pending_lines: all.map(|_| 0) });
    let no_pending =
        count_down(document_lines).map(|document_lines| PendingShare { document_lines, pending_lines: None });
    fewer_pending.chain(less_document).chain(no_pending)
}

/// Counts from `most` down to 0, each time by an eighth. So there are few steps, and the whole text can be counted for each.
fn count_down(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(most), |count| (*count > 0).then(|| count - (count / 8).max(1)))
}

/// Estimates how many of the newest lines fit into `room` tokens.
fn estimate_fitting(pending: &[&PendingLine], room: i64, counter: &dyn TokenCounter) -> usize {
    pending
        .iter()
        .rev()
        .scan(0, |tokens, line| {
            *tokens += counter.count(&pending_line(line, None));
            Some(*tokens)
        })
        .take_while(|tokens| *tokens <= room)
        .count()
}

fn text(
    document: &[&str],
    section: PendingSection,
    pending: &[&PendingLine],
    share: PendingShare,
    footer: Option<&str>,
) -> String {
    let mut text = document_head(document, share.document_lines);
    if let Some(count) = share.pending_lines {
        let (folded_lines, shown_lines) = pending.split_at(pending.len() - count);
        text.push_str(&section.text(folded_lines, shown_lines));
    }
    let footer =
        if text.is_empty() { footer.filter(|_| document.is_empty()) } else { Some(footer.unwrap_or(FOOTER)) };
    if let Some(footer) = footer {
        text.extend([footer, "\n"]);
    }
    text
}

/// Returns the first lines of the document and an empty line. Leaves out headings at the end, whose items aren't among these lines.
fn document_head(document: &[&str], lines: usize) -> String {
    let mut head = document.get(..lines).unwrap_or(document);
    while let Some((last, rest)) = head.split_last()
        && (last.is_empty() || last.starts_with("## ") || last.starts_with("### "))
    {
        head = rest;
    }
    if head.is_empty() {
        return String::new();
    }
    head.join("\n") + "\n\n"
}

impl PendingSection {
    /// Writes the section: one line for all `folded_lines` together, and one for each of the `shown_lines`.
    fn text(self, folded_lines: &[&PendingLine], shown_lines: &[&PendingLine]) -> String {
        let times = shown_lines.iter().map(|line| line.at);
        let span = times.clone().min().zip(times.max());
        let span = span.map(|(from, to)| Span::new(from, to));
        let mut text = heading_text(&match span {
            Some(span) => format!("{} ({})", self.heading, span.times()),
            None => self.heading.to_owned(),
        });
        text.extend(self.fold_line(folded_lines));
        let several_days = span.filter(|span| !span.is_one_day());
        text.extend(shown_lines.iter().map(|line| pending_line(line, several_days)));
        text.push('\n');
        text
    }

    /// Writes the line that the exchanges without room share.
    fn fold_line(self, folded_lines: &[&PendingLine]) -> Option<String> {
        let range =
            ExchangeRange { first: folded_lines.first()?.exchange, last: folded_lines.last()?.exchange };
        let tokens = folded_lines.iter().fold(0_i64, |sum, line| sum.saturating_add(line.tokens));
        Some(format!(
            "{BULLET}{}: {}, ~{} tokens, {}\n",
            range_name(range),
            count(folded_lines.len(), "exchange"),
            rounded(tokens, false),
            self.fold_label
        ))
    }
}

/// Writes `- Asked for X (08:12, #12)` and a line feed. Adds the day if the heading spans `several_days`.
fn pending_line(line: &PendingLine, several_days: Option<Span>) -> String {
    let number = range_name(ExchangeRange { first: line.exchange, last: line.exchange });
    let time = line.at.format("%H:%M");
    let when = several_days.map_or_else(|| time.clone(), |span| format!("{} {time}", span.day(line.at)));
    let source = bracketed(&[when, number]);
    format!("{BULLET}{} {source}\n", clean(&line.digest, PENDING_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        domain::summary::{fixtures::any_text, render::archived},
        tokenizer::BytesCounter,
    };

    const DOCUMENT: &str = "## Yesterday (4 January 2026)\n- Added JWT (#1–#9)\n\n\
                            *Older history is archived: look up any #n with recall.*\n";

    fn pending(exchanges: std::ops::RangeInclusive<i64>) -> Vec<PendingLine> {
        exchanges
            .map(|exchange| PendingLine {
                exchange,
                at: Timestamp(1_767_600_000_000 + exchange * 60_000),
                tokens: 700,
                digest: format!("Question {exchange} → bash → Answer {exchange}"),
            })
            .collect()
    }

    #[test]
    fn every_pending_exchange_has_a_line() {
        let (text, tokens) = with_pending(DOCUMENT, &pending(10..=11), 10_000, &BytesCounter);
        insta::assert_snapshot!(text, @r"
        ## Yesterday (4 January 2026)
        - Added JWT (#1–#9)

        ## Just Left the Window (5 January 2026, 08:10–08:11)
        - Question 10 → bash → Answer 10 (08:10, #10)
        - Question 11 → bash → Answer 11 (08:11, #11)

        *Older history is archived: look up any #n with recall.*
        ");
        assert_eq!(tokens, BytesCounter.count(&text));
        let (alone, _) = with_pending("", &pending(1..=1), 10_000, &BytesCounter);
        assert!(
            alone.starts_with("## Just Left the Window (5 January 2026, 08:01)\n- Question 1 "),
            "{alone}"
        );
        assert_eq!(with_pending(DOCUMENT, &[], 10_000, &BytesCounter).0, DOCUMENT);
        assert_eq!(with_pending("", &[], 10_000, &BytesCounter), (String::new(), 0));
    }

    #[test]
    fn a_document_gives_way_to_exchanges_that_a_request_has_no_room_for() {
        let document = format!("## Yesterday (4 January 2026)\n{}", "- Added JWT (#1)\n".repeat(200));
        let text = with_left_out(&document, &pending(10..=99), 600, &BytesCounter);
        assert!(BytesCounter.count(&text) <= 600);
        assert!(text.starts_with("## Yesterday (4 January 2026)\n- Added JWT (#1)\n"), "{text}");
        assert!(text.contains("\n## Left Out of This Request (5 January 2026"), "{text}");
        assert!(text.contains(" exchanges, ~"), "{text}");
        assert!(text.contains(" tokens, not shown\n"), "{text}");
        assert!(text.contains("- Question 99 → bash → Answer 99 (09:39, #99)\n"), "{text}");
        assert!(text.matches("Question").count() > 5, "{text}");
    }

    #[test]
    fn exchanges_of_several_days_show_the_day() {
        let mut lines = pending(10..=11);
        lines[1].at = lines[1].at.plus_ms(crate::domain::time::DAY_MS);
        let (text, _) = with_pending("", &lines, 10_000, &BytesCounter);
        insta::assert_snapshot!(text, @r"
        ## Just Left the Window (5–6 January 2026)
        - Question 10 → bash → Answer 10 (Mon 5 January 08:10, #10)
        - Question 11 → bash → Answer 11 (Tue 6 January 08:11, #11)

        *Older history is archived: look up any #n with recall.*
        ");
    }

    #[test]
    fn a_document_that_is_a_footer_keeps_it() {
        let archived = archived(9);
        assert_eq!(with_pending(&archived, &[], 10_000, &BytesCounter).0, archived);
        let (text, _) = with_pending(&archived, &pending(10..=10), 10_000, &BytesCounter);
        insta::assert_snapshot!(text, @r"
        ## Just Left the Window (5 January 2026, 08:10)
        - Question 10 → bash → Answer 10 (08:10, #10)

        *Older history, up to #9, is archived: look up any #n with recall.*
        ");
        assert_eq!(with_pending(&archived, &[], 10, &BytesCounter), (String::new(), 0));
    }

    #[test]
    fn the_oldest_exchanges_without_room_share_a_line() {
        let (text, _) = with_pending(DOCUMENT, &pending(10..=70), 190, &BytesCounter);
        insta::assert_snapshot!(text, @r"
        ## Yesterday (4 January 2026)
        - Added JWT (#1–#9)

        ## Just Left the Window (5 January 2026, 09:06–09:10)
        - #10–#65: 56 exchanges, ~39k tokens, waiting to be summarised
        - Question 66 → bash → Answer 66 (09:06, #66)
        - Question 67 → bash → Answer 67 (09:07, #67)
        - Question 68 → bash → Answer 68 (09:08, #68)
        - Question 69 → bash → Answer 69 (09:09, #69)
        - Question 70 → bash → Answer 70 (09:10, #70)

        *Older history is archived: look up any #n with recall.*
        ");
    }

    #[test]
    fn the_line_of_exchanges_without_room_is_left_out_last() {
        let (text, _) = with_pending(DOCUMENT, &pending(10..=70), 60, &BytesCounter);
        insta::assert_snapshot!(text, @r"
        ## Just Left the Window
        - #10–#70: 61 exchanges, ~43k tokens, waiting to be summarised

        *Older history is archived: look up any #n with recall.*
        ");
        assert_eq!(with_pending(DOCUMENT, &pending(10..=70), 10, &BytesCounter), (String::new(), 0));
    }

    fn any_pending() -> impl Strategy<Value = Vec<PendingLine>> {
        prop::collection::vec((any_text(), 0_i64..100_000), 0..40).prop_map(|texts| {
            (1..)
                .zip(texts)
                .map(|(exchange, (digest, tokens))| PendingLine {
                    exchange,
                    at: Timestamp(exchange),
                    tokens,
                    digest,
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn never_over_the_ceiling_and_nothing_invisible(
            pending in any_pending(), items in 0_usize..60, max_tokens in 0_i64..3_000,
        ) {
            let body = (1..=items).map(|n| format!("- Did something (#{n})\n")).collect::<Vec<_>>().concat();
            let document = if items == 0 { String::new() } else { format!("## Yesterday (4 January 2026)\n{body}\n{FOOTER}\n") };
            let (text, tokens) = with_pending(&document, &pending, max_tokens, &BytesCounter);
            prop_assert!(tokens <= max_tokens);
            prop_assert_eq!(tokens, BytesCounter.count(&text));
            // The line of exchanges without room, its heading and the footer have about fifty tokens.
            if max_tokens >= 70 && !pending.is_empty() {
                let section = text.split(PENDING_HEADING).nth(1).unwrap_or_default();
                let folds = section.lines().filter(|line| line.ends_with("waiting to be summarised")).count();
                let lines = section.lines().filter(|line| line.starts_with("- ") && line.ends_with(')')).count();
                let first = format!("- #1{}", if pending.len() - lines > 1 { "–" } else { ":" });
                prop_assert!(lines == pending.len() || (folds == 1 && section.contains(&first)), "{}", text);
            }
        }
    }
}
