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
        render::{Layout, ShownItem, document},
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
/// An item counts 1/`PASSING_PART` if a later item is about the continuation of the same turn.
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
    item_index: usize,
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
    /// The measure of each form; `None` until measured.
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
    /// Makes a page with the headlines of all items that aren't blank or too old. `timed_items` are the same items with the times to show.
    pub(super) fn new(
        items: &[Item],
        timed_items: &'a [Item],
        (as_of, policy): (Timestamp, &SummaryPolicy),
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let mut page = Self {
            items: timed_items,
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

    fn item(&self, index: usize) -> &'a Item {
        &self.items[self.lines[index].item_index]
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
        if self.tokens < policy.append_tokens() { Path::Append } else { Path::Merge }
    }

    /// Gives every line the form for its section; safe lines keep their full text.
    fn set_forms(&mut self, form: impl Fn(Section) -> Form) {
        for line in &mut self.lines {
            line.form = if line.is_safe { Form::Text } else { form(line.section) };
            line.points = Choice::ALL;
        }
        self.add_up();
    }

    /// Makes pinned lines safe while they fit into `room`, the most valuable first.
    fn make_safe(&mut self, room: i64) {
        let mut pinned: Vec<usize> = (0..self.lines.len()).filter(|index| self.item(*index).pinned).collect();
        pinned.sort_by_key(|&index| (Reverse(self.lines[index].score), age_order(self.item(index)), index));
        let mut safe_tokens = 0;
        for index in pinned {
            let cost = self.cost(index, Form::Text);
            if safe_tokens + cost <= room {
                safe_tokens += cost;
                let line = &mut self.lines[index];
                (line.is_safe, line.form) = (true, Form::Text);
            }
        }
        if safe_tokens > 0 {
            self.add_up();
        }
    }

    /// Enforces the ceiling: makes the lines fit, and returns the document with its exact tokens. Words that occur in `facts_section` weigh
    /// least. A page that is too big for its path takes the next path.
    pub(super) fn enforce_ceiling(&mut self, policy: &SummaryPolicy, facts_section: &str) -> (String, i64) {
        let (ceiling, goal) = (policy.merge_tokens(), policy.full_tokens());
        if self.path != Path::Append {
            self.measure_rarity(facts_section);
        }
        let mut room = self.room(policy);
        let mut headline_tokens = if self.path == Path::Append { 0 } else { self.fit(room) };
        let mut may_widen = self.path == Path::Full;
        loop {
            let document = document(self.items, &self.shown_items());
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
            let less = |room: i64| room * ceiling / tokens - (room / 64).max(1);
            match self.path {
                Path::Append => {
                    self.path = Path::Merge;
                    self.measure_rarity(facts_section);
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

    fn measure_rarity(&mut self, facts_section: &str) {
        let texts = self.lines.iter().map(|line| self.items[line.item_index].text.as_str());
        self.rarity = Rarity::among(texts).with_facts(facts_section);
    }

    /// Returns the room on the current path, and lays the page out for it.
    fn room(&mut self, policy: &SummaryPolicy) -> PageRoom {
        if self.path != Path::Full {
            return PageRoom { headlines: i64::MAX, details: policy.append_tokens() };
        }
        if policy.style == Style::Plain {
            self.lay_out(Layout::Dense);
        }
        PageRoom { headlines: policy.merge_tokens(), details: policy.full_tokens() }
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
            let Lengthening { index, longer, .. } = step;
            match longer {
                Longer::Form(form) => self.lengthen_to(index, form, limit),
                Longer::Point(point_index) => self.add_point(index, point_index, limit),
            }
        }
    }

    fn lengthen_to(&mut self, index: usize, form: Form, limit: i64) {
        let now = self.lines[index].form;
        let more = self.cost(index, form) - self.cost(index, now);
        // A model's "longer" text may be shorter; then the line keeps its form.
        if more >= 0 && now > form && self.tokens + more < limit {
            self.lines[index].form = form;
            self.tokens += more;
        }
    }

    /// Adds a point of the line's text. The first point replaces the headline.
    fn add_point(&mut self, index: usize, point_index: usize, limit: i64) {
        let (form, shown_points) = (self.lines[index].form, self.lines[index].points);
        let (cost, old_points) = match form {
            Form::Text => (self.cost_of_points(index, shown_points), shown_points),
            Form::Brief | Form::Gist => (self.cost(index, form), Choice::FIRST),
        };
        let points = old_points.with(point_index);
        let more = self.cost_of_points(index, points) - cost;
        if self.tokens + more < limit {
            let line = &mut self.lines[index];
            (line.form, line.points) = (Form::Text, points);
            self.tokens += more;
        }
    }

    pub(super) fn shown_items(&mut self) -> Vec<ShownItem> {
        let remaining: Vec<usize> =
            (0..self.lines.len()).filter(|index| !self.lines[*index].is_dropped).collect();
        let mut shown_items: Vec<ShownItem> = Vec::with_capacity(remaining.len());
        let (mut chars, mut previous) = (0, None);
        for index in remaining {
            let layout = self.layout_after(previous, index, &mut chars);
            let line = &self.lines[index];
            previous = Some(index);
            shown_items.push(ShownItem {
                index: line.item_index,
                section: line.section,
                form: line.form,
                points: line.points,
                layout,
            });
        }
        shown_items
    }

    /// Returns the layout of the line at `index`, which follows the line at `previous`. `chars` counts the characters of the current line.
    fn layout_after(&mut self, previous: Option<usize>, index: usize, chars: &mut usize) -> Layout {
        if self.layout != Layout::Dense {
            return self.layout;
        }
        let more = self.measure(index, self.lines[index].form).chars;
        let has_room = *chars + more <= JOINED_CHARS_MAX;
        if has_room && previous.is_some_and(|previous| self.may_share_a_line(previous, index)) {
            *chars += more;
            Layout::Joined
        } else {
            *chars = more;
            Layout::Dense
        }
    }

    fn may_share_a_line(&mut self, one: usize, next: usize) -> bool {
        let mut has_one_point = |index: usize| self.measure(index, self.lines[index].form).points == 1;
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
        self.lines.iter().map(|line| line.item_index)
    }
}

/// Makes the headlines of the `items` that aren't blank or too old, in the document's order.
fn lines(items: &[Item], as_of: Timestamp, ageing: Ageing) -> Vec<CandidateLine> {
    let newest = items.iter().map(|item| item.ended_at).max().unwrap_or(as_of);
    let are_passing = are_passing(items);
    let nonblank = items.iter().enumerate().filter(|(_, item)| !item.is_blank());
    let mut lines: Vec<CandidateLine> = nonblank
        .filter_map(|(item_index, item)| {
            // A pinned item is never too old.
            let oldest = item.pinned.then_some(Section::Earlier);
            Some(CandidateLine {
                item_index,
                section: ageing.section_of(item, as_of).or(oldest)?,
                form: Form::Gist,
                points: Choice::ALL,
                is_safe: false,
                is_dropped: false,
                score: score(item, newest, ageing) / if are_passing[item_index] { PASSING_PART } else { 1 },
                costs: [None; Form::ALL.len()],
                point_costs: None,
                around: 0,
                measures: [None; Form::ALL.len()],
            })
        })
        .collect();
    lines.sort_by_key(|line| (line.section, age_order(&items[line.item_index]), line.item_index));
    lines
}

/// Returns for each item whether it has only the progress of a turn up to the turn's next leg. The next item is about that leg.
fn are_passing(items: &[Item]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| age_order(&items[index]));
    let mut are_passing = vec![false; items.len()];
    for pair in order.windows(2) {
        if let &[index, next] = pair {
            are_passing[index] = is_progress(&items[index]) && !is_request(&items[next]);
        }
    }
    are_passing
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
