//! The page: candidate lines with their scores and costs, and the steps that make them fit.
//!
//! Costs are counted once per line and form and added up; only the finished document is counted as a whole, since a
//! sum of parts is an estimate.

use crate::domain::{
    summary::{
        compaction::{Path, SummaryPolicy},
        item::{Importance, Item},
        line::item_line,
        render::{FOOTER, Shown, document, heading_text, numbered},
        section::{Ageing, Form, Section, age_ms},
    },
    time::{DAY_MS, Timestamp},
    tokens::TokenCounter,
};

/// The age at which an item counts half, in milliseconds; at twice the age it counts a third, and so on.
const RECENCY_HALF_MS: i64 = DAY_MS;
/// Without ageing an item counts half at this part of the oldest one's age: over months a fixed age would leave
/// nothing but the last days.
const RECENCY_HALF_SPANS: i64 = 4;
/// Keeps the scores of old items apart in integers.
const SCORE_SCALE: i64 = 1_000_000_000;
/// A line that becomes a headline loses this many times what one loses that becomes brief. So details go first, but a
/// triviality becomes a headline before a decision loses its details.
const GIST_LOSS: i64 = 3;

/// Lines are counted with a number of three digits: an estimate may be too high by a little, but not too low.
const WIDEST_NUMBER: usize = 100;

/// How much an item of each importance weighs.
fn weight(importance: Importance) -> i64 {
    match importance {
        Importance::Trivial => 1,
        Importance::Debugging => 2,
        Importance::Fix => 4,
        Importance::Feature => 8,
        Importance::Constraint | Importance::Decision => 16,
    }
}

/// What an item is worth at `as_of`: weight × recency.
fn score(item: &Item, as_of: Timestamp, half_ms: i64) -> i64 {
    let parts = i128::from(half_ms) + i128::from(age_ms(item, as_of));
    let worth = i128::from(SCORE_SCALE * weight(item.importance)) * i128::from(half_ms) / parts;
    i64::try_from(worth).unwrap_or(i64::MAX)
}

/// The age at which one of `items` counts half.
fn recency_half_ms(items: &[Item], as_of: Timestamp, ageing: Ageing) -> i64 {
    match ageing {
        Ageing::Age { .. } => RECENCY_HALF_MS,
        Ageing::Off => {
            let oldest_ms = items.iter().map(|item| age_ms(item, as_of)).max();
            (oldest_ms.unwrap_or(0) / RECENCY_HALF_SPANS).max(RECENCY_HALF_MS)
        }
    }
}

/// A candidate line.
struct Line {
    index: usize,
    section: Section,
    form: Form,
    gone: bool,
    score: i64,
    /// Tokens in each form, once counted.
    costs: [Option<i64>; Form::ALL.len()],
}

/// The lines of a document in the making.
pub(super) struct Page<'a> {
    items: &'a [Item],
    counter: &'a dyn TokenCounter,
    /// In the document's order.
    lines: Vec<Line>,
    /// Estimated tokens of the document as the lines are.
    tokens: i64,
    /// Tokens of the lines that are gone.
    pub(super) truncated_tokens: i64,
}

impl<'a> Page<'a> {
    /// All items that are young enough, as headlines, oldest first in each section.
    pub(super) fn new(
        items: &'a [Item],
        as_of: Timestamp,
        ageing: Ageing,
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let half_ms = recency_half_ms(items, as_of, ageing);
        let mut lines: Vec<Line> = items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| {
                Some(Line {
                    index,
                    section: ageing.section_of(item, as_of)?,
                    form: Form::Gist,
                    gone: false,
                    score: score(item, as_of, half_ms),
                    costs: [None; Form::ALL.len()],
                })
            })
            .collect();
        lines.sort_by_key(|line| (line.section, age_order(&items[line.index]), line.index));
        let mut page = Self {
            items,
            counter,
            lines,
            tokens: 0,
            truncated_tokens: 0,
        };
        page.add_up();
        page
    }

    /// Decides by the size with default forms, and leaves the lines in them; or as headlines when not even these fit.
    pub(super) fn choose_path(&mut self, policy: &SummaryPolicy) -> Path {
        // Headlines are the least that the items need. Counting them first spares counting the long forms of a
        // backlog that can't be shown in them anyway.
        if self.tokens >= policy.merge_tokens() {
            return Path::Full;
        }
        for line in &mut self.lines {
            line.form = line.section.default_form();
        }
        self.add_up();
        match self.tokens {
            tokens if tokens < policy.append_tokens() => Path::Append,
            tokens if tokens < policy.merge_tokens() => Path::Merge,
            _ => Path::Full,
        }
    }

    /// Makes the lines fit and returns the document with its exact tokens.
    pub(super) fn settle(&mut self, path: Path, policy: &SummaryPolicy) -> (String, i64) {
        if path == Path::Merge {
            let newest = self.lines.first().map(|line| line.section);
            self.shorten(newest, policy.append_tokens());
        }
        let mut limit = policy.merge_tokens();
        loop {
            self.shorten(None, limit);
            self.truncate(limit);
            let document = document(self.items, &self.shown());
            let tokens = self.counter.count(&document);
            if tokens < policy.merge_tokens() || document.is_empty() {
                return (document, tokens);
            }
            // The estimate was too low. Asking for less in proportion, and a little less each time, ends after a few
            // rounds, whatever the counter thinks of parts and wholes.
            let limit_now = limit.min(self.tokens);
            limit = limit_now * policy.merge_tokens() / tokens - (limit_now / 64).max(1);
        }
    }

    /// The lines that are left.
    pub(super) fn shown(&self) -> Vec<Shown> {
        self.lines
            .iter()
            .filter(|line| !line.gone)
            .map(|line| Shown {
                index: line.index,
                section: line.section,
                form: line.form,
            })
            .collect()
    }

    /// Whether lines had to go.
    pub(super) fn is_truncated(&self) -> bool {
        self.lines.iter().any(|line| line.gone)
    }

    /// Shortens lines (of one section, if given), least loss first, until the page is under `limit` or all are
    /// headlines.
    fn shorten(&mut self, only: Option<Section>, limit: i64) {
        if self.tokens < limit {
            return;
        }
        for (_, _, at, form) in self.steps(only) {
            if self.tokens < limit {
                return;
            }
            let saved = self.cost(at, self.lines[at].form) - self.cost(at, form);
            // A model may call something longer brief; then the line keeps the form it has.
            if saved > 0 {
                self.lines[at].form = form;
                self.tokens -= saved;
            }
        }
    }

    /// Every way to shorten a line: what is lost, the age for ties, the line and its new form, least loss first.
    fn steps(&self, only: Option<Section>) -> Vec<(i64, AgeOrder, usize, Form)> {
        let mut steps: Vec<_> = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.gone && only.is_none_or(|section| section == line.section))
            .flat_map(|(at, line)| {
                let age = age_order(&self.items[line.index]);
                line.form.shorter().map(move |form| {
                    let factor = if form == Form::Gist { GIST_LOSS } else { 1 };
                    (line.score.saturating_mul(factor), age, at, form)
                })
            })
            .collect();
        steps.sort_unstable();
        steps
    }

    /// Drops whole lines until the page is under `limit`: lowest score first, decisions and constraints last.
    fn truncate(&mut self, limit: i64) {
        if self.tokens < limit {
            return;
        }
        let mut order: Vec<usize> = (0..self.lines.len()).filter(|at| !self.lines[*at].gone).collect();
        order.sort_by_key(|at| {
            let line = &self.lines[*at];
            let item = &self.items[line.index];
            let is_kept_to_the_last = item.importance >= Importance::Constraint;
            (is_kept_to_the_last, line.score, age_order(item), line.index)
        });
        for at in order {
            if self.tokens < limit {
                return;
            }
            let cost = self.cost(at, self.lines[at].form);
            self.lines[at].gone = true;
            self.tokens -= cost;
            self.truncated_tokens += cost;
        }
    }

    /// Estimates the page anew from the costs of its parts.
    fn add_up(&mut self) {
        let headings: i64 = Section::ALL
            .into_iter()
            .filter(|section| self.lines.iter().any(|line| line.section == *section))
            .map(|section| {
                self.counter
                    .count(&format!("{}\n", heading_text(section.heading())))
            })
            .sum();
        self.tokens = headings + self.counter.count(&format!("{FOOTER}\n"));
        for at in 0..self.lines.len() {
            self.tokens += self.cost(at, self.lines[at].form);
        }
    }

    /// Tokens of a line in `form`.
    fn cost(&mut self, at: usize, form: Form) -> i64 {
        let line = &mut self.lines[at];
        let item = &self.items[line.index];
        let (section, counter) = (line.section, self.counter);
        *line.costs[form as usize]
            .get_or_insert_with(|| counter.count(&numbered(WIDEST_NUMBER, &item_line(item, section, form))))
    }
}

/// Orders items by age, oldest first.
type AgeOrder = (Timestamp, Timestamp, i64);

fn age_order(item: &Item) -> AgeOrder {
    let first = item.ranges.first().map_or(0, |range| range.first);
    (item.ended_at, item.started_at, first)
}
