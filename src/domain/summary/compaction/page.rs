//! The page: candidate lines with their values and costs, and the steps that make them fit.
//!
//! Costs are counted once per text and added up; only the finished document is counted as a whole, since a sum of
//! parts is an estimate.

use std::cmp::Reverse;

use crate::domain::{
    number::i64_or_max,
    summary::{
        compaction::{Path, SummaryPolicy},
        item::{Importance, Item},
        line::{began_at, day, day_number, item_line, item_text, source_of_day},
        render::{DAY_MARK, FOOTER, Layout, Shown, day_text, document, heading_text, numbered},
        section::{Ageing, Form, Section, age_ms},
        worth::Rarity,
    },
    time::{DAY_MS, Timestamp},
    tokens::TokenCounter,
};

/// The age at which an item counts half, in milliseconds; at twice the age it counts a third, and so on.
const RECENCY_HALF_MS: i64 = DAY_MS;
/// Scales scores, so that those of old items differ in integers.
const SCORE_SCALE: i64 = 1_000_000_000;
/// If not even all headlines fit, they get this part of the room, in percent; the rest is for the details of those that
/// tell most. This also keeps a new item from pushing out an old one every time.
const HEADLINES_PERCENT: i64 = 75;
/// How far beyond the room a page may be planned when the estimate turns out too high, in percent. Times
/// [`HEADLINES_PERCENT`] it stays under 100, so that composing the remaining items again drops none.
const WIDENED_PERCENT_MAX: i64 = 120;
/// The longest line that items share, in characters.
const JOINED_CHARS_MAX: usize = 600;
/// The characters that join two texts on a line.
const JOINT_CHARS: usize = 2;
/// The tokens of that, rounding included.
const JOINT_TOKENS: i64 = 2;
/// How many characters count as much as one point of a text's words, so that of two texts which tell the same the
/// longer one still tells more.
const CHARS_WORTH: i64 = 16;

/// Lines are counted with a number of three digits: an estimate may be too high by a little, but not too low.
const WIDEST_NUMBER: usize = 100;

/// Pinned items are shown in full before anything else gets room, up to this part of it, in percent; further pinned
/// ones are treated like any other. It is well under [`HEADLINES_PERCENT`], so that no pinned line has to go.
const PINNED_PERCENT_MAX: i64 = 25;

/// The weight of an item by its importance.
fn weight(importance: Importance) -> i64 {
    match importance {
        Importance::Trivial => 1,
        Importance::Debugging => 2,
        Importance::Fix => 4,
        Importance::Feature => 8,
        Importance::Constraint | Importance::Decision => 16,
    }
}

/// An item's value compared with the `newest` one: weight × recency. Time that merely passes doesn't change it, so a
/// document changes only when an item changes its section. Without ageing the whole span counts alike: by recency
/// nothing but the last days would be left of months.
fn score(item: &Item, newest: Timestamp, ageing: Ageing) -> i64 {
    let age_ms = match ageing {
        Ageing::Age { .. } | Ageing::Calendar(_) => age_ms(item.ended_at, newest),
        Ageing::Off => 0,
    };
    let parts = i128::from(RECENCY_HALF_MS) + i128::from(age_ms);
    let worth = i128::from(SCORE_SCALE * weight(item.importance)) * i128::from(RECENCY_HALF_MS) / parts;
    i64_or_max(worth)
}

/// A candidate line.
struct Line {
    index: usize,
    section: Section,
    form: Form,
    /// The longest form it may have.
    longest: Form,
    /// Whether it is pinned and has room: it is neither shortened nor dropped.
    is_safe: bool,
    gone: bool,
    score: i64,
    /// Tokens of the whole line in each form, once counted; in a dense page only of the text.
    costs: [Option<i64>; Form::ALL.len()],
    /// Tokens around the text in a dense page: its part of the day's heading and of the line's source.
    around: i64,
    /// What each form tells, once measured.
    measures: [Option<Measure>; Form::ALL.len()],
}

/// How much a text tells, in the terms of [`Rarity`], and its length in characters.
#[derive(Clone, Copy)]
struct Measure {
    told: i64,
    chars: usize,
}

/// The lines of a document in the making.
pub(super) struct Page<'a> {
    items: &'a [Item],
    counter: &'a dyn TokenCounter,
    rarity: Rarity,
    /// Whether it is laid out by days: neighbours of one day share its heading, and lines.
    is_dense: bool,
    /// In the document's order.
    lines: Vec<Line>,
    /// Estimated tokens of the document with the lines as they are.
    tokens: i64,
    /// Tokens of dropped decisions and constraints, which are dropped last.
    pub(super) truncated_tokens: i64,
}

impl<'a> Page<'a> {
    /// A page of all items that tell something and are young enough, as headlines, in each section the oldest first.
    /// `told` are the same items with the times to be shown.
    pub(super) fn new(
        items: &[Item],
        told: &'a [Item],
        (as_of, ageing): (Timestamp, Ageing),
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let newest = items.iter().map(|item| item.ended_at).max().unwrap_or(as_of);
        let mut lines: Vec<Line> = items
            .iter()
            .enumerate()
            .filter(|(_, item)| !item.is_blank())
            .filter_map(|(index, item)| {
                // What is pinned is never too old.
                let oldest = item.pinned.then_some(Section::Week);
                let section = ageing.section_of(item, as_of).or(oldest)?;
                Some(Line {
                    index,
                    section,
                    form: Form::Gist,
                    longest: section.default_form(),
                    is_safe: false,
                    gone: false,
                    score: score(item, newest, ageing),
                    costs: [None; Form::ALL.len()],
                    around: 0,
                    measures: [None; Form::ALL.len()],
                })
            })
            .collect();
        lines.sort_by_key(|line| (line.section, age_order(&items[line.index]), line.index));
        let mut page = Self {
            items: told,
            counter,
            rarity: Rarity::among([]),
            is_dense: false,
            lines,
            tokens: 0,
            truncated_tokens: 0,
        };
        page.add_up();
        page
    }

    /// Chooses the path by the size with default forms, in which it leaves the lines; or as headlines if these don't
    /// fit.
    pub(super) fn choose_path(&mut self, policy: &SummaryPolicy) -> Path {
        self.make_safe(policy.merge_tokens() * PINNED_PERCENT_MAX / 100);
        // Headlines are the least that the items need. Counting them first saves counting the long forms of a backlog
        // that can't be shown in them anyway.
        if self.tokens >= policy.merge_tokens() {
            return Path::Full;
        }
        for line in &mut self.lines {
            line.form = line.longest;
        }
        self.add_up();
        match self.tokens {
            tokens if tokens < policy.append_tokens() => Path::Append,
            tokens if tokens < policy.merge_tokens() => Path::Merge,
            _ => Path::Full,
        }
    }

    /// Reserves room for pinned lines, the most valuable first.
    fn make_safe(&mut self, room: i64) {
        let is_pinned = |at: &usize| self.items[self.lines[*at].index].pinned;
        let mut pinned: Vec<usize> = (0..self.lines.len()).filter(is_pinned).collect();
        pinned.sort_by_key(|&at| {
            let line = &self.lines[at];
            (Reverse(line.score), age_order(&self.items[line.index]), at)
        });
        let mut taken = 0;
        for at in pinned {
            let cost = self.cost(at, Form::Text);
            if taken + cost <= room {
                taken += cost;
                let line = &mut self.lines[at];
                (line.is_safe, line.form, line.longest) = (true, Form::Text, Form::Text);
            }
        }
        if taken > 0 {
            self.add_up();
        }
    }

    /// Makes the lines fit and returns the document with its exact tokens.
    pub(super) fn settle(&mut self, path: Path, policy: &SummaryPolicy) -> (String, i64) {
        if path != Path::Append {
            self.rarity = Rarity::among(self.lines.iter().map(|line| self.items[line.index].text.as_str()));
        }
        if path == Path::Merge {
            let newest = self.lines.first().map(|line| line.section);
            self.shorten(newest);
            self.lengthen(newest, policy.append_tokens());
        }
        self.is_dense = path == Path::Full;
        if self.is_dense {
            self.lay_out_by_day();
        }
        let ceiling = policy.merge_tokens();
        let mut limit = ceiling;
        let mut may_widen = self.is_dense;
        loop {
            if self.is_dense || self.tokens >= limit {
                self.fit(limit);
            }
            let document = document(self.items, &self.shown());
            let tokens = self.counter.count(&document);
            let wider = limit.saturating_mul(ceiling) / tokens.max(1);
            if may_widen && tokens < ceiling && self.tokens > tokens && wider > limit {
                // The estimate was too high: neighbours share more than was estimated.
                may_widen = false;
                limit = (wider - wider / 64).clamp(limit, limit * WIDENED_PERCENT_MAX / 100);
                continue;
            }
            if tokens < ceiling || document.is_empty() {
                return (document, tokens);
            }
            // The estimate was too low. Asking for proportionally less, and a little less each time, ends after a few
            // rounds, whatever the counter gives for parts and wholes.
            let limit_now = limit.min(self.tokens);
            limit = limit_now * policy.merge_tokens() / tokens - (limit_now / 64).max(1);
        }
    }

    /// Makes the page fit from the start: all lines as headlines, fewer lines if need be, longer ones with the room
    /// left.
    fn fit(&mut self, limit: i64) {
        for line in &mut self.lines {
            line.form = if line.is_safe { Form::Text } else { Form::Gist };
            line.gone = false;
        }
        self.truncated_tokens = 0;
        self.add_up();
        self.truncate(limit);
        self.lengthen(None, limit);
    }

    /// The lines that are left.
    pub(super) fn shown(&mut self) -> Vec<Shown> {
        let left: Vec<usize> = (0..self.lines.len()).filter(|at| !self.lines[*at].gone).collect();
        let mut shown: Vec<Shown> = Vec::with_capacity(left.len());
        let (mut chars, mut before) = (0, None);
        for at in left {
            let layout = self.layout(before, at, &mut chars);
            let line = &self.lines[at];
            before = Some(at);
            shown.push(Shown {
                index: line.index,
                section: line.section,
                form: line.form,
                layout,
            });
        }
        shown
    }

    /// The layout of a line after the line `before`, when `chars` are on the current line.
    fn layout(&mut self, before: Option<usize>, at: usize, chars: &mut usize) -> Layout {
        if !self.is_dense {
            return Layout::Line;
        }
        let more = self.measure(at, self.lines[at].form).chars;
        let has_room = *chars + more <= JOINED_CHARS_MAX;
        if has_room
            && before.is_some_and(|before| self.may_share_a_line(&self.lines[before], &self.lines[at]))
        {
            *chars += more;
            Layout::Joined
        } else {
            *chars = more;
            Layout::Day
        }
    }

    fn may_share_a_line(&self, one: &Line, next: &Line) -> bool {
        let (earlier, later) = (&self.items[one.index], &self.items[next.index]);
        one.section == next.section
            && !earlier.provisional
            && !later.provisional
            && began_on(earlier) == began_on(later)
    }

    /// The items that tell something and are young enough for the document.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().map(|line| line.index)
    }

    /// Makes lines (of one section, if given) headlines.
    fn shorten(&mut self, only: Option<Section>) {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            if line.gone || line.is_safe || only.is_some_and(|section| section != line.section) {
                continue;
            }
            let saved = self.cost(at, line.form) - self.cost(at, Form::Gist);
            self.lines[at].form = Form::Gist;
            self.tokens -= saved;
        }
    }

    /// Gives lines (of one section, if given) their longer texts, up to the section's form: those that tell most per
    /// token first, as long as the page stays under `limit`.
    fn lengthen(&mut self, only: Option<Section>, limit: i64) {
        for (_, _, at, form) in self.steps(only) {
            let more = self.cost(at, form) - self.cost(at, self.lines[at].form);
            // A model's "longer" text may be shorter; then the line keeps the form it has.
            if more >= 0 && self.lines[at].form > form && self.tokens + more < limit {
                self.lines[at].form = form;
                self.tokens += more;
            }
        }
    }

    /// Every way to lengthen a headline, best first: the gain per character, the age for ties, the line, its new form.
    fn steps(&mut self, only: Option<Section>) -> Vec<(Reverse<i64>, AgeOrder, usize, Form)> {
        let mut steps = Vec::new();
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            if line.gone || only.is_some_and(|section| section != line.section) {
                continue;
            }
            let age = age_order(&self.items[line.index]);
            let gains = self.gains(at).into_iter();
            steps.extend(gains.map(|(gain, form)| (Reverse(gain), age, at, form)));
        }
        steps.sort_unstable();
        steps
    }

    /// The gain per character of a line's longer forms, each against the form before; a longer form never ranks above a
    /// shorter one, so that it comes after it.
    fn gains(&mut self, at: usize) -> Vec<(i64, Form)> {
        let (longest, score) = (self.lines[at].longest, self.lines[at].score);
        let (mut shorter, mut best) = (self.measure(at, Form::Gist), i64::MAX);
        let mut gains = Vec::new();
        for form in [Form::Brief, Form::Text]
            .into_iter()
            .filter(|form| *form >= longest)
        {
            let longer = self.measure(at, form);
            let chars = i64_or_max(longer.chars) - i64_or_max(shorter.chars);
            best = per_cost(score, (longer.told - shorter.told).max(1), chars).min(best);
            gains.push((best, form));
            shorter = longer;
        }
        gains
    }

    /// How much a line's text of that form tells.
    fn measure(&mut self, at: usize, form: Form) -> Measure {
        let line = &mut self.lines[at];
        let (item, rarity) = (&self.items[line.index], &self.rarity);
        *line.measures[form as usize].get_or_insert_with(|| {
            let text = item_text(item, form);
            let chars = text.chars().count();
            Measure {
                told: rarity.told(&text) + i64_or_max(chars) / CHARS_WORTH,
                chars,
            }
        })
    }

    /// Drops whole lines until the page is under `limit`, and well under it if any has to go: those that tell least per
    /// token first, decisions and constraints late, pinned ones last.
    fn truncate(&mut self, limit: i64) {
        if self.tokens < limit {
            return;
        }
        let limit = limit * HEADLINES_PERCENT / 100;
        let left: Vec<usize> = (0..self.lines.len()).filter(|at| !self.lines[*at].gone).collect();
        let mut order: Vec<_> = left
            .into_iter()
            .map(|at| {
                let cost = self.cost(at, Form::Gist);
                let told = self.measure(at, Form::Gist).told;
                let line = &self.lines[at];
                let item = &self.items[line.index];
                let is_kept_to_the_last = item.importance >= Importance::Constraint;
                let worth = per_cost(line.score, told.max(1), cost);
                let rank = (line.is_safe, is_kept_to_the_last);
                (rank, worth, age_order(item), line.index, at)
            })
            .collect();
        order.sort_unstable();
        for ((is_safe, is_kept_to_the_last), .., at) in order {
            if self.tokens < limit {
                return;
            }
            let cost = self.cost(at, self.lines[at].form);
            self.lines[at].gone = true;
            self.tokens -= cost;
            if is_safe || is_kept_to_the_last {
                self.truncated_tokens += cost.max(1);
            }
        }
    }

    /// Lays the page out by days: neighbours share what is around the texts, so each bears a part of its tokens.
    fn lay_out_by_day(&mut self) {
        let mut from = 0;
        while from < self.lines.len() {
            let first = &self.lines[from];
            let of_day = self.lines[from..]
                .iter()
                .take_while(|line| {
                    line.section == first.section
                        && began_on(&self.items[line.index]) == began_on(&self.items[first.index])
                })
                .count();
            let heading = day_text(&day(began_at(&self.items[first.index])), DAY_MARK);
            let heading = self.counter.count(&format!("\n{heading}"));
            for at in from..from + of_day {
                let item = &self.items[self.lines[at].index];
                let source = self.counter.count(&format!("-  {}; \n", source_of_day(&[item])));
                let chars = self.measure(at, Form::Gist).chars;
                let on_a_line = (JOINED_CHARS_MAX / (chars + JOINT_CHARS)).clamp(1, of_day);
                let line = &mut self.lines[at];
                line.around = source / i64_or_max(on_a_line) + heading / i64_or_max(of_day) + JOINT_TOKENS;
                line.costs = [None; Form::ALL.len()];
            }
            from += of_day;
        }
        self.add_up();
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
        let (section, counter, is_dense) = (line.section, self.counter, self.is_dense);
        let around = line.around;
        around
            + *line.costs[form as usize].get_or_insert_with(|| {
                if is_dense {
                    counter.count(&item_text(item, form))
                } else {
                    counter.count(&numbered(WIDEST_NUMBER, &item_line(item, section, form)))
                }
            })
    }
}

/// A score per cost, as an integer that keeps some digits.
fn per_cost(score: i64, told: i64, cost: i64) -> i64 {
    i64_or_max(i128::from(score) * i128::from(told) / i128::from(cost.max(1)))
}

/// The day on which an item began.
fn began_on(item: &Item) -> i64 {
    day_number(began_at(item))
}

/// Orders items by age, oldest first.
type AgeOrder = (Timestamp, Timestamp, i64);

fn age_order(item: &Item) -> AgeOrder {
    let first = item.ranges.first().map_or(0, |range| range.first);
    (item.ended_at, item.started_at, first)
}
