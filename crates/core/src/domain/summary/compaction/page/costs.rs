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
        let mut start = 0;
        while start < self.lines.len() {
            let section = self.lines[start].section;
            let section_lines = self.lines[start..].iter().take_while(|line| line.section == section).count();
            self.lay_out_section(start..start + section_lines, section);
            start += section_lines;
        }
        self.add_up();
    }

    fn lay_out_section(&mut self, line_range: std::ops::Range<usize>, section: Section) {
        let items: Vec<&Item> = line_range.clone().map(|index| self.item(index)).collect();
        let span = Span::of(items.iter().copied());
        let headings = Headings::of(span, section, items.iter().copied());
        let days: Vec<usize> =
            items.chunk_by(|one, next| began_on(one) == began_on(next)).map(<[_]>::len).collect();
        let mut start = line_range.start;
        for day_lines in days {
            for index in start..start + day_lines {
                self.lines[index].around = self.around(index, day_lines, headings);
            }
            start += day_lines;
        }
    }

    /// Returns the tokens around the text of the line at `index`, one of `day_lines` lines of its day.
    fn around(&mut self, index: usize, day_lines: usize, headings: Headings) -> i64 {
        if self.layout == Layout::Numbered {
            let source = seed_source(self.item(index), self.lines[index].section);
            return self.counter.count(&format!("{WIDEST_NUMBER} {source}\n"));
        }
        let heading = headings.day(self.item(index));
        let heading = heading.map_or(0, |day| self.counter.count(&day_text(&day, DAY_MARK)));
        let heading = (heading + i64_or_max(day_lines) - 1) / i64_or_max(day_lines);
        if self.layout == Layout::Line {
            let source = headings.source(&[self.item(index)]);
            return self.counter.count(&format!("{BULLET} {source}\n")) + heading;
        }
        let source = headings.without_times().source(&[self.item(index)]);
        let source = self.counter.count(&format!("{BULLET} {source}; \n"));
        let chars = self.measure(index, Form::Gist).chars;
        let on_a_line = (JOINED_CHARS_MAX / (chars + JOINT_CHARS)).clamp(1, day_lines);
        source / i64_or_max(on_a_line) + heading + JOINT_TOKENS
    }

    /// Estimates the page's tokens from its parts.
    pub(super) fn add_up(&mut self) {
        self.tokens = self.headings() + self.counter.count(&format!("{FOOTER}\n"));
        for index in 0..self.lines.len() {
            self.tokens += self.cost(index, self.lines[index].form);
        }
    }

    fn headings(&self) -> i64 {
        let heading = |section: Section| {
            let section_lines = || self.lines.iter().filter(|line| line.section == section);
            section_lines().next()?;
            let span = Span::of(section_lines().map(|line| &self.items[line.item_index]));
            let text = heading_text(&dated_heading(section, span));
            Some(self.counter.count(&format!("{text}\n")))
        };
        Section::ALL.into_iter().filter_map(heading).sum()
    }

    pub(super) fn cost(&mut self, index: usize, form: Form) -> i64 {
        let (item, counter) = (&self.items[self.lines[index].item_index], self.counter);
        let line = &mut self.lines[index];
        let text = line.costs[form as usize].get_or_insert_with(|| {
            counter.count(write_points(&item_points(item, form), "", BULLET).trim_end())
        });
        *text + line.around
    }

    pub(super) fn cost_of_points(&mut self, index: usize, points: Choice) -> i64 {
        let (item, counter) = (&self.items[self.lines[index].item_index], self.counter);
        let line = &mut self.lines[index];
        let costs = line.point_costs.get_or_insert_with(|| {
            let count = |point: &String| counter.count(&format!("  {BULLET}{point}\n"));
            item_points(item, Form::Text).iter().map(count).collect()
        });
        let chosen_costs = (0..).zip(costs).filter(|(point_index, _)| points.has(*point_index));
        chosen_costs.map(|(_, cost)| *cost).sum::<i64>() + line.around
    }
}
