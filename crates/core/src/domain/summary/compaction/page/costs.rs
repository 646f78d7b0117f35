//! Counts the tokens of lines, once per text, and adds them up.

use crate::domain::{
    number::i64_or_max,
    summary::{
        compaction::page::{JOINED_CHARS_MAX, Page, began_on},
        item::Item,
        line::{BULLET, item_points, write_points},
        point::Choice,
        render::{DAY_MARK, FOOTER, Layout, dated_heading, day_text, heading_text},
        section::{Form, Section},
        source::{Headings, seed_source},
        span::Span,
    },
};

/// Characters between two texts on a line.
const JOINT_CHARS: usize = 2;
/// Tokens between two texts on a line, rounded up.
const JOINT_TOKENS: i64 = 2;
/// Every line is counted with this number: an estimate may be slightly too high, but not too low.
const WIDEST_NUMBER: &str = "100. ";

impl Page<'_> {
    /// Computes the tokens around the texts. Lines under the same day's heading share its tokens; so do texts on the same line.
    pub(super) fn lay_out(&mut self, layout: Layout) {
        self.layout = layout;
        let mut from = 0;
        while from < self.lines.len() {
            let section = self.lines[from].section;
            let of_section = self.lines[from..]
                .iter()
                .take_while(|line| line.section == section)
                .count();
            self.lay_out_section(from..from + of_section, section);
            from += of_section;
        }
        self.add_up();
    }

    fn lay_out_section(&mut self, places: std::ops::Range<usize>, section: Section) {
        let items: Vec<&Item> = places.clone().map(|at| self.item(at)).collect();
        let span = Span::of(items.iter().copied());
        let headings = Headings::of(span, section, items.iter().copied());
        let days: Vec<usize> = items
            .chunk_by(|one, next| began_on(one) == began_on(next))
            .map(<[_]>::len)
            .collect();
        let mut from = places.start;
        for of_day in days {
            for at in from..from + of_day {
                self.lines[at].around = self.around(at, of_day, headings);
            }
            from += of_day;
        }
    }

    /// Returns the tokens around the text of the line `at`, one of `of_day` lines of its day.
    fn around(&mut self, at: usize, of_day: usize, headings: Headings) -> i64 {
        if self.layout == Layout::Numbered {
            let source = seed_source(self.item(at), self.lines[at].section);
            return self.counter.count(&format!("{WIDEST_NUMBER} {source}\n"));
        }
        let heading = headings.day(self.item(at));
        let heading = heading.map_or(0, |day| self.counter.count(&day_text(&day, DAY_MARK)));
        let heading = (heading + i64_or_max(of_day) - 1) / i64_or_max(of_day);
        if self.layout == Layout::Line {
            let source = headings.source(&[self.item(at)]);
            return self.counter.count(&format!("{BULLET} {source}\n")) + heading;
        }
        let source = headings.without_times().source(&[self.item(at)]);
        let source = self.counter.count(&format!("{BULLET} {source}; \n"));
        let chars = self.measure(at, Form::Gist).chars;
        let on_a_line = (JOINED_CHARS_MAX / (chars + JOINT_CHARS)).clamp(1, of_day);
        source / i64_or_max(on_a_line) + heading + JOINT_TOKENS
    }

    /// Estimates the page's tokens from its parts.
    pub(super) fn add_up(&mut self) {
        self.tokens = self.headings() + self.counter.count(&format!("{FOOTER}\n"));
        for at in 0..self.lines.len() {
            self.tokens += self.cost(at, self.lines[at].form);
        }
    }

    fn headings(&self) -> i64 {
        let heading = |section: Section| {
            let of_section = || self.lines.iter().filter(|line| line.section == section);
            of_section().next()?;
            let span = Span::of(of_section().map(|line| &self.items[line.index]));
            let text = heading_text(&dated_heading(section, span));
            Some(self.counter.count(&format!("{text}\n")))
        };
        Section::ALL.into_iter().filter_map(heading).sum()
    }

    pub(super) fn cost(&mut self, at: usize, form: Form) -> i64 {
        let (item, counter) = (&self.items[self.lines[at].index], self.counter);
        let line = &mut self.lines[at];
        let text = line.costs[form as usize].get_or_insert_with(|| {
            counter.count(write_points(&item_points(item, form), "", BULLET).trim_end())
        });
        *text + line.around
    }

    pub(super) fn cost_of_points(&mut self, at: usize, points: Choice) -> i64 {
        let (item, counter) = (&self.items[self.lines[at].index], self.counter);
        let line = &mut self.lines[at];
        let costs = line.point_costs.get_or_insert_with(|| {
            let count = |point: &String| counter.count(&format!("  {BULLET}{point}\n"));
            item_points(item, Form::Text).iter().map(count).collect()
        });
        let chosen = (0..).zip(costs).filter(|(place, _)| points.has(*place));
        chosen.map(|(_, cost)| *cost).sum::<i64>() + line.around
    }
}
