//! The page: candidate lines with their values and costs, and the steps that make them fit.
//!
//! Costs are counted once per text and added up. Such a sum is an estimate, so only the finished document is counted as a whole.

mod costs;
mod worth;

use std::cmp::Reverse;

use self::worth::{Lengthening, Longer, Measure, score};
use crate::domain::{
    summary::{
        compaction::{Path, Style, SummaryPolicy},
        item::Item,
        label::PointLabel,
        line::{began_at, day_number},
        point::Choice,
        render::{ItemPlace, Layout, document},
        section::{Ageing, Form, Section},
        worth::Rarity,
    },
    time::Timestamp,
    tokens::TokenCounter,
};

/// If not all headlines fit, they get this part of the room, in percent. The rest is for details, so that new items don't push out old
/// ones.
const HEADLINES_PERCENT: i64 = 75;
/// If the estimate was too high, a page is planned for at most this part of its room, in percent. Multiplied by [`HEADLINES_PERCENT`] it
/// stays under 100, so that composing the remaining items again drops none.
const WIDENED_PERCENT_MAX: i64 = 120;
/// Limits a line that several items share to this many characters.
const JOINED_CHARS_MAX: usize = 600;
/// An item counts 1/`PASSING_PART` if a later one says how the same turn went on.
const PASSING_PART: i64 = 4;
/// Pinned items together get up to this part of the room, in percent. They are shown in full and before all others; further pinned items
/// are treated like the others. The part is well under [`HEADLINES_PERCENT`], so that no pinned line is dropped.
const PINNED_PERCENT_MAX: i64 = 25;

/// The estimated tokens that a page may have.
#[derive(Clone, Copy)]
struct PageRoom {
    /// Lines are dropped until the remaining headlines take less.
    headlines: i64,
    /// Lines are lengthened while the page takes less.
    details: i64,
}

struct CandidateLine {
    index: usize,
    section: Section,
    form: Form,
    points: Choice,
    /// True for a pinned line within the room for pinned items: it is neither shortened nor dropped.
    is_safe: bool,
    is_dropped: bool,
    score: i64,
    /// Tokens of the text in each form; `None` until counted.
    costs: [Option<i64>; Form::ALL.len()],
    /// Tokens of each point of the full text; `None` until counted.
    point_costs: Option<Vec<i64>>,
    /// Tokens around the text: the line's source, and its share of the headings and line marks.
    around: i64,
    /// What each form says; `None` until measured.
    measures: [Option<Measure>; Form::ALL.len()],
}

/// The lines of a document being composed.
pub(super) struct Page<'a> {
    items: &'a [Item],
    counter: &'a dyn TokenCounter,
    rarity: Rarity,
    /// With [`Layout::Dense`] neighbours of one day may share a line.
    layout: Layout,
    /// In the document's order.
    lines: Vec<CandidateLine>,
    /// Estimated tokens of the document with its current lines.
    tokens: i64,
    pub(super) path: Path,
    /// Tokens of the dropped decisions, constraints and safe lines, which are dropped last.
    pub(super) truncated_tokens: i64,
}

impl<'a> Page<'a> {
    /// Makes a page with the headlines of all items that aren't blank or too old. `timed` are the same items with the times to show.
    pub(super) fn new(
        items: &[Item],
        timed: &'a [Item],
        (as_of, policy): (Timestamp, &SummaryPolicy),
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let mut page = Self {
            items: timed,
            counter,
            rarity: Rarity::among([]),
            layout: Layout::Line,
            lines: lines(items, as_of, policy.ageing),
            tokens: 0,
            path: Path::Append,
            truncated_tokens: 0,
        };
        page.lay_out(match policy.style {
            Style::Plain => Layout::Line,
            Style::Seed => Layout::Numbered,
        });
        page
    }

    fn item(&self, at: usize) -> &'a Item {
        &self.items[self.lines[at].index]
    }

    /// Chooses the path by the estimated size with full texts. Counts the headlines first, so that the long texts of a big backlog
    /// needn't be counted.
    pub(super) fn choose_path(&mut self, policy: &SummaryPolicy) {
        self.make_safe(policy.merge_tokens() * PINNED_PERCENT_MAX / 100);
        self.path = self.path_by_size(policy);
    }

    fn path_by_size(&mut self, policy: &SummaryPolicy) -> Path {
        if self.tokens >= policy.merge_tokens() {
            return Path::Full;
        }
        self.set_forms(Section::default_form);
        if self.tokens >= policy.merge_tokens() {
            return Path::Full;
        }
        if self.tokens >= policy.append_tokens() {
            return Path::Merge;
        }
        self.set_forms(|_| Form::Text);
        if self.tokens < policy.append_tokens() {
            Path::Append
        } else {
            Path::Merge
        }
    }

    /// Gives every line the form for its section; safe lines keep their full text.
    fn set_forms(&mut self, form: impl Fn(Section) -> Form) {
        for line in &mut self.lines {
            line.form = if line.is_safe {
                Form::Text
            } else {
                form(line.section)
            };
            line.points = Choice::ALL;
        }
        self.add_up();
    }

    /// Makes pinned lines safe while they fit into `room`, the most valuable first.
    fn make_safe(&mut self, room: i64) {
        let mut pinned: Vec<usize> = (0..self.lines.len()).filter(|at| self.item(*at).pinned).collect();
        pinned.sort_by_key(|&at| (Reverse(self.lines[at].score), age_order(self.item(at)), at));
        let mut taken = 0;
        for at in pinned {
            let cost = self.cost(at, Form::Text);
            if taken + cost <= room {
                taken += cost;
                let line = &mut self.lines[at];
                (line.is_safe, line.form) = (true, Form::Text);
            }
        }
        if taken > 0 {
            self.add_up();
        }
    }

    /// Enforces the ceiling: makes the lines fit, and returns the document with its exact tokens. Words that occur in `above` weigh least.
    /// A page that is too big for its path takes the next path.
    pub(super) fn enforce_ceiling(&mut self, policy: &SummaryPolicy, above: &str) -> (String, i64) {
        let (ceiling, goal) = (policy.merge_tokens(), policy.full_tokens());
        if self.path != Path::Append {
            self.measure_rarity(above);
        }
        let mut room = self.room(policy);
        let mut headline_tokens = if self.path == Path::Append {
            0
        } else {
            self.fit(room)
        };
        let mut may_widen = self.path == Path::Full;
        loop {
            let document = document(self.items, &self.shown());
            let tokens = self.counter.count(&document);
            let wider = ceiling.saturating_mul(goal) / tokens.max(1);
            if may_widen && tokens < goal && self.tokens > tokens && wider > ceiling {
                // The estimate was too high: neighbours share more than expected.
                may_widen = false;
                let headlines = (wider - wider / 64).clamp(ceiling, ceiling * WIDENED_PERCENT_MAX / 100);
                let details = headlines.saturating_mul(goal) / ceiling.max(1);
                room = PageRoom { headlines, details };
                headline_tokens = self.fit(room);
                continue;
            }
            if tokens < ceiling || document.is_empty() {
                return (document, tokens);
            }
            // The estimate was too low. Asking for proportionally less, and each time for a little less than that, ends after a few
            // rounds, whatever the counter gives for parts and wholes. Details go before any line is dropped.
            let less = |asked: i64| asked * ceiling / tokens - (asked / 64).max(1);
            match self.path {
                Path::Append => {
                    self.path = Path::Merge;
                    self.measure_rarity(above);
                    room = self.room(policy);
                }
                _ if self.tokens > headline_tokens => room.details = less(room.details.min(self.tokens)),
                Path::Merge => {
                    self.path = Path::Full;
                    room = self.room(policy);
                }
                Path::Full => room.headlines = less(room.headlines.min(self.tokens)),
            }
            headline_tokens = self.fit(room);
        }
    }

    fn measure_rarity(&mut self, above: &str) {
        let texts = self.lines.iter().map(|line| self.items[line.index].text.as_str());
        self.rarity = Rarity::among(texts).below(above);
    }

    /// Returns the room on the current path, and lays the page out for it.
    fn room(&mut self, policy: &SummaryPolicy) -> PageRoom {
        if self.path != Path::Full {
            return PageRoom {
                headlines: i64::MAX,
                details: policy.append_tokens(),
            };
        }
        if policy.style == Style::Plain {
            self.lay_out(Layout::Dense);
        }
        PageRoom {
            headlines: policy.merge_tokens(),
            details: policy.full_tokens(),
        }
    }

    /// Resets all lines to headlines, drops lines if they don't fit, then lengthens lines. Returns the tokens of the headlines.
    fn fit(&mut self, room: PageRoom) -> i64 {
        for line in &mut self.lines {
            line.is_dropped = false;
        }
        self.truncated_tokens = 0;
        self.set_forms(|_| Form::Gist);
        self.truncate(room.headlines);
        let headline_tokens = self.tokens;
        self.lengthen(room.details);
        headline_tokens
    }

    /// Lengthens lines while the page stays under `limit`: first up to the section's form, and there the most informative lines first.
    fn lengthen(&mut self, limit: i64) {
        for step in self.steps() {
            let Lengthening { at, longer, .. } = step;
            match longer {
                Longer::Form(form) => self.lengthen_to(at, form, limit),
                Longer::Point(place) => self.add_point(at, place, limit),
            }
        }
    }

    fn lengthen_to(&mut self, at: usize, form: Form, limit: i64) {
        let now = self.lines[at].form;
        let more = self.cost(at, form) - self.cost(at, now);
        // A model's "longer" text may be shorter; then the line keeps its form.
        if more >= 0 && now > form && self.tokens + more < limit {
            self.lines[at].form = form;
            self.tokens += more;
        }
    }

    /// Adds a point of the line's text. The first point replaces the headline.
    fn add_point(&mut self, at: usize, place: usize, limit: i64) {
        let (form, shown) = (self.lines[at].form, self.lines[at].points);
        let (cost, before) = match form {
            Form::Text => (self.cost_of_points(at, shown), shown),
            Form::Brief | Form::Gist => (self.cost(at, form), Choice::FIRST),
        };
        let points = before.with(place);
        let more = self.cost_of_points(at, points) - cost;
        if self.tokens + more < limit {
            let line = &mut self.lines[at];
            (line.form, line.points) = (Form::Text, points);
            self.tokens += more;
        }
    }

    pub(super) fn shown(&mut self) -> Vec<ItemPlace> {
        let remaining: Vec<usize> = (0..self.lines.len())
            .filter(|at| !self.lines[*at].is_dropped)
            .collect();
        let mut shown: Vec<ItemPlace> = Vec::with_capacity(remaining.len());
        let (mut chars, mut before) = (0, None);
        for at in remaining {
            let layout = self.layout_after(before, at, &mut chars);
            let line = &self.lines[at];
            before = Some(at);
            shown.push(ItemPlace {
                index: line.index,
                section: line.section,
                form: line.form,
                points: line.points,
                layout,
            });
        }
        shown
    }

    /// Returns the layout of the line `at`, which follows the line `before`. `chars` counts the characters of the current line.
    fn layout_after(&mut self, before: Option<usize>, at: usize, chars: &mut usize) -> Layout {
        if self.layout != Layout::Dense {
            return self.layout;
        }
        let more = self.measure(at, self.lines[at].form).chars;
        let has_room = *chars + more <= JOINED_CHARS_MAX;
        if has_room && before.is_some_and(|before| self.may_share_a_line(before, at)) {
            *chars += more;
            Layout::Joined
        } else {
            *chars = more;
            Layout::Dense
        }
    }

    fn may_share_a_line(&mut self, one: usize, next: usize) -> bool {
        let mut has_one_point = |at: usize| self.measure(at, self.lines[at].form).points == 1;
        let have_one_point = has_one_point(one) && has_one_point(next);
        let (earlier, later) = (self.item(one), self.item(next));
        have_one_point
            && self.lines[one].section == self.lines[next].section
            && !earlier.provisional
            && !later.provisional
            && began_on(earlier) == began_on(later)
    }

    /// Returns the items that aren't blank or too old.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().map(|line| line.index)
    }
}

/// Makes the headlines of the `items` that aren't blank or too old, in the document's order.
fn lines(items: &[Item], as_of: Timestamp, ageing: Ageing) -> Vec<CandidateLine> {
    let newest = items.iter().map(|item| item.ended_at).max().unwrap_or(as_of);
    let passing = passing(items);
    let present = items.iter().enumerate().filter(|(_, item)| !item.is_blank());
    let mut lines: Vec<CandidateLine> = present
        .filter_map(|(index, item)| {
            // A pinned item is never too old.
            let oldest = item.pinned.then_some(Section::Earlier);
            Some(CandidateLine {
                index,
                section: ageing.section_of(item, as_of).or(oldest)?,
                form: Form::Gist,
                points: Choice::ALL,
                is_safe: false,
                is_dropped: false,
                score: score(item, newest, ageing) / if passing[index] { PASSING_PART } else { 1 },
                costs: [None; Form::ALL.len()],
                point_costs: None,
                around: 0,
                measures: [None; Form::ALL.len()],
            })
        })
        .collect();
    lines.sort_by_key(|line| (line.section, age_order(&items[line.index]), line.index));
    lines
}

/// Returns for each item whether it only says how far a turn had come when the next leg of that turn began. The next item says more.
fn passing(items: &[Item]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&at| age_order(&items[at]));
    let mut passing = vec![false; items.len()];
    for pair in order.windows(2) {
        if let &[at, next] = pair {
            passing[at] = is_progress(&items[at]) && !is_request(&items[next]);
        }
    }
    passing
}

fn is_progress(item: &Item) -> bool {
    use PointLabel::{Commits, Outcome, Progress};
    let has = |label: PointLabel| label.is_in(&item.text);
    has(Progress) && !has(Outcome) && !has(Commits) && !is_request(item)
}

fn is_request(item: &Item) -> bool {
    PointLabel::Request.is_in(&item.text) || item.text.starts_with('“')
}

fn began_on(item: &Item) -> i64 {
    day_number(began_at(item))
}

/// A key that sorts items by age, oldest first.
type AgeOrder = (Timestamp, Timestamp, i64);

fn age_order(item: &Item) -> AgeOrder {
    let first = item.ranges.first().map_or(0, |range| range.first);
    (item.ended_at, item.started_at, first)
}
